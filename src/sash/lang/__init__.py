"""The language: CQL text to bound definitions."""

from sash.lang.bind import (
    ExplainDefinition,
    Program,
    bind_program,
    bind_query,
    bind_stream,
)
from sash.lang.dialect import Cql
from sash.lang.parse import Statement, parse, unparse
from sash.lang.select import bind_select

__all__ = [
    "Cql",
    "ExplainDefinition",
    "Program",
    "Statement",
    "bind_program",
    "bind_query",
    "bind_select",
    "bind_stream",
    "parse",
    "unparse",
]
