"""Which value index answers periodic aggregates of a column that has one (CREATE INDEX; 003, section 5).

Answers are exact and sub-windows come with their values counted, so a G-INDEX is not used and the storage is
HASH, whatever stands after OVER. Where there are groups the values of all of them are one sorted run, and no
index is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.lang.bound import AggregateCall, IndexDefinition, Scalar, StreamDefinition, Window
from sash.lang.indexing import IndexSpec, Storage, ValueIndexKind
from sash.lang.values import AggregateFunction
from sash.plan.cost.indexes import IndexChoice, IndexLoad, Question, choose_index
from sash.plan.cost.statistics import Statistics
from sash.plan.periodic import PeriodicQuery, SynopsisSpec

_F = AggregateFunction
_QUESTIONS = {
    _F.COUNT: Question.COUNT_DISTINCT,
    _F.QUANTILE: Question.QUANTILE,
    _F.TOP: Question.TOP,
}


def index_on(
    spec: SynopsisSpec, argument: Scalar, indexes: Iterable[IndexDefinition]
) -> IndexDefinition | None:
    """The index on the column that is the argument."""
    if argument.column is None:
        return None
    found = (index for index in indexes if (index.stream, index.column) == (spec.stream, argument.column))
    return next(found, None)


def choose_value_index(
    index: IndexDefinition,
    spec: SynopsisSpec,
    argument: Scalar,
    queries: Iterable[PeriodicQuery],
    stream: StreamDefinition,
) -> IndexChoice | str:
    """The index that answers aggregates of the argument, or why there is none."""
    if spec.keys:
        return "values of groups are one sorted run"
    if index.spec is not None and index.spec.values is ValueIndexKind.G:
        return "it has ranges of values, and answers are exact"
    if index.spec is not None:
        chosen = IndexSpec(index.spec.values, Storage.HASH, buckets=index.spec.buckets)
        return IndexChoice(chosen, ("as USING says; sub-windows come with their values counted",))
    asking = [(call, query.window) for query in queries for call in query.select.aggregates]
    return _auto([(call, window) for call, window in asking if call.argument == argument], argument, stream)


def _auto(
    asking: list[tuple[AggregateCall, Window]], argument: Scalar, stream: StreamDefinition
) -> IndexChoice:
    known = Statistics.from_definitions([stream])
    longest = max((window.range for _, window in asking), default=0)
    panes = max((window.range // window.slide for _, window in asking), default=1)
    rows = known.rate(stream.name) * longest / 1_000_000
    values = min(max(1.0, rows), known.distinct(stream.name, argument.column or "", argument.type))
    questions = frozenset(_QUESTIONS.get(call.function, Question.HISTOGRAM) for call, _ in asking)
    choice = choose_index(IndexLoad(questions, rows, values, max(1, panes)))
    # Counted in the tasks anyway, however seldom values repeat.
    spec = IndexSpec(choice.spec.values, Storage.HASH)
    return IndexChoice(spec, (*choice.why[:2], "sub-windows come with their values counted"))
