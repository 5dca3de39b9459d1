"""EXPLAIN ANALYZE: what was expected, with what came of it in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import QueryDefinition
from sash.plan.choices import choices_of
from sash.plan.cost import Statistics, StreamStatistics
from sash.plan.explain.tree import Explained, Measured, Step
from sash.plan.optimize import optimize
from sash.plan.periodic import is_periodic


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was watched: per query, what came of the nodes of its plan and what the run chose; rates."""

    seconds: float
    nodes: Mapping[str, Mapping[Node, Measured]]
    rates: Mapping[str, float]
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def with_measured(
    explained: Explained, plan: Node, query: QueryDefinition, run: Run, statistics: Statistics
) -> Explained:
    """An explanation with the measurements, and what the optimizer would do if it had known the rates."""
    nodes = run.nodes.get(query.name)
    if nodes is None:
        return explained
    if is_periodic(query):
        # There is one operator of each kind, and the run knows them as they were written.
        kinds = {type(node): measured for node, measured in nodes.items()}
        tree = _by_kind(explained.tree, plan, kinds)
    else:
        tree = _by_node(explained.tree, plan, nodes)
    return replace(
        explained, tree=tree, notes=(*explained.notes, *_notes(explained, plan, query, run, statistics))
    )


def _by_node(step: Step, node: Node, nodes: Mapping[Node, Measured]) -> Step:
    below = zip(step.inputs, node.children, strict=True)
    inputs = tuple(_by_node(child, child_node, nodes) for child, child_node in below)
    return replace(step, inputs=inputs, measured=nodes.get(node))


def _by_kind(step: Step, node: Node, kinds: Mapping[type[Node], Measured]) -> Step:
    below = zip(step.inputs, node.children, strict=True)
    inputs = tuple(_by_kind(child, child_node, kinds) for child, child_node in below)
    return replace(step, inputs=inputs, measured=kinds.get(type(node)))


def _notes(
    explained: Explained, plan: Node, query: QueryDefinition, run: Run, statistics: Statistics
) -> list[str]:
    streams = dict.fromkeys(leaf.name for leaf in plan.walk() if isinstance(leaf, algebra.Stream))
    rates = {name: run.rates[name] for name in streams if name in run.rates}
    notes = [*run.chosen.get(query.name, ()), f"measured in {run.seconds:.1f} s"]
    if not rates:
        return notes
    notes.append("measured rates: " + ", ".join(f"{name} {rate:,.4g}/s" for name, rate in rates.items()))
    known = statistics.with_measured({name: StreamStatistics(rate=rate) for name, rate in rates.items()})
    choices = choices_of(dict(query.options), query.plan)
    again = optimize(query.plan, known, choices.strategy)
    same = (
        "the same plan" if again.plan == plan else f"another plan: {', '.join(again.fired) or 'as written'}"
    )
    notes.append(f"with these rates: cost {again.estimate.total.total:,.0f} a second, {same}")
    return notes


def measured_text(measured: Measured) -> str:
    """Rows, negative tuples and state, as people read them."""
    parts = [_rows(measured.rows)]
    if measured.negative:
        parts.append(f"{measured.negative:,} negative")
    if measured.state_rows:
        size = f", {size_text(measured.state_bytes)}" if measured.state_bytes else ""
        parts.append(f"state {_rows(measured.state_rows)}{size}")
    return "; ".join(parts)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def size_text(count: int) -> str:
    """A number of bytes as people read it."""
    value = float(count)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"
