"""Values as bytes, from process to process: plans, and what tasks, the driver and holders say to each other.

What is read runs nothing. It consists of plain values, Arrow tables, arrays of numbers, errors of ours, and
instances of classes that a `Codec` knows: definitions (frozen dataclasses, enumerations) that its roots are
or mention in their fields, with their subclasses. A field is given a value of the types that it is declared
with; instances are made without calling anything of theirs.

The format is a header in JSON, then the bytes of tables and arrays. In the header the instances come in a
list, each after those that it refers to, so a part that is shared is written once:

    {"version": 1, "nodes": [["plan.panes.Panes", …fields], …], "root": value, "sizes": […]}

A plain value stands for itself; everything else is a list that begins with what it is.
"""

from __future__ import annotations

import base64
import enum
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sash.errors
from sash.engine.durability.wire import pack, unpack, unreadable
from sash.errors import InternalError, Place, SashError

VERSION = 1
Buffer = Any
_PLAIN = (type(None), bool, int, float, str)
_PREFIX = "sash."
# Kinds of numbers that arrays may have: truth values, integers, floats.
_KINDS = "biuf"


@dataclass(frozen=True, slots=True)
class _Shape:
    """A class: the names of its fields, and of which types their values are. An enumeration has none."""

    made: type
    name: str
    names: tuple[str, ...] = ()
    types: tuple[tuple[type, ...], ...] = ()

    def values_of(self, instance: object) -> Iterator[Any]:
        return (getattr(instance, name) for name in self.names)


class Codec:
    """Knows the classes that `roots` are made of."""

    def __init__(self, *roots: type) -> None:
        self.roots = roots

    @cached_property
    def _shapes(self) -> dict[type, _Shape]:
        """All classes that can occur. Found when first needed: by then all modules are there."""
        found: dict[type, _Shape] = {}
        # Errors have places.
        waiting: list[Any] = [*self.roots, Place]
        while waiting:
            made = waiting.pop()
            if made in found or not _is_definition(made):
                continue
            name = f"{made.__module__.removeprefix(_PREFIX)}.{made.__qualname__}"
            if issubclass(made, enum.Enum):
                found[made] = _Shape(made, name)
                continue
            hints = typing.get_type_hints(made)
            names = tuple(field.name for field in fields(made))
            mentioned = [tuple(_classes(hints[each])) for each in names]
            checked = tuple(tuple(_origin(each) for each in _top(hints[each])) for each in names)
            found[made] = _Shape(made, name, names, checked)
            waiting += [each for classes in mentioned for each in classes]
            waiting += made.__subclasses__()
        return found

    @cached_property
    def _by_name(self) -> dict[str, _Shape]:
        return {shape.name: shape for shape in self._shapes.values()}

    # ------------------------------------------------------------------ writing

    def frame(self, value: object) -> tuple[dict[str, Any], list[Buffer]]:
        """A header that JSON can write, and the bytes that go with it."""
        writer = _Writer(self._shapes)
        root = writer.write(value)
        return {"version": VERSION, "nodes": writer.nodes, "root": root}, writer.parts

    def to_bytes(self, value: object) -> bytes:
        return b"".join(pack(*self.frame(value)))

    # ------------------------------------------------------------------ reading

    def value(self, header: Mapping[str, Any], parts: Sequence[Buffer], *expected: type) -> Any:
        """What was written; RunError if it is no value, or not of an expected type."""
        try:
            if header["version"] != VERSION:
                raise ValueError(f"version {header['version']!r}")
            reader = _Reader(self._by_name, parts)
            for node in header["nodes"]:
                reader.nodes.append(reader.instance(*node))
            value = reader.read(header["root"])
            if not isinstance(value, expected):
                raise TypeError(type(value).__name__)
            return value
        except (ValueError, TypeError, LookupError, AttributeError, pa.ArrowException) as failure:
            raise unreadable(f"{type(failure).__name__}: {failure}") from failure

    def from_bytes(self, content: Buffer, *expected: type) -> Any:
        header, parts = unpack(content)
        return self.value(header, parts, *expected)


class _Writer:
    def __init__(self, shapes: Mapping[type, _Shape]) -> None:
        self._shapes = shapes
        # By the identity of instances, which are there as long as what they are part of.
        self._numbers: dict[int, int] = {}
        self.nodes: list[list[Any]] = []
        self.parts: list[Buffer] = []

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        shape = self._shapes.get(kind)
        if shape is not None:
            return self._instance(value, shape)
        if kind is tuple:
            return ["(", *map(self.write, value)]
        if isinstance(value, Mapping):
            return ["{", *(self.write(each) for item in value.items() for each in item)]
        if isinstance(value, list):
            return ["[", *map(self.write, value)]
        if isinstance(value, set | frozenset):
            # any order: they are put in order by their texts
            return ["<", *sorted(map(self.write, value), key=repr)]
        return self._large(value)

    def _large(self, value: Any) -> Any:
        match value:
            case np.integer() | np.floating() | np.bool_():
                return value.item()
            case np.ndarray() if value.dtype.kind in _KINDS:
                return ["array", value.dtype.str, list(value.shape), self._part(np.ascontiguousarray(value))]
            case pa.Table():
                return ["table", self._table(value)]
            case pa.Array():
                return ["column", self._table(pa.table([value], [""]))]
            case bytes():
                return ["bytes", base64.b64encode(value).decode()]
            case Path():
                return ["path", str(value)]
            case SashError():
                kind = next(kind for kind in type(value).__mro__ if kind.__module__ == SashError.__module__)
                told = (value.message, value.place, value.expected, value.got, value.hint, value.id)
                return ["error", kind.__name__, *map(self.write, told)]
        raise InternalError(f"no codec for {type(value).__qualname__}")

    def _instance(self, value: Any, shape: _Shape) -> Any:
        if isinstance(value, enum.Enum):
            return ["one of", shape.name, value.name]
        number = self._numbers.get(id(value))
        if number is None:
            node = [shape.name, *map(self.write, shape.values_of(value))]
            number = self._numbers[id(value)] = len(self.nodes)
            self.nodes.append(node)
        return ["node", number]

    def _part(self, content: Any) -> int:
        self.parts.append(pa.py_buffer(content))
        return len(self.parts) - 1

    def _table(self, table: pa.Table) -> int:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return self._part(sink.getvalue())


