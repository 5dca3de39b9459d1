"""Line charts in one look: a panel for each case, a line for each thing compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

Line = Sequence[tuple[float, float]]
_COLOURS = ("#2f6f9f", "#b5533c", "#5b8c5a", "#8a6fae", "#c79a3b", "#5f6b76", "#3fa7a0", "#a04f7a")
_MARKS = "os^Dv<>P"


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
    """Panels side by side; the same name has the same colour in all of them."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    mark = {name: _MARKS[i % len(_MARKS)] for i, name in enumerate(names)}
    width = 4.6 * len(panels)
    figure, all_axes = plt.subplots(1, len(panels), figsize=(width, 4), layout="constrained", squeeze=False)
    for axes, panel in zip(all_axes[0], panels, strict=True):
        for name, points in panel.lines.items():
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, color=colour[name], marker=mark[name], markersize=4, linewidth=1.4, label=name)
        axes.set_xscale("log" if panel.is_log_x else "linear")
        axes.set_yscale("log" if panel.is_log_y else "linear")
        if not panel.is_log_y:
            axes.set_ylim(bottom=0)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_bars(
    title: str, y: str, groups: Sequence[str], bars: Mapping[str, Sequence[float]], path: Path
) -> None:
    """A group of bars for each of `groups`; `bars` has a value for each of them by name."""
    width = 0.8 / len(bars)
    figure, axes = plt.subplots(figsize=(max(7.0, 1.1 * len(groups)), 4), layout="constrained")
    for i, (name, values) in enumerate(bars.items()):
        places = [k + (i - (len(bars) - 1) / 2) * width for k in range(len(groups))]
        axes.bar(places, values, width, color=_COLOURS[i % len(_COLOURS)], label=name)
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
