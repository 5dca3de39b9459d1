"""How the work of an operator can be divided among partitions.

Rows are sent to partitions by a key: expressions over the columns of an edge, which are called c0, c1, … here
because queries that share an operator call its columns differently. A division says which keys an operator
can work with: `down` tells how its inputs must be divided for a wished key of its output, `own` the ways that
it would choose itself, and `up` by which keys its output is divided then. An operator that needs all rows in
one place is not divided at all (`Whole`).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sash.lang.algebra import Equality, Field
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.plan.scalars import column_scalar, substitute

Key = tuple[Scalar, ...]


class Mode(enum.Enum):
    """Where rows are that are not divided by a key."""

    ANYWHERE = "anywhere"
    ONE_PLACE = "in one place"
    EVERYWHERE = "everywhere"
    HERE = "where they are"


Wish = Key | Mode


def column(position: int, fields: Sequence[Field]) -> Scalar:
    return column_scalar(Field(f"c{position}", fields[position].type))


def positional(scalars: Sequence[Scalar], fields: Sequence[Field]) -> Key:
    """Scalars over named fields as a key."""
    places = {field.name: column(i, fields) for i, field in enumerate(fields)}
    return tuple(substitute(scalar, places) for scalar in scalars)


def _shifted(key: Key, by: int) -> Key:
    """A key of an input over the columns of the output, among which they stand `by` places later."""
    moved = {f"c{i}": _reference(i + by) for i in _reads(key)}
    return tuple(substitute(scalar, moved) for scalar in key)


def _reference(position: int) -> Scalar:
    """A column in a substitution, where its type does not matter."""
    return column_scalar(Field(f"c{position}", Type.BIGINT))


def _reads(key: Key) -> set[int]:
    """The positions of the columns that a key reads."""
    return {int(name[1:]) for scalar in key for name in scalar.inputs}


class Division(ABC):
    # Whether copies of the operator in several places do the same: not if it numbers rows.
    can_be_copied: bool = True

    @abstractmethod
    def down(self, key: Key) -> tuple[Wish, ...] | None:
        """How the inputs must be divided so that the output is divided by `key`; None: in no way."""

    @abstractmethod
    def own(self) -> Iterator[tuple[Wish, ...]]:
        """Ways to divide the inputs, the best first; none: all rows must be in one place."""

    @abstractmethod
    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        """The keys by which the output is divided if the inputs are divided so."""


@dataclass(frozen=True, slots=True)
class Free(Division):
    """Rows are worked on wherever they are.

    `outputs` has, for each column of the output, its expression over the columns of the first input, or None
    where it has none. Other inputs are divided like the first, or are everywhere (`others_everywhere`).
    """

    outputs: tuple[Scalar | None, ...]
    inputs: int = 1
    others_everywhere: bool = False
    can_be_copied: bool = True

    def down(self, key: Key) -> tuple[Wish, ...] | None:
        below = {f"c{i}": scalar for i, scalar in enumerate(self.outputs) if scalar is not None}
        if any(f"c{i}" not in below for i in _reads(key)):
            return None
        return self._like(tuple(substitute(scalar, below) for scalar in key))

    def own(self) -> Iterator[tuple[Wish, ...]]:
        yield self._like(Mode.ANYWHERE)

    def _like(self, wish: Wish) -> tuple[Wish, ...]:
        return (wish, *[Mode.EVERYWHERE if self.others_everywhere else wish] * (self.inputs - 1))

    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        first = wishes[0]
        if isinstance(first, Mode):
            return ()
        places: dict[str, Scalar] = {}
        for i, scalar in enumerate(self.outputs):
            if scalar is not None and scalar.column is not None:
                places.setdefault(scalar.column, _reference(i))
        if any(name not in places for scalar in first for name in scalar.inputs):
            return ()
        return (tuple(substitute(scalar, places) for scalar in first),)


@dataclass(frozen=True, slots=True)
class ByColumns(Division):
    """Rows with equal values in some columns meet; the first columns of the output are those."""

    columns: Key
    inputs: int = 1

    def down(self, key: Key) -> tuple[Wish, ...] | None:
        known = {name for scalar in self.columns for name in scalar.inputs}
        if not key or any(name not in known for scalar in key for name in scalar.inputs):
            return None
        return (key,) * self.inputs

    def own(self) -> Iterator[tuple[Wish, ...]]:
        if self.columns:
            yield (self.columns,) * self.inputs

    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        first = wishes[0]
        return () if isinstance(first, Mode) else (first,)


@dataclass(frozen=True, slots=True)
class Joined(Division):
    """A join: rows with equal keys meet. An input that has no part in the key goes everywhere.

    `classes` are expressions that are equal in all results, each of an input; `widths` the inputs' columns.
    """

    widths: tuple[int, ...]
    classes: tuple[tuple[tuple[int, Scalar], ...], ...]

    def down(self, key: Key) -> tuple[Wish, ...] | None:
        chosen = []
        for scalar in key:
            found = next((c for c in self.classes if scalar.sql in self._outputs(c)), None)
            if found is None:
                return None
            chosen.append(found)
        wishes = self._by(chosen) if chosen else ()
        return wishes if any(not isinstance(wish, Mode) for wish in wishes) else None

    def own(self) -> Iterator[tuple[Wish, ...]]:
        for members in sorted(self.classes, key=lambda c: -len({i for i, _ in c})):
            yield self._by([members])
        # Without a key each row of the first input meets all rows of the others.
        yield (Mode.ANYWHERE, *[Mode.EVERYWHERE] * (len(self.widths) - 1))

    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        return tuple(
            _shifted(wish, self._start(i)) for i, wish in enumerate(wishes) if not isinstance(wish, Mode)
        )

    def _by(self, chosen: Sequence[Sequence[tuple[int, Scalar]]]) -> tuple[Wish, ...]:
        wishes: list[Wish] = []
        for i in range(len(self.widths)):
            parts = [next((s for j, s in members if j == i), None) for members in chosen]
            has_all = all(part is not None for part in parts)
            wishes.append(tuple(p for p in parts if p is not None) if has_all else Mode.EVERYWHERE)
        if all(isinstance(wish, Mode) for wish in wishes):
            wishes[0] = Mode.ANYWHERE
        return tuple(wishes)

    def _outputs(self, members: Sequence[tuple[int, Scalar]]) -> set[str]:
        return {_shifted((scalar,), self._start(i))[0].sql for i, scalar in members}

    def _start(self, position: int) -> int:
        return sum(self.widths[:position])


def joined(inputs: Sequence[Sequence[Field]], equalities: Sequence[Equality]) -> Joined:
    """The division of a join over some inputs."""
    classes: list[set[tuple[int, Scalar]]] = []
    for equality in equalities:
        pair = {
            (i, positional((scalar,), inputs[i])[0])
            for i, scalar in (
                (equality.left_input, equality.left),
                (equality.right_input, equality.right),
            )
        }
        touching = [members for members in classes if members & pair]
        classes = [members for members in classes if not members & pair]
        classes.append(pair.union(*touching))
    ordered = (tuple(sorted(c, key=lambda member: (member[0], member[1].sql))) for c in classes)
    return Joined(tuple(len(fields) for fields in inputs), tuple(sorted(ordered, key=repr)))


@dataclass(frozen=True, slots=True)
class Negated(Division):
    """Rows of the left meet the keys of the right: `left` are expressions, on the right they are columns.

    Constants keep nobody apart; where there is nothing else, all keys go everywhere.
    """

    left: Key
    right: Key

    def down(self, key: Key) -> tuple[Wish, ...] | None:
        pairs = {own.sql: other for own, other in zip(self.left, self.right, strict=True) if own.inputs}
        if not pairs:
            return (key, Mode.EVERYWHERE)
        if any(scalar.sql not in pairs for scalar in key):
            return None
        return (key, tuple(pairs[scalar.sql] for scalar in key))

    def own(self) -> Iterator[tuple[Wish, ...]]:
        key = tuple(scalar for scalar in self.left if scalar.inputs)
        if key:
            yield (key, tuple(o for s, o in zip(self.left, self.right, strict=True) if s.inputs))
        else:
            yield (Mode.ANYWHERE, Mode.EVERYWHERE)

    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        first = wishes[0]
        return () if isinstance(first, Mode) else (first,)


@dataclass(frozen=True, slots=True)
class Whole(Division):
    """All rows must be in one place."""

    def down(self, key: Key) -> tuple[Wish, ...] | None:
        return None

    def own(self) -> Iterator[tuple[Wish, ...]]:
        return iter(())

    def up(self, wishes: Sequence[Wish]) -> tuple[Key, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class InOrder(Whole):
    """All rows must be in one place, in the order in which they arrived; so must those of the output."""


WHOLE = Whole()
IN_ORDER = InOrder()


def unchanged(fields: Sequence[Field], inputs: int = 1) -> Free:
    """The division of an operator that leaves columns as they are."""
    return Free(tuple(column(i, fields) for i in range(len(fields))), inputs)


def projected(fields: Sequence[Field], outputs: Sequence[Scalar]) -> Free:
    """The division of an operator that computes its columns from those of its input."""
    return Free(positional(outputs, fields))


def widened(fields: Sequence[Field], by: int, *, others_everywhere: bool = False) -> Free:
    """The division of an operator that adds columns after those of its first input."""
    inputs = 2 if others_everywhere else 1
    return Free((*unchanged(fields).outputs, *[None] * by), inputs, others_everywhere, others_everywhere)


def by_columns(positions: Iterable[int], fields: Sequence[Field], inputs: int = 1) -> ByColumns:
    return ByColumns(tuple(column(i, fields) for i in positions), inputs)


def by_row(fields: Sequence[Field], inputs: int = 1) -> ByColumns:
    """The division of an operator in which equal rows meet."""
    return by_columns(range(len(fields)), fields, inputs)
