"""The language: CQL text to bound definitions."""

from sash.lang.bind import Program, bind_program, bind_statement
from sash.lang.bound import ExplainDefinition
from sash.lang.context import Known
from sash.lang.dialect import Cql
from sash.lang.parse import Statement, parse, unparse
from sash.lang.periodic import missing, not_yet, periodic_select
from sash.lang.queries import bind_plan

__all__ = [
    "Cql",
    "ExplainDefinition",
    "Known",
    "Program",
    "Statement",
    "bind_plan",
    "bind_program",
    "bind_statement",
    "missing",
    "not_yet",
    "parse",
    "periodic_select",
    "unparse",
]
