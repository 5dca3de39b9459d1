"""Isolation of one-time questions while a run commits, and the history that is recorded of it."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.engine.ingest.retained_files import Keep, RetainedFile, Snapshot, forget, keep_rows, live, open_kept
from sash.engine.ingest.watermarks import Clock, StreamState
from sash.engine.observe.history import RunHistory
from sash.engine.observe.report import StreamCounts
from sash.engine.reads.one_time_query import ATTEMPTS, OnceAnswer, look
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.errors import CheckpointError, UserError
from sash.lang import Program, bind_program
from sash.lang.bound import StreamDefinition
from sash.runtime.run import run_program
from sash.session import connect
from sash.testing.runs import StopAfter
from sash.transactions.check import Classification, classify
from sash.transactions.events import Aborted, Committed, Handed, Isolation, Read, Undone
from sash.transactions.history import History
from sash.transactions.recorder import HistoryFile, Memory
from sash.transactions.verify import verify_file

SECOND = 1_000_000
STREAMS = "".join(
    f"CREATE STREAM {name} (t BIGINT, n BIGINT) TIMESTAMP BY t SLACK 2 SEC RETAIN 20 SEC FROM 'csv:x.csv';\n"
    for name in ("s", "o")
)
SUM = "SELECT COUNT(*) AS c, SUM(n) AS n FROM s [RANGE 8 SEC];"
JOIN = "SELECT a.n FROM s [RANGE 8 SEC] a, o [RANGE 4 SEC] b WHERE a.n = b.n;"


class Pipeline:
    """Commits batches by hand: rows of (stream, second, n), and how far the clock is."""

    def __init__(self, folder: Path, follow: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self.memory = Memory()
        self.registry = SnapshotRegistry(recorder=self.memory, follow=follow)
        self.streams: dict[str, StreamDefinition] = {s.name: s for s in bind_program(STREAMS).streams}
        self.rows: list[tuple[str, int, int]] = []
        self._kept: list[RetainedFile] = []
        self._batch = -1

    def commit(self, through: int, rows: Iterable[tuple[str, int, int]]) -> None:
        self._batch += 1
        rows = list(rows)
        self.rows += rows
        for name, stream in self.streams.items():
            mine = [(t, n) for stream_name, t, n in rows if stream_name == name]
            if mine:
                ts = np.array([t * SECOND for t, _ in mine])
                table = pa.table({"t": [t for t, _ in mine], "n": [n for _, n in mine]})
                keep = Keep(self.folder, self._batch, durable=False)
                self._kept.append(keep_rows(keep, stream, 0, ts, table))
        passed = dict.fromkeys(self.streams, through * SECOND)
        self._kept = live(self._kept, self.streams.values(), passed)
        clock, states = Clock(dict.fromkeys(self.streams, 0), frozenset()), self._states(through)
        self.registry.commit(
            Snapshot(self.folder, self._batch, clock, states, passed, tuple(self._kept)),
            {stream.name: stream.retain or 0 for stream in self.streams.values()},
        )
        forget(Keep(self.folder, self._batch, durable=False), self._kept, self.streams.values())

    def _states(self, through: int) -> dict[str, StreamState]:
        states = {}
        for name in self.streams:
            instants = [t * SECOND for stream, t, _ in self.rows if stream == name]
            counts = StreamCounts(len(instants), 0, 0)
            states[name] = StreamState(through * SECOND + 1, min(instants, default=None), False, counts)
        return states

    def ask(self, text: str, isolation: Isolation | None = None) -> OnceAnswer:
        return look(question(text), self.registry, self.folder, isolation)

    def check(self, text: str, answer: OnceAnswer) -> None:
        """The answer is that of the rows at its instant, computed by hand."""
        assert answer.instant is not None
        now = answer.instant // SECOND
        near = [n for stream, t, n in self.rows if stream == "s" and now - 8 < t <= now]
        expected: list[tuple[int | None, ...]]
        if text == SUM:
            first = min((t for stream, t, _ in self.rows if stream == "s"), default=None)
            expected = [] if first is None or first > now else [(len(near), sum(near) if near else None)]
        else:
            other = [n for stream, t, n in self.rows if stream == "o" and now - 4 < t <= now]
            expected = [(a,) for a in near for b in other if a == b]
        assert sorted(tuple(row.values()) for row in answer.table.to_pylist()) == sorted(expected)

    def classified(self) -> Classification:
        return classify(History.of((), self.memory.events, start=-1, instant=-(1 << 62)))


def question(text: str) -> Program:
    return bind_program(STREAMS + text)


def second(now: int) -> list[tuple[str, int, int]]:
    return [("s", now, now), ("s", now, 1), ("o", now, now % 3)]


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files as they are opened."""
    names: list[str] = []
    original = open_kept

    def note(path: Path) -> pa.Table:
        names.append(path.name)
        return original(path)

    monkeypatch.setattr("sash.engine.ingest.retained_files.open_kept", note)
    return names


