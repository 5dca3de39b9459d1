"""Predicates as sets of rows: normal form, covers, disjointness."""

from sash.plan.predicates.normal_form import predicate_of
from sash.plan.predicates.predicate import ALL_ROWS, NO_ROWS, Predicate, Term, TooManyTerms

__all__ = ["ALL_ROWS", "NO_ROWS", "Predicate", "Term", "TooManyTerms", "predicate_of"]
