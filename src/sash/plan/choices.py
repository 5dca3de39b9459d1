"""What a user may force for a query with WITH (…): the strategy and the way joins are evaluated."""

from __future__ import annotations

from collections.abc import Mapping

from sash.errors import BindError, UnknownName, at_place
from sash.lang.algebra import Join, Node, RelationJoin, Window
from sash.lang.bound import QueryDefinition
from sash.plan import placement, progress, refresh, warm_up
from sash.plan.cost import Strategy
from sash.plan.physical import Choices, JoinAlgorithm
from sash.plan.placement import check_state
from sash.plan.progress import check_progress
from sash.plan.refresh import check_refresh
from sash.plan.warm_up import check_warm_up

_JOINS = {
    "eager": JoinAlgorithm.EAGER,
    "eager-lazy": JoinAlgorithm.EAGER_LAZY_EXPIRATION,
    "lazy": JoinAlgorithm.LAZY,
    "lazy-restore": JoinAlgorithm.LAZY_RESTORE,
}
_CHOICES = ("strategy", "join")
_OPTIONS = (*_CHOICES, *refresh.OPTIONS, *placement.OPTIONS, *warm_up.OPTIONS, *progress.OPTIONS)


def check_options(query: QueryDefinition) -> None:
    """Raise BindError for options of a query that there are not, or that do nothing for it."""
    with at_place(query.place):
        if query.archive is not None:
            _check_archive(dict(query.options))
        choices_of(dict(query.options), query.plan)
        check_refresh(query)
        check_state(query)
        check_warm_up(query)
        check_progress(query)


def _check_archive(options: Mapping[str, object]) -> None:
    """An archive has the options that choose operators; of others it says why they are not for it."""
    for name in options:
        if name not in _OPTIONS:
            raise UnknownName("option of an archive", name, _CHOICES)


def choices_of(options: Mapping[str, object], plan: Node) -> Choices:
    """The choices in a query's options; an unknown option is an error that lists those that exist.

    Where only some windows are INTERNAL it matters which of several equal rows leaves, and what is there at a
    slide. A negative tuple does not say the one, and an eager join does not know the other, so such a query
    is not run by negative tuples, nor is its join eager between slides.
    """
    for name in options:
        if name not in _OPTIONS:
            raise UnknownName("option of a query", name, _OPTIONS)
    strategies = {strategy.value: strategy for strategy in Strategy}
    strategy = options.get("strategy", "upa")
    join = options.get("join")
    if str(strategy).lower() not in strategies:
        raise _bad("strategy", strategy, strategies)
    if join is not None and str(join).lower() not in _JOINS:
        raise _bad("join", join, _JOINS)
    chosen = strategies[str(strategy).lower()]
    algorithm = None if join is None else _JOINS[str(join).lower()]
    windows = [node.spec for node in plan.walk() if isinstance(node, Window)]
    if len({window.is_internal for window in windows}) > 1:
        if chosen is Strategy.NT:
            raise _not_for("strategy = 'nt'", _MIXED, "'upa' and 'direct' are")
        if join is not None:
            raise _not_for("join", _MIXED, "it has one way to evaluate its join")
    if algorithm is not None:
        if not any(isinstance(node, Join) for node in plan.walk()):
            hint = "it is for joins of windows; relations are looked up" if _looks_up(plan) else None
            raise _not_for("join", "a query without a join of windows", hint or "take the option away")
        is_lazy = algorithm in (JoinAlgorithm.LAZY, JoinAlgorithm.LAZY_RESTORE)
        if is_lazy and all(window.slide is None for window in windows):
            hint = "its join is evaluated when rows come: 'eager' and 'eager-lazy' are"
            raise _not_for(f"join = '{join}'", "a query without SLIDE", hint)
    return Choices(chosen, algorithm)


_MIXED = "a query of which only some windows are INTERNAL"


def _looks_up(plan: Node) -> bool:
    return any(isinstance(node, RelationJoin) for node in plan.walk())


def _not_for(option: str, what: str, hint: str) -> BindError:
    return BindError(f"{option} is not for {what}", hint=hint, id="query-option")


def _bad(name: str, got: object, allowed: Mapping[str, object]) -> BindError:
    return BindError(
        f"{name} = '{got}' is not known",
        expected=f"one of: {', '.join(allowed)}",
        got=f"'{got}'",
        id="query-option",
    )
