"""The example in docs/indexes.md runs and means what its comments say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[3] / "docs" / "indexes.md").read_text(encoding="utf-8")


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/indexes.md", "exec"), names)
    assert names["window"].histogram().to_pydict() == {"value": [5, 12, 19], "count": [1, 1, 1]}
    assert names["rows"].probe(names["pa"].scalar("a")).tolist() == [0, 2]