def sliding(folder: Path, commits: int) -> Pipeline:
    """A pipeline at second 30, which commits another second `commits` times when somebody looks."""
    left = [commits]

    def follow() -> None:
        if left[0]:
            left[0] -= 1
            now = 30 + commits - left[0]
            run.commit(now, second(now))

    run = Pipeline(folder, follow)
    for now in range(31):
        run.commit(now, second(now))
    return run


def test_an_lws_answer_is_that_of_the_newest_state_and_reads_only_what_is_new(tmp_path, monkeypatch):
    #  seconds:  … 23 24 25 26 27 28 29 30 │ 31 32 33
    #  read:        ────────────────────── │ ── ── ──   each file once, the newest first
    run = sliding(tmp_path, 3)
    names = opened(monkeypatch)
    answer = run.ask(SUM)
    assert (answer.instant, answer.batch, answer.isolation) == (33 * SECOND, 33, Isolation.LWS)
    run.check(SUM, answer)
    assert len(names) == len(set(names))
    assert names[0].startswith("s.0.00000030-")
    assert [name.partition("-")[0] for name in names[-3:]] == [f"s.0.000000{batch}" for batch in (31, 32, 33)]
    kinds = {type(event) for event in run.memory.events}
    assert Read in kinds
    assert {Handed, Undone} & kinds
    assert Aborted not in kinds
    found = run.classified()
    assert found.violation is None
    assert found.is_latest_window_serializable


def test_a_ws_answer_is_that_of_the_state_when_it_was_asked(tmp_path, monkeypatch):
    run = sliding(tmp_path, 0)
    original = open_kept
    late = iter(range(31, 40))

    def slow(path: Path) -> pa.Table:
        table = original(path)
        now = next(late, None)
        if now is not None:
            run.commit(now, second(now))
        return table

    monkeypatch.setattr("sash.engine.ingest.retained_files.open_kept", slow)
    answer = run.ask(SUM.replace(";", " WITH (isolation = 'ws');"))
    assert (answer.instant, answer.isolation) == (30 * SECOND, Isolation.WS)
    run.check(SUM, answer)
    found = run.classified()
    assert found.violation is None
    assert found.is_window_serializable
    assert not found.is_latest_window_serializable
    assert run.ask(SUM).instant == 39 * SECOND


def test_who_asks_chooses_the_isolation(tmp_path):
    run = sliding(tmp_path, 0)
    assert run.ask(SUM).isolation is Isolation.LWS
    assert run.ask(SUM, Isolation.WS).isolation is Isolation.WS
    asked_ws = SUM.replace(";", " WITH (isolation = 'WS');")
    assert run.ask(asked_ws).isolation is Isolation.WS
    assert run.ask(asked_ws, Isolation.LWS).isolation is Isolation.LWS


def test_a_run_that_always_commits_first_starves_no_question(tmp_path):
    run = sliding(tmp_path, 1_000)
    answer = run.ask(SUM)
    # So often it was overtaken; then it held on to the state that it had.
    assert (answer.isolation, answer.instant) == (Isolation.WS, (30 + ATTEMPTS) * SECOND)
    run.check(SUM, answer)
    assert isinstance(run.memory.events[-1], Committed)
    found = run.classified()
    assert found.violation is None
    assert found.is_complete


def test_files_of_a_state_that_is_read_are_named(tmp_path):
    run = sliding(tmp_path, 0)
    assert run.registry.latest is not None
    with run.registry.reading("q", {"s": 8 * SECOND}, Isolation.WS) as reading:
        list(reading.steps())
        held = run.registry.latest
        run.commit(60, second(60))
        assert run.registry.read == [held]
        assert reading.state is held
    assert run.registry.read == []


