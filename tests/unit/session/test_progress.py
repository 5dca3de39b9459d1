"""What answers say of themselves, to whoever reads handles and asks questions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.session.kit import STREAM, SUMS, contents, log_of, session_over, write_rows

from sash.engine.engine import Engine
from sash.engine.observe.report import RECORD, AnswerRecord
from sash.session import Answer, connect

TELLING = " WITH (progress = true)"


def record(answer: Answer) -> AnswerRecord:
    assert answer.record is not None
    return answer.record


def told(table: pa.Table) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.schema.metadata[RECORD])
    return found


@pytest.mark.parametrize("text", [SUMS, f"Rstream({SUMS})", "SELECT v FROM s [RANGE 3 SEC]"])
def test_a_handle_gives_progress_between_the_same_answers(tmp_path, text):
    with session_over(tmp_path, 30, batch_rows=4) as session:
        plain, telling = session.query(text), session.query(text + TELLING)
        answers = list(telling)
        assert log_of(iter(answers)) == log_of(iter(plain))
        assert contents(telling) == contents(plain)
        assert telling.latest().schema == plain.latest().schema
    progress = [answer for answer in answers if answer.is_progress]
    assert [answer.at for answer in progress] == [record(answer).instant for answer in progress]
    assert progress[-1] is answers[-1]
    assert progress[-1].at == 30
    assert repr(progress[-1]) == "<answered up to 30>"
    assert len(progress) > 3
    assert all(answer.rows.num_rows == 0 for answer in progress)
    assert {answer.rows.schema for answer in answers} == {answers[0].rows.schema}
    instants = [answer.at for answer in answers]
    assert instants == sorted(instants)


def test_what_is_pending_gives_way_to_the_contents_also_before_the_first_answer(tmp_path):
    with session_over(tmp_path, 30, batch_rows=3) as session:
        handle = session.query(f"SELECT v FROM s [RANGE 9 SEC] WHERE v > 100{TELLING}", max_pending=2)
        full = session.query(f"SELECT v FROM s [RANGE 9 SEC]{TELLING}", max_pending=2)
        session.wait()
        assert list(handle) == []
        (answer,) = list(full)
        assert (answer.at, answer.is_progress) == (30, False)
        assert [row["v"] for row in answer.rows.to_pylist()] == list(range(22, 31))
        assert handle.missed > 0


def test_progress_goes_on_after_a_restart_and_the_view_is_whole(tmp_path):
    write_rows(tmp_path, 30)
    seen: list[Answer] = []
    for _ in range(2):
        with connect(tmp_path, runtime="inline", checkpoint=tmp_path / "state", batch_rows=2) as session:
            session.sql(STREAM)
            handle = session.query(f"SELECT v FROM s [RANGE 5 SEC]{TELLING}", name="q")
            for answer in handle:
                seen.append(answer)
                if len(seen) == 9:
                    session.stop()
            if seen[-1].at == 30:
                assert contents(handle) == [(v,) for v in range(26, 31)]
    progress = [answer.at for answer in seen if answer.is_progress]
    assert progress == sorted(set(progress))
    assert progress[-1] == 30


def test_a_query_that_comes_into_a_run_tells_that_its_windows_are_not_whole_yet(tmp_path):
    with session_over(tmp_path, 40, batch_rows=1) as session:
        late = None
        for answer in session.query("Istream(SELECT v FROM s)", max_pending=1):
            if answer.at == 10:
                late = session.query(
                    f"Rstream(SELECT SUM(v) AS x FROM s [RANGE 12 SEC SLIDE 1 SEC]){TELLING}"
                )
        assert late is not None
        answers, whole = list(late), late.whole_from
    assert whole is not None
    progress = [answer for answer in answers if answer.is_progress]
    assert progress[0].at < whole
    for answer in progress:
        assert record(answer).is_complete is (answer.at >= whole)
        assert record(answer).lacking_until == (None if answer.is_complete else whole)
    assert all(answer.is_complete for answer in answers if not answer.is_progress)


@pytest.mark.parametrize("telling", [False, True])
def test_answers_say_after_which_instant_boundaries_were_skipped(tmp_path, monkeypatch, telling):
    rng = random.Random(4)
    monkeypatch.setattr(Engine, "_seconds_left", lambda self, watch: rng.choice((None, 0.0)))
    counts = "Rstream(SELECT COUNT(*) AS c FROM s [RANGE 2 SEC SLIDE 1 SEC])"
    option = "WITH (refresh = 'elastic'" + (", progress = true)" if telling else ")")
    with session_over(tmp_path, 60, batch_rows=3) as session:
        answers = list(session.query(f"{counts} {option}"))
    before, gaps = 0, 0
    for answer in answers:
        if not answer.is_progress:
            gap = before if answer.at > before + 1 else None
            assert record(answer).skipped_after == gap
            gaps, before = gaps + (gap is not None), answer.at
        else:
            # It tells what its batch did.
            assert record(answer).skipped_after == gap
    assert gaps > 3


def test_what_was_skipped_before_an_answer_without_rows_is_told_with_the_next(tmp_path):
    """
    rows       a a b b b … b a
    answered     x   -   -   x     no rows at -, where boundaries are passed over
    """
    rows = (f"{t},{'a' if t < 3 or t > 20 else 'b'},{t}\n" for t in range(1, 31))
    (tmp_path / "s.csv").write_text("t,k,v\n" + "".join(rows))
    text = "Rstream(SELECT k, COUNT(*) AS c FROM s [RANGE 2 SEC SLIDE 1 SEC] WHERE k = 'a' GROUP BY k)"
    with connect(tmp_path, runtime="inline", batch_rows=4) as session:
        session.sql(STREAM)
        answers = list(session.query(f"{text} WITH (refresh = 'elastic')"))
    first = next(answer for answer in answers if answer.at > 20)
    before = [answer.at for answer in answers if answer.at < 20]
    # What was skipped is told from the first gap after the last answer with rows.
    assert before[-1] <= (record(first).skipped_after or 99) < before[-1] + 5


def test_one_time_answers_have_a_record(tmp_path: Path) -> None:
    with session_over(tmp_path, 30) as session:
        at_end = session.ask("SELECT COUNT(*) AS c, APPROX_COUNT_DISTINCT(v) AS d FROM s [RANGE 10 SEC]")
    assert at_end["c"].to_pylist() == [10]
    assert (told(at_end)["instant"], told(at_end)["is_complete"]) == (30, True)
    assert list(told(at_end)["bounds"]) == ["d"]


@pytest.mark.parametrize("isolation", [None, "lws", "ws"])
def test_an_answer_says_the_same_of_itself_before_and_after_a_run_as_while_it_goes_on(
    tmp_path: Path, isolation: str | None
) -> None:
    write_rows(tmp_path, 200)
    question = "SELECT MAX(v) AS m FROM s [RANGE 10 SEC] WITH (isolation = 'ws')"
    found = {}
    with connect(tmp_path, runtime="inline", batch_rows=10) as session:
        session.sql(STREAM.replace(" FROM", " RETAIN 1 MIN FROM"))
        found["before"] = session.ask(question, isolation=isolation)
        answers = iter(session.query("Istream(SELECT v FROM s)", max_pending=1))
        next(answers)
        found["meanwhile"] = session.ask(question, isolation=isolation)
        for _ in answers:
            pass
        found["after"] = session.ask(question, isolation=isolation)
    for when, table in found.items():
        metadata = table.schema.metadata
        assert metadata.keys() == {b"sash.instant", b"sash.isolation", b"sash.record"}
        assert metadata[b"sash.isolation"].decode() == (isolation or "ws")
        assert int(metadata[b"sash.instant"]) // 1_000_000 == told(table)["instant"]
        assert table["m"].to_pylist() == [told(table)["instant"]]
        assert (told(table)["instant"] == 200) == (when != "meanwhile")


@pytest.mark.parametrize("isolation", ["lws", "ws"])
def test_one_time_answers_of_a_run_have_a_record(tmp_path: Path, isolation: str) -> None:
    write_rows(tmp_path, 200)
    with connect(tmp_path, runtime="inline", batch_rows=1) as session:
        session.sql(STREAM.replace(" FROM", " RETAIN 1 MIN FROM"))
        for answer in session.query("Istream(SELECT v FROM s)", max_pending=1):
            if answer.at == 50:
                table = session.ask("SELECT MAX(v) AS m FROM s [RANGE 10 SEC]", isolation=isolation)
                found = told(table)
                assert found["instant"] == int(table.schema.metadata[b"sash.instant"]) // 1_000_000
                assert found == {**found, "is_complete": True, "skipped_after": None, "bounds": {}}
                assert table["m"].to_pylist() == [found["instant"]]
                session.stop()
                break
