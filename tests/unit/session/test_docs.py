"""The examples of the Python page run as they stand, in order, and print what is shown under them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from sash.session import Query, Session

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def printed(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/python.md", "exec"), names)
    return out.getvalue()


def agrees(given: str, shown: str) -> bool:
    """`…` on a line of its own stands for any lines."""
    parts = [re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), given) is not None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (data,) = [text for kind, text in BLOCKS if kind == "csv"]
    (tmp_path / "trades.csv").write_text(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_print_what_is_shown(folder):
    names: dict[str, Any] = {}
    given = ""
    count = 0
    for kind, text in BLOCKS:
        if kind == "python":
            assert not given, f"shows nothing of: {given}"
            given = printed(text, names)
        elif kind == "text":
            assert agrees(given, text), given
            given = ""
            count += 1
    assert not given
    assert count >= 10
    assert (folder / "high.jsonl").read_text().count("\n") == 6


def test_every_public_method_is_on_the_page():
    for kind in (Session, Query):
        for name in vars(kind):
            if not name.startswith("_"):
                assert re.search(rf"\b{name}\b", TEXT), name
