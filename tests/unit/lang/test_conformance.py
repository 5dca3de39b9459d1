"""Queries that other systems publish with their answers, written in our CQL, bind to a plan.

Sources: the tests of Stanford STREAM (BSD-3-Clause), SensorBee (MIT), Esper (facts only), Apache Flink and
RisingWave (Apache-2.0), and the update-pattern language of 002, section 3.4.
"""

from __future__ import annotations

import pytest
from tests.unit.lang.plan_kit import outline

from sash.errors import BindError
from sash.lang import bind_program, missing

STREAMS = """
CREATE STREAM S (ts BIGINT, A INT) TIMESTAMP BY ts FROM 'csv:s1';
CREATE STREAM S2 (ts BIGINT, G INT, A INT) TIMESTAMP BY ts FROM 'csv:s2';
CREATE STREAM stream (arrival BIGINT, id INT, price DOUBLE) TIMESTAMP BY arrival FROM 'csv:stream';
CREATE STREAM src (at BIGINT, "int" INT) TIMESTAMP BY at FROM 'csv:src';
CREATE STREAM MD (at BIGINT, symbol STRING, volume INT, price DOUBLE)
  TIMESTAMP BY at FROM 'csv:md' WITH (unit = 'ms');
CREATE STREAM A (at BIGINT, i INT) TIMESTAMP BY at FROM 'csv:a';
CREATE STREAM B (at BIGINT, i INT) TIMESTAMP BY at FROM 'csv:b';
CREATE STREAM orders_t (id INT, at TIMESTAMP) TIMESTAMP BY at FROM 'csv:o';
CREATE STREAM shipments_t (id INT, order_id INT, at TIMESTAMP) TIMESTAMP BY at FROM 'csv:sh';
CREATE STREAM t1 (row_id INT, uid INT, v INT, created_at TIMESTAMP) TIMESTAMP BY created_at FROM 'csv:t1';
CREATE STREAM bid (auction INT, bidder INT, price INT, at TIMESTAMP) TIMESTAMP BY at FROM 'csv:bid';
"""

QUERIES = {
    "stream-07-rows2": "SELECT A FROM S [Rows 2]",
    "stream-08-now": "SELECT A FROM S [Now]",
    "stream-10-partition-rows1": "SELECT G, A FROM S2 [Partition By G Rows 1]",
    "sensorbee-rows3-rstream": "Select Rstream(id, price) From stream [Rows 3] Where price < 8",
    "sensorbee-rows3-istream": "Select Istream(id, price) From stream [Rows 3] Where price < 8",
    "sensorbee-rows3-dstream": "Select Dstream(id, price) From stream [Rows 3] Where price < 8",
    "sensorbee-constant": "Select Istream(2 As a) From src [Range 2 Seconds]",
    "esper-sum": "Select Sum(price) From MD [Range 5500 Milliseconds]",
    "esper-having": "Select symbol, Sum(price) From MD [Range 5500 Milliseconds] Group By symbol "
    "Having Sum(price) > 50",
    "esper-join": "Select Istream(s1.i As aID, s2.i As bID) From A [Rows 2] s1, B [Range Unbounded] s2 "
    "Where s1.i = s2.i ALLOW UNBOUNDED STATE",
    "flink-interval-join": "Istream(Select O.id, O.at, S.at As shipped From orders_t [Range 5 Seconds] O, "
    "shipments_t [Range 5 Seconds] S Where O.id = S.order_id)",
    "risingwave-hop": "Rstream(Select uid, Sum(v) From t1 [Range 30 Minutes Slide 15 Minutes] Group By uid)",
    # num >= ALL (…) is written with the greatest num of the same window.
    "nexmark-q5": "SELECT h.auction, h.num FROM (SELECT auction, COUNT(*) AS num "
    "FROM bid [RANGE 10 SEC SLIDE 2 SEC] GROUP BY auction) h, (SELECT MAX(num) AS top FROM (SELECT COUNT(*) "
    "AS num FROM bid [RANGE 10 SEC SLIDE 2 SEC] GROUP BY auction)) m WHERE h.num = m.top",
    "upa-wstream": "SELECT Wstream(S1.i)[ROWS 10] FROM A [RANGE 1 min] S1, B [RANGE 1 min] S2 "
    "WHERE S1.i = S2.i",
    "upa-wstream-sum": "SELECT SUM(Wstream(SUM(i))[ROWS 10]) FROM A [RANGE 6 sec SLIDE 6 sec]",
    "upa-restore": "SELECT Rstream-restore(S1.i) FROM A [RANGE 1 min SLIDE 10 sec] S1, "
    "B [RANGE 1 min SLIDE 10 sec] S2 WHERE S1.i = S2.i",
}


def query(text):
    return bind_program(f"{STREAMS}CREATE QUERY q AS {text};").queries[0]


@pytest.mark.parametrize("name", QUERIES)
def test_a_published_query_binds(name):
    bound = query(QUERIES[name])
    assert bound.plan.fields
    assert (bound.select is None) == (missing(bound.plan) is not None)


def test_what_the_periodic_runtime_executes_of_them():
    assert [name for name, text in QUERIES.items() if query(text).select is not None] == ["risingwave-hop"]


def test_the_hot_items_of_nexmark_compare_two_uses_of_one_stream():
    assert outline(query(QUERIES["nexmark-q5"]).plan) == (
        'Project(Join(Project(Aggregate(bid[RANGE 10 SEC SLIDE 2 SEC] | "bid.auction" | COUNT(*))'
        ' | (1).c0: "k0", (1).c1: "a0")'
        ' | Project(Aggregate(Project(Aggregate(bid#2[RANGE 10 SEC SLIDE 2 SEC] | "bid#2.auction" | COUNT(*))'
        ' | (3).c0: "a0") | () | MAX("(3).c0")) | (2).c0: "a0")'
        ' | 0."(1).c1" = 1."(2).c0") | auction: "(1).c0", num: "(1).c1")'
    )


def test_a_join_with_a_whole_stream_asks_for_leave():
    with pytest.raises(BindError) as caught:
        query(QUERIES["esper-join"].replace("ALLOW UNBOUNDED STATE", ""))
    assert caught.value.id == "unbounded-state"