def test_a_ledger_that_is_closed_takes_no_more_questions(tmp_path):
    run = sliding(tmp_path, 0)
    run.registry.close()
    with pytest.raises(UserError, match="the run has ended"):
        run.ask(SUM)


@pytest.mark.parametrize("isolation", list(Isolation))
def test_files_that_are_removed_before_they_are_opened_do_not_matter(tmp_path, monkeypatch, isolation):
    run = sliding(tmp_path, 0)
    original = open_kept
    has_jumped: list[bool] = []

    def jump(path: Path) -> pa.Table:
        if not has_jumped:
            has_jumped.append(True)
            # All that the question was to read is gone.
            run.commit(60, second(60))
        return original(path)

    monkeypatch.setattr("sash.engine.ingest.retained_files.open_kept", jump)
    answer = run.ask(SUM, isolation)
    assert answer.instant == 60 * SECOND
    run.check(SUM, answer)
    assert run.classified().violation is None


def test_a_file_that_somebody_removed_is_told(tmp_path):
    run = sliding(tmp_path, 0)
    for path in tmp_path.glob("*.arrow"):
        path.unlink()
    for isolation in Isolation:
        with pytest.raises(CheckpointError, match="is gone"):
            run.ask(SUM, isolation)


def test_a_stream_that_is_dropped_meanwhile_ends_the_question(tmp_path, monkeypatch):
    run = sliding(tmp_path, 0)
    original = open_kept
    stream = run.streams["o"]

    def drop(path: Path) -> pa.Table:
        if run.streams.pop("o", None):
            run.commit(31, second(31)[:2])
        return original(path)

    monkeypatch.setattr("sash.engine.ingest.retained_files.open_kept", drop)
    with pytest.raises(UserError, match="dropped meanwhile"):
        run.ask(JOIN)
    with pytest.raises(UserError, match="is not read by the run"):
        run.ask(JOIN)
    monkeypatch.undo()
    run.streams["o"] = stream
    run.commit(32, second(32))
    run.rows = [row for row in run.rows if row[0] == "s" or row[1] > 31]
    run.check(JOIN, run.ask(JOIN))
    assert run.classified().violation is None


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.sampled_from([SUM, JOIN]), st.sampled_from(list(Isolation)))
def test_answers_under_any_commits_are_true_and_have_what_was_promised(
    tmp_path_factory, rng, text, isolation
):
    """Commits of any length come between any two looks; every answer is checked, and the history."""
    clock = [0]

    def advance() -> None:
        # Rows may be two seconds ahead of the clock, and time may stand still or jump.
        before = clock[0]
        clock[0] += rng.choice((0, 0, 1, 1, 1, 2, 5, 23))
        rows = [
            (rng.choice("so"), rng.randint(before + 1, max(before + 1, clock[0]) + 2), rng.randrange(5))
            for _ in range(rng.randrange(6))
        ]
        run.commit(clock[0], rows)

    def follow() -> None:
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            advance()

    run = Pipeline(tmp_path_factory.mktemp("kept"), follow)
    for _ in range(10):
        advance()
        answer = run.ask(text, isolation)
        run.check(text, answer)
        if isolation is Isolation.LWS:
            assert answer.instant == clock[0] * SECOND
    found = run.classified()
    assert len(found.verdicts) == 10
    assert found.violation is None


def test_readers_beside_a_pipeline_that_does_not_wait(tmp_path):
    run = Pipeline(tmp_path)
    run.commit(0, second(0))
    is_over = threading.Event()
    answers: list[tuple[str, OnceAnswer]] = []
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not is_over.is_set():
                text = rng.choice((SUM, JOIN))
                answers.append((text, run.ask(text, rng.choice(list(Isolation)))))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    now = 0
    while (len(answers) < 60 or now < 200) and not failures:
        now += 1
        run.commit(now, second(now))
        is_over.wait(0.005)
    is_over.set()
    for thread in threads:
        thread.join(30)
    assert not failures
    for text, answer in answers:
        run.check(text, answer)
    found = run.classified()
    assert len(found.verdicts) == len(answers)
    assert found.violation is None


# ------------------------------------------------------------------ recorded runs

STREAM = (
    "CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts RETAIN 2 SEC "
    "FROM 'generator:packets' WITH (rate = 2000)"
)


