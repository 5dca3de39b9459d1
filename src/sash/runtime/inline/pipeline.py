"""Batches one after the other in this process: for notebooks, unit tests and low latency.

With `partitions` the operators are divided as on Spark, and their partitions take turns.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sash.operators.cut import TOP
from sash.plan.run_plan import RunPlan
from sash.runtime.checkpoint import CELLS
from sash.runtime.engine import Engine, Newest, Options
from sash.runtime.feed import Entry
from sash.runtime.files import told
from sash.runtime.harvest import Harvest
from sash.runtime.partitions import Message, Partition, cell_name, first_files, gather, scatter, wake
from sash.runtime.report import Summary
from sash.runtime.scratch import scratch_folder
from sash.runtime.sources import Chunk
from sash.runtime.stage import ChunkResult, run_chunk

# How long to wait before looking again for new input, in seconds.
_IDLE = 0.05


def run_inline(plan: RunPlan, options: Options, stop: threading.Event) -> Summary:
    """Run until all input has ended or `stop` is set."""
    partitions = options.partitions if plan.continuous or plan.one_time else None
    engine = Engine(plan, options, "inline", cores=1, partitions=partitions)
    with scratch_folder() as scratch:
        try:
            engine.load()
            with contextlib.closing(_Inline(engine, options.checkpoint or scratch)) as run:
                if not engine.is_finished:
                    engine.open_outputs()
                while not engine.is_finished and not stop.is_set():
                    entry = engine.pending_entry() or engine.next_entry()
                    if entry is None:
                        stop.wait(_IDLE)
                    else:
                        engine.take(entry, run.batch)
                        engine.forget_entries(entry.number + 1)
            return engine.finish(interrupted=not engine.is_finished)
        finally:
            engine.close()


class _Inline:
    """Runs chunks and, where operators are divided, partition after partition."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine = engine
        self._cut = engine.plane.continuous.cut
        self._partitions: list[Partition] = []
        if self._cut is None or engine.partitions is None:
            return
        cells = directory / CELLS
        with told(cells, "make"):
            cells.mkdir(exist_ok=True)
        of, durable = engine.partitions, engine.options.checkpoint is not None
        self._partitions = [Partition(self._cut, i, of, cells, durable=durable) for i in range(of)]
        if engine.taken < 0:
            engine.cells = first_files(self._cut, engine.relations, of, cells, durable=durable)

    def batch(self, entry: Entry, chunks: Sequence[Chunk], newest: Newest) -> Harvest:
        plan = self._engine.plan
        results = [run_chunk(plan, chunk, newest[chunk.stream, chunk.sequence]) for chunk in chunks]
        return self._divided(entry, results) if self._partitions else Harvest(results)

    def close(self) -> None:
        for partition in self._partitions:
            partition.close()

    def _divided(self, entry: Entry, results: Sequence[ChunkResult]) -> Harvest:
        assert self._cut is not None
        turn, of = self._engine.turn(entry), len(self._partitions)
        waiting: dict[int, dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
        sent = [message for result in results for message in scatter(self._cut, result, of)]
        for message in (*wake(self._cut, of), *sent):
            waiting[message.stage][message.target].append(message)
        for stage in range(1, len(self._cut.stages) + 1):
            for target, partition in enumerate(self._partitions):
                files = self._engine.cells.get(cell_name(stage, target), ())
                for message in partition.run(stage, turn, waiting[stage][target], files):
                    waiting[message.stage][message.target].append(message)
        return gather(waiting[TOP][TOP])
