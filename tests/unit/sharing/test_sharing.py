"""Who reads what: the examples of the thesis, random workloads that come and go, answers against DuckDB."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sharing.kit import STREAM, query

from sash.errors import DuplicateName, UnknownName
from sash.lang import bind_program
from sash.lang.bound import QueryDefinition
from sash.operators.preaggregate import preaggregate
from sash.plan.covers import Cover
from sash.plan.periodic import SynopsisSpec, select_of
from sash.sharing import Change, ChangeKind, Kind, Sharing, request_of
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.combined import Combined
from sash.synopses.finalize import finalize

SELECT = "SELECT %s FROM s [RANGE %d US SLIDE %d US]%s"


def q(name, aggregate="SUM(n) AS a", length=10, slide=2, where="", grouped=""):
    text = SELECT % (aggregate, length, slide, f" WHERE {where}" if where else "")
    return query(text + grouped, name)


def shared(*queries) -> Sharing:
    sharing = Sharing()
    for each in queries:
        sharing.add(each)
    return sharing


def parts(sharing, name):
    return [(part.synopsis, part.sign) for part in sharing.workload.readings[name].parts]


# ---------------------------------------------------------------------------- examples


def test_ss1_one_synopsis_serves_windows_of_all_lengths_and_aggregates_of_the_same_rows():
    sharing = shared(q("a"), q("b", "COUNT(*) AS c", 20, 4), q("c", "AVG(n) AS d", 6, 3))
    assert [reading.rule for reading in sharing.workload.readings.values()] == ["own", "SS1", "SS1"]
    (synopsis,) = sharing.workload.synopses.values()
    assert synopsis.longest == 20
    assert synopsis.panes.offsets == (2, 3, 4, 6, 8, 9, 10, 12)
    assert "shared with b, c" in sharing.explain("a")


def test_ss1_a_condition_that_means_the_same_is_the_same():
    sharing = shared(q("a", where="k = 'x' OR k = 'y'"), q("b", where="k IN ('y', 'x')"))
    assert sharing.workload.readings["b"].rule == "SS1"


def test_ss4_tcp_or_udp_is_answered_from_both_and_tcp_from_the_supercover_less_udp():
    sharing = shared(q("q1", where="k = 'TCP'"), q("q2", where="k = 'UDP'"))
    added = sharing.add(q("q3", where="k = 'TCP' OR k = 'UDP'"))
    assert added.reading.rule == "SS4"
    assert parts(sharing, "q3") == [("s0", 1), ("s1", 1)]
    assert not added.changes
    assert added.reading.text == "disjoint cover: s0 where k = 'TCP' + s1 where k = 'UDP'"

    sharing = shared(q("q3", where="k = 'TCP' OR k = 'UDP'"), q("q2", where="k = 'UDP'"))
    sharing.add(q("q1", where="k = 'TCP'"))
    assert parts(sharing, "q1") == [("s0", 1), ("s1", -1)]
    assert "supercover less the rest" in sharing.explain("q1")
    assert {"q1", "q2", "q3"} == set(sharing.groups()[0].queries)


def test_ss4_a_maximum_comes_from_parts_that_overlap_a_sum_does_not():
    maxima = [q("q4", "MAX(n) AS a", where="k = 'TCP'"), q("q5", "MAX(n) AS a", where="m = 1")]
    sharing = shared(*maxima)
    assert sharing.add(q("q6", "MAX(n) AS a", where="k = 'TCP' OR m = 1")).reading.rule == "SS4"
    sharing = shared(q("q4", where="k = 'TCP'"), q("q5", where="m = 1"))
    assert sharing.add(q("q6", where="k = 'TCP' OR m = 1")).reading.rule == "own"


def test_ss4_a_maximum_is_not_taken_away():
    sharing = shared(
        *(q(n, "MAX(n) AS a", where=w) for n, w in (("a", "k = 'x' OR k = 'y'"), ("b", "k = 'y'")))
    )
    assert sharing.add(q("c", "MAX(n) AS a", where="k = 'x'")).reading.rule == "own"


def test_sums_of_doubles_are_not_taken_away():
    sharing = shared(
        *(q(n, "SUM(x) AS a", where=w) for n, w in (("a", "k = 'x' OR k = 'y'"), ("b", "k = 'y'")))
    )
    assert sharing.add(q("c", "SUM(x) AS a", where="k = 'x'")).reading.rule == "own"


def test_other_groupings_and_streams_share_nothing():
    sharing = shared(q("a"), q("b", "k, SUM(n) AS a", grouped=" GROUP BY k"))
    assert len(sharing.workload.synopses) == 2
    assert [group.queries for group in sharing.groups()] == [("a",), ("b",)]


def test_ss2_in_a_run_an_average_is_put_together_from_a_sum_and_a_count():
    sharing = Sharing()
    sharing.advance(100)
    sharing.add(q("sum", "SUM(n) AS a"))
    sharing.add(q("least", "MIN(x) AS a"))
    added = sharing.add(q("both", "AVG(n) AS a, MIN(x) AS b"))
    assert added.reading.rule == "SS2"
    assert added.reading.beside
    assert parts(sharing, "both") == [("s0", 1), ("s1", 1)]
    (together,) = [each for each in sharing.together if each.rule == "CS3"]
    assert together.queries == ("sum", "least", "both")


JOIN = (
    "CREATE STREAM r (t BIGINT, n BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:r.csv' WITH (unit = 'us');\n"
    "CREATE QUERY %s AS SELECT %s FROM s [RANGE %d US SLIDE 2 US] a, r [RANGE %d US SLIDE 2 US] b "
    "WHERE a.k = b.k%s;"
)


def join(name, first, second, aggregate="COUNT(*) AS c", condition=""):
    return bind_program(STREAM + JOIN % (name, aggregate, first, second, condition)).queries[-1]


def test_ss3_joins_of_the_same_streams_share_a_generalised_synopsis():
    sharing = shared(join("a", 16, 16), join("b", 14, 14), join("c", 14, 16))
    (synopsis,) = sharing.workload.synopses.values()
    assert (synopsis.intervals, synopsis.g, synopsis.kind) == (8, 1, Kind.RJ)
    assert sharing.workload.readings["c"].rule == "SS3"
    assert sharing.add(join("d", 10, 16)).reading.rule == "SS3"
    assert sharing.workload.synopses["s0"].g == 3
    sharing.advance(0)
    assert sharing.add(join("e", 16, 10)).reading.rule == "SS3"
    # In a run a synopsis cannot be given what it has not kept apart.
    assert sharing.add(join("f", 4, 16)).reading.rule == "own"


def test_cs4_and_cs5_running_joins_go_together_by_length_basic_interval_joins_all():
    sharing = shared(join("a", 16, 16), join("b", 14, 14), join("c", 14, 14, "SUM(a.n) AS d"))
    assert [(each.rule, each.queries) for each in sharing.together] == [("CS4", ("b", "c"))]
    names = "abcdefghi"
    queries = [join(n, 16 - 2 * (i % 4), 16, "MAX(a.n) AS c") for i, n in enumerate(names)]
    sharing = Sharing()
    sharing.plan(queries)
    assert {s.kind for s in sharing.workload.synopses.values()} == {Kind.BIJ}
    assert [each.rule for each in sharing.together][-1] == "CS5"
    assert set(sharing.groups()[0].queries) == set(names)


def test_joins_with_conditions_are_covered_too():
    sharing = shared(
        join("a", 8, 8, condition=" AND a.n = 1"), join("b", 8, 8, condition=" AND a.n = 2 AND b.n = 1")
    )
    assert len(sharing.workload.synopses) == 2
    added = sharing.add(join("c", 8, 8, condition=" AND (a.n = 1 OR (a.n = 2 AND b.n = 1))"))
    assert added.reading.rule == "SS4"
    assert sharing.groups()[0].rules == ("CS6",)


def test_cs1_cs2_queries_of_an_interval_synopsis_by_length_of_a_basic_one_all():
    """b = 8 panes: from 8 / log₂ 8 = 2.7 queries at once a basic interval synopsis is better."""
    few = [q("a", "MAX(n) AS a", 16), q("b", "MIN(n) AS a", 12)]
    sharing = Sharing()
    sharing.plan(few)
    assert sharing.workload.synopses["s0"].kind is Kind.INTERVAL
    assert not sharing.together
    sharing = Sharing()
    sharing.plan([*few, q("c", "MAX(n) AS a", 12)])
    assert sharing.workload.synopses["s0"].kind is Kind.BASIC_INTERVAL
    (together,) = sharing.together
    assert (together.rule, set(together.queries)) == ("CS2", {"a", "b", "c"})
    sharing = Sharing()
    sharing.plan(
        [q("a", "MAX(n) AS a", 16, 16), q("b", "MIN(n) AS a", 12, 12), q("c", "MAX(n) AS a", 12, 12)]
    )
    assert [(each.rule, each.queries) for each in sharing.together] == [("CS1", ("b", "c"))]


def test_cs8_the_same_query_with_a_longer_period_takes_the_answers():
    sharing = shared(q("a", slide=2), q("b", slide=6), q("c", slide=3), q("d", "COUNT(*) AS c", slide=6))
    same = [each.queries for each in sharing.together if each.rule == "CS8"]
    assert same == [("a", "b")]


# ---------------------------------------------------------------------------- coming and going


def test_a_synopsis_is_extended_kept_while_it_is_used_and_dropped_after():
    sharing = Sharing()
    sharing.add(q("a", length=10))
    sharing.advance(100)
    added = sharing.add(q("b", length=30))
    assert [str(change) for change in added.changes] == ["s0 reaches farther back"]
    # What was older than 10 at 100 is forgotten: the first window of 30 that is known ends at 120.
    assert added.ready_at == 120
    assert sharing.add(q("c", length=8)).ready_at == 98
    assert sharing.drop("a") == ()
    (change,) = sharing.drop("b")
    assert (change.kind, change.synopsis.longest) == (ChangeKind.SHORTER, 8)
    sharing.advance(110)
    assert sharing.add(q("d", length=10)).ready_at == 112
    sharing.drop("c")
    (change,) = sharing.drop("d")
    assert change.kind is ChangeKind.DROPPED
    assert not sharing.workload.synopses


def test_a_query_that_others_are_put_together_from_leaves_its_synopsis_to_them():
    sharing = shared(q("tcp", where="k = 'TCP'"), q("udp", where="k = 'UDP'"))
    sharing.add(q("both", where="k = 'TCP' OR k = 'UDP'"))
    assert sharing.drop("tcp") == ()
    assert [change.kind for change in sharing.drop("both")] == [ChangeKind.DROPPED]
    assert list(sharing.workload.synopses) == ["s1"]


def test_a_query_in_a_run_that_nothing_answers_begins_with_an_empty_synopsis():
    sharing = Sharing()
    sharing.advance(101)
    added = sharing.add(q("a", length=10, slide=4))
    assert added.changes[0].kind is ChangeKind.CREATED
    assert added.ready_at == 112


def test_names_are_known_once():
    sharing = shared(q("a"))
    with pytest.raises(DuplicateName):
        sharing.add(q("a"))
    with pytest.raises(UnknownName):
        sharing.drop("b")
    with pytest.raises(UnknownName):
        sharing.explain("b")


# ---------------------------------------------------------------------------- answers

# Conditions that have much to do with each other.
_WHERES = (
    ("k = 'a'", "k = 'b'", "k IN ('a', 'b')"),
    ("k = 'a'", "k <> 'a'", "k IS NULL", ""),
    ("k = 'a'", "n > 1", "k = 'a' OR n > 1"),
    ("k = 'a'", "k = 'a' AND n > 1", "k = 'a' AND n <= 1", "k = 'a' AND n IS NULL"),
    ("n > 1", "n > 4", "n BETWEEN 2 AND 4"),
    ("b", "NOT b", "b IS NOT NULL", "b IS NULL"),
    ("b", "b AND k = 'a'", "b AND k <> 'a'", "b AND k IS NULL"),
)
_SELECTS = (
    "SUM(n) AS a",
    "COUNT(*) AS a, COUNT(n) AS b",
    "AVG(n) AS a",
    "MAX(n) AS a, MIN(k) AS b",
    "MIN(n) AS a",
    "SUM(m) AS a, MAX(k) AS b",
    "SUM(x) AS a",
    "COUNT(*) AS a, MAX(n) AS b",
    "SUM(n) AS a, MIN(n) AS b",
)


def random_rows(rng, count, start):
    def some(values):
        return [values[i] for i in rng.integers(0, len(values), count)]

    return pa.table(
        {
            "t": pa.array(start + rng.integers(0, 12, count)),
            "n": pa.array(some([None, 0, 1, 2, 5, 2**60]), pa.int64()),
            "m": pa.array(some([None, -1, 3]), pa.int64()),
            "x": pa.array(some([None, 0.5, -2.0, 8.25]), pa.float64()),
            "k": pa.array(some([None, "a", "b", "c"]), pa.string()),
            "b": pa.array(some([None, True, False]), pa.bool_()),
            "at": pa.nulls(count, pa.timestamp("us")),
        }
    )


class Held:
    """The synopses of a sharing, kept up by its changes as a runtime would."""

    def __init__(self, sharing):
        self.sharing = sharing
        self.synopses: dict[str, BasicIntervalSynopsis] = {}
        self.rows: list[pa.Table] = []

    def apply(self, changes):
        for change in changes:
            name = change.synopsis.name
            if change.kind is ChangeKind.DROPPED:
                del self.synopses[name]
            elif change.kind in (ChangeKind.CREATED, ChangeKind.RESHAPED):
                self.synopses[name] = BasicIntervalSynopsis(change.synopsis.spec)

    def feed(self, rows):
        specs = [self.sharing.workload.synopses[name].spec for name in self.synopses]
        for partial in preaggregate(rows.column("t").to_numpy(), rows, specs):
            self.synopses[partial.synopsis].absorb(partial)
        self.rows.append(rows)

    def answer(self, definition, boundary):
        """Groups with the values of the aggregates, from the synopses that the query reads."""
        reading = self.sharing.workload.readings[definition.name]
        select = select_of(definition)
        synopsis = self.read(reading, select, self.sharing.workload.requests[definition.name].measures)
        for base in synopsis.bases:
            base.seal(boundary)
            base.move_to(boundary)
        totals = synopsis.between(boundary - select.window.range, boundary)
        slots = np.flatnonzero(totals.ints[:, 0]) if select.keys else np.arange(1)
        values = [
            finalize(call, synopsis.layout, totals.ints[slots], totals.floats[slots], synopsis.words)
            for call in select.aggregates
        ]
        keys = [key.to_pylist() for key in synopsis.groups.keys_of(slots)]
        columns = [value.array.to_pylist() for value in values]
        return sorted(zip(*keys, *columns, strict=True), key=repr)

    def read(self, reading, select, measures):
        """What a run would read."""
        parts = [(self.synopses[part.synopsis], part.sign) for part in reading.parts]
        if len(parts) == 1:
            return parts[0][0]
        names = {sign: tuple(p.synopsis for p in reading.parts if p.sign == sign) for sign in (1, -1)}
        cover = Cover(names[1], names[-1], reading.beside)
        panes = parts[0][0].spec.panes
        return Combined(
            SynopsisSpec("c", "s", select.where, select.keys, panes, measures, 0, cover=cover), parts
        )

    def expected(self, definition, boundary):
        select = select_of(definition)
        rows = pa.concat_tables(self.rows)
        low = boundary - select.window.range
        text = definition.text.partition(" AS ")[2].partition(" FROM ")[0]
        where = "" if select.where is None else f"AND ({select.where.sql})"
        grouped = " GROUP BY k" if select.keys else ""
        sql = f"{text} FROM rows WHERE t > {low} AND t <= {boundary} {where}{grouped}"
        answer = duckdb.from_arrow(rows).query("rows", sql.replace("AVG(n)", "AVG(n::DOUBLE)"))
        assert answer is not None
        found = answer.fetchall()
        return sorted((tuple(_plain(value) for value in row) for row in found), key=repr)


def _plain(value):
    return float(value) if isinstance(value, float) else int(value) if isinstance(value, int) else value


# What the last has, the first two have together.
_APART = ["SUM(n) AS a", "MIN(n) AS a", "SUM(n) AS a, MIN(n) AS b"]


def workload(chance):
    """Queries over a stream that have conditions, aggregates and slides in common."""
    wheres = chance.choice(_WHERES)
    selects = chance.choice([*([[each] for each in _SELECTS]), _APART, _APART, _APART])
    grouped = chance.random() < 0.5
    slides = chance.choice([(2,), (2,), (2,), (1, 2), (2, 3, 4)])
    queries = []
    for number in range(chance.randrange(4, 10)):
        select = chance.choice(selects)
        text = f"k, {select}" if grouped else select
        length, slide, where = (
            chance.randrange(1, 8) * slides[0],
            chance.choice(slides),
            chance.choice(wheres),
        )
        queries.append(q(f"q{number}", text, length, slide, where, " GROUP BY k" if grouped else ""))
    return queries


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.booleans())
def test_shared_answers_are_those_of_separate_queries_while_queries_come_and_go(seed, is_live):
    """Queries are added before the run or in it; they answer at boundaries whose windows are known."""
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    queries = workload(chance)
    sharing = Sharing()
    held = Held(sharing)
    waiting = list(queries)
    standing: dict[str, tuple[QueryDefinition, int | None]] = {}
    if not is_live:
        sharing.plan(waiting)
        held.apply([_created(synopsis) for synopsis in sharing.workload.synopses.values()])
        standing = {each.name: (each, None) for each in waiting}
        waiting = []
    now = 0
    for _ in range(chance.randrange(2, 6)):
        sharing.advance(now)
        while waiting and chance.random() < 0.7:
            definition = waiting.pop(0)
            added = sharing.add(definition)
            held.apply(added.changes)
            standing[definition.name] = (definition, added.ready_at)
        if standing and chance.random() < 0.3:
            name = chance.choice(sorted(standing))
            held.apply(sharing.drop(name))
            del standing[name]
        sharing.validate()
        held.feed(random_rows(rng, chance.randrange(0, 20), now + 1))
        for boundary in range(now + 1, now + 13):
            for definition, ready in standing.values():
                due = boundary % select_of(definition).window.slide == 0
                if due and (ready is None or boundary >= ready) and chance.random() < 0.25:
                    assert held.answer(definition, boundary) == held.expected(definition, boundary)
        now += 12


def _created(synopsis):
    return Change(ChangeKind.CREATED, synopsis)


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_put_together_from_synopses_beside_each_other_is_the_answer(grouped):
    group = " GROUP BY k" if grouped else ""
    listed = (
        "SUM(n) AS a",
        "MIN(m) AS a, MAX(x) AS b",
        "AVG(n) AS a, MAX(x) AS b, COUNT(*) AS c, MIN(m) AS d",
    )
    queries = [
        q(f"q{i}", f"k, {text}" if grouped else text, 6 + 2 * i, where="b IS NOT FALSE", grouped=group)
        for i, text in enumerate(listed)
    ]
    sharing = Sharing()
    held = Held(sharing)
    sharing.advance(0)
    ready = {}
    for definition in queries:
        added = sharing.add(definition)
        held.apply(added.changes)
        ready[definition.name] = added.ready_at or 0
    assert sharing.workload.readings["q2"].rule == "SS2"
    rng = np.random.default_rng(5)
    for now in range(0, 48, 12):
        held.feed(random_rows(rng, 25, now + 1))
        for boundary in range(now + 2, now + 13, 2):
            for definition in queries:
                if boundary >= ready[definition.name]:
                    assert held.answer(definition, boundary) == held.expected(definition, boundary)


def test_a_request_has_all_that_rules_compare():
    request = request_of(q("a", "k, MAX(n) AS a", where="n > 1", grouped=" GROUP BY k"))
    assert request is not None
    assert (request.source, request.windows, request.slide) == ("s", (10,), 2)
    assert request_of(query("SELECT n FROM s [ROWS 5]")) is None
