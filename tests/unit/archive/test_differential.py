"""After any sequence of updates every technique gives exactly the live rows, however it is asked."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.archive.archive_kit import (
    COUNTABLE,
    COUNTED,
    PLACED,
    SPAN,
    SPEC,
    STRICT,
    Model,
    Row,
    bag,
    keys,
    random_rows,
    table,
)

from sash.archive import BORN, DIES, TECHNIQUES, Among, ArchiveWriter, Between, Update, open_snapshot
from sash.archive.choice import FIRST_CHOICE
from sash.archive.planning import scheduled_slots
from sash.archive.taken import load_taken
from sash.archive.techniques import technique_of


def check(root, model):
    """Every probe, range, scan and sub-window."""
    is_exact = not (model.spec.is_estimated or model.spec.is_strict)
    with open_snapshot(root) as snapshot:
        for within in (None, SPAN // 3) if is_exact else (None,):
            assert bag(snapshot.scan(within=within)) == model.bag(within=within)
            for key in (-1, 0, 3, 5):
                expected = model.bag(lambda values, key=key: values[0] == key, within)
                assert bag(snapshot.probe(key, within=within)) == expected
            expected = model.bag(lambda values: values[0] is not None and 1 <= values[0] <= 3, within)
            assert bag(snapshot.range(1, 3, within=within)) == expected
        found = snapshot.read([Between("k", 2, None, is_low_open=True)], columns=["x"])
        assert found.num_rows == sum(values[0] is not None and values[0] > 2 for values in model.live())
        found = snapshot.read([Among("k", (1, 4, 99)), Between("k", high=4, is_high_open=True)])
        assert bag(found) == model.bag(lambda values: values[0] == 1)


def grids(technique):
    lazy = technique.startswith(("lazy", "wata"))
    return [(2, 2), (3, 4)] if lazy else [(1, 1), (2, 2), (3, 4)]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_technique_holds_the_live_rows(technique, tmp_path):
    for number, grid in enumerate(grids(technique)):
        rng = random.Random(number)
        model, root = Model(), tmp_path / str(number)
        with ArchiveWriter(root, SPEC, technique, grid, seed=number, durable=False) as writer:
            for batch in range(11):
                # Sometimes intervals pass without an update, and sometimes one ends within an interval.
                through = model.through + rng.choice([10, 10, 10, 7, 40, 100 if batch == 7 else 10])
                rows = random_rows(rng, model.through, through, rng.choice([0, 3, 30]))
                update = Update(batch, through, table(rows))
                writer.update(update)
                model.apply(update, rows)
                check(root, model)


@settings(max_examples=20)
@given(data=st.data(), technique=st.sampled_from(sorted(TECHNIQUES)))
def test_any_sequence_of_updates_and_migrations(tmp_path_factory, data, technique):
    root = tmp_path_factory.mktemp("archive")
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    model = Model()
    with ArchiveWriter(
        root, SPEC, technique, data.draw(st.sampled_from(grids(technique))), durable=False
    ) as w:
        for batch in range(data.draw(st.integers(1, 8))):
            # The first rows may be older than an interval, as those of a window that has been running.
            after = -SPAN if batch == 0 else model.through
            through = model.through + data.draw(st.sampled_from([10, 10, 3, 25, 70]))
            rows = random_rows(rng, after, through, data.draw(st.integers(0, 25)))
            update = Update(batch, through, table(rows))
            w.update(update)
            model.apply(update, rows)
            if data.draw(st.integers(0, 3)) == 0:
                other = data.draw(st.sampled_from(sorted(TECHNIQUES)))
                w.migrate(other, (2, 3), gradually=data.draw(st.booleans()))
            check(root, model)


STRICTLY = ["rebuild", "norebuild", "lazynorebuild", "countrebuild", "r-ins", "d-exp"]


@pytest.mark.parametrize("knows_birth", [False, True])
@pytest.mark.parametrize("technique", STRICTLY)
def test_rows_that_are_taken_back_are_gone_at_once(technique, knows_birth, tmp_path):
    rng = random.Random(7)
    model = Model(STRICT)
    deferred = 0
    with ArchiveWriter(tmp_path, STRICT, technique, (3, 3), durable=False) as writer:
        for batch in range(12):
            through = model.through + 10
            rows = random_rows(rng, model.through, through, 25)
            known = model.rows + rows
            taken = rng.sample(known, k=len(known) // 5)
            given = table(taken, STRICT)
            update = Update(batch, through, table(rows), given if knows_birth else given.drop_columns([BORN]))
            report = writer.update(update)
            model.apply(update, rows, taken)
            check(tmp_path, model)
            assert report.unmatched == 0
            with open_snapshot(tmp_path) as snapshot:
                deferred += snapshot.describe().taken_back
            if batch == 6:
                writer.migrate("rebuild" if technique != "rebuild" else "norebuild", (2, 2))
    assert deferred > 0


@pytest.mark.parametrize("technique", ["rebuild", "norebuild", "random-rebuild", "chr-norebuild"])
def test_an_update_leaves_nothing_in_what_it_touches_that_it_could_do_away_with(technique, tmp_path):
    """Rebuild: no dead row, none that is taken back. NoRebuild: few segments, half of each alive."""
    rng = random.Random(2)
    model = Model(STRICT)
    is_anew = technique_of(technique).reclusters
    with ArchiveWriter(tmp_path, STRICT, technique, (2, 2), durable=False) as writer:
        for batch in range(16):
            through = model.through + 10
            rows = random_rows(rng, model.through, through, 25)
            taken = rng.sample(model.rows, k=len(model.rows) // 5 if batch % 2 else 0)
            update = Update(batch, through, table(rows), table(taken, STRICT))
            touched = scheduled_slots(writer.manifest, through, None)
            writer.update(update)
            model.apply(update, rows, taken)
            manifest = writer.manifest
            back = load_taken(tmp_path, manifest)
            left = back.counts()
            for key in touched & manifest.slots.keys():
                slot = manifest.slots[key]
                shares = [each.live_share(through) for each in slot.segments]
                assert min(shares) == 1 if is_anew else min(shares) > 0.5
                assert len(shares) <= (1 if is_anew else 4)
                assert left[key] * 4 <= (0 if is_anew else slot.rows)
            assert left.keys() <= manifest.slots.keys()
            assert all(dies > through for dies in back.rows.column(DIES).to_pylist())


def test_appended_segments_are_put_together_before_they_are_many(tmp_path):
    """All rows live as long as they may, so no segment becomes sparse; then all die, and none is opened."""
    with ArchiveWriter(tmp_path, SPEC, "norebuild", (1, 1), durable=False) as writer:
        for batch in range(12):
            born = 10 * batch + 1
            rows = [Row((k, "a", 0.0), born, born + SPAN) for k in range(5)]
            writer.update(Update(batch, born + 9, table(rows)))
            (slot,) = writer.manifest.slots.values()
            assert len(slot.segments) <= 4
            with writer.snapshot() as snapshot:
                assert snapshot.scan().num_rows == 5 * min(batch + 1, SPAN // 10)
        report = writer.update(Update(12, 1_000, table([])))
        assert (report.opened, report.dropped > 0, writer.manifest.rows) == (0, True, 0)


@pytest.mark.parametrize("technique", ["rebuild", "norebuild"])
def test_of_twins_one_is_taken_back_and_stays_so(technique, tmp_path):
    """Rows that are equal in all, their times too, from one update and from two."""
    twin = Row((1, "a", 0.0), 5, 60)
    with ArchiveWriter(tmp_path, STRICT, technique, (4, 4), durable=False) as writer:
        writer.update(Update(0, 10, table([twin, twin])))
        writer.update(Update(1, 20, table([twin])))
        writer.update(Update(2, 30, table([]), table([twin], STRICT)))
        for batch, through in enumerate((40, 50, 52, 55, 60), 3):
            with writer.snapshot() as snapshot:
                assert snapshot.scan().num_rows == snapshot.probe(1).num_rows == 2
            if through == 52:
                writer.migrate("countrebuild", (2, 2), gradually=technique == "rebuild")
            writer.update(Update(batch, through, table([])))
        with writer.snapshot() as snapshot:
            assert snapshot.scan().num_rows == 0


def test_an_archive_that_is_opened_again_is_what_it_was(tmp_path):
    """Seeds of random orders, guessed spans, floors and lists come back from the files."""
    rng = random.Random(9)
    for number, (spec, technique) in enumerate(
        [(STRICT, "random-rebuild"), (COUNTED, "countrebuild"), (PLACED, "random-norebuild")]
    ):
        root, model = tmp_path / str(number), Model(spec)
        for batch in range(7):
            with ArchiveWriter(root, spec, technique, (3, 3), seed=5, durable=False) as writer:
                if batch == 3 and spec is COUNTED:
                    writer.migrate(technique, (3, 3), span=30)
                rows = random_rows(rng, model.through, model.through + 10, 20)
                if spec is PLACED:
                    rows = [Row(row.values, row.born, row.dies, (row.born, row.born)) for row in rows]
                taken = [] if spec is PLACED else rng.sample(model.rows, k=len(model.rows) // 3)
                told = table(taken, STRICT).drop_columns([BORN, DIES] if spec is COUNTED else [BORN])
                update = Update(
                    batch,
                    model.through + 10,
                    table(rows, spec),
                    None if spec is PLACED else told,
                    floors={"pos_a": 10 * batch - 15, "pos_b": 0} if spec is PLACED and batch < 5 else {},
                )
                assert writer.update(update).unmatched == 0
                model.apply(update, rows, taken)
                with writer.snapshot() as snapshot:
                    assert snapshot.manifest == writer.manifest
                    assert bag(snapshot.scan()) == model.bag()


STRICTLY_BY_KEY = ["rebuild", "norebuild", "lazyrebuild", "chr-norebuild", "r-exp", "d-ins"]


@pytest.mark.parametrize("technique", STRICTLY_BY_KEY)
def test_keys_that_are_taken_back_lose_the_rows_born_before(technique, tmp_path):
    rng = random.Random(3)
    model = Model(STRICT)
    with ArchiveWriter(tmp_path, STRICT, technique, (3, 3), durable=False) as writer:
        for batch in range(15):
            through = model.through + 10
            rows = random_rows(rng, model.through, through, 20)
            gone = [(rng.randint(0, 5), rng.randint(model.through + 1, through)) for _ in range(batch % 3)]
            update = Update(batch, through, table(rows), taken_keys=keys(gone))
            writer.update(update)
            model.apply(update, rows, taken_keys=gone)
            check(tmp_path, model)
            with open_snapshot(tmp_path) as snapshot:
                # A key is consulted for as long as rows of it may live.
                assert snapshot.describe().taken_back <= 2 * SPAN // 10


@pytest.mark.parametrize("technique", COUNTABLE)
def test_windows_of_rows_with_guessed_expirations(technique, tmp_path):
    """Guesses are wrong both ways; rows go when they are said to go."""
    rng = random.Random(5)
    model = Model(COUNTED)
    with ArchiveWriter(tmp_path, COUNTED, technique, (3, 3), durable=False) as writer:
        for batch in range(14):
            through = model.through + 10
            rows = [
                Row(row.values, row.born, row.born + rng.choice([1, 25, 60, 1 << 40]))
                for row in random_rows(rng, model.through, through, 20, is_null=0)
            ]
            known = model.rows + rows
            taken = known[: max(0, len(known) - 50)]
            update = Update(batch, through, table(rows), table(taken).drop_columns([BORN, DIES]))
            writer.update(update)
            model.through = through
            model.rows = known[len(taken) :]
            with open_snapshot(tmp_path) as snapshot:
                assert bag(snapshot.scan()) == model.bag()
                for key in range(6):
                    assert bag(snapshot.probe(key)) == model.bag(lambda v, key=key: v[0] == key)


def test_of_equal_rows_the_one_goes_that_was_to_die_first(tmp_path):
    """So the other one lies where its death is expected, though it is older."""
    older, sooner = Row((1, "a", 0.0), 2, 60), Row((1, "a", 0.0), 5, 22)
    with ArchiveWriter(tmp_path, COUNTED, "countrebuild", (3, 3), durable=False) as writer:
        writer.update(Update(0, 10, table([older, sooner])))
        gone = table([sooner]).drop_columns([BORN, DIES])
        report = writer.update(Update(1, 20, table([]), gone))
        assert report.unmatched == 0
        with writer.snapshot() as snapshot:
            assert snapshot.scan(columns=[BORN, DIES]).to_pylist() == [{BORN: 2, DIES: 60}]


@pytest.mark.parametrize("technique", COUNTABLE)
def test_windows_of_rows_with_positions(technique, tmp_path):
    rng = random.Random(6)
    model = Model(PLACED)
    arrived = [0, 0]
    with ArchiveWriter(tmp_path, PLACED, technique, (3, 3), durable=False) as writer:
        for batch in range(14):
            through = model.through + 10
            rows = []
            for row in random_rows(rng, model.through, through, rng.choice([5, 20, 40])):
                arrived = [place + rng.randint(0, 2) for place in arrived]
                places = tuple(max(0, place - rng.randint(0, 30)) for place in arrived)
                rows.append(Row(row.values, row.born, row.dies, places))
            floors = {"pos_a": arrived[0] - 30, "pos_b": arrived[1] - 40}
            update = Update(batch, through, table(rows, PLACED), floors=floors)
            writer.update(update)
            model.apply(update, rows)
            check(tmp_path, model)


def test_what_is_born_and_dies_between_two_updates_is_never_stored(tmp_path):
    with ArchiveWriter(tmp_path, SPEC, "rebuild", (2, 2)) as writer:
        report = writer.update(Update(0, 10, table([Row((1, "a", 0.0), 2, 9), Row((1, "a", 0.0), 3, 10)])))
        assert (report.inserted, writer.manifest.rows) == (0, 0)


def test_auto_begins_as_for_a_small_archive_and_keeps_what_it_has_become(tmp_path):
    with ArchiveWriter(tmp_path, SPEC) as writer:
        entry = writer.manifest.layouts[writer.manifest.newest]
        assert (entry.technique, entry.grid) == FIRST_CHOICE
        writer.update(Update(0, 10, table([Row((1, "a", 0.0), 2, 50)])))
        writer.migrate("rebuild", (2, 2))
    with ArchiveWriter(tmp_path, SPEC) as writer:
        assert writer.manifest.layouts[writer.manifest.newest].technique == "rebuild"
