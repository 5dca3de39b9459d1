"""Rules for the source of Sash that no general linter knows: `python scripts/source_rules.py [FILES]`.

A rule about calls is a line in `CALLS`: names as they stand in the source, `module.function` or `function`,
and `import module` for modules that must not be imported.
A line of source that breaks a rule with good reason says so in a comment at its end, with the mark of the
rule:  `# any order: only counted`.

Names that are written down or shown must be the same in every process. Python's `hash` is not, and neither is
the order of a set. What is a set is told from the source alone: literals, comprehensions, calls,
operations on keys, and names, attributes and functions that are annotated as sets anywhere in the package.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sash"


@dataclass(frozen=True)
class Rule:
    """What must not be called, why, and the mark of exceptions."""

    mark: str
    why: str
    calls: tuple[str, ...]


CALLS = (
    Rule("local hash", "hash() differs from process to process: see sash.plan.digests", ("hash",)),
    Rule(
        "trusted bytes",
        "what is unpickled can run anything: see sash.engine.durability.codec",
        (
            *(f"import {name}" for name in ("pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib")),
            *("np.load", "numpy.load", "pd.read_pickle", "CPickleSerializer"),
        ),
    ),
)
ORDER = Rule("any order", "a set has another order in each process: sort it, or keep a dict", ())

# Calls that give the same for every order of their argument.
_ORDERLESS = (
    *("set", "frozenset", "sorted", "len", "any", "all", "sum", "min", "max", "update", "difference_update"),
    *("issuperset", "issubset", "isdisjoint", "union", "intersection", "difference", "symmetric_difference"),
)
# Calls that go through their argument in its order.
_ORDERED = (
    *("list", "tuple", "dict", "deque", "array", "enumerate", "iter", "next", "map", "filter", "zip", "join"),
    *("fromkeys", "chain", "from_iterable", "extend", "islice", "product", "combinations", "writelines"),
)
_SETS = ("set", "frozenset", "Set", "AbstractSet", "MutableSet")
_COMBINING = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


@dataclass(frozen=True)
class Fault:
    path: Path
    line: int
    rule: Rule

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.rule.why} (or end the line with '# {self.rule.mark}: why')"


@dataclass
class Known:
    """Attributes and functions of the package that are annotated as sets."""

    attributes: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    # Annotated as something else somewhere: nothing can be told by the name alone.
    others: set[str] = field(default_factory=set)

    def learn(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        self._learn(each.target.id, each.annotation, self.attributes)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                self._learn(node.target.attr, node.annotation, self.attributes)
            elif isinstance(node, ast.FunctionDef) and node.returns is not None:
                is_property = any(
                    _name(each) in ("property", "cached_property") for each in node.decorator_list
                )
                self._learn(node.name, node.returns, self.attributes if is_property else self.functions)

    def _learn(self, name: str, annotation: ast.expr, kind: set[str]) -> None:
        (kind if _is_set_type(annotation) else self.others).add(name)

    def has_attribute(self, name: str) -> bool:
        return name in self.attributes and name not in self.others

    def has_function(self, name: str) -> bool:
        return name in self.functions and name not in self.others


def _name(node: ast.expr) -> str:
    """The last part of a name."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript):
        return _name(annotation.value) in _SETS
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    return annotation is not None and _name(annotation) in _SETS


