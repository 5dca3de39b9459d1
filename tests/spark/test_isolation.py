"""Questions beside a pipeline on Spark: the history that it records is what was promised."""

from __future__ import annotations

from pathlib import Path

from tests.spark.kit import MASTER

from sash.session import connect
from sash.transactions.verify import verify_file

STREAM = (
    "CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts RETAIN 5 SEC "
    "FROM 'generator:packets' WITH (rate = 2000)"
)


def test_questions_while_spark_runs_are_recorded_and_have_their_isolation(tmp_path: Path):
    history = tmp_path / "history.jsonl"
    with connect(base_dir=tmp_path, master=MASTER, batch_rows=2_000, record_history=history) as session:
        session.sql(STREAM)
        counts = session.query("Rstream(SELECT COUNT(*) AS n FROM p [RANGE 1 SEC SLIDE 1 SEC])")
        answers = iter(counts)
        instants: dict[str, list[int]] = {"lws": [], "ws": []}
        for number in range(6):
            seen = int(next(answers).at.timestamp() * 1_000_000)
            isolation = "ws" if number % 2 else "lws"
            table = session.ask("SELECT COUNT(*) AS n FROM p [RANGE 2 SEC]", isolation=isolation)
            assert table.schema.metadata[b"sash.isolation"].decode() == isolation
            instants[isolation].append(int(table.schema.metadata[b"sash.instant"]))
            assert instants[isolation][-1] >= seen
            assert table.column("n")[0].as_py() > 0
    found = verify_file(history)
    assert found.violation is None
    assert "6 committed queries (3 ws, 3 lws), 0 aborted" in found.lines[0]
