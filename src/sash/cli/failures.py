"""How a command fails: what the user reads and the exit code.

    SashError                its rendering, exit code as the error says (2 the user's, 1 ours or the data's)
    KeyboardInterrupt        one word, 130
    BrokenPipeError          nothing, 141: whoever read our output has left; also OutputClosed of a console
    OSError                  the file or stream, why it cannot be used and what to do, 1
    any other exception      one sentence and the hint to use --debug, 1

A stack trace, of Python or of Java, is shown with --debug only. That is why the log of the libraries and the
traces of their threads are silenced while a command runs: they would print theirs on their own.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from sash.disk import reason, remedy
from sash.errors import OutputClosed, SashError
from sash.files import has_reader
from sash.standard_streams import STANDARD_OUTPUT

INTERRUPTED = 130
PIPE_CLOSED = 141


@contextmanager
def guarded(*, debug: bool = False) -> Iterator[None]:
    """Turns what goes wrong inside into a message on stderr and an exit code."""
    with _quiet_libraries(not debug):
        try:
            yield
        except typer.Exit:
            raise
        except SashError as error:
            if isinstance(error, OutputClosed):
                _drop_output()
            if not (isinstance(error, OutputClosed) and error.is_quiet):
                _show(error.render(), debug)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            _show("interrupted", debug=False)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if _is_closed_pipe(error):
                _drop_output()
                raise typer.Exit(PIPE_CLOSED) from None
            sash_error = _sash_error_under(error)
            if sash_error is not None:
                _show(sash_error.render(), debug)
                raise typer.Exit(sash_error.exit_code) from None
            _show(_sentence(error), debug)
            raise typer.Exit(1) from None
        finally:
            # What can never be written would be complained about once more when Python ends.
            _drop_output()


def output_failed(failure: OSError) -> int:
    """Says why standard output cannot be written; the exit code."""
    _show(_sentence(failure), debug=False)
    _drop_output()
    return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
        return f"error[disk]: cannot write to {STANDARD_OUTPUT}: {reason(error)}\n  hint: {remedy(error)}"
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        name = os.fsdecode(error.filename)
        return f"error[disk]: cannot use '{name}': {reason(error)}\n  hint: {remedy(error)}, then start again"
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        # An exception of Java's asks the JVM for its text, and the JVM may have gone.
        lines = []
    what = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return f"error[unexpected]: {what}\n  hint: run the same command with --debug to see the full trace"


def _show(message: str, debug: bool) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    text = Text(message)
    if message.startswith("error"):
        head = message.find(":")
        text.stylize("bold red", 0, head if head > 0 else len("error"))
    text.highlight_regex(r"(?m)^ *\^+$", "bold red")
    text.highlight_regex(r"(?m)^  (expected|got|hint):", "bold")
    try:
        if debug:
            console.print(Text(traceback.format_exc().rstrip(), style="dim"))
        console.print(text)
    except OSError:
        # Nobody is there to read it.
        _drop_output()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _is_closed_pipe(error: BaseException) -> bool:
    links = [link for link in _chain(error) if isinstance(link, OSError)]
    if any(isinstance(link, BrokenPipeError) for link in links):
        return True
    # A terminal that has been closed.
    return any(link.errno == errno.EIO for link in links) and not has_reader(1)


def _sash_error_under(error: BaseException) -> SashError | None:
    """The error of ours that another exception names as its cause."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, SashError):
        cause = cause.__cause__
    return cause


class _Nowhere:
    """Stands in for a stream whose reader has gone."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _drop_output() -> None:
    # Python flushes stdout once more when it ends and would complain about the closed pipe there.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            setattr(sys, name, _Nowhere())


@contextmanager
def _quiet_libraries(quiet: bool) -> Iterator[None]:
    if not quiet:
        yield
        return
    disabled, hook = logging.root.manager.disable, threading.excepthook
    logging.disable(logging.CRITICAL)
    threading.excepthook = _ignore_thread_failure
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        threading.excepthook = hook


def _ignore_thread_failure(_args: threading.ExceptHookArgs) -> None:
    """The failure of a helper thread reaches the user through the call that waited for it."""