class _Reader:
    def __init__(self, shapes: Mapping[str, _Shape], parts: Sequence[Buffer]) -> None:
        self._shapes = shapes
        self._parts = parts
        self.nodes: list[Any] = []
        self._kinds: dict[str, Callable[..., Any]] = {
            "node": self._node,
            "(": lambda *values: tuple(map(self.read, values)),
            "[": lambda *values: list(map(self.read, values)),
            "<": lambda *values: frozenset(map(self.read, values)),
            "{": self._mapping,
            "one of": self._member,
            "array": self._array,
            "table": self._table,
            "column": self._column,
            "bytes": lambda text: base64.b64decode(text, validate=True),
            "path": lambda text: Path(text),
            "error": self._error,
        }

    def read(self, value: Any) -> Any:
        if isinstance(value, list):
            kind, *rest = value
            return self._kinds[kind](*rest)
        if isinstance(value, dict):
            raise TypeError("an object")
        return value

    def instance(self, name: str, *values: Any) -> Any:
        shape = self._shapes[name]
        if issubclass(shape.made, enum.Enum) or len(values) != len(shape.names):
            raise ValueError(f"{len(values)} fields of {name}")
        instance = object.__new__(shape.made)
        for field, allowed, given in zip(shape.names, shape.types, values, strict=True):
            value = self.read(given)
            if not isinstance(value, allowed):
                raise TypeError(f"{type(value).__name__} for {name}.{field}")
            object.__setattr__(instance, field, value)
        return instance

    def _node(self, number: int) -> Any:
        if number < 0:
            raise ValueError(f"node {number}")
        return self.nodes[number]

    def _mapping(self, *values: Any) -> dict[Any, Any]:
        read = [self.read(value) for value in values]
        return dict(zip(read[::2], read[1::2], strict=True))

    def _member(self, name: str, member: str) -> Any:
        kind = self._shapes[name].made
        if not issubclass(kind, enum.Enum):
            raise TypeError(f"{name} is no enumeration")
        return kind[member]

    def _array(self, dtype: str, shape: list[int], part: int) -> Any:
        kind = np.dtype(dtype)
        if kind.kind not in _KINDS:
            raise TypeError(f"an array of {dtype}")
        # A copy: whoever gets it may change it.
        return np.frombuffer(self._part(part), kind).reshape(shape).copy()

    def _table(self, part: int) -> pa.Table:
        return pa.ipc.open_stream(self._part(part)).read_all()

    def _column(self, part: int) -> pa.Array:
        column = self._table(part).column(0)
        return (
            column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [_none(column)])
        )

    def _part(self, number: int) -> Buffer:
        if number < 0:
            raise ValueError(f"part {number}")
        return self._parts[number]

    def _error(self, name: str, message: str, *told: Any) -> SashError:
        kind = getattr(sash.errors, name)
        if not (isinstance(kind, type) and issubclass(kind, SashError)):
            raise TypeError(f"{name} is no error")
        error: SashError = kind.__new__(kind)
        place, expected, got, hint, id = map(self.read, told)
        if not isinstance(place, Place | None):
            raise TypeError("a place of an error")
        SashError.__init__(error, message, place=place, expected=expected, got=got, hint=hint, id=id)
        return error


def _none(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], column.type)


# ---------------------------------------------------------------- types


def _is_definition(made: type) -> bool:
    """Whether it is a class that codecs know, and not what a decorator has made another one of."""
    if not is_dataclass(made) and not issubclass(made, enum.Enum):
        return False
    return getattr(sys.modules[made.__module__], made.__qualname__, None) is made


def _top(hint: Any) -> Iterator[Any]:
    """The types that a hint allows; of a union all of them."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        for each in typing.get_args(hint):
            yield from _top(each)
    elif isinstance(hint, typing.TypeVar) or hint is Any:
        yield object
    elif hint is float:
        # An integer is as good.
        yield from (float, int)
    else:
        yield hint


def _origin(hint: Any) -> type:
    origin = typing.get_origin(hint) or hint
    return origin if isinstance(origin, type) else object


def _classes(hint: Any) -> Iterator[type]:
    """All classes that a hint mentions, at whatever depth."""
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    for each in typing.get_args(hint):
        yield from _classes(each)
