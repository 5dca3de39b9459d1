"""Updates of archives in the background, results of windows of rows, and AUTO that is asked often."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.archive.crash_kit import Countdown
from tests.unit.engine.archives.archiving_kit import BODIES, JOIN, STRICT, check, folder, run, text_of
from tests.unit.engine.observe.metrics.metrics_kit import parse, value

from sash.archive import BORN, ArchiveWriter, asked, open_snapshot
from sash.engine import engine, outputs
from sash.engine.archives.archive_output import ArchiveSink
from sash.engine.archives.expected_lifetimes import ExpectedLives
from sash.engine.archives.pending_updates import PROMISED, Promises
from sash.engine.durability.checkpoint import Checkpoint
from sash.engine.ingest.watermarks import StreamState
from sash.engine.observe.metrics import PrometheusMetrics
from sash.engine.observe.report import StreamCounts
from sash.errors import ArchiveError
from sash.plan.lifetimes import ARRIVAL, Counted

__all__ = ["folder"]
SECOND = 1_000_000
END = 119 // 7 * 7 * SECOND


@pytest.fixture
def in_background(monkeypatch):
    """Archives are updated while batches go on, as on Spark."""
    monkeypatch.setattr(outputs, "ArchiveSink", Background)


class Background(ArchiveSink):
    def __init__(self, *args, in_background):
        super().__init__(*args, in_background=not in_background)


def promised(folder):
    directory = folder / "archives" / "kept" / PROMISED
    return sorted(int(path.name) for path in directory.iterdir()) if directory.exists() else []


def held(folder):
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        return snapshot.manifest


@pytest.mark.usefixtures("in_background")
@pytest.mark.parametrize("body", BODIES)
def test_an_archive_in_the_background_holds_the_result_at_its_instant(folder, body):
    run(folder, text_of(BODIES[body]), batches=3)
    watch, _ = run(folder, text_of(BODIES[body]), batch_rows=25)
    assert watch.instants[-1] == END
    assert promised(folder) == []
    assert watch.reports[-1].archives


@pytest.mark.usefixtures("in_background")
def test_batches_are_committed_while_an_update_goes_on(folder, monkeypatch):
    go_on = threading.Event()
    update = ArchiveWriter.update

    def slow(self, changes, *args):
        # The promise comes first: an update that is over forgets it.
        assert promised(folder) == [changes.through]
        assert go_on.wait(60)
        return update(self, changes, *args)

    class Seen(Checkpoint):
        def commit(self, manifest):
            super().commit(manifest)
            through = manifest.sinks["kept"]["through"]
            if not go_on.is_set() and through != held(folder).through:
                seen.append(through)
                assert promised(folder) == [through]
                go_on.set()

    seen: list[int] = []
    monkeypatch.setattr(ArchiveWriter, "update", slow)
    monkeypatch.setattr(engine, "Checkpoint", Seen)
    watch, _ = run(folder, text_of(JOIN), batch_rows=40)
    assert seen
    assert watch.instants[-1] == END


@pytest.mark.usefixtures("in_background")
@pytest.mark.parametrize("body", ["join", "strict", "latest"])
def test_what_was_promised_is_done_by_the_next_run(folder, monkeypatch, body):
    """Updates are cut off after their promise, again and again."""
    text = text_of(BODIES[body])
    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(ArchiveWriter, "commit", cut_off)
            with pytest.raises(RuntimeError, match="cut off"):
                run(folder, text, batch_rows=13)
        assert promised(folder)
    watch, _ = run(folder, text, batch_rows=13)
    assert watch.instants[-1] == END
    assert promised(folder) == []


def cut_off(*_):
    raise RuntimeError("cut off")


class Killed(BaseException):
    """Not an error that anybody handles."""


def kill():
    raise Killed


@pytest.mark.usefixtures("in_background")
def test_a_run_that_is_cut_off_at_random_operations_on_files_goes_on(folder, monkeypatch):
    """In whatever thread, of the archive, its promises, the checkpoint or the log."""
    rng = random.Random(7)
    cut = 0
    for _ in range(12):
        with monkeypatch.context() as patched:
            Countdown(rng.randrange(20, 200), kill).install(patched.setattr)
            try:
                run(folder, text_of(STRICT), batch_rows=25)
                break
            except Killed:
                cut += 1
    assert cut > 3
    run(folder, text_of(STRICT), batch_rows=25)
    assert check(folder) == END
    assert promised(folder) == []


def test_what_another_run_promised_is_forgotten_by_one_that_begins_anew(folder):
    run(folder, text_of(JOIN), checkpoint=False)
    directory = folder / "archives" / "kept" / PROMISED
    directory.mkdir()
    (directory / "7000000").write_bytes(b"of another time")
    watch, _ = run(folder, text_of(JOIN), checkpoint=False)
    assert promised(folder) == []
    assert watch.instants[-1] == END


@pytest.mark.usefixtures("in_background")
def test_a_promise_that_is_gone_is_found_out(folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ArchiveWriter, "commit", cut_off)
        with pytest.raises(RuntimeError, match="cut off"):
            run(folder, text_of(JOIN), batch_rows=13)
    Promises(folder / "archives" / "kept").forget()
    with pytest.raises(ArchiveError) as refused:
        run(folder, text_of(JOIN), batch_rows=13)
    assert refused.value.id == "archive-behind"


# --------------------------------------------------------------------------------- windows of rows


def arrived(rows, seconds):
    return {"a": StreamState(seconds * SECOND, 0, False, StreamCounts(rows))}


def test_lives_follow_the_rate_of_arrivals():
    """7 rows at a row a second live 7 s; when rows come twice as fast, the guess comes nearer to 3.5 s."""
    lives = ExpectedLives([Counted("a", 7, "a")], 1, {"a": SECOND})
    assert (lives.longest, lives.deaths(results([8]), 10 * SECOND)) == (None, None)
    lives.observe(arrived(10, 10))
    # At 10 s there have come two more since the 8th: five are to come, at a row a second.
    assert (lives.longest, deaths(lives, [8, 10], 10)) == (7 * SECOND, [15, 17])
    lives.observe(arrived(30, 20))
    assert lives.longest == round(7 / 1.5 * SECOND)
    # Two a second have come since 10 s, so four since 18 s: three are to come, in 2 s.
    assert deaths(lives, [18], 20) == [22]
    lives.observe(arrived(30, 20))
    assert lives.longest == round(7 / 1.5 * SECOND)


def test_a_result_is_to_leave_with_the_first_of_its_parts():
    """
    a: a row a second, 8 in the window     arrived 9 s ──────────── leaves 17 s
    b: a row a second, 4 in the window        arrived 8 s ─── 12 s
    """
    windows = [Counted("a", 8, "a"), Counted("a", 4, "a#2")]
    lives = ExpectedLives(windows, 2, {"a": SECOND})
    lives.observe(arrived(10, 10))
    assert deaths(lives, [9, 10, 10], 10, a=[9, 4, 10], b=[8, 10, 10]) == [12, 12, 14]
    # Where a window of time takes results away, too, only an average is known.
    mixed = ExpectedLives([Counted("a", 8, "a")], 2, {"a": SECOND})
    mixed.observe(arrived(10, 10))
    assert deaths(mixed, [9, 10], 10) == [13, 14]


def results(born, **parts):
    """Results with the instants of their birth and, in the stream's unit, of the arrival of their parts."""
    names = {"a": f"{ARRIVAL}a", "b": f"{ARRIVAL}a#2"}
    columns = {BORN: pa.array([each * SECOND for each in born], pa.int64())}
    return pa.table(columns | {names[name]: pa.array(times, pa.int64()) for name, times in parts.items()})


