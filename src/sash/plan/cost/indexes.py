"""AUTO: which index a window gets, by what is asked of it (003, the lessons of 7.2.4 and 7.3).

- A periodic question about the values of a window is answered from an index, never by reading the window
  again.
- LIST is the storage, because it is simple; HASH pays only where values repeat within a basic window. AGGR
  follows the same pattern at a higher price.
- T works well in all situations. H finds a value faster and has to sort for an answer in order, so it is for
  questions without order. L is slow; UH is H for values that do not come back.
- Where ranges will do for an answer, G over GROUP is cheaper than any of them, cheaper than no index at all.
- For tuples DB, as long as values repeat within the window; else BW, which needs less space. Tuples need
  LIST.

Costs are per tuple, in nodes touched, after table 1 of 003 with the structures of `sash.indexes`: AGGR
sorts a basic window at once, and hash tables have as many buckets as values. They are as published where
`sash.indexes` does better: a directory beside a T-INDEX finds values that it has.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from sash.lang.bound import IndexDefinition, StreamDefinition
from sash.lang.indexing import IndexSpec, RingKind, Storage, ValueIndexKind
from sash.plan.cost.statistics import Statistics

GROUPS = 50
"""Ranges of a G-INDEX: fifty were cheaper than a T-INDEX, for 1,000 and for 10,000 values (003, 7.2.1)."""
REPEATS = 3.0
"""Tuples of equal value in a basic window from which on HASH pays."""
RINGED = 2.0
"""Tuples of equal value in the window from which on DB pays."""


SUB_WINDOWS = 60
"""Into so many sub-windows the rows that a stream keeps are divided."""


class Question(enum.Enum):
    """What is asked of a window; those about tuples want rows, the others values and counts."""

    COUNT_DISTINCT = "COUNT(DISTINCT)"
    QUANTILE = "quantile"
    TOP = "TOP"
    HISTOGRAM = "histogram"
    INTERSECT = "INTERSECT"
    SORTED_VALUES = "sorted output"
    EQUALITY = "equality"
    RANGE = "range"
    SORTED_TUPLES = "sorted rows"

    @property
    def is_about_tuples(self) -> bool:
        return self in (Question.EQUALITY, Question.RANGE, Question.SORTED_TUPLES)

    @property
    def is_ordered(self) -> bool:
        return self not in (Question.COUNT_DISTINCT, Question.TOP, Question.INTERSECT, Question.EQUALITY)


@dataclass(frozen=True, slots=True)
class IndexLoad:
    """What an index has to bear: tuples and different values of the window, its basic windows, the questions.

    `values_each` are the different values of a basic window, if they are known; otherwise they are what a
    uniform draw has. `accepts_ranges`: answers may be ranges of values.
    """

    questions: frozenset[Question]
    tuples: float
    values: float
    basic_windows: int
    values_each: float | None = None
    accepts_ranges: bool = False

    @property
    def tuples_each(self) -> float:
        return max(1.0, self.tuples / max(1, self.basic_windows))

    @property
    def distinct_each(self) -> float:
        if self.values_each is not None:
            return max(1.0, self.values_each)
        values, tuples = max(1.0, self.values), self.tuples_each
        return max(1.0, -values * math.expm1(tuples * math.log1p(-1 / values)) if values > 1 else 1.0)

    @property
    def repeats(self) -> float:
        """Tuples of equal value in a basic window."""
        return max(1.0, self.tuples_each / self.distinct_each)


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The index, and why it is that one, for EXPLAIN."""

    spec: IndexSpec
    why: tuple[str, ...]


