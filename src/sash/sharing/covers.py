"""Covers: which synopses together answer a query with another predicate (002, section 8.3.3).

Synopses with predicates p₁ … pₙ answer a query with predicate q

- by maximum or minimum, if p₁ ∪ … ∪ pₙ = q (a cover);
- by addition, if moreover no two of them overlap (a disjoint cover);
- by addition and subtraction, if each row of q is counted once more than it is taken away, and every other row as
  often (a disjoint supercover of q less a disjoint cover of the rest is the case of the thesis).

The search keeps two sets of rows: `lacking`, which are still to be counted once, and `excess`, which were counted
though q does not have them. Each step takes one more synopsis against a piece of one of them. It looks for the
fewest synopses first and gives up after a number of steps: to miss a cover costs a synopsis, not an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sash.sharing.algebra import Algebra
from sash.sharing.predicates import NO_ROWS, Predicate, TooManyTerms

MAX_PARTS = 8
_MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class Cover:
    """The names of synopses whose answers are put together, and of those that are taken away."""

    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.plus) + len(self.minus)


def find_cover(
    query: Predicate,
    candidates: Mapping[str, Predicate],
    algebra: Algebra,
    max_parts: int = MAX_PARTS,
) -> Cover | None:
    """The fewest candidates that answer the query; in the order of `candidates` where several do."""
    touching = {name: p for name, p in candidates.items() if not p.is_disjoint_from(query)}
    if algebra is Algebra.SUBTRACTABLE:
        # What is taken away lies in what was added.
        pool = {
            name: p
            for name, p in candidates.items()
            if name in touching or any(not p.is_disjoint_from(other) for other in touching.values())
        }
    else:
        pool = {name: p for name, p in touching.items() if p.implies(query)}
    if query.is_empty or not touching:
        return None
    search = _Search(query, pool, algebra)
    for parts in range(1, min(max_parts, len(pool)) + 1):
        found = search.within(parts)
        if found is not None or search.is_exhausted:
            return found
    return None


class _Search:
    def __init__(self, query: Predicate, pool: Mapping[str, Predicate], algebra: Algebra) -> None:
        self._query = query
        self._pool = pool
        self._algebra = algebra
        self._steps = 0

    @property
    def is_exhausted(self) -> bool:
        return self._steps >= _MAX_STEPS

    def within(self, parts: int) -> Cover | None:
        return self._go(Cover(()), self._query, NO_ROWS, parts)

    def _go(self, taken: Cover, lacking: Predicate, excess: Predicate, parts: int) -> Cover | None:
        if lacking.is_empty and excess.is_empty:
            return taken
        if parts == 0:
            return None
        for cover, still_lacking, still_excess in self._moves(taken, lacking, excess):
            found = self._go(cover, still_lacking, still_excess, parts - 1)
            if found is not None:
                return found
        return None

    def _moves(
        self, taken: Cover, lacking: Predicate, excess: Predicate
    ) -> Iterator[tuple[Cover, Predicate, Predicate]]:
        """Every way to take one more synopsis against the first piece that is wrong."""
        piece = Predicate((lacking.terms or excess.terms)[:1])
        for name, predicate in self._pool.items():
            if name in taken.plus or name in taken.minus:
                continue
            if self.is_exhausted:
                return
            self._steps += 1
            if predicate.is_disjoint_from(piece):
                continue
            try:
                if lacking.terms:
                    after = self._added(predicate, lacking, excess)
                    cover = Cover((*taken.plus, name), taken.minus)
                else:
                    after = self._taken_away(predicate, excess)
                    cover = Cover(taken.plus, (*taken.minus, name))
            except TooManyTerms:
                continue
            if after is not None:
                yield cover, *after

    def _added(
        self, predicate: Predicate, lacking: Predicate, excess: Predicate
    ) -> tuple[Predicate, Predicate] | None:
        match self._algebra:
            case Algebra.INSENSITIVE:
                return lacking - predicate, excess
            case Algebra.SENSITIVE:
                return (lacking - predicate, excess) if predicate.implies(lacking) else None
            case Algebra.SUBTRACTABLE:
                # Nothing is counted twice too often.
                if not predicate.is_disjoint_from(excess):
                    return None
                return lacking - predicate, excess | (predicate - lacking)

    def _taken_away(self, predicate: Predicate, excess: Predicate) -> tuple[Predicate, Predicate] | None:
        """Nothing is lacking, so what is taken away beyond the excess lacks then."""
        return predicate - excess, excess - predicate
