"""Answers at every slide boundary, computed by hand from the definition of a window.

The window of [RANGE T SLIDE L] at a boundary τ (a multiple of L) is (τ−T, τ]. The first boundary that has an
answer is the first one not before the first row, the last one is the last not after the last row.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.kit import objects, run, tuples, write_csv

PACKETS = """
CREATE STREAM packets (t BIGINT, src STRING, length BIGINT) TIMESTAMP BY t {slack}
  FROM 'csv:packets.csv' {options};
"""

#  t       1     4         10   12              20   21               33   40
#  row     a10   b20       a5   a5              a1   b7               c3   a2
#          ├───────────────┤
#          (−10, 10]: a 15, b 20
#                          ├────────────────────┤
#          (0, 20]: a 21, b 20
#                               ├─────────────────────────────────┤
#          (10, 30]: a 6, b 7            (10 itself has left, 30 itself holds nothing)
#                                                    ├──────────────────┤
#          (20, 40]: a 2, b 7, c 3
ROWS = [
    (1, "a", 10),
    (4, "b", 20),
    (10, "a", 5),
    (12, "a", 5),
    (20, "a", 1),
    (21, "b", 7),
    (33, "c", 3),
    (40, "a", 2),
]
VIEW = [
    (10, "+", "a", 15),
    (10, "+", "b", 20),
    (20, "+", "a", 21),
    (20, "-", "a", 15),
    (30, "+", "a", 6),
    (30, "+", "b", 7),
    (30, "-", "a", 21),
    (30, "-", "b", 20),
    (40, "+", "a", 2),
    (40, "+", "c", 3),
    (40, "-", "a", 6),
]
WHOLE = [
    (10, "a", 15),
    (10, "b", 20),
    (20, "a", 21),
    (20, "b", 20),
    (30, "a", 6),
    (30, "b", 7),
    (40, "a", 2),
    (40, "b", 7),
    (40, "c", 3),
]
SUMS = "SELECT src, SUM(length) AS bytes FROM packets [RANGE 20 SEC SLIDE 10 SEC] GROUP BY src"


def test_a_view_and_the_three_stream_operators_at_every_boundary_of_integer_seconds(tmp_path: Path) -> None:
    write_csv(tmp_path / "packets.csv", "t,src,length", ROWS)
    run(
        tmp_path,
        PACKETS.format(slack="", options="")
        + f"CREATE QUERY view INTO 'jsonl:view.jsonl' AS {SUMS};"
        + f"CREATE QUERY whole INTO 'jsonl:whole.jsonl' AS Rstream({SUMS});"
        + f"CREATE QUERY entered INTO 'jsonl:entered.jsonl' AS Istream({SUMS});"
        + f"CREATE QUERY gone INTO 'jsonl:gone.jsonl' AS Dstream({SUMS});",
    )
    assert tuples(tmp_path / "view.jsonl") == VIEW
    assert tuples(tmp_path / "whole.jsonl") == WHOLE
    assert tuples(tmp_path / "entered.jsonl") == [(t, s, n) for t, op, s, n in VIEW if op == "+"]
    assert tuples(tmp_path / "gone.jsonl") == [(t, s, n) for t, op, s, n in VIEW if op == "-"]


def test_rows_out_of_order_within_slack_give_the_same_answers_in_the_streams_own_milliseconds(
    tmp_path: Path,
) -> None:
    #  arrival   4    1    12   10   20   21   40   33
    #  newest    4    4    12   12   20   21   40   40
    #  behind         3         2                   7    SLACK 7 s: none is late
    order = [1, 0, 3, 2, 4, 5, 7, 6]
    write_csv(
        tmp_path / "packets.csv", "t,src,length", [(t * 1000, s, n) for t, s, n in (ROWS[i] for i in order)]
    )
    summary = run(
        tmp_path,
        PACKETS.format(slack="SLACK 7 SEC", options="WITH (unit = 'ms')")
        + f"CREATE QUERY view INTO 'jsonl:view.jsonl' AS {SUMS};",
        batch_rows=3,
    )
    assert summary.streams["packets"].accepted == len(ROWS)
    assert summary.streams["packets"].late == 0
    assert tuples(tmp_path / "view.jsonl") == [(t * 1000, op, s, n) for t, op, s, n in VIEW]
    assert isinstance(objects(tmp_path / "view.jsonl")[0]["ts"], int)


def test_timestamps_of_parquet_give_utc_instants_and_an_empty_window_is_one_row(tmp_path: Path) -> None:
    #  00:00:  01    09.999999   10          (11 … 39: nothing)          45.5
    #  x       1     2           3                                       NULL
    #          ├─────────────────┤                       (0, 10]: n 3, total 6
    #                            10 itself stands in (0, 10] only
    #                             ├──────┤              (10, 20], (20, 30], (30, 40]: n 0, total NULL
    #  45.5 lies in (40, 50]; 50 is after the last row, so it has no answer
    second = dt.timedelta(seconds=1)
    midnight = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    times = [1 * second, 10 * second - dt.timedelta(microseconds=1), 10 * second, 45.5 * second]
    pq.write_table(
        pa.table(
            {
                "at": pa.array([midnight + t for t in times], pa.timestamp("us", "UTC")),
                "x": pa.array([1, 2, 3, None], pa.int64()),
            }
        ),
        tmp_path / "x.parquet",
    )
    run(
        tmp_path,
        """CREATE STREAM s (at TIMESTAMP, x BIGINT) TIMESTAMP BY at FROM 'parquet:x.parquet';
        CREATE QUERY n INTO 'jsonl:n.jsonl' AS
          Rstream(SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC]);
        CREATE QUERY by_x INTO 'jsonl:by_x.jsonl' AS
          SELECT x, COUNT(*) AS n FROM s [RANGE 15 SEC SLIDE 10 SEC] GROUP BY x;""",
    )
    assert (tmp_path / "n.jsonl").read_text().splitlines() == [
        '{"ts":"2026-01-01T00:00:10.000000Z","n":3,"total":6}',
        '{"ts":"2026-01-01T00:00:20.000000Z","n":0,"total":null}',
        '{"ts":"2026-01-01T00:00:30.000000Z","n":0,"total":null}',
        '{"ts":"2026-01-01T00:00:40.000000Z","n":0,"total":null}',
    ]
    # RANGE 15 is no multiple of SLIDE 10: at 20 the window is (5, 20], the row of second 1 has left.
    at = "2026-01-01T00:00:{}.000000Z".format
    assert tuples(tmp_path / "by_x.jsonl") == [
        (at(10), "+", 1, 1),
        (at(10), "+", 2, 1),
        (at(10), "+", 3, 1),
        (at(20), "-", 1, 1),
        (at(30), "-", 2, 1),
        (at(30), "-", 3, 1),
    ]


def test_an_empty_sub_window_inside_a_window_changes_nothing_but_the_boundary(tmp_path: Path) -> None:
    #  t     2            (10, 20]: nothing            23       31
    #        a1                                        a2       a4
    #  RANGE 30 SLIDE 10:  10: 1    20: 1    30: 3 (2 stands in (0, 30])    31 < 40: no more boundaries
    write_csv(tmp_path / "packets.csv", "t,src,length", [(2, "a", 1), (23, "a", 2), (31, "a", 4)])
    run(
        tmp_path,
        PACKETS.format(slack="", options="")
        + """CREATE QUERY whole INTO 'jsonl:whole.jsonl' AS
          Rstream(SELECT src, SUM(length) AS b FROM packets [RANGE 30 SEC SLIDE 10 SEC] GROUP BY src);
        CREATE QUERY view INTO 'jsonl:view.jsonl' AS
          SELECT src, SUM(length) AS b FROM packets [RANGE 30 SEC SLIDE 10 SEC] GROUP BY src;""",
        batch_rows=1,
    )
    assert tuples(tmp_path / "whole.jsonl") == [(10, "a", 1), (20, "a", 1), (30, "a", 3)]
    assert tuples(tmp_path / "view.jsonl") == [(10, "+", "a", 1), (30, "+", "a", 3), (30, "-", "a", 1)]


def test_two_streams_of_different_speed_are_answered_each_up_to_its_own_end(tmp_path: Path) -> None:
    #  fast   1 2 3 4 5 6 7 8 9 10 11 12                          ends at 12
    #  slow   1         6          11      16      21      26     ends at 26
    #  SLIDE 5 of either: boundaries 5 and 10 of fast, 5, 10, …, 25 of slow
    write_csv(tmp_path / "fast.csv", "t,x", [(t, 1) for t in range(1, 13)])
    write_csv(tmp_path / "slow.csv", "t,x", [(t, t) for t in range(1, 27, 5)])
    program = "".join(
        f"CREATE STREAM {name} (t BIGINT, x BIGINT) TIMESTAMP BY t FROM 'csv:{name}.csv';"
        f"CREATE QUERY q_{name} INTO 'jsonl:{name}.jsonl' AS "
        f"Rstream(SELECT COUNT(*) AS n, SUM(x) AS total FROM {name} [RANGE 5 SEC SLIDE 5 SEC]);"
        for name in ("fast", "slow")
    )
    summary = run(tmp_path, program, batch_rows=4)
    assert summary.watermarks == {"q_fast": 12_000_000, "q_slow": 26_000_000}
    assert tuples(tmp_path / "fast.jsonl") == [(5, 5, 5), (10, 5, 5)]
    assert tuples(tmp_path / "slow.jsonl") == [(t, 1, t - 4) for t in range(5, 26, 5)]
