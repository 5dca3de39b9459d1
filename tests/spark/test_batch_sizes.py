"""However the input is cut into micro-batches, on Spark or inline, the answers are the same."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.kit import run, texts, write_csv, written

ROWS = 1_200
MIDNIGHT_MS = 1_767_225_600_000
PROGRAM = """
CREATE STREAM trades (t BIGINT, symbol STRING, price DOUBLE, size BIGINT)
  TIMESTAMP BY t SLACK 300 MS FROM 'csv:trades.csv' WITH (unit = 'ms');
CREATE STREAM readings (at TIMESTAMP, sensor STRING, celsius DOUBLE, ok BOOLEAN)
  TIMESTAMP BY at FROM 'parquet:readings/*.parquet';
CREATE STREAM packets (ts TIMESTAMP, src STRING, proto STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets'
  WITH (rate = 20, rows = 1200, hosts = 12, seed = 7, disorder = 0.8, late_share = 0.01, bad_share = 0.01);

CREATE QUERY volume INTO 'jsonl:{out}/volume.jsonl' AS
  SELECT symbol, SUM(size) AS shares, AVG(price) AS mean
  FROM trades [RANGE 10 SEC SLIDE 2 SEC] GROUP BY symbol;
CREATE QUERY extremes INTO 'csv:{out}/extremes.csv' AS
  Rstream(SELECT MIN(price) AS low, MAX(price) AS high, COUNT(*) AS n FROM trades [RANGE 7 SEC SLIDE 3 SEC]);
CREATE QUERY hot INTO 'parquet:{out}/hot' AS
  Istream(SELECT sensor, MAX(celsius) AS hottest FROM readings [RANGE 8 SEC SLIDE 4 SEC]
          WHERE ok GROUP BY sensor HAVING MAX(celsius) > 20.0);
CREATE QUERY seen INTO 'jsonl:{out}/seen.jsonl' AS
  SELECT DISTINCT sensor, ok FROM readings [RANGE 5 SEC SLIDE 1 SEC];
CREATE QUERY gone INTO 'jsonl:{out}/gone.jsonl' AS
  Dstream(SELECT src, proto, COUNT(*) AS n FROM packets [RANGE 12 SEC SLIDE 3 SEC] GROUP BY src, proto);
CREATE QUERY low_ports INTO 'jsonl:{out}/low_ports.jsonl' AS
  SELECT port, length FROM packets [RANGE 4 SEC SLIDE 2 SEC] WHERE port < 25 AND length > 1000;
"""


def make_input(folder: Path) -> None:
    chance = random.Random(11)
    trades = []
    for i in range(ROWS):
        t = MIDNIGHT_MS + i * 50 - chance.choice((0, 0, 0, 120, 250))
        if chance.random() < 0.01:
            t -= 5_000
        # Quarters add up exactly, in whatever order.
        price = None if chance.random() < 0.05 else chance.randrange(400) / 4
        size = "many" if chance.random() < 0.01 else chance.randrange(1, 500)
        trades.append((t, chance.choice(("IBM", "BAC", "", "XYZ")), price, size))
    write_csv(folder / "trades.csv", "t,symbol,price,size", trades)
    (folder / "readings").mkdir()
    midnight = dt.datetime.fromtimestamp(MIDNIGHT_MS / 1000, dt.UTC)
    for part in range(3):
        times = [
            midnight + dt.timedelta(milliseconds=37 * i)
            for i in range(part * ROWS // 3, (part + 1) * ROWS // 3)
        ]
        table = pa.table(
            {
                "at": pa.array(times, pa.timestamp("us", "UTC")),
                "sensor": [chance.choice(("hall", "roof", None, "yard")) for _ in times],
                "celsius": [chance.randrange(120) / 4 for _ in times],
                "ok": [chance.choice((True, True, False, None)) for _ in times],
            }
        )
        pq.write_table(table, folder / "readings" / f"{part}.parquet", row_group_size=150)


def test_one_three_and_a_dozen_batches_on_spark_answer_like_the_inline_runtime(tmp_path: Path) -> None:
    make_input(tmp_path)
    reference = run(tmp_path, PROGRAM.format(out="inline"), "inline", dead_letters=tmp_path / "aside-inline")
    answers = written(tmp_path / "inline")
    assert len(answers) == 6
    assert all(answers.values()), "every query has something to say"
    dead_letters = texts(tmp_path / "aside-inline")
    assert sorted(dead_letters) == [
        "packets.late.jsonl",
        "packets.rejects.jsonl",
        "trades.late.jsonl",
        "trades.rejects.jsonl",
    ]
    batches = []
    for size in (100_000, 3 * 400, 3 * 100):
        out = f"spark-{size}"
        summary = run(
            tmp_path, PROGRAM.format(out=out), batch_rows=size, dead_letters=tmp_path / f"aside-{size}"
        )
        assert written(tmp_path / out) == answers
        # Rows aside are written in order of arrival, so these files agree to the letter.
        assert texts(tmp_path / f"aside-{size}") == dead_letters
        assert summary.streams == reference.streams
        assert summary.answered == reference.answered
        assert summary.clock == reference.clock
        batches.append(summary.batches)
    assert batches[0] == 1
    assert batches[1] in (3, 4)
    assert batches[2] >= 12
