"""Histories in files: written, read back, cut off, damaged, and verified."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transactions.kit import random_history

from sash.errors import HistoryError
from sash.transactions.events import (
    Began,
    Change,
    Committed,
    Isolation,
    Moved,
    Opened,
    Query,
    Read,
    Ring,
    SubWindow,
)
from sash.transactions.history import History
from sash.transactions.json_lines import encode, header, read_history_file, write_history_file
from sash.transactions.notation import parse_history
from sash.transactions.recorder import HistoryFile
from sash.transactions.verify import verify_file

HEAD = '{"sash-history": 1, "start": 0, "instant": 0, "rings": [["w", 2]]}\n'
LATE = "rQ1[0] w2[0] c2 rQ1[1] cQ1"


@given(st.integers(0, 2**32), st.booleans())
def test_a_history_is_read_as_it_was_written(tmp_path_factory, seed, late_commits):
    path = tmp_path_factory.mktemp("history") / "h.jsonl"
    history = random_history(Random(seed), old_versions=True, late_commits=late_commits, grows=True)
    write_history_file(path, history)
    assert read_history_file(path).histories == (history,)


def test_the_format_is_as_documented():
    ring = Ring("packets", 60, 1_000_000)
    places = {"packets": 0}
    moved = Moved(2, 6_000_000, (Change("packets", 6, 6, (3, 5)),), is_settled=False)
    assert header([ring], 0, 0) == (
        '{"sash-history":1,"start":0,"instant":0,"rings":[["packets",60,1000000,null,null]]}\n'
    )
    assert encode(moved, places) == '["m",2,6000000,[[0,6,6,3,5]],0]\n'
    assert encode(Began(1, Query("heavy", {"packets": 60})), places) == '["b",1,"heavy","lws",0,[[0,60]]]\n'
    assert encode(Read(1, SubWindow("packets", 6), 2), places) == '["r",1,0,6,2]\n'
    assert encode(Committed(1, 2, 6_000_000), places) == '["e",1,2,6000000]\n'


def test_a_run_appends_and_what_a_crash_cut_off_is_left_out(tmp_path):
    path = tmp_path / "h.jsonl"
    ring = Ring("w", 2)
    with HistoryFile(path, [ring]) as file:
        file.record([Moved(1, 10, (Change("w", 0, 0),))])
    with open(path, "a") as raw:
        raw.write('["m",2,2')
    assert read_history_file(path).is_cut
    with HistoryFile(path, [ring], start=1, instant=10) as file:
        file.record([Opened(Ring("x", 3)), Moved(2, 20, (Change("x", 5, 5),))])
        file.flush()
        file.record([Began(1, Query("q", {"x": 2}))])
    first, second = read_history_file(path).histories
    assert first.events == (Moved(1, 10, (Change("w", 0, 0),)),)
    assert second == History.of(
        [ring],
        [Opened(Ring("x", 3)), Moved(2, 20, (Change("x", 5, 5),)), Began(1, Query("q", {"x": 2}))],
        start=1,
        instant=10,
    )
    assert not read_history_file(path).is_cut


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nothing\n", 1),
        ("\n", 1),
        ('["c", 1]\n', 1),
        ('{"sash-history": 2, "start": 0, "instant": 0, "rings": []}\n', 1),
        ('{"sash-history": 1, "start": 0, "instant": 0}\n', 1),
        ('{"sash-history": 1, "start": 0, "instant": 0, "rings": [["w", 0]]}\n', 1),
        (HEAD + '["r", 1, 1, 2, 3]\n', 2),
        (HEAD + '["b", 1, "q", "ssi", 0, []]\n', 2),
        (HEAD + '["?"]\n', 2),
        (HEAD + '["r", 1, -1, 2, 3]\n', 2),
        (HEAD + '["m", 1, 1, [[1, 2, 2]]]\n', 2),
        (HEAD + "7\n", 2),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path, text, line):
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    with pytest.raises(HistoryError, match=f"line {line} "):
        read_history_file(path)


def test_what_is_no_file_or_no_text_or_empty_is_no_history(tmp_path):
    binary = tmp_path / "b"
    binary.write_bytes(b"\xff\xfe\x00")
    empty = tmp_path / "e"
    empty.touch()
    for path in (binary, empty, tmp_path / "none", tmp_path):
        with pytest.raises(HistoryError):
            read_history_file(path)


def test_verification_tells_levels_and_explains_the_first_violation(tmp_path):
    path = tmp_path / "h.jsonl"
    write_history_file(path, parse_history(LATE, 2, isolation=Isolation.LWS))
    found = verify_file(path)
    assert found.lines[0] == ("1 movements of 1 rings; 1 committed queries (1 lws), 0 aborted, 0 unfinished")
    assert [line.split()[-1] for line in found.lines[1:3]] == ["yes", "yes"]
    assert "1 queries read another state" in found.lines[3]
    assert found.violation == (
        "query 'Q1' (transaction 1, committed as event 5) was promised lws, but it reflects movement 1, but "
        "movement 2 came before its commit; it read sub-window 0 of window before movement 2 changed it"
    )
