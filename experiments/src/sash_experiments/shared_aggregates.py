"""shared-aggregates: R-INT and B-INT against PSoup and the naive extremes (004, figure 9).

A thousand operators SUM(a) over the last 0, 1, … 999 tuples of one stream. Inputs are updates and look-ups
of operators drawn at random, in a random order, one after another; the share of updates varies. The rate is
that of all inputs together. Published rates are of a 700 MHz processor; ratios between methods are
compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sash.errors import InternalError
from sash.synopses.pane_store import PaneStore
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.mixed_inputs import DRIVERS, Inputs, element_rows
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "shared-aggregates"
TITLE = "R-INT and B-INT against PSoup and the naive extremes, by the share of updates (004, figure 9)"

ALL, NONE = "all", "none"
SHARED = ("R-INT", "B-INT")
Rates = Mapping[str, Mapping[float, float]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """`seconds` is about how long each method gets per share and round."""

    operators: int = 1000
    shares: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    rounds: int = 3
    seconds: float = 0.2
    first: int = 2_000


SCALES = {"small": Sizes(), "paper": Sizes(rounds=7, seconds=1.0)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rates: dict[str, dict[float, float]] = {name: {} for name in DRIVERS}
    for done, share in enumerate(sizes.shares):
        note(f"{share:.0%} updates", done / len(sizes.shares))
        for name, rate in measure_share(share, sizes).items():
            rates[name][share] = rate
    return Result(NAME, TITLE, scale, _table(rates, sizes), _claims(rates, sizes))


def measure_share(share: float, sizes: Sizes) -> dict[str, float]:
    """Inputs a second of each method, of its fastest round; all answer alike."""
    rng = np.random.default_rng(9)
    warm = _inputs(rng, share, sizes.first, sizes)
    sums, counts = set(), {}
    for name in DRIVERS:
        seconds, total = _pass(name, warm, sizes)
        seconds, total = _pass(name, warm, sizes)
        sums.add(total)
        counts[name] = max(sizes.first, int(sizes.first * sizes.seconds / seconds))
    if len(sums) > 1:
        raise InternalError("synopses do not agree")
    best = dict.fromkeys(DRIVERS, 0.0)
    for _ in range(sizes.rounds):
        for name, count in counts.items():
            inputs = _inputs(rng, share, count, sizes)
            seconds, _ = _pass(name, inputs, sizes)
            best[name] = max(best[name], count / seconds)
    return best


def _inputs(rng: np.random.Generator, share: float, count: int, sizes: Sizes) -> Inputs:
    is_update = rng.random(count) < share
    values = rng.integers(0, 1000, int(is_update.sum()))
    return Inputs(
        is_update, rng.integers(0, sizes.operators, count), element_rows(values, 2 * sizes.operators)
    )


def _pass(name: str, inputs: Inputs, sizes: Sizes) -> tuple[float, int]:
    """A full window, then the inputs."""
    make, drive = DRIVERS[name]
    store = make(sizes.operators)
    assert isinstance(store, PaneStore)
    filled = 2 * sizes.operators
    store.update(element_rows(np.arange(filled) % 97, 0), filled - 1)
    began = time.perf_counter()
    total = drive(store, inputs)
    return time.perf_counter() - began, total


def _table(rates: Rates, sizes: Sizes) -> list[dict[str, Cell]]:
    return [
        {"updates": f"{share:.0%}", **{f"{name} inputs/s": rates[name][share] for name in rates}}
        for share in sizes.shares
    ]


def _claims(rates: Rates, sizes: Sizes) -> list[Claim]:
    inner = [share for share in sizes.shares if 0 < share < 1]
    least, most = min(sizes.shares), max(sizes.shares)
    best = {share: min(rates[n][share] for n in SHARED) for share in inner}
    extreme = {share: max(rates[n][share] for n in (ALL, NONE)) for share in inner}
    gain = {share: best[share] / extreme[share] for share in inner}
    over = {
        share: rates["R-INT"][share] / max(rates[n][share] for n in ("B-INT", "PSoup"))
        for share in sizes.shares
    }
    change = {name: rates[name][most] / rates[name][least] for name in ("B-INT", "PSoup")}
    alike = rates["B-INT"][least] / rates["PSoup"][least]
    steady = {
        name: max(rates[name].values()) / min(rates[name].values()) for name in ("R-INT", "B-INT", "PSoup")
    }
    return [
        Claim(
            "beat-the-extremes",
            "between the ends, R-INT and B-INT beat full and no materialisation",
            "yes",
            f"{min(gain.values()):.1f} to {max(gain.values()):.1f} × the better extreme",
            min(gain.values()) > 1,
            f"at {min(inner):.0%} updates full materialisation reaches {rates[ALL][min(inner)]:,.0f} inputs "
            f"a second, at {max(inner):.0%} none reaches {rates[NONE][max(inner)]:,.0f}; "
            f"B-INT {rates['B-INT'][min(inner)]:,.0f} and {rates['B-INT'][max(inner)]:,.0f}",
        ),
        Claim(
            "extremes-deteriorate",
            "each extreme is good at its own end and deteriorates away from it",
            "yes",
            f"all falls {rates[ALL][least] / rates[ALL][0.5]:,.0f} × from {least:.0%} to 50 % updates, none "
            f"{rates[NONE][most] / rates[NONE][0.5]:,.0f} × from {most:.0%} to 50 %",
            min(rates[ALL][least] / rates[ALL][0.5], rates[NONE][most] / rates[NONE][0.5]) > 5,
        ),
        Claim(
            "r-int-first",
            "R-INT outperforms B-INT and PSoup for all inputs",
            "yes",
            ", ".join(f"{value:.1f} × at {share:.0%}" for share, value in over.items()),
            min(over.values()) > 1,
        ),
        Claim(
            "alike-without-updates",
            "without updates B-INT and PSoup are similar",
            "similar",
            f"B-INT is {alike:.1f} × PSoup",
            0.5 < alike < 2,
            "this tree is an array without rotations, searched from its root; B-INT computes its intervals",
        ),
        Claim(
            "apart-with-updates",
            "as the share of updates grows, B-INT becomes faster and PSoup slower",
            "yes",
            ", ".join(f"{name} {value:.2f} ×" for name, value in change.items()),
            change["B-INT"] > 1 > change["PSoup"],
            f"from {least:.0%} to {most:.0%} updates; a new leaf changes every node above it, a base "
            "interval is merged once",
        ),
        Claim(
            "stable",
            "R-INT, B-INT and PSoup are relatively stable for all inputs",
            "stable",
            ", ".join(f"{name} within {value:.1f} ×" for name, value in steady.items()),
            max(steady.values()) < 10,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in result.table:
        share = float(str(row["updates"]).rstrip("%"))
        for name in DRIVERS:
            lines.setdefault(name, []).append((share, float(row[f"{name} inputs/s"] or 0)))
    panel = Panel(
        "1,000 operators SUM [N, 0]", "updates (% of inputs)", "inputs a second", lines, is_log_x=False
    )
    draw_lines(f"Shared aggregates ({result.scale})", [panel], path)
