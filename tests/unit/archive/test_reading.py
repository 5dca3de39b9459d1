"""Keys of every type, how little a probe reads, smaller windows, other tools, descriptions."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.archive.archive_kit import SPAN, SPEC, STRICT, Model, Row, bag, random_rows, table

from sash.archive import (
    BORN,
    DIES,
    Among,
    ArchiveSpec,
    ArchiveWriter,
    Between,
    Update,
    choose,
    reconsider,
    segment,
)
from sash.archive.choice import Choice
from sash.archive.conditions import ready
from sash.archive.segment import _write_parquet, read_segment
from sash.errors import ArchiveError, TypeMismatch, UnknownName
from sash.lang.types import Column, Schema, Type
from sash.operators.delta import ARROW_TYPES

NAN = float("nan")
DOUBLES = st.sampled_from([-1.5, -0.0, 0.0, 2.5, float("inf"), -float("inf"), NAN])
KINDS = {
    Type.BIGINT: st.integers(-3, 3),
    Type.DOUBLE: DOUBLES,
    Type.STRING: st.sampled_from(["", "a", "aa", "b", "ä", "𝄞", "z" * 5000]),
    Type.BOOLEAN: st.booleans(),
    Type.TIMESTAMP: st.integers(-5, 5).map(lambda s: datetime(2026, 1, 1, 0, 0, s % 60)),
}


def filled(root, spec, values, technique="norebuild"):
    """An archive with some keys, in two updates; every row lives."""
    half = len(values) // 2
    with ArchiveWriter(root, spec, technique, (2, 2), durable=False) as writer:
        for batch, part in enumerate((values[:half], values[half:])):
            born = 10 * batch + 1
            columns = {
                column.name: pa.array([value[i] for value in part], ARROW_TYPES[column.type])
                for i, column in enumerate(spec.columns)
            }
            times = {BORN: [born] * len(part), DIES: [born + 60] * len(part)}
            arrays = {name: pa.array(values, pa.int64()) for name, values in times.items()}
            writer.update(Update(batch, 10 * (batch + 1), pa.table({**columns, **arrays})))
        return writer.snapshot()


@pytest.fixture
def small_buckets(monkeypatch):
    """A few rows make a bucket, so that a few dozen rows have many."""
    monkeypatch.setattr(segment, "_LEAST_BUCKET", 4)


def in_duckdb(rows, condition):
    """What CQL says of a condition: DuckDB evaluates it."""
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return bag(connection.sql(f"SELECT * FROM rows WHERE {condition}").to_arrow_table())


def literal(value):
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"'{value}'::DOUBLE"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.usefixtures("small_buckets")
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(list(KINDS)))
def test_keys_compare_as_in_cql(tmp_path_factory, data, kind):
    root = tmp_path_factory.mktemp("archive")
    spec = ArchiveSpec(Schema((Column("k", kind),)), ("k",), 10, SPAN)
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind]), min_size=2, max_size=80))
    with filled(root, spec, [(value,) for value in values]) as snapshot:
        rows = snapshot.scan()
        assert rows.num_rows == len(values)
        key = data.draw(KINDS[kind])
        assert bag(snapshot.probe(key)) == in_duckdb(rows, f"k = {literal(key)}")
        low, high = data.draw(KINDS[kind]), data.draw(KINDS[kind])
        if kind is not Type.BOOLEAN:
            is_open, is_closed = data.draw(st.booleans()), data.draw(st.booleans())
            found = snapshot.read([Between("k", low, high, is_open, not is_closed)])
            after, before = ">" if is_open else ">=", "<=" if is_closed else "<"
            condition = f"k {after} {literal(low)} AND k {before} {literal(high)}"
            assert bag(found) == in_duckdb(rows, condition)
        expected = in_duckdb(rows, f"k IN ({literal(low)}, {literal(high)})")
        assert bag(snapshot.read([Among("k", (low, high))])) == expected


@pytest.mark.usefixtures("small_buckets")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_keys_of_several_columns(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("archive")
    columns = Schema((Column("v", Type.BIGINT), Column("a", Type.STRING), Column("b", Type.BIGINT)))
    spec = ArchiveSpec(columns, ("a", "b"), 10, SPAN)
    number = st.one_of(st.none(), st.integers(0, 9))
    row = st.tuples(st.integers(0, 99), st.sampled_from(["x", "y", "z", None]), number)
    with filled(root, spec, data.draw(st.lists(row, min_size=60, max_size=150))) as snapshot:
        rows = snapshot.scan()
        assert bag(snapshot.probe("y", 3)) == in_duckdb(rows, "a = 'y' AND b = 3")
        assert bag(snapshot.probe("y")) == in_duckdb(rows, "a = 'y'")
        found = snapshot.read([Among("b", (2, 7)), Between("a", "x", "y")])
        assert bag(found) == in_duckdb(rows, "b IN (2, 7) AND a BETWEEN 'x' AND 'y'")
        assert bag(snapshot.read([Among("b", (4,))])) == in_duckdb(rows, "b = 4")


def test_a_probe_reads_little_more_than_the_rows_of_its_key(tmp_path):
    rng = random.Random(1)
    values = [(rng.randrange(100), "x" * 50, 0.0) for _ in range(40_000)]
    with filled(tmp_path, SPEC, values, "rebuild") as snapshot:
        manifest = snapshot.manifest
        where = ready([Among("k", (17,))], SPEC.columns, SPEC.key)
        segments = [each for slot in manifest.slots.values() for each in slot.segments]
        read = sum(read_segment(tmp_path, each, SPEC, where).num_rows for each in segments)
        wanted = snapshot.probe(17).num_rows
        assert wanted <= read < 1.5 * wanted


def test_buckets_of_many_small_keys_and_of_one_huge_key(tmp_path):
    values = [(i // 2, "", 0.0) for i in range(100_000)] + [(10**6, "", 0.0)] * 150_000
    random.Random(2).shuffle(values)
    with filled(tmp_path, SPEC, values, "rebuild") as snapshot:
        assert snapshot.probe(77).num_rows == 2
        assert snapshot.probe(10**6).num_rows == 150_000
        assert snapshot.range(10, 12).num_rows == 6
        for path in snapshot.files():
            assert pq.read_metadata(path).num_row_groups < 1_200


def test_a_sub_index_may_have_more_text_than_32_bits_count(tmp_path):
    """The rows stand behind 2 GB of text, of which no page is ever touched."""
    rows, behind = 100, 1 << 31
    letters = np.zeros(behind + rows, np.uint8)
    letters[behind:] = ord("x")
    ends = np.arange(behind, behind + rows + 1, dtype=np.int64)
    text = pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    numbers = pa.array(range(rows))
    far = pa.table({"k": numbers, "name": text, "x": numbers.cast("double"), BORN: numbers, DIES: numbers})
    _write_parquet(tmp_path / "far", SPEC, far, numbers, np.array([0, 64, rows]))
    assert pq.read_table(tmp_path / "far").column("name").to_pylist() == ["x"] * rows


def test_a_smaller_window_has_what_does_not_die_within_the_difference(tmp_path):
    """A join of windows of 60 holds that of windows of 40: what dies after 20 more.

    births      0 ────────── through = 30
    deaths      31 ── 50 │ 51 ──────── 90      [RANGE 40 µs] has the right part
    """
    with ArchiveWriter(tmp_path, SPEC, "rebuild", (2, 2)) as writer:
        rows = [Row((1, "a", 0.0), 30, dies) for dies in range(31, 91)]
        writer.update(Update(0, 30, table(rows)))
        with writer.snapshot() as snapshot:
            deaths = snapshot.scan(columns=[DIES], within=40).column(DIES).to_pylist()
            assert sorted(deaths) == list(range(51, 91))
            with pytest.raises(ArchiveError, match="such a long window") as failure:
                snapshot.probe(1, within=SPAN + 1)
            assert failure.value.id == "archive-window"


def test_results_that_are_taken_back_have_no_smaller_window(tmp_path):
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2)) as writer:
        writer.update(Update(0, 10, table([Row((1, "a", 0.0), 5, 50)])))
        with writer.snapshot() as snapshot, pytest.raises(ArchiveError, match="smaller window"):
            snapshot.scan(within=30)


def test_other_tools_read_the_files(tmp_path):
    rng = random.Random(4)
    model = Model()
    with ArchiveWriter(tmp_path, SPEC, "norebuild", (3, 3)) as writer:
        for batch in range(9):
            rows = random_rows(rng, model.through, model.through + 10, 30)
            update = Update(batch, model.through + 10, table(rows))
            writer.update(update)
            model.apply(update, rows)
        with writer.snapshot() as snapshot, duckdb.connect() as connection:
            files = [str(path) for path in snapshot.files()]
            query = f"SELECT k, name, x FROM read_parquet(?) WHERE {DIES} > ?"
            found = connection.sql(query, params=[files, snapshot.through]).to_arrow_table()
            assert bag(found) == model.bag()


@pytest.mark.parametrize(
    ("value", "got"), [("7", "STRING"), (7.5, "DOUBLE"), (True, "BOOLEAN"), (None, "NULL"), (1 << 70, None)]
)
def test_a_key_of_the_wrong_type(tmp_path, value, got):
    with filled(tmp_path, SPEC, [(7, "a", 0.0)] * 4) as snapshot:
        with pytest.raises(TypeMismatch) as failure:
            snapshot.probe(value)
        assert (failure.value.id, failure.value.expected) == ("archive-key", "BIGINT")
        assert got in (None, failure.value.got)
        assert snapshot.probe(7).num_rows == 4


def test_only_columns_of_the_key_and_known_ones_are_asked_for(tmp_path):
    with filled(tmp_path, SPEC, [(7, "a", 0.0)] * 4) as snapshot:
        with pytest.raises(UnknownName, match="name"):
            snapshot.read([Among("name", ("a",))])
        with pytest.raises(UnknownName, match="nome"):
            snapshot.scan(columns=["nome"])


def test_timestamps_with_a_zone_are_compared_in_utc(tmp_path):
    spec = ArchiveSpec(Schema((Column("k", Type.TIMESTAMP),)), ("k",), 10, SPAN)
    moment = datetime(2026, 1, 31, 12, 0, 0)
    with filled(tmp_path, spec, [(moment,)] * 2) as snapshot:
        assert snapshot.probe(moment.replace(tzinfo=UTC)).num_rows == 2


def test_a_description_tells_sizes_balance_and_versions(tmp_path):
    with ArchiveWriter(tmp_path, SPEC, "rebuild", (2, 2)) as writer:
        for batch in range(5):
            rows = [Row((i, "a", 0.0), 10 * batch + 1 + i, 10 * batch + 41 + i) for i in range(8)]
            report = writer.update(Update(batch, 10 * batch + 10, table(rows)))
        assert (report.sub_indices, report.scheduled) == (4, 3)
        with writer.snapshot() as snapshot:
            told = snapshot.describe()
        assert told.techniques == ("rebuild 2x2",)
        assert told.rows == sum(told.rows_of) == writer.manifest.rows
        assert told.bytes == sum(path.stat().st_size for path in snapshot.files())
        assert (told.version, told.versions, told.batch, told.through) == (5, 2, 4, 50)
        assert told.balance == max(told.rows_of) / (sum(told.rows_of) / 4)
        writer.migrate("norebuild", (3, 3))
        with writer.snapshot() as snapshot:
            assert snapshot.describe().techniques == ("rebuild 2x2", "norebuild 3x3")


# ----------------------------------------------------------------------------------------- USING AUTO

MB, GB = 10**6, 10**9


@pytest.mark.parametrize(
    ("size", "queries", "more", "expected"),
    [
        (500 * MB, 1, {}, ("norebuild", (4, 4))),
        (500 * MB, 1000, {}, ("rebuild", (2, 2))),
        (5 * GB, 1, {}, ("norebuild", (3, 3))),
        (5 * GB, 1000, {}, ("norebuild", (2, 2))),
        (5 * GB, 1000, {"is_probing_crucial": True}, ("rebuild", (2, 2))),
        (500 * MB, 1, {"is_estimated": True}, ("countnorebuild", (4, 4))),
    ],
)
def test_auto_follows_the_published_advice(size, queries, more, expected):
    assert choose(size, queries, 36, **more) == expected


def test_auto_stays_near_a_border_and_goes_far_from_it():
    current = Choice("norebuild", (4, 4))
    assert reconsider(current, 500 * MB, 17, 36) is None
    assert reconsider(current, 500 * MB, 100, 36) == ("rebuild", (2, 2))
    assert reconsider(current, 500 * MB, 1, 36) is None
    assert choose(MB, 0, 2).grid == (2, 2)
