"""Line charts in one look: a panel for each case, a line for each thing compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

Line = Sequence[tuple[float, float]]
_COLOURS = ("#2f6f9f", "#b5533c", "#5b8c5a", "#8a6fae", "#c79a3b", "#5f6b76", "#3fa7a0", "#a04f7a", "#2b2b2b")
_MARKS = "os^Dv<>PX"
# So many places are all named on an axis.
_FEW = 5


@dataclass(frozen=True, slots=True)
class Panel:
    """`lines` by name, each as points (x, y)."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Line]
    is_log_x: bool = True
    is_log_y: bool = True


def draw_lines(title: str, panels: Sequence[Panel], path: Path) -> None:
    """Panels in rows of two; the same name has the same colour in all of them."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    mark = {name: _MARKS[i % len(_MARKS)] for i, name in enumerate(names)}
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    size = (4.8 * columns, 3.7 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for name, points in panel.lines.items():
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, color=colour[name], marker=mark[name], markersize=4, linewidth=1.4, label=name)
        places = sorted({x for points in panel.lines.values() for x, _ in points})
        if panel.is_log_x:
            axes.set_xscale("log")
        if panel.is_log_x or len(places) <= _FEW:
            axes.set_xticks(places, [_short(x) for x in places], fontsize=8)
            axes.minorticks_off()
        if panel.is_log_y:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.spines[["top", "right"]].set_visible(False)
    shown = list(grid.flat[: len(panels)])
    if len(panels) < grid.size and all(set(panel.lines) == set(names) for panel in panels):
        # The place that is left takes one legend for all.
        handles, labels = shown[0].get_legend_handles_labels()
        grid.flat[-1].legend(handles, labels, loc="center", fontsize=9, frameon=False)
    else:
        for axes in shown:
            axes.legend(fontsize=8, frameon=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def draw_bars(
    title: str,
    y: str,
    groups: Sequence[str],
    bars: Mapping[str, Sequence[float]],
    path: Path,
    *,
    is_log: bool = False,
) -> None:
    """A group of bars for each of `groups`; `bars` has a value for each of them by name."""
    width = 0.8 / len(bars)
    figure, axes = plt.subplots(figsize=(max(7.0, 1.1 * len(groups)), 4), layout="constrained")
    for i, (name, values) in enumerate(bars.items()):
        places = [k + (i - (len(bars) - 1) / 2) * width for k in range(len(groups))]
        axes.bar(places, values, width, color=_COLOURS[i % len(_COLOURS)], label=name)
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    axes.set_ylabel(y)
    if is_log:
        axes.set_yscale("log")
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if len(bars) > 1:
        # Beside the bars, so that it hides none.
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
