"""What a dataflow is, without its state: operators with their variants, what they read, how they are divided.

State is kept by the numbers of vertices, stages and exchanges, so it fits only a dataflow with the same
outline. The outline of an operator is its class and what it was made with; call it before the operator has
processed anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass

import pyarrow as pa

from sash.operators.dataflow import Dataflow, Vertex
from sash.operators.stage_planner import Stage, StagePlan
from sash.plan.digests import canonical_text

# What is deeper inside an operator is its state.
_DEPTH = 6
_DEFINITIONS = ("sash.lang.", "sash.plan.")
_PARTS = ("sash.operators.", "sash.synopses.")


def outline(flow: Dataflow, cut: StagePlan | None) -> list[str]:
    """A line for each vertex, output, stage and exchange."""
    lines = [f"{i}: {_vertex(vertex)}" for i, vertex in enumerate(flow.vertices)]
    lines += [f"{name} is {vertex}" for name, vertex in flow.outputs.items()]
    if cut is not None:
        lines += [f"{source} to {canonical_text(sent)}" for source, sent in cut.sources]
        for number, stage in enumerate(cut.stages, start=1):
            lines += [f"stage {number}: {line}" for line in _stage(stage)]
        lines += [
            f"top: {_vertex(vertex)} from {number}"
            for vertex, number in zip(cut.top.vertices, cut.top_numbers, strict=True)
        ]
        lines += [f"top: {name} is {vertex}" for name, vertex in cut.top.outputs.items()]
    return lines


def _vertex(vertex: Vertex) -> str:
    what = f"source {vertex.source}" if vertex.operator is None else _made_with(vertex.operator, _DEPTH)
    types = [field.type for field in vertex.fields]
    division = canonical_text(vertex.division)
    return f"{what} of {list(vertex.inputs)} gives {canonical_text(types)} by {division}"


def _stage(stage: Stage) -> Iterator[str]:
    for vertex, number, home in zip(stage.vertices, stage.numbers, stage.homes, strict=True):
        # What the operator is stands with the dataflow that was cut.
        yield f"{number} {vertex.source} of {list(vertex.inputs)} in {home}"
    for place, sent in stage.sends:
        yield f"{place} to {canonical_text(sent)}"


def _made_with(value: object, depth: int) -> str:
    """The class of a part of an operator, and those of its attributes that say something about it."""
    attributes = sorted(_attributes(value))
    texts = ((name, _text(getattr(value, name), depth)) for name in attributes)
    return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in texts if text)})"


def _attributes(value: object) -> Iterator[str]:
    yield from getattr(value, "__dict__", ())
    for kind in type(value).__mro__:
        yield from (name for name in getattr(kind, "__slots__", ()) if hasattr(value, name))


def _text(value: object, depth: int) -> str:
    """The text of an attribute; empty for what says nothing: nothing at all, counts at 0, arrays."""
    if isinstance(value, bool | int | float | str | Sequence | Set | Mapping | None) and not value:
        return ""
    if isinstance(value, bool | int | float | str | enum.Enum):
        return canonical_text(value)
    module = type(value).__module__
    if is_dataclass(value) and module.startswith(_DEFINITIONS):
        return canonical_text(value)
    if isinstance(value, pa.DataType):
        return str(value)
    if isinstance(value, Mapping):
        items = sorted(f"{_text(key, depth)}: {_text(each, depth)}" for key, each in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(_text(each, depth) for each in value))}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(_text(each, depth) for each in value)}]"
    if module.startswith(_PARTS) and depth:
        return _made_with(value, depth - 1)
    if module.startswith("sash."):
        return type(value).__name__
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return str(getattr(value, "__qualname__", ""))
    return ""
