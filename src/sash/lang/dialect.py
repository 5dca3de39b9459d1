"""CQL as a sqlglot dialect: `sqlglot.parse_one(text, dialect=Cql)` and `tree.sql(dialect=Cql)` work."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect, NormalizationStrategy

from sash.lang.generator import CqlGenerator
from sash.lang.parser import CqlParser
from sash.lang.tokens import CqlTokenizer


class Cql(Dialect):
    NORMALIZATION_STRATEGY = NormalizationStrategy.LOWERCASE

    Tokenizer = CqlTokenizer
    Parser = CqlParser
    Generator = CqlGenerator
