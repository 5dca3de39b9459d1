"""A handle of a standing query: its answers one by one, and the newest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sash.engine.continuous.continuous import continuous_schema
from sash.errors import UserError
from sash.lang.algebra import Output, OutputKind
from sash.lang.bound import QueryDefinition
from sash.operators.bounds import with_bounds
from sash.plan.patterns import Pattern, output_pattern
from sash.plan.run_plan import RunPlan, slide_of
from sash.plan.warm_up import warm_up_of
from sash.session.answers import Answer
from sash.session.inbox import Inbox, Room, Shape
from sash.session.once import Explanation
from sash.session.texts import quoted_name
from sash.synopses.answering import answer_schema

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_PENDING = 1_000

_CHANGE_LOGS = (OutputKind.VIEW, OutputKind.WSTREAM)
_WHOLE = (OutputKind.RSTREAM, OutputKind.RSTREAM_RESTORE)


class Owner(Protocol):
    """What a handle asks of its session; not for users, hence the underscores."""

    def _begin(self, query: Query) -> None:
        """Start the pipeline unless it has run with this query already."""

    def _interrupt(self) -> None:
        """The user pressed Ctrl-C: stop the run and wait for it."""

    def _tell(self, failure: BaseException) -> None:
        """The user is told of this failure."""

    def _whole_from(self, query: str) -> int | None:
        """From when on the windows of a query are whole, if that is known."""

    def explain(self, text: str, *, format: str = "text", analyze: bool = False) -> Explanation: ...


class Query:
    """A standing query of a session. Iterate it for its answers; any thread may."""

    def __init__(
        self, owner: Owner, definition: QueryDefinition, shape: Shape, room: Room, limit: int
    ) -> None:
        if limit < 1:
            raise UserError("max_pending must be at least 1", got=str(limit), id="option")
        self.definition = definition
        self._owner = owner
        self._shape = shape
        self._room = room
        self._limit = limit
        self._inbox = Inbox(room, shape, limit)
        # Whether a run has begun with this query in it.
        self._has_run = False
        self._is_dropped = False

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def schema(self) -> pa.Schema:
        """The selected columns and their types."""
        return self._shape.columns

    @property
    def plan(self) -> Output:
        """The bound plan, as it was written."""
        return self.definition.plan

    @property
    def whole_from(self) -> int | None:
        """From when on its windows are whole, in the unit of its time; None while that is not known.

        Of a TIMESTAMP those are microseconds.
        """
        return self._owner._whole_from(self.name)

    @property
    def is_dropped(self) -> bool:
        return self._is_dropped

    @property
    def pending(self) -> int:
        """Answers that wait to be iterated."""
        return self._inbox.pending

    @property
    def missed(self) -> int:
        """Answers that were thrown away because nobody iterated."""
        return self._inbox.missed

    def explain(self, *, format: str = "text", analyze: bool = False) -> Explanation:
        """How the query is computed."""
        return self._owner.explain(quoted_name(self.name), format=format, analyze=analyze)

    def latest(self) -> pa.Table:
        """A view's contents as they are now; of any other query the newest answer."""
        return self._inbox.latest()

    def to_pandas(self) -> pd.DataFrame:
        """`latest()` as a pandas frame."""
        return self.latest().to_pandas()

    def __iter__(self) -> Reader:
        """Answers in order of instant, each given once; starts the pipeline if that has not been done.

        The iteration ends with the run, and with the query.
        """
        return Reader(self, self._inbox, self._owner)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.definition.plan.fields)
        state = "; dropped" if self._is_dropped else f"; {self.pending} pending" if self._has_run else ""
        return f"<query {self.name} ({columns}){state}>"

    def _enter_run(self) -> Inbox:
        """The inbox for a run that is about to begin: that which readers wait at, if it is a first one."""
        if self._has_run:
            self._inbox = Inbox(self._room, self._shape, self._limit)
        self._has_run = True
        return self._inbox

    def _drop(self) -> None:
        self._is_dropped = True
        self._inbox.close()


class Reader:
    """One iteration over a query. The run waits for its reader, so it must not be put away half read."""

    def __init__(self, query: Query, inbox: Inbox, owner: Owner) -> None:
        self._query = query
        self._inbox = inbox
        self._owner = owner
        inbox.enter(id(self))

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Answer:
        if not self._query.is_dropped:
            self._owner._begin(self._query)
        try:
            answer = self._inbox.take(id(self))
        except KeyboardInterrupt:
            self._owner._interrupt()
            raise
        except BaseException as failure:
            self._owner._tell(failure)
            raise
        if answer is None:
            self.close()
            raise StopIteration
        return answer

    def close(self) -> None:
        """Read no more; what is left stays for the next reader."""
        self._inbox.leave(id(self))

    def __del__(self) -> None:
        self.close()


def shape_of(plan: RunPlan) -> Shape:
    """The shape of the answers of the one query of a plan."""
    if plan.queries:
        (periodic,) = plan.queries
        definition, stream = periodic.definition, plan.stream(periodic.select.stream)
        schema = answer_schema(periodic.select, stream)
        unit = stream.unit if stream.has_integer_time else 1
    else:
        (continuous,) = plan.continuous
        definition, unit = continuous.definition, continuous.unit
        schema = continuous_schema(continuous)
    kind = definition.plan.kind
    # What only ever grows is not kept unless somebody said that memory is no concern.
    is_kept = definition.allow_unbounded or output_pattern(definition.plan) is not Pattern.MON
    slide = slide_of(definition.plan) if kind in _WHOLE else None
    is_partial = warm_up_of(definition).is_partial
    return Shape(
        with_bounds(schema, definition.plan), kind in _CHANGE_LOGS and is_kept, slide, unit, is_partial
    )
