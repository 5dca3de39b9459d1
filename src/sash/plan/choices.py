"""What a user may force for a query with WITH (…): the strategy and the way joins are evaluated."""

from __future__ import annotations

from collections.abc import Mapping

from sash.errors import BindError, UnknownName
from sash.lang.algebra import Node, Window
from sash.plan import placement, progress, refresh, warm_up
from sash.plan.cost import Strategy
from sash.plan.physical import Choices, JoinAlgorithm

_JOINS = {
    "eager": JoinAlgorithm.EAGER,
    "eager-lazy": JoinAlgorithm.EAGER_LAZY_EXPIRATION,
    "lazy": JoinAlgorithm.LAZY,
    "lazy-restore": JoinAlgorithm.LAZY_RESTORE,
}
_OPTIONS = ("strategy", "join", *refresh.OPTIONS, *placement.OPTIONS, *warm_up.OPTIONS, *progress.OPTIONS)


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
    kinds = {node.spec.is_internal for node in plan.walk() if isinstance(node, Window)}
    if len(kinds) > 1:
        return Choices(Strategy.UPA if chosen is Strategy.NT else chosen)
    return Choices(chosen, None if join is None else _JOINS[str(join).lower()])


def _bad(name: str, got: object, allowed: Mapping[str, object]) -> BindError:
    return BindError(
        f"{name} = '{got}' is not known",
        expected=f"one of: {', '.join(allowed)}",
        got=f"'{got}'",
        id="query-option",
    )
