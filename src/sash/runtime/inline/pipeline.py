"""Batches one after the other in this process: for notebooks, unit tests and low latency.

With `partitions` the operators are divided as on Spark, and their partitions take turns.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import defaultdict
from collections.abc import Sequence

from sash.lang import Program
from sash.operators.cut import TOP, Cut
from sash.runtime.batches import Newest
from sash.runtime.desk import Desk
from sash.runtime.divided import DividedPlan, DividedSynopses
from sash.runtime.engine import Engine
from sash.runtime.feed import Entry
from sash.runtime.harvest import Harvest
from sash.runtime.options import Options
from sash.runtime.partitions import Message, Partition, gather, scatter, wake
from sash.runtime.report import Summary
from sash.runtime.scratch import scratch_folder
from sash.runtime.sources import Chunk
from sash.runtime.stage import ChunkResult, run_chunk

# How long to wait before looking again for new input, in seconds.
_IDLE = 0.05


def run_inline(program: Program, options: Options, stop: threading.Event, desk: Desk) -> Summary:
    """Run until all input has ended or `stop` is set."""
    with scratch_folder() as scratch:
        engine = Engine(program, options, "inline", cores=1, state=scratch, partitions=options.partitions)
        try:
            engine.load()
            with contextlib.closing(Inline(engine)) as run:
                if not engine.is_finished:
                    engine.open_outputs()
                while not engine.is_finished and not stop.is_set():
                    desk.serve(engine)
                    entry = engine.pending_entry() or engine.next_entry()
                    if entry is None:
                        stop.wait(_IDLE)
                    else:
                        engine.take(entry, run.batch)
                        engine.forget_entries(entry.number + 1)
            return engine.finish(interrupted=not engine.is_finished)
        finally:
            engine.close()


class Inline:
    """Runs chunks and, where operators are divided, partition after partition."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cuts: dict[int, bytes] = {}
        of, durable = engine.partitions or 0, engine.options.checkpoint is not None
        self._partitions = [
            Partition(
                self._cut_of,
                DividedSynopses(self._divided_plan, i, of, engine.panes_directory, durable=durable),
                i,
                of,
                engine.cells_directory,
                durable=durable,
            )
            for i in range(of)
        ]

    def _divided_plan(self, version: int) -> DividedPlan:
        assert version == self._engine.version
        return self._engine.divided_plan()

    def _cut_of(self, part: int) -> Cut:
        """A copy: each cell has operators of its own."""
        if part not in self._cuts:
            self._cuts[part] = pickle.dumps(self._engine.plane.parts[part].continuous.cut, 5)
        cut: Cut = pickle.loads(self._cuts[part])
        return cut

    def batch(self, entry: Entry, chunks: Sequence[Chunk], newest: Newest) -> Harvest:
        plan, keep = self._engine.plan, self._engine.keep(entry.number)
        results = [run_chunk(plan, chunk, newest[chunk.stream, chunk.sequence], keep) for chunk in chunks]
        return self._divided(entry, results) if self._partitions else Harvest(results)

    def close(self) -> None:
        for partition in self._partitions:
            partition.close()

    def _divided(self, entry: Entry, results: Sequence[ChunkResult]) -> Harvest:
        turn, routes, of = self._engine.turn(entry), self._engine.routes, len(self._partitions)
        waiting: dict[int, dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
        sent = [message for result in results for message in scatter(routes, result, of)]
        for message in (*wake(routes, of), *sent):
            waiting[message.stage][message.target].append(message)
        for stage in range(1, routes.stages + 1):
            for target, partition in enumerate(self._partitions):
                files = self._engine.files_before(stage, target)
                for message in partition.run(stage, turn, waiting[stage][target], files):
                    waiting[message.stage][message.target].append(message)
        return gather(waiting[TOP][TOP])