def maintenance(spec: IndexSpec, load: IndexLoad) -> float:
    """Nodes touched per tuple that comes and, later, goes (003, table 1 and 5.6; rings: 6)."""
    each, repeats = load.tuples_each, load.repeats
    values = max(1.0, load.values)
    match spec.values:
        case ValueIndexKind.L:
            finding = values / 2
        case ValueIndexKind.T:
            finding = 1 + math.log2(values)
        case ValueIndexKind.H | ValueIndexKind.UH:
            finding = 2.0
        case ValueIndexKind.G:
            finding = 1 + math.log2(spec.groups or 1)
    match spec.storage:
        case Storage.LIST:
            storing, entries = 1.0, 1.0
        case Storage.AGGR:
            storing, entries = 1 + math.log2(each), 1 / repeats
        case Storage.HASH:
            storing, entries = 3.0, 1 / repeats
        case Storage.GROUP:
            return finding + 2 * (spec.groups or 1) / each
    if spec.rings is not None:
        ring = max(1.0, load.tuples / values)
        coming = {RingKind.RING: finding + ring}.get(spec.rings, 3 + finding / repeats)
        if spec.rings is RingKind.AUX:
            coming += ring / repeats
        going = {RingKind.RING: ring, RingKind.AUX: ring, RingKind.BW: 1 + ring / repeats, RingKind.DB: 1.0}
        return coming + going[spec.rings] + 2
    return storing + entries * (finding + 2)


def choose_index(load: IndexLoad) -> IndexChoice:
    """The index that AUTO stands for."""
    asked = ", ".join(sorted(question.value for question in load.questions)) or "nothing yet"
    why = [f"asked for: {asked}"]
    wants_tuples = any(question.is_about_tuples for question in load.questions)
    if load.accepts_ranges and not wants_tuples:
        spec = IndexSpec(ValueIndexKind.G, Storage.GROUP, GROUPS)
        why.append(f"ranges will do: {GROUPS} groups, not {_about(load.values)} values")
        return IndexChoice(spec, (*why, _cost(spec, load)))
    is_ordered = any(question.is_ordered for question in load.questions) or not load.questions
    values = ValueIndexKind.T if is_ordered else ValueIndexKind.H
    why.append("T: the answer is in order of values" if is_ordered else "H: no answer depends on order")
    if wants_tuples:
        ring = load.tuples / max(1.0, load.values)
        rings = RingKind.DB if ring >= RINGED else RingKind.BW
        reason = (
            "a tuple leaves its ring in O(1)"
            if rings is RingKind.DB
            else "hardly a value repeats, and BW is smaller"
        )
        why.append(f"{rings.value}: {_about(ring)} tuples a value: {reason}")
        spec = IndexSpec(values, rings=rings)
    else:
        storage = Storage.HASH if load.repeats >= REPEATS else Storage.LIST
        reason = "counted once" if storage is Storage.HASH else "too few to count before"
        why.append(f"{storage.value}: {_about(load.repeats)} tuples a value in a basic window, {reason}")
        spec = IndexSpec(values, storage)
    return IndexChoice(spec, (*why, _cost(spec, load)))


def index_of_kept_rows(index: IndexDefinition, stream: StreamDefinition) -> IndexChoice:
    """The index of the rows that a stream keeps: questions may ask for a value of the column, or a range."""
    if index.spec is not None:
        return IndexChoice(index.spec, ("as USING says",))
    known = Statistics.from_definitions([stream])
    column = stream.schema.get(index.column)
    assert column is not None
    rows = known.rate(stream.name) * (stream.retain or 0) / 1_000_000
    values = min(max(1.0, rows), known.distinct(stream.name, column.name, column.type))
    questions = frozenset({Question.EQUALITY, Question.RANGE})
    choice = choose_index(IndexLoad(questions, rows, values, SUB_WINDOWS))
    # What costs are about, links and their upkeep, is not needed where a sub-window goes as a whole.
    return IndexChoice(choice.spec, (*choice.why[:2], "in a file the rows of a value lie together"))


def _cost(spec: IndexSpec, load: IndexLoad) -> str:
    return f"about {_about(maintenance(spec, load))} nodes touched a tuple"


def _about(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
