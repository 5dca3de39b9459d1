"""Covers: which synopses together answer a query with another predicate (002, section 8.3.3).

Synopses with predicates p₁ … pₙ answer a query with predicate q

- by maximum or minimum, if p₁ ∪ … ∪ pₙ = q (a cover);
- by addition, if moreover no two of them overlap (a disjoint cover);
- by addition and subtraction, if each row of q is counted once more than it is taken away, and every other
  row as
  often (a disjoint supercover of q less a disjoint cover of the rest is the case of the thesis).

They are looked for in this order; supercovers of one synopsis before others. A search keeps two sets of rows:
`lacking`, which are still to be counted, and `excess`, which were counted once too often. It adds synopses
until nothing lacks, then takes away what is within the excess. It looks for the fewest synopses first and
gives up after a number of steps: to miss a cover costs a synopsis, not an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sash.plan.duplicates import Algebra
from sash.plan.predicates import NO_ROWS, Predicate, TooManyTerms

MAX_PARTS = 8
_MAX_STEPS = 400
_MAX_MIXED_STEPS = 100


@dataclass(frozen=True, slots=True)
class Cover:
    """The names of synopses whose answers are put together, and of those that are taken away.

    Those that are `beside` each other have the same rows: each gives the measures that those before it lack
    (002, rule SS2).
    """

    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()
    beside: bool = False

    def __len__(self) -> int:
        return len(self.plus) + len(self.minus)

    def __str__(self) -> str:
        added = (" | " if self.beside else " + ").join(self.plus)
        return added + "".join(f" − {name}" for name in self.minus)

    @property
    def signed(self) -> tuple[tuple[str, int], ...]:
        """The names with 1 or −1."""
        return (*((name, 1) for name in self.plus), *((name, -1) for name in self.minus))


def find_cover(
    query: Predicate,
    candidates: Mapping[str, Predicate],
    algebra: Algebra,
    max_parts: int = MAX_PARTS,
) -> Cover | None:
    """The fewest candidates that answer the query; in the order of `candidates` where several do."""
    if query.is_empty:
        return None
    within = {name: p for name, p in candidates.items() if p.implies(query)}
    exact = Algebra.INSENSITIVE if algebra is Algebra.INSENSITIVE else Algebra.SENSITIVE
    found = _Search(query, within, exact, _MAX_STEPS).run(max_parts)
    if found is not None or algebra is not Algebra.SUBTRACTABLE:
        return found
    return _supercover(query, candidates, max_parts) or _Search(
        query, candidates, algebra, _MAX_MIXED_STEPS
    ).run(max_parts)


def _supercover(query: Predicate, candidates: Mapping[str, Predicate], max_parts: int) -> Cover | None:
    """One synopsis that has all of the query's rows, less a disjoint cover of the others that it has."""
    outside = {name: p for name, p in candidates.items() if p.is_disjoint_from(query)}
    steps = _MAX_STEPS
    for name, predicate in candidates.items():
        if not outside or steps <= 0 or not query.implies(predicate):
            continue
        try:
            rest = predicate - query
        except TooManyTerms:
            continue
        parts = {other: p for other, p in outside.items() if p.implies(rest)}
        search = _Search(rest, parts, Algebra.SENSITIVE, steps)
        found = search.run(max_parts - 1)
        if found is not None:
            return Cover((name,), found.plus)
        steps -= search.steps
    return None


class _Search:
    def __init__(
        self, query: Predicate, pool: Mapping[str, Predicate], algebra: Algebra, most_steps: int
    ) -> None:
        self._query = query
        self._pool = pool
        self._algebra = algebra
        self._most_steps = most_steps
        self.steps = 0

    @property
    def is_exhausted(self) -> bool:
        return self.steps >= self._most_steps

    def run(self, max_parts: int) -> Cover | None:
        """The fewest of the pool that do, if there are any."""
        for parts in range(1, min(max_parts, len(self._pool)) + 1):
            found = self._go(Cover(()), self._query, NO_ROWS, parts)
            if found is not None or self.is_exhausted:
                return found
        return None

    def _go(self, taken: Cover, lacking: Predicate, excess: Predicate, parts: int) -> Cover | None:
        if lacking.is_empty and excess.is_empty:
            return taken
        if parts == 0 or not self._is_within_reach(taken, lacking, excess):
            return None
        for cover, still_lacking, still_excess in self._moves(taken, lacking, excess):
            found = self._go(cover, still_lacking, still_excess, parts - 1)
            if found is not None:
                return found
        return None

    def _is_within_reach(self, taken: Cover, lacking: Predicate, excess: Predicate) -> bool:
        """Whether all that is left would do, taken together; most attempts end here."""
        left = lacking if lacking.terms else excess
        is_exact = not lacking.terms or self._algebra is Algebra.SENSITIVE
        rest = left
        for name, predicate in self._pool.items():
            if name in taken.plus or name in taken.minus or predicate.is_disjoint_from(rest):
                continue
            self.steps += 1
            if is_exact and not predicate.implies(left):
                continue
            try:
                rest = rest - predicate
            except TooManyTerms:
                return False
            if rest.is_empty:
                return True
        return False

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
            self.steps += 1
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
        """What is taken away lies in the excess, or it would lack then."""
        return (NO_ROWS, excess - predicate) if predicate.implies(excess) else None
