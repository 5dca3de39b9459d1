"""How the run of a session ends, fails, starts again and goes on from a checkpoint."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.unit.session.kit import (
    ENDLESS,
    PACKETS,
    STREAM,
    SUMS,
    contents,
    expected_log,
    logged,
    running,
    session_over,
    write_rows,
)

from sash.errors import DataError, SourceError, UserError
from sash.session import connect


def test_stop_in_the_middle_ends_the_iteration_and_leaves_nothing_running(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        query = session.query(PACKETS, max_pending=5)
        for count, _ in enumerate(query):
            if count == 20:
                assert session.state == "running"
                session.stop()
        assert session.state == "stopped"
        assert session.summary is not None
        assert session.summary.interrupted
        assert not running()


def test_leaving_the_block_stops_the_run_and_keeps_the_exception_of_the_body(tmp_path):
    session = connect(base_dir=tmp_path, runtime="inline", batch_rows=500)
    session.sql(ENDLESS)
    next(iter(session.query(PACKETS)))
    assert running()
    with pytest.raises(ZeroDivisionError), session:
        raise ZeroDivisionError
    assert not running()
    assert session.state == "closed"
    with pytest.raises(UserError, match="the session is closed"):
        session.sql("SHOW QUERIES")


def test_a_session_that_is_forgotten_ends_with_the_process(tmp_path):
    script = (
        f"import sash; s = sash.connect({str(tmp_path)!r}, runtime='inline', batch_rows=500)\n"
        f"s.sql({ENDLESS!r})\nq = s.query({PACKETS!r})\nprint(next(iter(q)).rows.num_rows > 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "True", "")


FAILING = "SELECT k, SUM(v * 1000000000) AS v FROM s [RANGE 10 SEC SLIDE 1 SEC] GROUP BY k"


def with_huge_value(folder):
    write_rows(folder, 10)
    with open(folder / "s.csv", "a") as file:
        file.write("11,a,9000000000000000000\n")


def test_a_failure_of_the_run_is_raised_where_one_waits_for_it(tmp_path):
    session = session_over(tmp_path)
    with_huge_value(tmp_path)
    query = session.query(FAILING)
    with pytest.raises(DataError):
        list(query)
    with pytest.raises(DataError):
        session.wait()
    assert session.state == "failed"
    session.close()  # told already


def test_a_failure_that_nobody_was_told_of_is_raised_on_leaving(tmp_path):
    session = session_over(tmp_path)
    with_huge_value(tmp_path)
    session.query(FAILING)
    session.start()
    assert session._live is not None
    session._live.wait()
    with pytest.raises(DataError), session:
        pass


def test_a_failure_does_not_hide_the_exception_of_the_body(tmp_path):
    session = session_over(tmp_path)
    with_huge_value(tmp_path)
    session.query(FAILING)
    session.start()
    assert session._live is not None
    session._live.wait()
    with pytest.raises(KeyError), session:
        raise KeyError


def test_a_missing_file_is_the_error_that_it_was(tmp_path):
    with session_over(tmp_path) as session:
        (tmp_path / "s.csv").unlink()
        with pytest.raises(SourceError):
            list(session.query(SUMS))


def test_an_interrupted_iteration_stops_the_run(tmp_path, monkeypatch):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        query = session.query(PACKETS)
        answers = iter(query)
        next(answers)

        def interrupted(reader):
            raise KeyboardInterrupt

        monkeypatch.setattr(query._inbox, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(answers)
        assert session.state == "stopped"
        assert not running()


def test_a_run_may_be_started_again_with_other_queries(tmp_path):
    with session_over(tmp_path) as session:
        first = session.query(SUMS)
        before = logged(first)
        second = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])")
        assert len(logged(second)) == 30
        assert logged(first) == before


@pytest.mark.parametrize("stop_at", [1, 9])
def test_a_run_goes_on_from_its_checkpoint(tmp_path, stop_at):
    text = "SELECT k, SUM(v) AS v FROM s [RANGE 10 SEC] GROUP BY k"
    log = expected_log(tmp_path, SUMS)
    parts: list[tuple[Any, ...]] = []
    for number in range(2):
        with session_over(tmp_path, batch_rows=2, checkpoint=tmp_path / "state") as session:
            query = session.query(SUMS, max_pending=1)
            continuous = session.query(text)
            for answer in query:
                parts.extend((answer.at, *row.values()) for row in answer.rows.to_pylist())
                if number == 0 and answer.at == stop_at:
                    session.stop()
            final = contents(query), contents(continuous)
    assert sorted(parts, key=lambda row: (row[0], repr(row))) == log
    with session_over(tmp_path) as session:
        queries = session.query(SUMS), session.query(text)
        session.wait()
        assert final == tuple(map(contents, queries))


def test_a_run_that_had_ended_still_has_its_view(tmp_path):
    found = []
    for _ in range(2):
        with session_over(tmp_path, checkpoint=tmp_path / "state") as session:
            query = session.query(SUMS)
            session.wait()
            found.append(contents(query))
    assert found[0] == found[1] != []


def test_a_view_whose_past_is_unknown_says_so(tmp_path):
    for _ in range(2):
        with session_over(tmp_path, checkpoint=tmp_path / "state") as session:
            query = session.query(SUMS)
            session.wait()
        (tmp_path / "state" / "views" / "q1.arrow").unlink(missing_ok=True)
    with pytest.raises(UserError, match="not known") as caught:
        query.latest()
    assert caught.value.id == "unknown-contents"


@pytest.mark.parametrize("waiting", ["for _ in q: pass", "s.wait()"])
def test_ctrl_c_finishes_the_batch_under_way_and_goes_on_to_the_caller(tmp_path, waiting):
    """The stream has no end, and no row comes any more: the main thread waits when the signal comes."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("t,k,v\n1,a,1\n5,b,2\n")
    watched = STREAM.replace("csv:s.csv'", "csv:in' WITH (watch = true)")
    script = f"""if True:
        import os, signal, threading, sash
        # As in a terminal, also where the tests run in the background and ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        s = sash.connect({str(tmp_path)!r}, runtime='inline')
        s.sql({watched!r})
        q = s.query({SUMS!r})
        assert next(iter(q)).at == 1
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {waiting}
        except KeyboardInterrupt:
            print(s.state, s.summary.streams['s'].accepted, threading.active_count())
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped 2 1\n", "")
