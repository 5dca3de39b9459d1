"""Batches one after the other in this process: for notebooks, unit tests and low latency.

With `partitions` the operators are divided as on Spark, and their partitions take turns.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections import defaultdict
from collections.abc import Sequence

from sash.connectors.sources import Chunk
from sash.engine.batch_result import BatchResult
from sash.engine.continuous.partitions import Message, Partition, gather, scatter, wake
from sash.engine.control_channel import ControlChannel
from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.scratch import scratch_folder
from sash.engine.engine import Engine
from sash.engine.ingest.feed import Entry
from sash.engine.ingest.first_stage import ChunkResult, run_chunk
from sash.engine.observe.report import Summary
from sash.engine.options import Options
from sash.engine.periodic.partitioned import PartitionedPlan, PartitionedSynopses
from sash.engine.run_chunks import Bars
from sash.engine.stopping import Look, leaving, on_leave
from sash.lang import Program
from sash.operators.stage_planner import TOP, StagePlan

# How long to wait before looking again for new input, in seconds.
_IDLE = 0.05


def run_inline(program: Program, options: Options, stop: threading.Event, control: ControlChannel) -> Summary:
    """Run until all input has ended or `stop` is set."""
    with scratch_folder() as scratch:
        on_leave(stop, lambda: shutil.rmtree(scratch, ignore_errors=True))
        look, parts = Look(stop), options.partitions
        engine = Engine(program, options, "inline", cores=1, state=scratch, partitions=parts, look=look)
        try:
            engine.load()
            with (
                contextlib.closing(Inline(engine)) as run,
                leaving(stop, look, lambda: engine.leave(scratch)),
                engine.abandoning(),
            ):
                if not engine.is_finished:
                    engine.open_outputs()
                while not engine.is_finished and not stop.is_set():
                    control.serve(engine)
                    entry = engine.pending_entry() or engine.next_entry()
                    if entry is None:
                        stop.wait(engine.wait(_IDLE))
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
        of, durable = engine.partitions or 0, engine.options.checkpoint is not None
        self._partitions = [
            Partition(
                self._cut_of,
                PartitionedSynopses(self._divided_plan, i, of, engine.panes_directory, durable=durable),
                i,
                of,
                engine.cells_directory,
                durable=durable,
                look=engine.look,
            )
            for i in range(of)
        ]

    def _divided_plan(self, version: int) -> PartitionedPlan:
        assert version == self._engine.version
        return self._engine.divided_plan()

    def _cut_of(self, part: int) -> StagePlan:
        operators = self._engine.executor.parts[part].continuous.operators
        assert operators is not None
        return operators.cut()

    def batch(self, entry: Entry, chunks: Sequence[Chunk], bars: Bars) -> BatchResult:
        plan, keep = self._engine.plan, self._engine.keep(entry.number)
        results = []
        for chunk in chunks:
            self._engine.look()
            results.append(run_chunk(plan, chunk, bars[chunk.stream, chunk.sequence], keep))
        return self._divided(entry, results) if self._partitions else BatchResult(results)

    def close(self) -> None:
        for partition in self._partitions:
            partition.close()
        if self._partitions:
            shutil.rmtree(self._engine.mail_directory, ignore_errors=True)

    def _divided(self, entry: Entry, results: Sequence[ChunkResult]) -> BatchResult:
        turn, routes, of = self._engine.turn(entry), self._engine.routes, len(self._partitions)
        mailbox = self._engine.mail_directory
        # The driver has read what the batch before has posted.
        shutil.rmtree(mailbox, ignore_errors=True)
        with translate_os_errors(mailbox, "make"):
            mailbox.mkdir()
        waiting: dict[int, dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
        sent = [message for result in results for message in scatter(routes, result, of)]
        for message in (*wake(routes, of), *sent):
            waiting[message.stage][message.target].append(message)
        for stage in range(1, routes.stages + 1):
            for target, partition in enumerate(self._partitions):
                files = self._engine.files_before(stage, target)
                messages = waiting[stage].pop(target, [])
                for message in partition.run(stage, turn, messages, files, mailbox):
                    waiting[message.stage][message.target].append(message)
        return gather(waiting[TOP][TOP])