def deaths(lives, born, at, **parts):
    found = lives.deaths(results(born, **parts), at * SECOND)
    assert found is not None
    return (found // SECOND).tolist()


TWO = "SELECT a.k, a.v, b.v AS w FROM a [ROWS 20 SLIDE 2], b [ROWS 10 SLIDE 2] WHERE a.k = b.k"
THREE = (
    "SELECT x.k, x.v, b.v AS w FROM a [ROWS 20] x, b [ROWS 12], a [ROWS 9] y "
    "WHERE x.k = b.k AND b.k = y.k AND x.v > 2"
)
RATES = {
    "random": (THREE, lambda rng, ts: rng.randint(0, 4)),
    "alternating": (TWO, lambda rng, ts: 1 if ts // 12 % 2 else 5),
    "with a silence": (TWO, lambda rng, ts: 0 if 20 <= ts < 35 else 2),
}


@pytest.mark.parametrize("rates", RATES)
def test_joins_of_windows_of_rows_at_any_rates(folder, rates):
    """Whatever the guesses, after every batch the archive holds just the live results; stopped once."""
    body, rate = RATES[rates]
    rng = random.Random(rates)
    arrive(folder, rng, 60, rate, 9)
    technique = {"random": "COUNTREBUILD 3x3", "alternating": "COUNTNOREBUILD 2x4"}.get(rates, "AUTO")
    text = text_of(body, technique, every="4 SEC")
    first, _ = run(folder, text, batch_rows=26, batches=3)
    rest, _ = run(folder, text, batch_rows=34)
    reports = (*first.reports, *rest.reports)
    updates = [report.archives["kept"] for report in reports if report.archives]
    assert len(updates) > 5
    assert all(update.unmatched == 0 for update in updates)
    assert sum(update.removed for update in updates) > 30


def test_what_leaves_a_join_of_windows_of_rows_lies_where_the_guess_says(folder):
    """Two rows a second in each stream, and hardly any equal results, of which another one could go."""
    arrive(folder, random.Random(3), 70, lambda rng, ts: 2, 1 << 40)
    body = "SELECT a.k, a.v, b.v AS w FROM a [ROWS 40], b [ROWS 25] WHERE a.k = b.k"
    watch, _ = run(folder, text_of(body, "COUNTREBUILD 4x4", every="2 SEC"), batch_rows=12, checkpoint=False)
    updates = [report.archives["kept"] for report in watch.reports if report.archives][9:-1]
    assert len(updates) > 9
    assert all(0 < update.sought <= update.scheduled < update.sub_indices for update in updates)


def arrive(folder, rng, seconds, rate, values):
    """Rows of both streams, so many in each second as `rate` says."""
    for name in "ab":
        rows = [
            {"ts": ts, "k": rng.randint(0, 4), "v": rng.randint(0, values), "life": 0}
            for ts in range(seconds)
            for _ in range(rate(rng, ts))
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_results_of_a_window_of_rows_are_laid_out_by_the_rate(folder):
    """A row a second: [ROWS 15] lives 15 s, not 16 updates of 5 s, and is found where the guess says."""
    body = "SELECT k, v FROM a [ROWS 15]"
    watch, _ = run(folder, text_of(body, "AUTO", every="5 SEC"), batch_rows=5, checkpoint=False)
    manifest = held(folder)
    assert manifest.entry.technique == "countnorebuild"
    assert manifest.entry.span is not None
    assert 20_000_000 <= manifest.entry.span <= 40_000_000
    updates = [report.archives["kept"] for report in watch.reports if report.archives]
    assert all(update.unmatched == 0 for update in updates)
    # What leaves lies in the sub-indices that the update touches anyway.
    assert any(update.sought for update in updates)
    assert all(update.sought <= update.scheduled < update.sub_indices for update in updates[1:-1])


# ------------------------------------------------------------------------------------------- AUTO


class Asking:
    """Asks the archive so many questions after every batch."""

    def __init__(self, folder, questions):
        self._archive = folder / "archives" / "kept"
        self._questions = questions
        self.techniques: list[str] = []

    def __call__(self):
        for _ in range(self._questions):
            with open_snapshot(self._archive) as snapshot:
                snapshot.probe(1)
        with open_snapshot(self._archive) as snapshot:
            self.techniques.append(snapshot.describe().techniques[-1])


def test_auto_goes_over_to_rebuild_when_it_is_asked_often_and_back(folder, monkeypatch):
    text = text_of(JOIN, "AUTO", every="2 SEC")
    asking = Asking(folder, 40)
    commit = ArchiveSink.commit

    def asked(self):
        committed = commit(self)
        if self.report is not None:
            asking()
        return committed

    monkeypatch.setattr(ArchiveSink, "commit", asked)
    run(folder, text, batch_rows=11, batches=8)
    assert asking.techniques[0] == "norebuild 4x4"
    assert asking.techniques[-1] == "rebuild 2x2"
    assert held(folder).pace > 16
    asking._questions = 0
    watch, _ = run(folder, text, batch_rows=11)
    assert asking.techniques[-1] == "norebuild 4x4"
    assert [report.archives["kept"].asked for report in watch.reports if report.archives][-1] == 1


def test_questions_are_counted_by_the_archive_itself(tmp_path: Path):
    (tmp_path / asked.ASKED).write_bytes(b".." * (1 << 20))
    assert asked.questions(tmp_path, 100) == ((2 << 20) - 100, 0)
    asked.note_question(tmp_path)
    assert asked.questions(tmp_path, 0) == (1, 1)
    assert asked.questions(tmp_path / "elsewhere", 3) == (0, 0)
    asked.note_question(tmp_path / "elsewhere")


# ---------------------------------------------------------------------------------------- metrics


def test_metrics_tell_what_updates_open_read_and_write(folder, tmp_path):
    page = tmp_path / "sash.prom"
    watch, _ = run(folder, text_of(JOIN, "REBUILD 2x2", every="5 SEC"), batch_rows=10, checkpoint=False)
    metrics = PrometheusMetrics(pytest.fail, page)
    for report in watch.reports:
        metrics.batch(report)
    found = parse(page.read_text())
    updates = [report.archives["kept"] for report in watch.reports if report.archives]
    for name, counted in (
        ("sub_indices_scheduled_total", "scheduled"),
        ("segments_opened_total", "opened"),
        ("bytes_written_total", "bytes_written"),
        ("questions_total", "asked"),
    ):
        total = sum(getattr(update, counted) for update in updates)
        assert value(found, f"sash_archive_{name}", archive="kept") == total > 0
    for name in ("version", "rows", "bytes", "sub_indices"):
        assert value(found, f"sash_archive_{name}", archive="kept") == getattr(updates[-1], name) > 0
    # Where one interval has passed, G + E - 1 of the sub-indices are touched.
    assert min(update.scheduled for update in updates) == 3
