"""What the JSON lines of a query say that it holds, whatever the order of rows within an instant."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

Contents = dict[int, Counter[str]]


def contents(path: Path, is_log: bool) -> Contents:
    """What a query holds after each instant at which it said something."""
    bag: Counter[str] = Counter()
    held: Contents = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        at, op = row.pop("ts"), row.pop("op", "+")
        if not is_log and at not in held:
            bag = Counter()
        bag[json.dumps(row)] += 1 if op == "+" else -1
        assert min(bag.values()) >= 0
        held[at] = +bag
    return held


def at(held: Contents, instant: int) -> Counter[str]:
    return held.get(max((known for known in held if known <= instant), default=-1), Counter())
