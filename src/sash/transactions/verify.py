"""Whether every query of a recorded run got the isolation that it was promised, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sash.transactions.check import Classification, Verdict, classify
from sash.transactions.events import Aborted, Began, Committed, Isolation, Moved
from sash.transactions.history import History
from sash.transactions.json_lines import read_history_file


@dataclass(frozen=True, slots=True)
class Verification:
    """`lines` say what the file holds; `violation` explains the first query whose promise was not kept."""

    lines: tuple[str, ...]
    violation: str | None


def verify_file(path: Path) -> Verification:
    """HistoryError if the file is no history."""
    recorded = read_history_file(path)
    lines: list[str] = []
    violation = None
    for place, history in enumerate(recorded.histories, 1):
        found = classify(history)
        title = f"history {place} of {len(recorded.histories)}: " if len(recorded.histories) > 1 else ""
        lines.extend(_summary(history, found, title))
        if violation is None and found.violation is not None:
            violation = title + _explained(found.violation)
    if recorded.is_cut:
        lines.append("the last line is cut off and was left out")
    if violation is None:
        lines.append("every query got the isolation that it was promised")
    return Verification(tuple(lines), violation)


def _summary(history: History, found: Classification, title: str) -> Iterable[str]:
    kinds = Counter(type(event) for event in history.events)
    unfinished = kinds[Began] - kinds[Committed] - kinds[Aborted]
    promised = Counter(verdict.query.isolation for verdict in found.verdicts)
    by_level = ", ".join(f"{promised[level]:,} {level}" for level in Isolation if promised[level])
    moved = f"{kinds[Moved]:,} movements of {len(history.all_rings())} rings"
    committed = f"{kinds[Committed]:,} committed queries" + (f" ({by_level})" if by_level else "")
    yield f"{title}{moved}; {committed}, {kinds[Aborted]:,} aborted, {unfinished:,} unfinished"
    torn = sum(not verdict.is_window for verdict in found.verdicts)
    older = sum(not verdict.is_latest for verdict in found.verdicts)
    around = " → ".join((*found.circle[:6], found.circle[0])) if found.circle else ""
    disorder = f"{found.disorder.earlier} before {found.disorder.later}" if found.disorder else ""
    yield _level("conflict-serializable", around)
    yield _level("window-serializable", f"{torn:,} queries read no true state" if torn else "")
    yield _level("latest-window-serializable", f"{older:,} queries read another state" if older else "")
    yield _level("commit-order preserving", disorder)
    short = sum(not verdict.is_complete for verdict in found.verdicts)
    yield _level("complete", f"{short:,} queries read a part of their windows" if short else "")


def _level(name: str, why_not: str) -> str:
    return f"  {name:<27} {f'no ({why_not})' if why_not else 'yes'}"


def _explained(verdict: Verdict) -> str:
    return (
        f"query '{verdict.query.name}' (transaction {verdict.transaction}, committed as event "
        f"{verdict.position + 1}) was promised {verdict.query.isolation}, but {verdict.broken}"
    )
