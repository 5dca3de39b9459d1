"""From a bound query to its explanation: optimize it, choose implementations, and write each operator
down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat

from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, WindowKind, WindowSpec
from sash.lang.bound import AggregateCall, Scalar
from sash.plan.choices import choices_of
from sash.plan.cost import Statistics
from sash.plan.explain.shared import Planned
from sash.plan.explain.tree import Considered, Explained, Step
from sash.plan.optimize import optimize
from sash.plan.patterns import stream_with_lifetimes
from sash.plan.physical import Exec, Held, JoinExec, to_physical

_UNITS = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"))

_OUTPUTS = {
    OutputKind.VIEW: "the view's change log",
    OutputKind.ISTREAM: "rows that enter the answer",
    OutputKind.DSTREAM: "rows that leave the answer",
    OutputKind.RSTREAM: "the whole answer, each time",
    OutputKind.WSTREAM: "the newest results",
    OutputKind.ISTREAM_RESTORE: "rows that entered, also those that left again meanwhile",
    OutputKind.RSTREAM_RESTORE: "the whole answer, and what came and went meanwhile",
}


def explain(
    name: str,
    sink: str,
    plan: algebra.Output,
    statistics: Statistics,
    options: Mapping[str, object] | None = None,
    notes: tuple[str, ...] = (),
) -> Explained:
    return plan_and_explain(name, sink, plan, statistics, options, notes).explained


def plan_and_explain(
    name: str,
    sink: str,
    plan: algebra.Output,
    statistics: Statistics,
    options: Mapping[str, object] | None = None,
    notes: tuple[str, ...] = (),
) -> Planned:
    """The explanation with the optimized plan that it explains."""
    choices = choices_of(options or {}, plan)
    optimized = optimize(plan, statistics, choices.strategy)
    physical = to_physical(optimized.estimate, choices)
    explained = Explained(
        name,
        sink,
        choices.strategy.value,
        optimized.estimate.total.total,
        optimized.fired,
        tuple(Considered(alternative.name, alternative.cost) for alternative in optimized.alternatives),
        _step(physical),
        notes,
    )
    return Planned(explained, optimized.plan, choices)


def duration(micros: int) -> str:
    """A length of time in the largest unit that divides it."""
    for size, unit in _UNITS:
        if micros and micros % size == 0:
            return f"{micros // size} {unit}"
    return f"{micros} us"


def _step(node: Exec) -> Step:
    estimate = node.estimate
    return Step(
        _name(node.logical),
        _detail(node.logical),
        node.pattern.name,
        estimate.rate_out,
        node.implementation,
        tuple(_held(held, source) for held, source in zip(node.state, _sources(node), strict=False)),
        estimate.cost.total,
        tuple(_step(child) for child in node.inputs),
    )


def join_state(node: Exec) -> tuple[str, ...]:
    """The state of the join in a physical plan."""
    return next(_step(below).state for below in node.walk() if isinstance(below, JoinExec))


def _sources(node: Exec) -> Iterator[Node]:
    """For each of its buffers, the plan whose rows it holds: an input where there is one buffer for each."""
    if len(node.state) == len(node.inputs) and not isinstance(node.logical, algebra.Window):
        yield from (child.logical for child in node.inputs)
    else:
        yield from repeat(node.logical, len(node.state))


def _held(held: Held, source: Node) -> str:
    buffer = held.buffer
    partitions = f", {buffer.partitions} partitions" if buffer.partitions is not None else ""
    return f"{held.what}: {buffer.kind.value}{partitions}, about {buffer.size:,.0f} rows, {bound(source)}"


def bound(node: Node) -> str:
    """What keeps the rows of a plan from growing for ever: the windows below it, or lifetimes of rows."""
    windows = [below for below in node.walk() if isinstance(below, algebra.Window)]
    endless = [window for window in windows if window.spec.kind is WindowKind.UNBOUNDED]
    if not windows or any(stream_with_lifetimes(window) is None for window in endless):
        return "without bound"
    specs = [window.spec for window in windows]
    parts = ["no row past its own lifetime"] if endless else []
    if any(spec.is_time_based for spec in specs):
        longest = max(spec.range or 0 for spec in specs if spec.is_time_based)
        parts.append(f"no row older than {duration(longest)}")
    rows = [spec for spec in specs if spec.kind is WindowKind.ROWS]
    if rows:
        count = max(spec.rows or 0 for spec in rows)
        each = " of each partition" if any(spec.partition for spec in rows) else ""
        parts.append(f"the newest {count} rows{each}")
    return " or ".join(parts)


def operator_text(node: Node) -> str:
    """An operator as its line of the plan begins."""
    return f"{_name(node)} {_detail(node)}".rstrip()


def _name(node: Node) -> str:
    return _NAMES.get(type(node), type(node).__name__)


def _detail(node: Node) -> str:
    writer = _DETAILS.get(type(node))
    return "" if writer is None else writer(node)


def _scan(node: Node) -> str:
    assert isinstance(node, algebra.Stream | algebra.Relation | algebra.Archive)
    if isinstance(node, algebra.Relation):
        kind = "relation" if node.is_retroactive else "non-retroactive relation"
        return f"{kind} {node.qualifier}"
    return f"{'archive' if isinstance(node, algebra.Archive) else 'stream'} {node.qualifier}"


def window_text(spec: WindowSpec) -> str:
    """A window as it is written, and what it means for a tuple's life."""
    parts = {
        WindowKind.RANGE: f"RANGE {duration(spec.range or 0)}",
        WindowKind.ROWS: f"ROWS {spec.rows}",
        WindowKind.NOW: "NOW",
        WindowKind.UNBOUNDED: "UNBOUNDED",
    }[spec.kind]
    if spec.partition:
        parts = f"PARTITION BY {', '.join(spec.partition)} {parts}"
    if spec.slide is not None:
        parts += f" SLIDE {spec.slide if spec.kind is WindowKind.ROWS else duration(spec.slide)}"
    if spec.offset:
        parts += f" OFFSET {duration(spec.offset)}"
    return f"[{parts}{' INTERNAL' if spec.is_internal else ''}]"


