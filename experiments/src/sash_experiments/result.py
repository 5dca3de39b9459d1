"""What an experiment leaves behind: a table, claims, a picture, and the same as text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

Cell = str | int | float | None
Note = Callable[[str, float], None]
"""Told what is being done and which share of the whole is behind."""


def silent(doing: str, share: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that was published or promised, and what was measured here.

    `because` says in measured numbers why it holds or does not.
    """

    id: str
    text: str
    published: str
    measured: str
    holds: bool
    because: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """An experiment's outcome. `table` is a list of rows with the same columns."""

    name: str
    title: str
    scale: str
    table: Sequence[Mapping[str, Cell]]
    claims: Sequence[Claim]

    def write(self, directory: Path) -> Path:
        """NAME.json in `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}.json"
        content = {
            "name": self.name,
            "scale": self.scale,
            "table": [dict(row) for row in self.table],
            "claims": [asdict(claim) for claim in self.claims],
        }
        # Comparisons of what NumPy has measured give its own kind of bool.
        text = json.dumps(content, indent=2, ensure_ascii=False, default=lambda scalar: scalar.item())
        path.write_text(text + "\n")
        return path

    def __str__(self) -> str:
        """Both tables as plain text."""
        console = Console(file=io.StringIO(), width=110, force_terminal=False)
        measured = Table(title=f"{self.name}: {self.title} ({self.scale})", title_justify="left")
        columns = list(self.table[0]) if self.table else []
        for column in columns:
            is_number = isinstance(self.table[0][column], int | float)
            measured.add_column(column, justify="right" if is_number else "left")
        for row in self.table:
            measured.add_row(*(shown(row[column]) for column in columns))
        console.print(measured)
        claims = Table(title="claims", title_justify="left")
        for column in ("id", "claim", "published", "measured", "holds"):
            claims.add_column(column)
        for claim in self.claims:
            claims.add_row(
                claim.id, claim.text, claim.published, claim.measured, "yes" if claim.holds else "NO"
            )
        console.print(claims)
        for claim in self.claims:
            if claim.because:
                verdict = "holds" if claim.holds else "does not hold here"
                console.print(f"{claim.id} {verdict}: {claim.because}", highlight=False, markup=False)
        text: io.StringIO = console.file  # type: ignore[assignment]
        return text.getvalue().rstrip()


def shown(value: Cell) -> str:
    """With three digits, or all of those before the point."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return value
