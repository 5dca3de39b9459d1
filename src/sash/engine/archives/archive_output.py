"""An archive as the output of its query: changes of the result, brought up to date every EVERY.

What has been collected and not yet archived is in the query's last operator (`LifetimeOutput` in
`operators/answers.py`), so it is part of the checkpoint's state. When the watermark has passed a multiple of
EVERY, the changes up to it come here and become the next version, before the batch is committed or, with
`in_background`, while others run: then they are a promise (`pending_updates.py`) by the time of the commit,
and the next update waits for this one. A version is the result at an instant, so a batch that is repeated
after a crash does nothing: what is not later than the archive, or promised, is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive import (
    BORN,
    DIES,
    ArchiveWriter,
    Choice,
    Rewrites,
    Update,
    UpdateReport,
    reconsider,
    rewrite_in_threads,
)
from sash.archive.asked import ASKED
from sash.archive.versions import DATA, VERSIONS, Versions
from sash.archive.writer import AUTO
from sash.connectors.sinks import Committed, Sink
from sash.engine.archives.archive_setup import archive_place, expected_lives, layout_of, periods_of, spec_of
from sash.engine.archives.pending_updates import PROMISED, Promises
from sash.engine.continuous.continuous import SIGN, continuous_schema
from sash.engine.ingest.watermarks import StreamState
from sash.errors import ArchiveError
from sash.lang.bound import ArchiveDefinition
from sash.plan.run_plan import ContinuousQuery, RunPlan

# Guesses may lie so many times as far ahead as results live before sub-indices are laid out anew.
_ROOM = 4


class ArchiveSink(Sink):
    """`report` tells of the updates that were finished since the commit before; None if there was none."""

    def __init__(
        self,
        query: ContinuousQuery,
        plan: RunPlan,
        base_dir: Path,
        rewrite: Rewrites = rewrite_in_threads,
        *,
        in_background: bool = False,
    ) -> None:
        definition = query.definition.archive
        assert definition is not None
        super().__init__(definition.sink, continuous_schema(query))
        self.definition = definition
        self.spec = spec_of(query, plan)
        self.root = (base_dir / archive_place(definition)).absolute()
        self.report: UpdateReport | None = None
        self._rewrite = rewrite
        self._lives = expected_lives(query, plan) if self.spec.is_estimated else None
        self._writer: ArchiveWriter | None = None
        self._waiting: list[pa.Table] = []
        self._through: int | None = None
        self._promises = Promises(self.root)
        # The instant of the last update, whether it is done or on its way.
        self._last: int | None = None
        self._worker = ThreadPoolExecutor(1, "sash-archive") if in_background else None
        self._updating: Future[UpdateReport] | None = None

    def check_definition(self) -> None:
        layout_of(self.definition, self.spec)

    def check(self) -> None:
        self.check_definition()
        self.check_directory(self.root)
        if self.root.is_dir():
            ours = (DATA, VERSIONS, ASKED, PROMISED, "lock")
            strange = sorted(entry.name for entry in self.root.iterdir() if entry.name not in ours)
            if strange:
                raise ArchiveError(
                    f"the directory '{self.root}' holds something else than an archive",
                    got=", ".join(strange[:3]),
                    hint="name a directory of its own for the archive",
                    id="archive-other",
                )
        Versions(self.root).check_free()

    def open(self, committed: Committed | None) -> None:
        asked = self.definition
        if committed is None:
            layout = layout_of(asked, self.spec)
            self._writer = ArchiveWriter(
                self.root, self.spec, layout.technique, layout.grid, durable=self.durable, anew=True
            )
            self._promises.forget()
            return
        is_auto = asked.technique == AUTO
        self._writer = ArchiveWriter(
            self.root, self.spec, asked.technique, None if is_auto else asked.grid, durable=self.durable
        )
        self._keep_promise(committed["through"])
        self._promises.forget()
        self._last = self._writer.manifest.through

    def _keep_promise(self, wanted: int | None) -> None:
        """Do the update that the checkpoint counts as done, unless it is."""
        assert self._writer is not None
        found = self._writer.manifest.through
        if wanted is None or (found is not None and found >= wanted):
            return
        changes = self._promises.find(wanted)
        if changes is None:
            raise ArchiveError(
                f"the archive '{self.root}' is behind the checkpoint",
                expected=f"the result at {wanted} microseconds",
                got="no version" if found is None else f"that at {found}",
                hint="put the archive back as it was, or name another checkpoint directory to start anew",
                id="archive-behind",
            )
        self._update(_later(changes, found), wanted)

    def migrate(self, definition: ArchiveDefinition) -> None:
        """Go over to another technique, gradually."""
        self.settle()
        self.definition = definition
        if self._writer is not None and definition.technique != AUTO:
            self._writer.migrate(definition.technique, definition.grid)

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)

    def observe(self, streams: Mapping[str, StreamState]) -> None:
        """See how far the streams have come; told before each commit."""
        if self._lives is not None:
            self._lives.observe(streams)

    def reach(self, through: int | None) -> None:
        self._through = through

    def commit(self) -> Committed:
        self.report = None
        if self._updating is not None and self._updating.done():
            self.settle()
        waiting, self._waiting = self._waiting, []
        if self._through is not None:
            reached = self._through // self.spec.every * self.spec.every
            if self._last is None or reached > self._last:
                changes = pa.concat_tables([self.schema.empty_table(), *waiting])
                self._begin(_later(changes, self._last), reached)
                self._last = reached
        return {"through": self._last}

    def _begin(self, changes: pa.Table, reached: int) -> None:
        guesses = None if self._lives is None else self._lives.deaths(changes, reached)
        if guesses is not None:
            changes = changes.set_column(changes.column_names.index(DIES), DIES, pa.array(guesses))
        if self._worker is None:
            self.report = self._update(changes, reached)
            return
        # One that takes longer than EVERY holds up the run: else more and more would wait.
        self.settle()
        if self.durable:
            self._promises.make(reached, changes)
        self._updating = self._worker.submit(self._update, changes, reached)

    def settle(self) -> None:
        """Wait until the update that is on its way is done; raises what went wrong with it."""
        updating, self._updating = self._updating, None
        if updating is not None:
            self.report = updating.result().after(self.report)

    def _update(self, changes: pa.Table, reached: int) -> UpdateReport:
        assert self._writer is not None
        enters = pc.greater(changes.column(SIGN), 0)
        rows, taken = changes.filter(enters), changes.filter(pc.invert(enters))
        names = list(self.spec.columns.names)
        if self.spec.is_estimated:
            self._fit_layout()
        else:
            names.append(DIES)
        update = Update(
            self._writer.manifest.batch + 1,
            reached,
            rows.drop_columns([SIGN]),
            taken.select(names) if taken.num_rows else None,
        )
        report = self._writer.update(update, self._rewrite)
        self._promises.forget(reached)
        if self.definition.technique == AUTO and self.definition.grid is None:
            self._reconsider()
        return report

    def _fit_layout(self) -> None:
        """Lay sub-indices out anew if results have come to live much longer, or shorter."""
        assert self._writer is not None
        manifest = self._writer.manifest
        ahead = manifest.entry.span or self.spec.span
        longest = None if self._lives is None else self._lives.longest
        if longest is None:
            return
        fits = longest <= ahead <= _ROOM * max(longest, self.spec.every)
        if not fits and len(manifest.layouts) == 1:
            updates = -(-2 * longest // self.spec.every)
            entry = manifest.entry
            self._writer.migrate(entry.technique, entry.grid, span=updates * self.spec.every)

    def _reconsider(self) -> None:
        """An archive that has grown or shrunk, or is asked more or less, may go over to another technique."""
        assert self._writer is not None
        manifest = self._writer.manifest
        if len(manifest.layouts) > 1:
            return
        better = reconsider(
            Choice(manifest.entry.technique, manifest.entry.grid),
            manifest.size,
            manifest.pace,
            periods_of(self.spec),
            is_estimated=self.spec.is_estimated,
        )
        if better is not None:
            self._writer.migrate(better.technique, better.grid)

    def close(self) -> None:
        with ExitStack() as held:
            if self._writer is not None:
                held.callback(self._writer.close)
            if self._worker is not None:
                held.callback(self._worker.shutdown)
            self.settle()


def _later(changes: pa.Table, instant: int | None) -> pa.Table:
    """Changes that are not in the result at an instant."""
    return changes if instant is None else changes.filter(pc.greater(changes.column(BORN), instant))
