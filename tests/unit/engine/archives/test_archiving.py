"""Archives in a run: what they hold beside a query of the same SELECT, restarts, questions, and refusals."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.unit.engine.archives.archiving_kit import (
    BODIES,
    GROUPS,
    JOIN,
    LATEST,
    LIFETIMES,
    SLIDING,
    STRICT,
    check,
    folder,
    run,
    text_of,
)

from sash.archive import ArchiveWriter, open_snapshot
from sash.engine.durability.checkpoint import Checkpoint
from sash.engine.observe.passes import passes
from sash.engine.reads.archive_read import described, once_archived, without_archives
from sash.engine.reads.checkpoint_reader import CheckpointReader, ask_archives
from sash.errors import ArchiveError, BindError, CheckpointError, DuplicateName, SinkError, UserError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

__all__ = ["folder"]
RETAINED = "TIMESTAMP BY ts RETAIN 40 SEC FROM 'json:a.jsonl'"
TECHNIQUES = (
    "AUTO", "REBUILD 2x2", "NOREBUILD 2x3", "LAZYREBUILD 3x2", "LAZYNOREBUILD 2x2", "COUNTREBUILD 2x2",
    "COUNTNOREBUILD 2x2", "CHR-REBUILD 2x2", "CHR-NOREBUILD 2x2", "RANDOM-REBUILD 2x2",
    "RANDOM-NOREBUILD 2x2", "REINDEX 2x2", "DEL 2x2", "R-EXP 2x2", "D-EXP 2x2", "WATA 2x2",
)  # fmt: skip


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("body", BODIES)
def test_an_archive_holds_the_result_at_its_instant(folder, body, partitions):
    watch, _ = run(folder, text_of(BODIES[body]), checkpoint=False, partitions=partitions)
    assert watch.instants[-1] == 119 // 7 * 7_000_000
    assert watch.instants == sorted(watch.instants)
    updates = {instant for instant in watch.instants if instant is not None}
    assert sum(bool(report.archives) for report in watch.reports) == len(updates)
    assert any(report.archives for report in watch.reports)
    assert all(update.unmatched == 0 for report in watch.reports for update in report.archives.values())
    assert all("kept" not in report.answers for report in watch.reports)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_technique(folder, technique):
    run(folder, text_of(JOIN, technique), checkpoint=False)


def test_a_run_that_is_stopped_goes_on(folder):
    for _ in range(4):
        run(folder, text_of(STRICT), batches=1)
    watch, summary = run(folder, text_of(STRICT))
    assert not summary.interrupted
    assert watch.instants[-1] == 119 // 7 * 7_000_000


@pytest.mark.parametrize("body", ["join", "strict", "groups"])
@pytest.mark.parametrize("broken", [(Checkpoint, "commit"), (ArchiveWriter, "commit")])
def test_a_batch_that_is_cut_off_is_repeated(folder, monkeypatch, body, broken):
    """Between the archive and the manifest, or before the archive: nothing is there twice, nothing lost."""
    owner, name = broken
    text = text_of(BODIES[body])
    whole = getattr(owner, name)
    for survived in (1, 1, 2):
        calls: list[None] = []

        def failing(self, *args, calls=calls, survived=survived):
            calls.append(None)
            if len(calls) > survived:
                raise RuntimeError("cut off")
            return whole(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, failing)
            with pytest.raises(RuntimeError, match="cut off"):
                run(folder, text, batch_rows=13)
    watch, summary = run(folder, text, batch_rows=13)
    assert not summary.interrupted
    assert watch.instants[-1] == 119 // 7 * 7_000_000


@pytest.mark.parametrize("partitions", [None, 1, 3])
@pytest.mark.parametrize("size", [13, 70])
def test_archives_beside_an_aggregate_over_a_sliding_join(folder, partitions, size):
    """What a join synopsis answers is what it is without archives; they hold what they hold without it."""
    joined = """
        CREATE INDEX by_k ON a (k) USING AUTO;
        CREATE QUERY counts INTO 'jsonl:counts.jsonl' AS SELECT a.k, COUNT(*) AS n, SUM(b.v) AS s
          FROM a [RANGE 9 SEC SLIDE 3 SEC], b [RANGE 6 SEC SLIDE 3 SEC] WHERE a.k = b.k GROUP BY a.k;
    """
    text = text_of(JOIN).replace("TIMESTAMP BY ts FROM 'json:a.jsonl'", RETAINED)
    bare = text.partition("CREATE QUERY")[0]
    run_program(bind_program(f"{bare}{joined}"), base_dir=folder, runtime="inline")
    expected = sorted((folder / "counts.jsonl").read_text().splitlines())
    second = text_of(LATEST, name="second").partition("CREATE ARCHIVE")[2]
    text = f"{text}CREATE ARCHIVE{second}{joined}"
    for _ in range(3):
        run(folder, text, batch_rows=size, batches=1, partitions=partitions)
    watch, _ = run(folder, text, batch_rows=size, partitions=partitions)
    assert sorted((folder / "counts.jsonl").read_text().splitlines()) == expected
    assert watch.instants[-1] == 119 // 7 * 7_000_000


def test_another_run_replaces_the_archive(folder):
    run(folder, text_of(JOIN), checkpoint=False)
    with open_snapshot(folder / "archives" / "kept") as before:
        version = before.manifest.version
        run(folder, text_of(GROUPS), checkpoint=False)
        assert before.scan().column_names == ["k", "v", "w"]
    with open_snapshot(folder / "archives" / "kept") as after:
        assert after.manifest.version > version
        assert after.scan().column_names == ["k", "n", "s"]


def test_the_technique_may_change_between_two_runs(folder):
    run(folder, text_of(JOIN, "REBUILD 2x2"), batches=2)
    run(folder, text_of(JOIN, "NOREBUILD 3x2"))
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        assert snapshot.describe().techniques[-1] == "norebuild 3x2"


def test_another_definition_is_refused(folder):
    run(folder, text_of(JOIN), batches=2)
    with pytest.raises(CheckpointError) as refused:
        run(folder, text_of(JOIN, every="9 SEC"))
    assert "kept" in str(refused.value.got)


def test_an_archive_is_dropped_and_added_between_two_runs(folder):
    text = text_of(JOIN)
    query, _, _ = text.partition("CREATE ARCHIVE")
    run(folder, text, batches=2)
    through = check(folder)
    stopping = StopAfter(1)
    run_program(
        bind_program(query),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "checkpoint",
        batch_rows=37,
        monitor=stopping,
        stop=stopping.stop,
    )
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        assert snapshot.through == through
    # It begins anew, with what comes from now on.
    whole = StopAfter()
    run_program(
        bind_program(text),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "checkpoint",
        batch_rows=37,
        monitor=whole,
    )
    assert check(folder) == 119 // 7 * 7_000_000


def test_an_archive_that_was_put_back_is_found_out(folder):
    run(folder, text_of(JOIN), batches=3)
    for file in sorted((folder / "archives" / "kept" / "versions").iterdir()):
        file.unlink()
    with pytest.raises(ArchiveError) as refused:
        run(folder, text_of(JOIN))
    assert refused.value.id == "archive-behind"


# ------------------------------------------------------------------------------------- questions


def asked(folder, question, text=None):
    program = bind_program(f"{text or text_of(JOIN)}{question};")
    return once_archived(without_archives(program.one_time[0], program, folder), folder).table.to_pylist()


def test_questions(folder):
    run(folder, text_of(JOIN))
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        rows = snapshot.scan().to_pylist()
        shorter = snapshot.scan(within=10_000_000).num_rows
        instant = snapshot.through
    assert 0 < shorter < len(rows)
    assert asked(folder, "SELECT COUNT(*) AS n FROM kept") == [{"n": len(rows)}]
    assert asked(folder, "SELECT COUNT(*) AS n FROM kept [RANGE 10 SEC]") == [{"n": shorter}]
    for condition, holds in {
        "k = 3": lambda row: row["k"] == 3,
        "3 = k AND v > 4": lambda row: row["k"] == 3 and row["v"] > 4,
        "k BETWEEN 1 AND 2": lambda row: 1 <= row["k"] <= 2,
        "k > 1 AND 3 >= k": lambda row: 1 < row["k"] <= 3,
        "k IN (0, 4) AND w < 7": lambda row: row["k"] in (0, 4) and row["w"] < 7,
        "k = 2 OR v = 3": lambda row: row["k"] == 2 or row["v"] == 3,
        "k < -1": lambda row: False,
        "v = w": lambda row: row["v"] == row["w"],
    }.items():
        wanted = Counter(tuple(row.values()) for row in rows if holds(row))
        given = asked(folder, f"SELECT k, v, w FROM kept WHERE {condition}")
        assert Counter(tuple(row.values()) for row in given) == wanted, condition
    ordered = asked(folder, "SELECT k, COUNT(*) AS n FROM kept GROUP BY k ORDER BY n DESC, k LIMIT 2")
    counts = Counter(row["k"] for row in rows)
    assert [(row["k"], row["n"]) for row in ordered] == sorted(counts.items(), key=lambda e: (-e[1], e[0]))[
        :2
    ]
    pairs = asked(folder, "SELECT COUNT(*) AS n FROM kept x, kept y WHERE x.k = y.k AND x.k = 1")
    assert pairs == [{"n": counts[1] ** 2}]
    # The same with the checkpoint, and from the directory alone.
    for answer in (
        CheckpointReader(folder / "checkpoint").ask("SELECT COUNT(*) AS n FROM kept"),
        ask_archives([folder / "archives" / "kept"], "SELECT COUNT(*) AS n FROM kept"),
    ):
        assert answer.table.to_pylist() == [{"n": len(rows)}]
        assert answer.instant == instant


def test_a_probe_opens_only_the_rows_of_its_key(folder, monkeypatch):
    from sash.archive.snapshot import Snapshot

    run(folder, text_of(JOIN))
    seen = []
    read = Snapshot.read

    def watched(self, where=(), **options):
        seen.append(where)
        return read(self, where, **options)

    monkeypatch.setattr(Snapshot, "read", watched)
    asked(folder, "SELECT v FROM kept WHERE k = 3 AND v > 1")
    asked(folder, "SELECT v FROM kept WHERE v = 3")
    assert [len(where) for where in seen] == [1, 0]


def test_questions_of_a_program_are_answered_when_it_ends(folder):
    text = f"{text_of(JOIN)}SELECT COUNT(*) AS n FROM a [RANGE 20 SEC]; SELECT COUNT(*) AS n FROM kept;"
    _, summary = run(folder, text, checkpoint=False)
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        rows = snapshot.scan().num_rows
    assert [table.to_pylist() for table in summary.once.values()] == [[{"n": 20}], [{"n": rows}]]


@pytest.mark.parametrize(
    ("body", "window"),
    [
        (STRICT, "10 SEC"),
        (SLIDING, "9 SEC"),
        (LIFETIMES, "10 SEC"),
        (GROUPS, "10 SEC"),
        (JOIN, "21 SEC"),
        (JOIN.replace("a [RANGE 20 SEC]", "a [RANGE 30 SEC]"), "10 SEC"),
        ("SELECT k, v FROM a [RANGE 20 SEC SLIDE 6 SEC]", "14 SEC"),
    ],
)
def test_windows_that_an_archive_cannot_give(folder, body, window):
    run(folder, text_of(body), checkpoint=False)
    with pytest.raises(ArchiveError) as refused:
        asked(folder, f"SELECT k FROM kept [RANGE {window}]", text_of(body))
    assert refused.value.id == "archive-window"


def test_a_smaller_window_is_what_the_query_with_that_window_gives(folder):
    body = "SELECT k, v FROM a [RANGE 20 SEC SLIDE 2 SEC]"
    text = f"{text_of(body, every='10 SEC')}SELECT k, v FROM kept [RANGE 14 SEC];"
    _, summary = run(folder, text, checkpoint=False)
    lines = [json.loads(line) for line in (folder / "a.jsonl").read_text().splitlines()]
    wanted = Counter((row["k"], row["v"]) for row in lines if 110 - 14 < row["ts"] <= 110)
    (given,) = summary.once.values()
    assert Counter((row["k"], row["v"]) for row in given.to_pylist()) == wanted
    with pytest.raises(ArchiveError, match="slide"):
        asked(folder, "SELECT k FROM kept [RANGE 13 SEC]", text_of(body))


def test_what_there_is_to_show(folder):
    program = bind_program(text_of(JOIN))
    (row,) = described(program.archives, folder).to_pylist()
    assert (row["name"], row["rows"]) == ("kept", None)
    run(folder, text_of(JOIN))
    (row,) = described(program.archives, folder).to_pylist()
    assert row["technique"] == "rebuild 2x2"
    assert row["sub_indices"] == 4
    assert row["rows"] > 0
    assert (row["versions"], row["segments"]) == (2, 4)
    assert row["balance"] >= 1
    directory = folder / "archives" / "kept"
    for answer in (
        CheckpointReader(folder / "checkpoint").ask("SHOW ARCHIVES"),
        ask_archives([directory], "show archives;"),
    ):
        (shown,) = answer.table.to_pylist()
        assert shown | {"sink": row["sink"]} == row
        assert answer.instant == 119 // 7 * 7_000_000
    with pytest.raises(UserError, match="one SELECT, or SHOW ARCHIVES"):
        ask_archives([directory], "SHOW STREAMS")
    with pytest.raises(ArchiveError, match="there is no archive in"):
        ask_archives([folder / "a.jsonl"], "SHOW ARCHIVES")


@pytest.mark.parametrize(
    ("body", "technique", "said"),
    [
        (
            JOIN,
            "REBUILD 2x2",
            "rebuild 2x2, every 7 SEC, foreseen ends; an update touches 3 of 4 sub-indices",
        ),
        (JOIN, "LAZYREBUILD 3x3", "an update touches 4 of 9 sub-indices"),
        (
            STRICT,
            "AUTO",
            "norebuild 3x3 (AUTO: small as yet, asked little), every 7 SEC, foreseen ends, rows may",
        ),
        (LATEST, "COUNTREBUILD 4x4", "ends guessed from rates of arrival; an update touches 7 to 10 of 16"),
        (GROUPS, "AUTO", "guessed ends; an update touches"),
    ],
)
def test_explain_tells_the_technique_and_what_an_update_touches(body, technique, said):
    assert said in passes(bind_program(text_of(body, technique)))["kept"]


# -------------------------------------------------------------------------------------- refusals


def test_a_directory_with_other_things_is_refused(folder):
    (folder / "archives" / "kept").mkdir(parents=True)
    (folder / "archives" / "kept" / "thesis.txt").write_text("years of work")
    with pytest.raises(ArchiveError, match="something else"):
        run(folder, text_of(JOIN), checkpoint=False)
    assert not (folder / "log.jsonl").exists()


def test_a_directory_that_somebody_writes_to_is_refused(folder):
    run(folder, text_of(JOIN), checkpoint=False)
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        spec = snapshot.spec
    before = (folder / "log.jsonl").read_text()
    with ArchiveWriter(folder / "archives" / "kept", spec), pytest.raises(ArchiveError) as refused:
        run(folder, text_of(JOIN), checkpoint=False)
    assert refused.value.id == "archive-busy"
    assert (folder / "log.jsonl").read_text() == before


def test_a_query_that_writes_into_the_archive_is_refused(folder):
    text = text_of(JOIN).replace("jsonl:log.jsonl", "jsonl:archives/kept/log.jsonl")
    with pytest.raises(SinkError, match="directory of the archive kept"):
        run(folder, text, checkpoint=False)


def test_techniques_that_cannot_hold_a_result_are_refused(folder):
    with pytest.raises(ArchiveError) as refused:
        run(folder, text_of(LATEST, "LAZYREBUILD 2x2"), checkpoint=False)
    assert refused.value.id == "archive-technique"
    with pytest.raises(ArchiveError, match="two partitions"):
        run(folder, text_of(JOIN, "LAZYREBUILD 1x2"), checkpoint=False)


def test_names_and_results_that_never_expire():
    with pytest.raises(DuplicateName):
        bind_program(text_of(JOIN, name="log"))
    with pytest.raises(BindError):
        bind_program(text_of("SELECT k, v FROM a [UNBOUNDED]").replace("CREATE QUERY log", "--"))
