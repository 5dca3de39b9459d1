"""The rules for our own source: they hold, and they see what they should."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "source_rules.py"
spec = importlib.util.spec_from_file_location("source_rules", SCRIPT)
assert spec is not None
assert spec.loader is not None
rules = importlib.util.module_from_spec(spec)
sys.modules["source_rules"] = rules
spec.loader.exec_module(rules)

BROKEN = {
    "a hash": "name = f'stream {hash(node):x}'",
    "pickles": "import pickle\nprint(pickle.loads(given))",
    "pickles under another name": "from cloudpickle.cloudpickle import loads as read",
    "pickles in arrays": "rows = np.load(path, allow_pickle=True)",
    "a loop": "for x in {1, 2}:\n    print(x)",
    "a call": "names = set(given)\nprint(list(names))",
    "a comprehension": "names = [x for x in {y for y in given}]",
    "a mapping made of a set": "found = {x: 1 for x in frozenset(given)}",
    "dict.fromkeys": "dict.fromkeys(set(given))",
    "joined text": "', '.join({'a', 'b'})",
    "a starred set": "print(*{1, 2})",
    "keys less others": "for x in a.keys() - b:\n    print(x)",
    "an annotated name": "def f(names: set[str]) -> None:\n    print([*names])",
    "an annotated attribute": "class A:\n    def f(self) -> None:\n        self.x: set[int] = g()\n"
    "        print(tuple(self.x))",
    "an annotated function": "def f() -> frozenset[str]: ...\n\n\nprint(list(f()))",
    "an element": "first = {1, 2}.pop()",
    "the least by a key": "min({1, 2}, key=cost)",
    "an empty set with a type": "found = set[int]()\nprint(list(found))",
    "unpacked": "a, b = {1, 2}",
}
SOUND = {
    "sorted": "print(sorted({1, 2}))",
    "asked about": "print(len({1, 2}), 1 in {1, 2}, any(x for x in {1, 2}))",
    "a set of a set": "print({x + 1 for x in {1, 2}})",
    "a mapping": "for x in dict.fromkeys(given):\n    print(x)",
    "one element": "only = {1}.pop() if len({1}) == 1 else None\n(only,) = {1}",
    "a reason": "for x in {1, 2}:  # any order: they are added up\n    total += x",
    "a name that is something else by now": "x = set(given)\nx = sorted(x)\nprint(list(x))",
}


def found(tmp_path: Path, text: str) -> int:
    path = tmp_path / "module.py"
    path.write_text(text)
    return len(list(rules.faults([path], tmp_path)))


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_what_breaks_a_rule_is_found(tmp_path, text):
    assert found(tmp_path, text) == 1


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_what_breaks_no_rule_is_let_pass(tmp_path, text):
    assert found(tmp_path, text) == 0


def test_the_package_keeps_the_rules():
    assert [str(fault) for fault in rules.faults(sorted(rules.PACKAGE.rglob("*.py")))] == []
