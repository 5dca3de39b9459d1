"""How far off the columns of an answer can be, told in the metadata of their fields."""

from __future__ import annotations

import pyarrow as pa

from sash.lang.algebra import Node
from sash.plan.sketches import error_bounds

ERROR = b"sash.error"
"""The key in the metadata of a field: the approximate aggregates that it is made of, with their bounds."""


def with_bounds(schema: pa.Schema, plan: Node) -> pa.Schema:
    """The schema of a plan's answers, which says of approximate columns how far off they can be."""
    for name, bound in error_bounds(plan).items():
        place = schema.get_field_index(name)
        schema = schema.set(place, schema.field(place).with_metadata({ERROR: bound.encode()}))
    return schema


def told_bounds(schema: pa.Schema) -> dict[str, str]:
    """By column, what a schema says of it."""
    told = {field.name: (field.metadata or {}).get(ERROR) for field in schema}
    return {name: bound.decode() for name, bound in told.items() if bound is not None}