def test_the_history_of_a_session_is_recorded_and_kept_its_promises(tmp_path):
    path = tmp_path / "history.jsonl"
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=300, record_history=path) as session:
        session.sql(STREAM)
        counts = session.query("Rstream(SELECT COUNT(*) AS n FROM p [RANGE 1 SEC SLIDE 1 SEC])")
        next(iter(counts))
        for isolation in ("lws", "ws", None):
            table = session.ask("SELECT COUNT(*) AS n FROM p [RANGE 1 SEC]", isolation=isolation)
            assert table.schema.metadata[b"sash.isolation"] == (isolation or "lws").encode()
            assert b"sash.instant" in table.schema.metadata
        with pytest.raises(UserError, match="no isolation 'best'"):
            session.ask("SELECT COUNT(*) AS n FROM p [RANGE 1 SEC]", isolation="best")
    found = verify_file(path)
    assert found.violation is None
    assert "3 committed queries (1 ws, 2 lws), 0 aborted" in found.lines[0]


def test_what_a_synopsis_answers_is_a_transaction_too(tmp_path):
    path = tmp_path / "history.jsonl"
    options = {"runtime": "inline", "batch_rows": 300, "checkpoint": tmp_path / "state"}
    with connect(base_dir=tmp_path, record_history=path, **options) as session:
        # Without RETAIN there are no rows to read.
        session.sql(STREAM.replace("RETAIN 2 SEC", ""))
        counts = session.query("Rstream(SELECT COUNT(*) AS n FROM p [RANGE 4 SEC SLIDE 1 SEC])")
        answers = iter(counts)
        for isolation in ("lws", "ws"):
            seen = int(next(answers).at.timestamp() * 1_000_000)
            table = session.ask("SELECT COUNT(*) AS n FROM p [RANGE 2 SEC SLIDE 1 SEC]", isolation=isolation)
            assert table.schema.metadata[b"sash.isolation"] == isolation.encode()
            assert int(table.schema.metadata[b"sash.instant"]) >= seen
            assert table.column("n")[0].as_py() > 0
    found = verify_file(path)
    assert found.violation is None
    assert "2 committed queries (1 ws, 1 lws), 0 aborted" in found.lines[0]


def test_a_run_that_goes_on_appends_to_the_history(tmp_path):
    rows = "".join(f"{t},{t}\n" for t in range(40))
    (tmp_path / "x.csv").write_text(f"t,n\n{rows}")
    text = STREAMS + "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 1 SEC];"
    path = tmp_path / "history.jsonl"
    for batches in (4, None):
        monitor = StopAfter(batches)
        run_program(
            bind_program(text),
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "state",
            batch_rows=4,
            record_history=path,
            monitor=monitor,
            stop=monitor.stop,
        )
    found = verify_file(path)
    assert found.violation is None
    assert found.lines[0].startswith("history 1 of 2: 4 movements of 1 rings")
    assert found.lines[6].startswith("history 2 of 2: ")


def test_a_file_that_holds_something_else_is_left_alone(tmp_path):
    path = tmp_path / "program.cql"
    path.write_text("SELECT 1;\n")
    with pytest.raises(UserError, match="holds no history"):
        RunHistory(path, -1, pytest.fail)
    assert path.read_text() == "SELECT 1;\n"
    with pytest.raises(UserError, match="cannot write a history") as caught:
        RunHistory(tmp_path / "none" / "history.jsonl", -1, pytest.fail)
    assert caught.value.id == "record-history"


def test_a_disk_that_refuses_is_told_once_and_the_history_until_then_can_be_checked(tmp_path, monkeypatch):
    warnings: list[str] = []
    path = tmp_path / "history.jsonl"
    run = Pipeline(tmp_path)
    history = RunHistory(path, -1, warnings.append)
    run.registry = SnapshotRegistry(recorder=history)
    run.commit(1, second(1))
    run.ask(SUM)
    history.flush()

    def refuse(file: HistoryFile) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(HistoryFile, "flush", refuse)
    for now in (2, 3):
        run.commit(now, second(now))
        history.flush()
    history.close()
    (warning,) = warnings
    assert "the disk is full" in warning
    assert "the run goes on" in warning
    monkeypatch.undo()
    found = verify_file(path)
    assert found.violation is None
    assert found.lines[0].startswith("1 movements of 2 rings; 1 committed queries (1 lws)")
