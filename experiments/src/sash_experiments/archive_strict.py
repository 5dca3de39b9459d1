"""archive-strict: what deferred premature deletions cost (000, sections 3.5 and 5.6).

A tenth of the results is taken back before it expires. Sub-indices that an update need not touch keep such
rows, and probes consult the list of them. Rows are taken back by their values and expiration, so that they
must be looked for, or with their insertion time, so that their place is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.archive import BORN, DIES, Update
from sash_experiments.archive_data import STRICT_SPEC, Feed
from sash_experiments.archive_measure import Entrant, Measured, Variant, drive_all
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "archive-strict"
TITLE = "premature deletions that are deferred (000, section 5.6)"
SCALES = {
    "small": Feed(20_000, updates=18),
    "medium": Feed(500_000, updates=9),
    "paper": Feed(5_000_000, updates=9),
}
_VARIANTS = (Variant("rebuild", (4, 4)), Variant("norebuild", (4, 4)))
NONE, PLACED, SOUGHT = "none", "place known", "looked for"
_SHARE = 10


def taking(feed: Feed, how: str) -> Iterator[Update]:
    """The updates of a feed, of whose rows every tenth is taken back halfway through its life."""
    waiting: list[pa.Table] = []
    for update in feed.batches():
        if how == NONE:
            yield update
            continue
        chosen = update.rows.take(pa.array(np.arange(0, update.rows.num_rows, _SHARE)))
        waiting.append(chosen)
        known = pa.concat_tables(waiting)
        born, dies = known.column(BORN).to_numpy(), known.column(DIES).to_numpy()
        is_due = (born + dies) // 2 <= update.through
        waiting = [known.filter(pa.array(~is_due))]
        taken = known.filter(pa.array(is_due & (dies > update.through)))
        yield replace(update, taken_rows=taken if how == PLACED else taken.drop_columns([BORN]))


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(feed: Feed, scale: str, note: Note = silent) -> Result:
    updates = {how: partial(taking, feed, how) for how in (NONE, PLACED, SOUGHT)}
    parties = [[Entrant(variant, each) for each in updates.values()] for variant in _VARIANTS]
    driven = drive_all(parties, STRICT_SPEC, feed.live, note)
    seen = {
        how: {variant.name: driven[Entrant(variant, each)] for variant in _VARIANTS}
        for how, each in updates.items()
    }
    table: list[dict[str, Cell]] = [
        {"taken back": how, "index": name, **measured.cells()}
        for how, by_name in seen.items()
        for name, measured in by_name.items()
    ]
    return Result(NAME, TITLE, scale, table, _claims(seen))


def _claims(seen: dict[str, dict[str, Measured]]) -> list[Claim]:
    def more(how: str, name: str, what: str) -> float:
        return 100 * (float(getattr(seen[how][name], what)) / float(getattr(seen[NONE][name], what)) - 1)

    names = [variant.name for variant in _VARIANTS]
    words = ", ".join(
        f"{name} {more(PLACED, name, what):+.0f} % {'an' if what == 'update' else 'a'} {what}"
        for name in names
        for what in ("update", "probe")
    )
    return [
        Claim(
            "overhead",
            "keeping and consulting the list of what is taken back costs about five percent",
            "≈ 5 %",
            words,
            all(more(PLACED, name, what) < 10 for name in names for what in ("update", "probe")),
            "where rows have to be looked for, updates take "
            + ", ".join(f"{more(SOUGHT, name, 'update'):+.0f} % ({name})" for name in names)
            + "; the list is read by every snapshot, and a sub-index with such rows is read on its own",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    hows = list(dict.fromkeys(str(row["taken back"]) for row in result.table))
    bars = {
        how: [
            float(row[column] or 0)
            for row in result.table
            if row["taken back"] == how
            for column in ("update ms", "probe ms")
        ]
        for how in hows
    }
    groups = [f"{variant.name}\n{what}" for variant in _VARIANTS for what in ("update", "probe")]
    draw_bars(f"Premature deletions ({result.scale})", "ms", groups, bars, path)