class _Walk(ast.NodeVisitor):
    """Finds where sets are gone through in their order."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._scopes: list[dict[str, bool]] = [{}]
        # The annotated attributes of the class at hand.
        self._own: list[dict[str, bool]] = [{}]
        # Comprehensions whose order makes no difference.
        self._orderless: set[ast.expr] = set()
        # What is taken from sets of one element.
        self._single: set[ast.expr] = set()
        self.lines: list[int] = []

    # ------------------------------------------------------------------ what is a set

    def _is_set(self, node: ast.expr | None) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name():
                return next((scope[node.id] for scope in reversed(self._scopes) if node.id in scope), False)
            case ast.Attribute(value=ast.Name("self"), attr=attribute) if attribute in self._own[-1]:
                return self._own[-1][attribute]
            case ast.Attribute():
                return self._known.has_attribute(node.attr)
            case ast.NamedExpr():
                return self._is_set(node.value)
            case ast.IfExp():
                return self._is_set(node.body) or self._is_set(node.orelse)
            case ast.BoolOp():
                return any(self._is_set(value) for value in node.values)
            case ast.BinOp():
                sides = (node.left, node.right)
                return isinstance(node.op, _COMBINING) and any(
                    self._is_set(side) or _is_keys(side) for side in sides
                )
            case ast.Call(func=ast.Subscript(value=function)):
                return _name(function) in ("set", "frozenset")
            case ast.Call(func=ast.Name() as function):
                return function.id in ("set", "frozenset") or self._known.has_function(function.id)
            case ast.Call(func=ast.Attribute() as function):
                if function.attr in ("union", "intersection", "difference", "symmetric_difference", "copy"):
                    return self._is_set(function.value)
                return self._known.has_function(function.attr)
        return False

    def _bind(self, target: ast.expr, is_set: bool) -> None:
        if isinstance(target, ast.Name):
            self._scopes[-1][target.id] = is_set

    # ------------------------------------------------------------------ names

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        own = [each for each in ast.walk(node) if isinstance(each, ast.AnnAssign)]
        self._own.append(
            {_name(each.target): _is_set_type(each.annotation) for each in own if _is_own(each.target, node)}
        )
        self.generic_visit(node)
        self._own.pop()

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._scopes.append({each.arg: _is_set_type(each.annotation) for each in arguments})
        self.generic_visit(node)
        self._scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _scope

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List):
                # There is one order of one element.
                if self._is_set(node.value) and len(target.elts) > 1:
                    self.lines.append(node.lineno)
                elif isinstance(node.value, ast.Tuple | ast.List):
                    for each, value in zip(target.elts, node.value.elts, strict=False):
                        self._bind(each, self._is_set(value))
            self._bind(target, self._is_set(node.value))
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._bind(node.target, _is_set_type(node.annotation))
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, self._is_set(node.value))
        self.generic_visit(node)

    # ------------------------------------------------------------------ where order counts

    def visit_For(self, node: ast.For) -> None:
        if self._is_set(node.iter):
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp) -> None:
        is_orderless = isinstance(node, ast.SetComp) or node in self._orderless
        for each in node.generators:
            if self._is_set(each.iter) and not is_orderless:
                self.lines.append(each.iter.lineno)
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = _comprehension

    def visit_Starred(self, node: ast.Starred) -> None:
        if self._is_set(node.value) and node not in self._orderless:
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._orderless.update(node.elts)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        if self._is_set(node.value):
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        is_keyed = any(keyword.arg == "key" for keyword in node.keywords)
        if name in ("min", "max", "sorted") and is_keyed:
            # The first of several that are equal by the key.
            is_orderless, is_ordered = False, True
        else:
            is_orderless, is_ordered = name in _ORDERLESS, name in _ORDERED
        if is_orderless:
            self._orderless.update(node.args)
        if is_ordered and any(self._is_set(argument) for argument in node.args):
            self.lines.append(node.lineno)
        if name == "pop" and isinstance(node.func, ast.Attribute) and not node.args:
            if self._is_set(node.func.value) and node not in self._single:
                self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if re.search(r"\blen\(.* == 1\b", ast.unparse(node.test)):
            self._single.add(node.body)
        self.generic_visit(node)


def _is_own(target: ast.expr, owner: ast.ClassDef) -> bool:
    """Whether it is an attribute: of `self`, or a name in the body of the class."""
    if isinstance(target, ast.Attribute):
        return _name(target.value) == "self"
    return any(isinstance(each, ast.AnnAssign) and each.target is target for each in owner.body)


def _is_keys(node: ast.expr) -> bool:
    """Whether it is the keys or items of a mapping, which make a set with others."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
    )


def faults(paths: Iterable[Path], package: Path = PACKAGE) -> Iterator[Fault]:
    trees = {path: ast.parse(path.read_bytes()) for path in {*package.rglob("*.py"), *paths}}
    known = Known()
    for tree in trees.values():
        known.learn(tree)
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, rule in sorted(_broken(trees[path], known), key=lambda found: found[0]):
            if not re.search(rf"# {rule.mark}: \S", lines[number - 1]):
                yield Fault(path, number, rule)


def _broken(tree: ast.AST, known: Known) -> Iterator[tuple[int, Rule]]:
    walk = _Walk(known)
    walk.visit(tree)
    yield from ((line, ORDER) for line in dict.fromkeys(walk.lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
            yield from ((node.lineno, rule) for rule in CALLS if called in rule.calls)
        for module in _imported(node):
            yield from ((node.lineno, rule) for rule in CALLS if f"import {module}" in rule.calls)


def _imported(node: ast.AST) -> Iterator[str]:
    """The packages that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module.partition(".")[0]


def main(arguments: list[str]) -> int:
    paths = [Path(each).absolute() for each in arguments] or sorted(PACKAGE.rglob("*.py"))
    found = list(faults(paths))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
