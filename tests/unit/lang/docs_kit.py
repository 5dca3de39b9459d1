"""The language reference read as data: its examples, the rows in its tables, and the answers in its tables.

| t | src |              a table whose header is the columns of a stream or relation holds its rows
| ts | op | src |        a table that begins with ts holds the answers of the query defined before it
| query | output … |     answers in short: 1 s + (a, 10); 4 s - (b, 20), + (a, 5)
| query | answer at 10 s | answer at 20 s |     the whole relation (or what a stream says) at each instant
| input: t, src | output: ts, op, src |         rows and what comes of each, of the example before
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.lang import Program
from sash.lang.algebra import Output
from sash.lang.bound import RelationDefinition, StreamDefinition
from sash.lang.types import Type
from sash.testing.answers import is_change_log
from sash.testing.arrivals import ARROW_TYPES
from sash.testing.rows import Answers, Bag, Row

TEXT = (Path(__file__).parents[3] / "docs" / "cql.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sql\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
SECOND = 1_000_000

_BLOCK = re.compile(r"^```sql\n(?P<sql>.*?)^```|^(?P<table>(?:\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_VALUE = re.compile(r"`(?P<code>[^`]*)`|(?P<plain>[^,`()]+)")
_ITEM = re.compile(r"\s*(?P<op>[+-]?)\s*(?:\((?P<tuple>(?:`[^`]*`|[^()`])*)\)|(?P<one>[^,()]+))\s*(?:,|$)")

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a table says that a query answers: texts of values per (instant, op).

    `is_whole` says that the table shows the answer itself where the query gives its changes.
    """

    query: str
    answers: dict[tuple[int, str], Counter[Texts]]
    is_whole: bool = False


def read_doc(program: Program) -> tuple[dict[str, list[Texts]], list[Shown]]:
    """The rows of each stream and relation, and every answer on show."""
    sources: list[StreamDefinition | RelationDefinition] = [*program.streams, *program.relations]
    rows: dict[str, list[Texts]] = {}
    shown: list[Shown] = []
    for sql, header, body in _tables():
        defined = re.findall(r"CREATE (?:STREAM|RELATION|QUERY) (\w+)", sql)
        if header[0].startswith("input: "):
            source = _source_of(header[0].removeprefix("input: ").split(", "), sources)
            assert source is not None
            rows[source] = [tuple(line[0].split(", ")) for line in body]
            shown.append(Shown(defined[-1], _events("; ".join(line[1] for line in body))))
        elif header[0] == "ts":
            shown.append(Shown(defined[-1], _log(body)))
        elif header[0] == "query" and header[1].startswith("answer at "):
            instants = [_instant(cell.removeprefix("answer at ")) for cell in header[1:]]
            for name, *cells in body:
                bags = {
                    (at, ""): Counter(values for _, values in _items(cell))
                    for at, cell in zip(instants, cells, strict=True)
                    if cell
                }
                shown.append(Shown(name.split(" ")[0], bags, is_whole=True))
        elif header[0] == "query":
            shown.extend(Shown(name, _events(cell)) for name, cell in body)
        elif (source := _source_of(header, sources)) is not None:
            rows[source] = [tuple(line) for line in body]
    return rows, shown


def arrow_table(source: StreamDefinition | RelationDefinition, rows: Sequence[Texts]) -> pa.Table:
    """The rows of a table in the types of their source."""
    columns = {
        column.name: pa.array([_value(row[i], column.type) for row in rows], ARROW_TYPES[column.type])
        for i, column in enumerate(source.schema)
    }
    return pa.table(columns)


def agrees(shown: Shown, plan: Output, answers: Answers) -> bool:
    """Whether the answers are those on show. `67.33…` stands for every number that begins so."""
    if shown.is_whole and is_change_log(plan):
        answers = _whole(answers)
    if shown.answers.keys() != answers.keys():
        return False
    return all(
        _same(bag, [_texts(row) for row in answers[key].elements()]) for key, bag in shown.answers.items()
    )


def _whole(log: Answers) -> Answers:
    """The relation after each change of it."""
    now: Bag = Counter()
    wholes: Answers = {}
    for instant, changes in itertools.groupby(sorted(log), lambda key: key[0]):
        for _, op in changes:
            now = now + log[instant, op] if op == "+" else now - log[instant, op]
        wholes[instant, ""] = now
    return wholes


def _same(shown: Counter[Texts], given: Sequence[Texts]) -> bool:
    pairs = zip(sorted(shown.elements()), sorted(given), strict=False)
    return len(given) == shown.total() and all(
        mine == theirs or (mine.endswith("…") and theirs.startswith(mine[:-1]))
        for row, other in pairs
        for mine, theirs in zip(row, other, strict=True)
    )


def _texts(row: Row) -> Texts:
    return tuple("NULL" if value is None else str(value) for value in row)


def _value(text: str, type_: Type) -> object:
    if text == "NULL":
        return None
    match type_:
        case Type.BIGINT:
            return int(text)
        case Type.DOUBLE:
            return float(text)
        case Type.BOOLEAN:
            return text == "true"
    return text


def _tables() -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Each table with the SQL example before it, its header and its lines."""
    sql = ""
    for block in _BLOCK.finditer(TEXT):
        if block["sql"] is not None:
            sql = block["sql"]
            continue
        lines = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in block["table"].splitlines()]
        cells = [[cell.strip() for cell in line] for line in lines]
        yield sql, cells[0], cells[2:]


def _source_of(header: Sequence[str], sources: Sequence[StreamDefinition | RelationDefinition]) -> str | None:
    return next((source.name for source in sources if source.schema.names == tuple(header)), None)


def _instant(text: str) -> int:
    number, unit = text.split(" ")
    assert unit == "s"
    return int(number) * SECOND


def _log(body: list[list[str]]) -> dict[tuple[int, str], Counter[Texts]]:
    answers: dict[tuple[int, str], Counter[Texts]] = {}
    for instant, op, *values in body:
        answers.setdefault((_instant(instant), op), Counter())[tuple(values)] += 1
    return answers


def _events(cell: str) -> dict[tuple[int, str], Counter[Texts]]:
    """`1 s + (a, 10); 12 s - (a, 10), + (a, 5)`"""
    answers: dict[tuple[int, str], Counter[Texts]] = {}
    for event in cell.split("; "):
        number, unit, rest = event.split(" ", 2)
        for op, values in _items(rest):
            answers.setdefault((_instant(f"{number} {unit}"), op), Counter())[values] += 1
    return answers


def _items(cell: str) -> list[tuple[str, Texts]]:
    """`+ (a, 10), - b` and the like."""
    items = []
    position = 0
    while position < len(cell):
        found = _ITEM.match(cell, position)
        assert found is not None, cell
        inside = found["one"] if found["tuple"] is None else found["tuple"]
        values = [(v["plain"] if v["code"] is None else v["code"]).strip() for v in _VALUE.finditer(inside)]
        items.append((found["op"], tuple(v for v in values if v)))
        position = found.end()
    return items
