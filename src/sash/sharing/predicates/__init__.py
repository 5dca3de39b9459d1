"""Predicates as sets of rows: normal form, covers, disjointness."""

from sash.sharing.predicates.normal_form import predicate_of
from sash.sharing.predicates.predicate import ALL_ROWS, NO_ROWS, Predicate, Term, TooManyTerms

__all__ = ["ALL_ROWS", "NO_ROWS", "Predicate", "Term", "TooManyTerms", "predicate_of"]
