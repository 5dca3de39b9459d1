"""Predicates in disjunctive normal form, with the set operations that decide covers (002, section 8.3.3).

A predicate stands for the rows for which a WHERE is TRUE: a row for which it is FALSE or NULL is not
selected. It is a union of terms; a term says for each of some expressions in which set its value must lie.
Different expressions are taken to be independent of each other. So what is proven here (`implies`,
`is_disjoint_from`, `equals`) is true of every row; the converse holds only where the expressions are
columns. Where a union would get too large, `TooManyTerms` ends the attempt, and the three tests answer «not
proven».
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.plan.predicates.value_set import EVERYTHING, ValueSet

# Beyond this many terms, thinking about a predicate costs more than a synopsis of its own.
MAX_TERMS = 256


class TooManyTerms(Exception):
    """A predicate has more terms than anybody wants to compare."""


@dataclass(frozen=True, slots=True)
class Term:
    """Expressions, by their SQL and in its order, each with the set that its value must lie in."""

    conditions: tuple[tuple[str, ValueSet], ...] = ()

    @staticmethod
    def of(expression: str, values: ValueSet) -> Term:
        return Term() if values.is_everything else Term(((expression, values),))

    @property
    def is_empty(self) -> bool:
        return any(values.is_empty for _, values in self.conditions)

    def __and__(self, other: Term) -> Term:
        sets = dict(self.conditions)
        for expression, values in other.conditions:
            sets[expression] = sets[expression] & values if expression in sets else values
        return Term(tuple(sorted(sets.items(), key=lambda condition: condition[0])))

    def is_disjoint_from(self, other: Term) -> bool:
        for expression, values in self.conditions:
            for known, others in other.conditions:
                if known == expression and values.is_disjoint_from(others):
                    return True
        return False

    def implies(self, other: Term) -> bool:
        """Whether each of the other's conditions follows from one of these."""
        sets = dict(self.conditions)
        return all(
            sets.get(expression, EVERYTHING).is_within(values) for expression, values in other.conditions
        )

    def without(self, other: Term) -> list[Term]:
        """What is left of it outside the other one, as terms that do not overlap."""
        if self.is_disjoint_from(other):
            return [self]
        left: list[Term] = []
        inside = self
        for expression, values in other.conditions:
            have = dict(inside.conditions).get(expression, EVERYTHING)
            outside = have - values
            if not outside.is_empty:
                left.append(inside & Term.of(expression, outside))
            inside = inside & Term.of(expression, values)
        return left


@dataclass(frozen=True, slots=True)
class Predicate:
    """The rows that are in any of the terms; no term: no row."""

    terms: tuple[Term, ...]

    @staticmethod
    def of(terms: Iterable[Term]) -> Predicate:
        """Terms without those that are empty or follow from another one."""
        kept: list[Term] = []
        for term in terms:
            if term.is_empty or any(term.implies(other) for other in kept):
                continue
            kept = [other for other in kept if not other.implies(term)]
            kept.append(term)
            if len(kept) > MAX_TERMS:
                raise TooManyTerms
        return Predicate(tuple(kept))

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate.of(a & b for a in self.terms for b in other.terms)

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate.of((*self.terms, *other.terms))

    def __sub__(self, other: Predicate) -> Predicate:
        left = list(self.terms)
        for taken in other.terms:
            left = [piece for term in left for piece in term.without(taken)]
            if len(left) > MAX_TERMS:
                raise TooManyTerms
        return Predicate.of(left)

    def implies(self, other: Predicate) -> bool:
        """Whether every row of it is one of the other: the other's synopsis is a supercover of it."""
        if self is other or all(any(term.implies(own) for own in other.terms) for term in self.terms):
            return True
        if len(other.terms) < 2:
            return False
        try:
            return (self - other).is_empty
        except TooManyTerms:
            return False

    def equals(self, other: Predicate) -> bool:
        return self.implies(other) and other.implies(self)

    def is_disjoint_from(self, other: Predicate) -> bool:
        return all(a.is_disjoint_from(b) for a in self.terms for b in other.terms)

    @property
    def is_disjoint(self) -> bool:
        """Whether no two of its terms overlap."""
        return all(a.is_disjoint_from(b) for i, a in enumerate(self.terms) for b in self.terms[i + 1 :])


ALL_ROWS = Predicate((Term(),))
NO_ROWS = Predicate(())
