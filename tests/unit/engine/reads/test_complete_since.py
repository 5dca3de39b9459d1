"""One-time questions read a synopsis only where it is complete since the beginning of their window."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.engine.reads.snapshot_registry import Turns
from sash.errors import UserError
from sash.session import Session, connect
from sash.transactions.verify import verify_file

QUESTION = "SELECT k, COUNT(*) AS n FROM p [RANGE 15 SEC] GROUP BY k"
SHORT = "SELECT k, COUNT(*) AS n FROM p [RANGE 3 SEC SLIDE 1 SEC] GROUP BY k"
LONG = "SELECT k, COUNT(*) AS n FROM p [RANGE 20 SEC SLIDE 1 SEC] GROUP BY k"


def watched(folder: Path, retain: str, until: int, do: Callable[[Session, int], None], **options) -> Path:
    """A row a second; `do` is called at each second, when the run has come so far."""
    lines = "".join(f"{t},a\n" for t in range(1, until + 5))
    (folder / "p.csv").write_text(f"t,k\n{lines}")
    path = folder / "history.jsonl"
    with connect(folder, runtime="inline", batch_rows=1, record_history=path, **options) as session:
        session.sql(f"CREATE STREAM p (t BIGINT, k STRING) TIMESTAMP BY t {retain} FROM 'csv:p.csv'")
        seconds = session.query("Istream(SELECT t FROM p [NOW])", max_pending=1)
        for answer in seconds:
            if answer.at <= until:
                do(session, answer.at)
    return path


def asked(session: Session, isolation: str) -> int | str:
    try:
        (row,) = session.ask(QUESTION, isolation=isolation).to_pylist()
    except UserError as refused:
        return refused.id
    return int(row["n"])


@pytest.mark.parametrize("isolation", ["lws", "ws"])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_rows_that_are_kept_answer_until_a_synopsis_reaches_back_far_enough(
    tmp_path, isolation, has_checkpoint
):
    """
    rows kept       |------------- 30 s ------------->
    SHORT                          20 |-->
    LONG                                 24 |--------->   begins with the rows that are kept
    QUESTION                    |---- 15 s ----|
    """
    found: dict[int, int | str] = {}

    def do(session: Session, second: int) -> None:
        if second == 20:
            session.query(SHORT)
        if second == 24:
            session.query(LONG)
        if second >= 21:
            found[second] = asked(session, isolation)

    options = {"checkpoint": tmp_path / "state"} if has_checkpoint else {}
    path = watched(tmp_path, "RETAIN 30 SEC", 48, do, **options)
    assert set(found.values()) == {15}
    verified = verify_file(path)
    assert verified.violation is None
    assert verified.lines[-2].split() == ["complete", "yes"]
    # Something was looked up, and something read.
    text = path.read_text()
    assert '"rows of p"' in text
    assert text.count('["w",') >= len(found)


@pytest.mark.parametrize("isolation", ["lws", "ws"])
def test_without_rows_a_synopsis_answers_once_it_is_complete(tmp_path, isolation):
    found: dict[int, int | str] = {}

    def do(session: Session, second: int) -> None:
        if second == 20:
            session.query(SHORT)
        if second == 24:
            session.query(LONG)
        found[second] = asked(session, isolation)

    watched(tmp_path, "", 48, do)
    assert set(found.values()) == {"not-kept", 15}
    first = min(second for second, answer in found.items() if answer == 15)
    # Rows later than the newest that had come at 20 are known, and panes of 4 s are too few for 15 s.
    assert 20 + 15 <= first <= 20 + 15 + 4
    assert all(answer == 15 for second, answer in found.items() if second > first + 1)


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT t) AS d, MEDIAN(t) AS m FROM p [RANGE 10 SEC] GROUP BY k",
        "SELECT COUNT(*) AS n FROM p [RANGE 4 SEC SLIDE 2 SEC] WHERE t > 3",
        "SELECT SUM(t) AS s FROM p [RANGE 4 SEC] WHERE t > 3 AND t < 1000",
        "SELECT k, FREQUENT(t, 3) AS f FROM p [RANGE 5 SEC SLIDE 1 SEC] GROUP BY k",
    ],
)
def test_a_question_is_answered_alike_with_and_without_a_checkpoint(tmp_path, question):
    queries = [
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT t) AS d, MEDIAN(t) AS m "
        "FROM p [RANGE 16 SEC SLIDE 1 SEC] GROUP BY k",
        "SELECT COUNT(*) AS n, SUM(t) AS s FROM p [RANGE 6 SEC SLIDE 1 SEC] WHERE t > 3",
        "SELECT SUM(t) AS s FROM p [RANGE 6 SEC SLIDE 1 SEC] WHERE t > 3 AND t < 1000",
        "SELECT k, FREQUENT(t, 3) AS f FROM p [RANGE 5 SEC SLIDE 1 SEC] GROUP BY k",
    ]
    answers: list[dict[int, list[dict[str, object]]]] = []
    for options in ({}, {"checkpoint": tmp_path / "state"}):
        found: dict[int, list[dict[str, object]]] = {}
        folder = tmp_path / str(len(options))
        folder.mkdir()
        lines = "".join(f"{t},a\n" for t in range(1, 60))
        (folder / "p.csv").write_text(f"t,k\n{lines}")
        with connect(folder, runtime="inline", batch_rows=1, **options) as session:
            session.sql("CREATE STREAM p (t BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:p.csv'")
            for query in queries:
                session.query(query)
            for answer in session.query("Istream(SELECT t FROM p [NOW])", max_pending=1):
                if 20 <= answer.at <= 40:
                    table = session.ask(question)
                    instant = int(table.schema.metadata[b"sash.instant"])
                    found[instant] = table.to_pylist()
            if options:
                session.stop()
                again = CheckpointReader(tmp_path / "state").ask(question)
                assert again.instant is not None
        answers.append(found)
    without, with_checkpoint = answers
    assert len(without.keys() & with_checkpoint.keys()) > 3
    for instant in without.keys() & with_checkpoint.keys():
        assert without[instant] == with_checkpoint[instant]


def test_turns_are_given_in_the_order_in_which_they_are_asked_for():
    turns, order = Turns(), []
    go = [threading.Event() for _ in range(4)]

    def take(number: int) -> None:
        go[number].wait()
        with turns:
            order.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    with turns:
        for number, thread in enumerate(threads):
            thread.start()
            go[number].set()
            while len(turns._waiting) <= number:
                pass
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
