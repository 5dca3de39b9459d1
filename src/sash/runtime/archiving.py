"""An archive as the output of its query: changes of the result, brought up to date every EVERY.

What has been collected and not yet archived is in the query's last operator (`Lives` in
`operators/answers.py`), so it is part of the checkpoint's state. When the clock has passed a multiple of
EVERY, the changes up to it come here and become the next version before the batch is committed. A version is
the result at an instant, so a batch that is repeated after a crash does nothing: what is not later than the
archive is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive import (
    BORN,
    DIES,
    ArchiveSpec,
    ArchiveWriter,
    Choice,
    Update,
    UpdateReport,
    choose,
    reconsider,
)
from sash.archive.techniques import Order, technique_of
from sash.archive.versions import DATA, VERSIONS, Versions
from sash.archive.writer import AUTO, fitting
from sash.errors import ArchiveError
from sash.lang import algebra
from sash.lang.bound import ArchiveDefinition
from sash.lang.types import Column, Schema
from sash.operators.answers import Lives
from sash.operators.build import build
from sash.plan.lifetimes import sub_window_grain
from sash.plan.run_plan import ContinuousQuery, RunPlan, slide_of
from sash.runtime.continuous import SIGN, continuous_schema
from sash.runtime.sinks import Committed, Sink

# How many updates a row is guessed to live if no window says.
_GUESSED_UPDATES = 16


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A technique with its grid, and how many sub-indices an update touches."""

    technique: str
    grid: tuple[int, int]

    @property
    def text(self) -> str:
        return f"{self.technique} {self.grid[0]}x{self.grid[1]}"

    @property
    def touched(self) -> str:
        """G + E - 1, as a person reads it; a row of the grid that waits to be thrown away is left alone."""
        left_alone = 2 if technique_of(self.technique).insertion is Order.LAZY else 1
        of = self.grid[0] * self.grid[1]
        return f"an update touches {sum(self.grid) - left_alone} of {of} sub-indices"


def spec_of(query: ContinuousQuery, plan: RunPlan) -> ArchiveSpec:
    """What the archive of a query holds."""
    definition = query.definition.archive
    assert definition is not None
    flow = build(replace(plan, continuous=(query,), one_time=()))
    operator = flow.vertices[flow.outputs[query.name]].operator
    assert isinstance(operator, Lives)
    columns = Schema(tuple(Column(field.name, field.type) for field in query.plan.fields))
    streams = {stream.name: stream for stream in plan.streams}
    life = operator.life
    grain = None
    if life is not None and not operator.may_be_taken_back:
        grain = sub_window_grain(query.plan.input, streams, slide_of(query.plan) or query.unit)
    return ArchiveSpec(
        columns,
        definition.key,
        definition.every,
        _guessed(query, definition) if life is None else life,
        is_strict=operator.may_be_taken_back,
        is_estimated=life is None,
        grain=grain,
        name=definition.name,
    )


def _guessed(query: ContinuousQuery, definition: ArchiveDefinition) -> int:
    """How long rows are guessed to live whose ends nobody foresees."""
    windows = [node.spec for node in query.plan.walk() if isinstance(node, algebra.Window)]
    lengths = [spec.range for spec in windows if spec.range is not None]
    return max(lengths, default=_GUESSED_UPDATES * definition.every)


def layout_of(definition: ArchiveDefinition, spec: ArchiveSpec) -> Arrangement:
    """The technique of an archive that begins."""
    if definition.technique != AUTO:
        return Arrangement(*fitting(spec, definition.technique, definition.grid))
    chosen = choose(0, 0, _periods(spec), is_estimated=spec.is_estimated)
    return Arrangement(*fitting(spec, chosen.technique, definition.grid or chosen.grid))


def _periods(spec: ArchiveSpec) -> int:
    return max(1, -(-spec.span // spec.every))


class ArchiveSink(Sink):
    """`report` tells what the last commit did; None if there was no update."""

    def __init__(self, query: ContinuousQuery, plan: RunPlan, base_dir: Path) -> None:
        definition = query.definition.archive
        assert definition is not None
        super().__init__(definition.sink, continuous_schema(query))
        self.definition = definition
        self.spec = spec_of(query, plan)
        self.root = (base_dir / Path(definition.sink).expanduser()).absolute()
        self.report: UpdateReport | None = None
        self._writer: ArchiveWriter | None = None
        self._waiting: list[pa.Table] = []
        self._through: int | None = None

    def check(self) -> None:
        layout_of(self.definition, self.spec)
        self.check_directory(self.root)
        if self.root.is_dir():
            strange = sorted(
                entry.name for entry in self.root.iterdir() if entry.name not in (DATA, VERSIONS, "lock")
            )
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
            return
        is_auto = asked.technique == AUTO
        self._writer = ArchiveWriter(
            self.root, self.spec, asked.technique, None if is_auto else asked.grid, durable=self.durable
        )
        found, wanted = self._writer.manifest.through, committed["through"]
        if wanted is not None and (found is None or found < wanted):
            raise ArchiveError(
                f"the archive '{self.root}' is behind the checkpoint",
                expected=f"the result at {wanted} microseconds",
                got="no version" if found is None else f"that at {found}",
                hint="put the archive back as it was, or name another checkpoint directory to start anew",
                id="archive-behind",
            )

    def migrate(self, definition: ArchiveDefinition) -> None:
        """Go over to another technique, gradually."""
        self.definition = definition
        if self._writer is not None and definition.technique != AUTO:
            self._writer.migrate(definition.technique, definition.grid)

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)

    def reach(self, through: int | None) -> None:
        self._through = through

    def commit(self) -> Committed:
        assert self._writer is not None
        waiting, self._waiting = self._waiting, []
        self.report = None
        done = self._writer.manifest.through
        if self._through is not None:
            reached = self._through // self.spec.every * self.spec.every
            if done is None or reached > done:
                self.report = self._update(waiting, done, reached)
        return {"through": self._writer.manifest.through}

    def _update(self, waiting: list[pa.Table], done: int | None, reached: int) -> UpdateReport:
        assert self._writer is not None
        changes = pa.concat_tables([self.schema.empty_table(), *waiting])
        if done is not None:
            changes = changes.filter(pc.greater(changes.column(BORN), done))
        enters = pc.greater(changes.column(SIGN), 0)
        rows, taken = changes.filter(enters), changes.filter(pc.invert(enters))
        names = list(self.spec.columns.names)
        if self.spec.is_estimated:
            guesses = pc.add(rows.column(BORN), self.spec.span)
            rows = rows.set_column(rows.column_names.index(DIES), DIES, guesses)
        else:
            names.append(DIES)
        update = Update(
            self._writer.manifest.batch + 1,
            reached,
            rows.drop_columns([SIGN]),
            taken.select(names) if taken.num_rows else None,
        )
        report = self._writer.update(update)
        if self.definition.technique == AUTO and self.definition.grid is None:
            self._reconsider()
        return report

    def _reconsider(self) -> None:
        """An archive that has grown, or shrunk, may go over to another technique."""
        assert self._writer is not None
        manifest = self._writer.manifest
        entry = manifest.layouts[manifest.newest]
        better = reconsider(
            Choice(entry.technique, entry.grid),
            manifest.size,
            0,
            _periods(self.spec),
            is_estimated=self.spec.is_estimated,
        )
        if better is not None:
            self._writer.migrate(better.technique, better.grid)

    @property
    def layout(self) -> Arrangement:
        """The technique that takes new rows now."""
        assert self._writer is not None
        entry = self._writer.manifest.layouts[self._writer.manifest.newest]
        return Arrangement(entry.technique, entry.grid)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
