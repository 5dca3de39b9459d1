"""What the archive of a query holds, and by which technique it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sash.archive import ArchiveSpec, Layout, choose
from sash.archive.writer import AUTO, fitting
from sash.engine.archives.expected_lifetimes import ExpectedLives
from sash.files import local_place
from sash.lang import algebra
from sash.lang.bound import ArchiveDefinition
from sash.lang.types import Column, Schema
from sash.operators.answers import LifetimeOutput
from sash.operators.build import build
from sash.plan.lifetimes import counted_windows, sub_window_grain
from sash.plan.run_plan import ContinuousQuery, RunPlan, slide_of

# How many updates a row is guessed to live if no window says.
_GUESSED_UPDATES = 16
# More updates than this are not looked at to say how many sub-indices they touch.
_MOST_UPDATES = 100


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A technique with its grid."""

    technique: str
    grid: tuple[int, int]

    @property
    def text(self) -> str:
        return f"{self.technique} {self.grid[0]}x{self.grid[1]}"

    def touched(self, spec: ArchiveSpec) -> str:
        """How many sub-indices an update touches, as a person reads it: G + E - 1, unless deaths are guesses
        or a row of the grid waits to be thrown away.
        """
        every = spec.every
        layout = Layout.of(self.technique, self.grid, every, spec.span, is_estimated=spec.is_estimated)
        counts = {
            len({*layout.inserted(at, at + every), *layout.expired(at, at + every)})
            for at in range(0, min(layout.periods, _MOST_UPDATES) * every, every)
        }
        least, most = min(counts), max(counts)
        number = str(most) if least == most else f"{least} to {most}"
        return f"an update touches {number} of {layout.size} sub-indices"


def spec_of(query: ContinuousQuery, plan: RunPlan) -> ArchiveSpec:
    """What the archive of a query holds."""
    definition = query.definition.archive
    assert definition is not None
    flow = build(replace(plan, continuous=(query,), one_time=(), joins=(), guests=()))
    operator = flow.vertices[flow.outputs[query.name]].operator
    assert isinstance(operator, LifetimeOutput)
    columns = Schema(tuple(Column(field.name, field.type) for field in query.definition.plan.fields))
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


def expected_lives(query: ContinuousQuery, plan: RunPlan) -> ExpectedLives | None:
    """Where rates of arrival tell how long rows live; None: they do not."""
    windows = counted_windows(query.plan)
    parts = sum(isinstance(node, algebra.Window) for node in query.plan.walk())
    units = {stream.name: stream.unit for stream in plan.streams}
    return ExpectedLives(windows, parts, units) if windows else None


def layout_of(definition: ArchiveDefinition, spec: ArchiveSpec) -> Arrangement:
    """The technique of an archive that begins."""
    if definition.technique != AUTO:
        return Arrangement(*fitting(spec, definition.technique, definition.grid))
    chosen = choose(0, 0, periods_of(spec), is_estimated=spec.is_estimated)
    return Arrangement(*fitting(spec, chosen.technique, definition.grid or chosen.grid))


def archive_place(definition: ArchiveDefinition) -> Path:
    """The directory of an archive, from where relative paths count."""
    return Path(local_place(definition.sink, f"archive {definition.name}")).expanduser()


def periods_of(spec: ArchiveSpec) -> int:
    """How many updates a row lives at most."""
    return max(1, -(-spec.span // spec.every))
