"""The inline runtime: the same operators in one process, without a JVM."""

from sash.runtime.inline.pipeline import run_inline

__all__ = ["run_inline"]