def _window(node: Node) -> str:
    assert isinstance(node, algebra.Window)
    spec = node.spec
    lives = {
        WindowKind.RANGE: f"live from ts{_plus(spec.offset)} until ts + {duration(spec.range or 0)}",
        WindowKind.ROWS: f"live until {spec.rows} newer rows have come",
        WindowKind.NOW: "live at ts only",
        WindowKind.UNBOUNDED: "live for ever",
    }[spec.kind]
    if stream_with_lifetimes(node) is not None:
        own = "as long as the source says"
        lives = f"live {own}" if spec.kind is WindowKind.UNBOUNDED else f"{lives}, at most {own}"
    return f"{window_text(spec)}, rows {lives}"


def _plus(offset: int) -> str:
    return f" + {duration(offset)}" if offset else ""


def _select(node: Node) -> str:
    assert isinstance(node, algebra.Select)
    return shown(node.predicate)


def _project(node: Node) -> str:
    assert isinstance(node, algebra.Project)
    return ", ".join(
        output.name if output.scalar.column == output.name else f"{shown(output.scalar)} AS {output.name}"
        for output in node.outputs
    )


def _join(node: Node) -> str:
    assert isinstance(node, algebra.Join)
    parts = [f"{shown(e.left)} = {shown(e.right)}" for e in node.equalities]
    parts += [shown(node.residual)] if node.residual is not None else []
    return " AND ".join(parts) or "every pair"


def _relation_join(node: Node) -> str:
    assert isinstance(node, algebra.RelationJoin)
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    parts = [f"{shown(left)} = {shown(right)}" for left, right in pairs]
    parts += [shown(node.residual)] if node.residual is not None else []
    return ("outer, " if node.is_outer else "") + " AND ".join(parts)


def _semi_join(node: Node) -> str:
    assert isinstance(node, algebra.SemiJoin)
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    on = " AND ".join(f"{shown(left)} = {shown(right)}" for left, right in pairs)
    return f"{'NOT ' if node.is_anti else ''}EXISTS{' on ' + on if on else ''}"


def _aggregate(node: Node) -> str:
    assert isinstance(node, algebra.Aggregate)
    keys = f" by {', '.join(shown(key) for key in node.keys)}" if node.keys else ""
    return ", ".join(call_text(call) for call in node.calls) + keys


def call_text(call: AggregateCall) -> str:
    return f"{call.function.value}({'*' if call.argument is None else shown(call.argument)})"


def _limit(node: Node) -> str:
    assert isinstance(node, algebra.Limit)
    keys = [f"{shown(key.scalar)}{' DESC' if key.is_descending else ''}" for key in node.order]
    order = f"ORDER BY {', '.join(keys)}" if keys else ""
    return f"{order}{' LIMIT ' + str(node.count) if node.count is not None else ''}".strip()


def _output(node: Node) -> str:
    assert isinstance(node, algebra.Output)
    window = f" {window_text(node.window)}" if node.window is not None else ""
    return f"{node.kind.value}{window}: {_OUTPUTS[node.kind]}"


def shown(scalar: Scalar) -> str:
    """An expression as a person would write it."""
    return scalar.text or scalar.sql


# What is not called as its node is: everything that reads, and what counts multiplicities.
_NAMES: dict[type[Node], str] = {
    algebra.Stream: "Scan",
    algebra.Relation: "Scan",
    algebra.Archive: "Scan",
    algebra.Except: "Multiplicity",
    algebra.Intersect: "Multiplicity",
}
_DETAILS: dict[type[Node], Callable[[Node], str]] = {
    algebra.Stream: _scan,
    algebra.Relation: _scan,
    algebra.Archive: _scan,
    algebra.Window: _window,
    algebra.Select: _select,
    algebra.Project: _project,
    algebra.Join: _join,
    algebra.RelationJoin: _relation_join,
    algebra.SemiJoin: _semi_join,
    algebra.Aggregate: _aggregate,
    algebra.Except: lambda node: "EXCEPT ALL",
    algebra.Intersect: lambda node: "INTERSECT ALL",
    algebra.Limit: _limit,
    algebra.Output: _output,
}
