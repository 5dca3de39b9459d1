"""A case: a program, its input and its right answers in one readable file, to be run again at any time.

    What the case shows, in words.

    === program
    CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:s.csv';
    CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT k FROM s [ROWS 1];

    === s.csv
    t,k
    1,"a"
    2,"b"

    === answers of q
    1 + ["a"]
    2 - ["a"]
    2 + ["b"]

    === run
    batch_rows 1

Input is written as CSV, also that of Parquet files. Answers come by instant, `-` before `+`, and by value;
instants are as in the output: a number, or a timestamp. `run` (batch_rows, interruptions, partitions) is left
out if the case does not depend on it.
"""

from __future__ import annotations

import datetime
import fnmatch
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sash.lang import Program, bind_program
from sash.lang.algebra import Output
from sash.lang.bound import RelationDefinition, StreamDefinition
from sash.lang.types import Type
from sash.testing.arrivals import ARROW_TYPES, Arrived
from sash.testing.oracle import Oracle, unit_of
from sash.testing.rows import Answers, normal_row, sorted_rows

_SECTION = re.compile(r"^=== (.+)\n", re.MULTILINE)
_ANSWERS = "answers of "


@dataclass(frozen=True, slots=True)
class Case:
    """`inputs` are CSV texts by the names of their files; `answers` the lines of each query."""

    note: str
    text: str
    inputs: Mapping[str, str]
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    batch_rows: int | None = None
    interruptions: tuple[int, ...] | None = None
    partitions: int | None = None

    # ---------------------------------------------------------------- files

    @staticmethod
    def read(path: Path) -> Case:
        note, *parts = _SECTION.split(path.read_text(encoding="utf-8"))
        sections = {name: body.removesuffix("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}
        run = dict(line.partition(" ")[::2] for line in sections.pop("run", "").splitlines())
        stops = run.get("interruptions")
        return Case(
            note.strip(),
            sections.pop("program"),
            {name: body for name, body in sections.items() if not name.startswith(_ANSWERS)},
            {
                name.removeprefix(_ANSWERS): tuple(body.splitlines())
                for name, body in sections.items()
                if name.startswith(_ANSWERS)
            },
            int(run["batch_rows"]) if "batch_rows" in run else None,
            None if stops is None else tuple(int(stop) for stop in stops.split()),
            int(run["partitions"]) if "partitions" in run else None,
        )

    def write(self, path: Path) -> None:
        sections = {"program": self.text.strip() + "\n", **self.inputs}
        for name, lines in self.answers.items():
            sections[_ANSWERS + name] = "".join(f"{line}\n" for line in lines)
        run = [] if self.batch_rows is None else [f"batch_rows {self.batch_rows}"]
        if self.interruptions is not None:
            run.append(f"interruptions {' '.join(str(stop) for stop in self.interruptions)}".rstrip())
        if self.partitions is not None:
            run.append(f"partitions {self.partitions}")
        if run:
            sections["run"] = "".join(f"{line}\n" for line in run)
        parts = [self.note.strip() + "\n", *(f"=== {name}\n{body}" for name, body in sections.items())]
        path.write_text("\n".join(parts), encoding="utf-8")

    # ---------------------------------------------------------------- input

    @property
    def program(self) -> Program:
        return bind_program(self.text)

    def write_inputs(self, directory: Path) -> None:
        """The files that the program reads."""
        for source in _sources(self.program):
            for name in self._files(source):
                path = directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if name.endswith(".parquet"):
                    pq.write_table(_table(source, self.inputs[name]), path)
                else:
                    path.write_text(self.inputs[name], encoding="utf-8")

    def arrived(self, source: StreamDefinition | RelationDefinition) -> Arrived:
        tables = [_table(source, self.inputs[name]) for name in self._files(source)]
        table = pa.concat_tables(tables) if tables else _table(source, ",".join(source.schema.names) + "\n")
        if source.timestamp is None:
            return Arrived([], table)
        times = table.column(source.timestamp).cast(pa.int64()).to_pylist()
        return Arrived([time * source.unit for time in times], table)

    def _files(self, source: StreamDefinition | RelationDefinition) -> list[str]:
        pattern = source.source.partition(":")[2]
        return sorted(name for name in self.inputs if fnmatch.fnmatch(name, pattern))

    # -------------------------------------------------------------- answers

    def recomputed(self) -> Case:
        """The same case with the answers of the oracle."""
        program = self.program
        arrived = {source.name: self.arrived(source) for source in _sources(program)}
        oracle = Oracle(program, arrived, arrived)
        answers = {
            query.name: lines_of(program, query.plan, oracle.changes(query)) for query in program.queries
        }
        return replace(self, answers=answers)

    def expected(self) -> dict[str, Answers]:
        """The answers that the case lists."""
        program = self.program
        return {
            query.name: _read_lines(program, query.plan, self.answers[query.name])
            for query in program.queries
        }


def _sources(program: Program) -> list[StreamDefinition | RelationDefinition]:
    return [*program.streams, *program.relations]


def _table(source: StreamDefinition | RelationDefinition, text: str) -> pa.Table:
    types = {column.name: ARROW_TYPES[column.type] for column in source.schema}
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()), parse_options=parse, convert_options=options)


# ---------------------------------------------------------------- lines


def lines_of(program: Program, plan: Output, answers: Answers) -> tuple[str, ...]:
    """Answers as text, one row a line."""
    unit = unit_of(program, plan)
    lines = []
    for instant in sorted({at for at, _ in answers}):
        shown = _timestamp(instant) if unit is None else str(instant // unit)
        for op in ("-", "+", ""):
            for row in sorted_rows(answers.get((instant, op), Counter())):
                values = json.dumps([_plain(value) for value in row], ensure_ascii=False)
                lines.append(f"{shown} {op} {values}" if op else f"{shown} {values}")
    return tuple(lines)


def _read_lines(program: Program, plan: Output, lines: tuple[str, ...]) -> Answers:
    unit = unit_of(program, plan)
    answers: Answers = {}
    for line in lines:
        shown, rest = line.split(" ", 1)
        op, rest = (rest[0], rest[2:]) if rest[0] in "+-" else ("", rest)
        instant = _micros(datetime.datetime.fromisoformat(shown)) if unit is None else int(shown) * unit
        values = [
            _value(value, plan_field.type)
            for value, plan_field in zip(json.loads(rest), plan.fields, strict=True)
        ]
        answers.setdefault((instant, op), Counter())[normal_row(tuple(values))] += 1
    return answers


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _value(value: object, type_: Type) -> object:
    if value is None:
        return None
    match type_:
        case Type.DOUBLE:
            return float(str(value))
        case Type.TIMESTAMP:
            return datetime.datetime.fromisoformat(str(value))
    return value


_EPOCH = datetime.datetime(1970, 1, 1)


def _timestamp(micros: int) -> str:
    return (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat()


def _micros(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
