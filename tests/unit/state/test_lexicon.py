"""The lexicon: labels compare as strings do, whatever comes and goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import InternalError
from sash.state.lexicon import Lexicon

TEXT = st.text(st.sampled_from("ab\u00e9\U0001f600 "), max_size=4)


def check(lexicon: Lexicon, words: list[str]) -> None:
    numbers, moved = lexicon.enter(pa.array(words, pa.string()))
    assert moved is None
    labels = lexicon.labels(numbers)
    by_label = [words[i] for i in np.argsort(labels, kind="stable")]
    assert by_label == sorted(words, key=str.encode)
    assert lexicon.words(numbers).to_pylist() == words
    assert lexicon.words_of(labels).to_pylist() == words


@given(st.lists(st.tuples(st.lists(TEXT, max_size=8), st.lists(TEXT, max_size=8)), max_size=8))
def test_words_are_known_while_they_are_used(steps: list[tuple[list[str], list[str]]]) -> None:
    lexicon, live = Lexicon(), list[str]()
    for coming, wanted in steps:
        going = [word for word in dict.fromkeys(wanted) if word in live]
        live += coming
        for word in going:
            live.remove(word)
        numbers, _ = lexicon.enter(pa.array([*coming, *going], pa.string()))
        signs = np.repeat(np.array([1, -1]), [len(coming), len(going)])
        lexicon.use(numbers, signs)
        assert len(lexicon) == len(set(live))
        check(lexicon, list(dict.fromkeys(live)))
    table = lexicon.table()
    assert table.column("word").to_pylist() == sorted(set(live), key=str.encode)
    assert table.column("uses").to_pylist() == [live.count(w) for w in sorted(set(live), key=str.encode)]


def test_labels_are_dealt_anew_when_a_gap_is_full() -> None:
    """Each word stands between the last one and z, so gaps are halved every time."""
    lexicon = Lexicon()
    words = ["a", "z"]
    lexicon.use(lexicon.enter(pa.array(words))[0], np.ones(2, dtype=np.int64))
    deals = 0
    for number in range(200):
        word = f"m{number:05}"
        before = lexicon.labels(lexicon.enter(pa.array(words))[0])
        numbers, moved = lexicon.enter(pa.array([word]))
        lexicon.use(numbers, np.ones(1, dtype=np.int64))
        if moved is not None:
            deals += 1
            order = np.argsort(before)
            assert moved.old.tolist() == before[order].tolist()
            after = lexicon.labels(lexicon.enter(pa.array(words))[0])
            assert moved.new.tolist() == after[order].tolist()
        words.append(word)
    assert 1 <= deals < 20
    check(lexicon, words)


def test_ascending_words_need_no_new_deal() -> None:
    lexicon = Lexicon()
    for number in range(300):
        numbers, moved = lexicon.enter(pa.array([f"{number:06}"]))
        lexicon.use(numbers, np.ones(1, dtype=np.int64))
        assert moved is None


def test_null_has_no_number() -> None:
    lexicon = Lexicon()
    numbers, _ = lexicon.enter(pa.array(["a", None, "a"]))
    assert numbers.tolist() == [0, -1, 0]


def test_a_word_that_is_not_there_cannot_go() -> None:
    lexicon = Lexicon()
    numbers, _ = lexicon.enter(pa.array(["a"]))
    with pytest.raises(InternalError):
        lexicon.use(numbers, np.array([-1]))
