"""One-time queries over archives: the files are read as the key allows, the rest is like any one-time query.

What WHERE says of the key of an archive becomes a probe or a range; without such a condition the archive is
scanned. The rows take the place of a relation that does not change. No pipeline has to run, unless the
question is about streams, too: then the rows go along with it to whoever knows their windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive import open_snapshot
from sash.archive.versions import Versions
from sash.engine.archives.archive_setup import archive_place
from sash.engine.continuous.continuous import ContinuousExecutor
from sash.engine.ingest.relations import Given, read_relations
from sash.engine.reads.one_time_query import OnceAnswer
from sash.lang import Program, algebra
from sash.lang.algebra import Node, OutputKind
from sash.lang.bound import ArchiveDefinition, OneTimeQuery, RelationDefinition, Scalar
from sash.lang.types import Column, Schema
from sash.operators.delta import ARROW_TYPES, one_array
from sash.plan.key_conditions import conditions_in
from sash.plan.rules import apply_rules
from sash.plan.run_plan import plan_run
from sash.plan.scalars import conjuncts
from sash.transactions.events import Isolation


def known_archive(directory: Path, version: int | None = None) -> ArchiveDefinition:
    """The archive in a directory, or a version of it, as far as a question must know it."""
    with open_snapshot(directory, version) as snapshot:
        spec = snapshot.spec
        technique, _, _ = snapshot.describe().techniques[-1].partition(" ")
    fields = tuple(algebra.Field(column.name, column.type) for column in spec.columns)
    leaf = algebra.Relation(spec.name, spec.name, fields, (), False, True)
    return ArchiveDefinition(
        spec.name or directory.resolve().name,
        spec.key,
        technique,
        None,
        spec.every,
        str(directory.absolute()),
        algebra.Output(leaf, OutputKind.VIEW),
    )


_DESCRIBED = pa.schema(
    [
        ("name", pa.string()),
        ("sink", pa.string()),
        ("technique", pa.string()),
        ("version", pa.int64()),
        ("versions", pa.int64()),
        ("through", pa.timestamp("us", "UTC")),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("segments", pa.int64()),
        ("sub_indices", pa.int64()),
        ("balance", pa.float64()),
        ("taken_back", pa.int64()),
        ("pace", pa.float64()),
    ]
)


def described(archives: Sequence[ArchiveDefinition], base_dir: Path, version: int | None = None) -> pa.Table:
    """What SHOW ARCHIVES lists; of an archive that nobody has written yet only its name and place."""
    rows = []
    for archive in archives:
        row: dict[str, object] = {"name": archive.name, "sink": archive.sink}
        directory = base_dir / archive_place(archive)
        if Versions(directory).numbers():
            with open_snapshot(directory, version) as snapshot:
                found = snapshot.describe()
            row |= {name: getattr(found, name) for name in _DESCRIBED.names if hasattr(found, name)}
            row["technique"] = " to ".join(found.techniques)
            row["balance"] = round(found.balance, 2)
        rows.append(row)
    return pa.Table.from_pylist(rows, _DESCRIBED)


def shows_archives(program: Program) -> bool:
    """Whether nothing but SHOW ARCHIVES is asked."""
    return [show.kind for show in program.shows] == ["archive"]


def shown_archives(program: Program, base_dir: Path, version: int | None = None) -> OnceAnswer:
    """The answer to SHOW ARCHIVES, of the instant of the oldest archive."""
    table = described(program.archives, base_dir, version)
    oldest = pc.min(table.column("through").cast(pa.int64())).as_py()
    return OnceAnswer(table, oldest, -1, Isolation.WS)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A question with relations in the places of archives, and their rows.

    `instant` is that of the oldest archive, None if none has a version. `reads_changes`: it reads streams,
    too, or relations that change.
    """

    program: Program
    given: Given
    instant: int | None

    @property
    def reads_changes(self) -> bool:
        (question,) = self.program.one_time
        return any(
            isinstance(leaf, algebra.Stream) or (isinstance(leaf, algebra.Relation) and not leaf.is_static)
            for leaf in question.plan.walk()
        )


def without_archives(
    question: OneTimeQuery, program: Program, base_dir: Path, version: int | None = None
) -> Replaced:
    """Read what a one-time query needs of the archives of a program, of their newest or another version."""
    reader = _Reader({archive.name: archive for archive in program.archives}, base_dir, version)
    asked = reader.without_archives(apply_rules(question.plan).plan)
    assert isinstance(asked, algebra.Output)
    relations = (*program.relations, *reader.relations)
    alone = Program((replace(question, plan=asked),), program.streams, relations, (), (), ())
    return Replaced(alone, reader.rows, min(reader.instants, default=None))


def once_archived(asked: Replaced, base_dir: Path) -> OnceAnswer:
    """Answer a question over archives and what does not change, of the instant of the oldest archive."""
    run = plan_run(asked.program)
    executor = ContinuousExecutor(run)
    relations = read_relations([run], base_dir, asked.given)
    executor.begin_with(-1, [(f"relation {name}", 0, delta) for name, delta in relations.items()])
    for _ in executor.answer(0, (), {}, 0):
        pass
    (answer,) = executor.once().values()
    return OnceAnswer(answer, asked.instant, -1, Isolation.WS)


@dataclass(slots=True)
class _Reader:
    """Puts relations in the places of archives, each with the rows that are needed there."""

    archives: Mapping[str, ArchiveDefinition]
    base_dir: Path
    version: int | None = None
    relations: list[RelationDefinition] = field(default_factory=list)
    rows: dict[str, tuple[pa.Array, ...]] = field(default_factory=dict)
    instants: list[int] = field(default_factory=list)

    def without_archives(self, node: Node, where: tuple[Scalar, ...] = ()) -> Node:
        """The same plan over relations; `where` holds for all rows that are needed of it."""
        if isinstance(node, algebra.Archive):
            return self._read(node, where)
        if not node.children:
            return node
        if isinstance(node, algebra.Select):
            where = (*where, *conjuncts(node.predicate))
        else:
            where = ()
        return node.with_children(tuple(self.without_archives(child, where) for child in node.children))

    def _read(self, leaf: algebra.Archive, where: tuple[Scalar, ...]) -> algebra.Relation:
        directory = self.base_dir / archive_place(self.archives[leaf.name])
        names = [each.name.removeprefix(f"{leaf.qualifier}.") for each in leaf.fields]
        with open_snapshot(directory, self.version) as snapshot:
            conditions = [
                condition
                for predicate in where
                for condition in conditions_in(predicate, leaf.qualifier)
                if condition.column in snapshot.spec.key
            ]
            table = snapshot.read(conditions, columns=names, within=leaf.range)
            if snapshot.through is not None:
                self.instants.append(snapshot.through)
        name = f"{leaf.name} {len(self.relations)}"
        schema = Schema(tuple(Column(n, f.type) for n, f in zip(names, leaf.fields, strict=True)))
        self.relations.append(
            RelationDefinition(name, schema, (), False, None, 1, None, f"archive:{directory}", ())
        )
        self.rows[name] = tuple(
            one_array(column.cast(ARROW_TYPES[each.type]))
            for column, each in zip(table.columns, leaf.fields, strict=True)
        )
        return algebra.Relation(name, leaf.qualifier, leaf.columns, (), False, True)
