"""Batches one after the other in this process: for notebooks, unit tests and low latency."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sash.plan.run_plan import RunPlan
from sash.runtime.engine import Engine, Newest, Options
from sash.runtime.report import Summary
from sash.runtime.sources import Chunk
from sash.runtime.stage import ChunkResult, run_chunk

# How long to wait before looking again for new input, in seconds.
_IDLE = 0.05


def run_inline(plan: RunPlan, options: Options, stop: threading.Event) -> Summary:
    """Run until all input has ended or `stop` is set."""
    engine = Engine(plan, options, "inline", cores=1)

    def run(chunks: Sequence[Chunk], newest: Newest) -> list[ChunkResult]:
        return [run_chunk(plan, chunk, newest[chunk.stream, chunk.sequence]) for chunk in chunks]

    engine.load()
    try:
        if not engine.is_finished:
            engine.open_outputs()
        while not engine.is_finished and not stop.is_set():
            entry = engine.pending_entry() or engine.next_entry()
            if entry is None:
                stop.wait(_IDLE)
            else:
                engine.take(entry, run)
                engine.forget_entries(entry.number + 1)
        return engine.finish(interrupted=not engine.is_finished)
    finally:
        engine.close()
