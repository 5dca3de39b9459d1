"""docs/cql.md as one program: all that it shows runs, and gives the output that its tables show."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program

PAGE = (Path(__file__).parents[3] / "docs" / "cql.md").read_text(encoding="utf-8")
FILES = {
    "packets.csv": "t,src,port,length\n1,a,80,10\n4,b,80,20\n12,a,53,5\n20,a,80,1\n",
    "answers.csv": "t,src,code\n5,a,7\n13,b,8\n14,a,9\n",
    "owners.csv": "src,owner\na,Ada\n",
    "leases.csv": "t,host,seconds\n1,x,5\n2,y,100\n20,z,1\n",
    "clicks.csv": "User,ms\na,1000\n",
    "prices.csv": "port,price,op,at\n80,1.5,insert,1\n",
}


def program() -> str:
    """The blocks one after the other, every query with an output; one-time queries need the rows."""
    text = "".join(re.findall(r"^```sql\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    text = re.sub(r"CREATE QUERY (\w+) AS", r"CREATE QUERY \1 INTO 'jsonl:\1.jsonl' AS", text)
    return text.replace("TIMESTAMP BY t\n  FROM", "TIMESTAMP BY t RETAIN 1 HOUR\n  FROM")


def shown(file: Path) -> str:
    """The output of a query as a table of the page shows it."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]

    def row(values: dict[str, object]) -> str:
        op, *cells = [str(values.get("op", "")), *(values[k] for k in values if k not in ("ts", "op"))]
        texts = ["NULL" if cell is None else str(cell) for cell in cells]
        cells_shown = texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"
        return f"{op} {cells_shown}".strip()

    instants = groupby(rows, key=lambda values: values["ts"])
    return "; ".join(f"{at} s {', '.join(map(row, some))}" for at, some in instants)


@pytest.mark.parametrize("partitions", [None, 3])
def test_the_queries_of_the_page_give_what_it_shows(partitions: int | None, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "readings").mkdir()
    table = {"at": pa.array([0], pa.timestamp("us")), "sensor": ["hall"], "celsius": [1.0], "ok": [True]}
    pq.write_table(pa.table(table), tmp_path / "readings" / "1.parquet")
    run_program(bind_program(program()), base_dir=tmp_path, runtime="inline", partitions=partitions)
    tables = re.findall(r"^\| (\w+) \| (\d+ s .*) \|$", PAGE, re.MULTILINE)
    assert len(tables) >= 20
    assert {name: shown(tmp_path / f"{name}.jsonl") for name, _ in tables} == dict(tables)
    assert shown(tmp_path / "heavy.jsonl") == "10 s + (a, 10), + (b, 20); 20 s - (a, 10), + (a, 16)"
    assert shown(tmp_path / "leased.jsonl") == "1 s + x; 2 s + y; 6 s - x; 12 s - y; 20 s + z"
