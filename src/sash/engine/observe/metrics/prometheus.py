"""The text format of Prometheus (version 0.0.4): a file that is replaced after every batch, or a page.

Counters count since the start of the process, but for rows of streams and answers, which a checkpoint
carries on; Prometheus takes a counter that begins anew for what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sash.archive.report import COUNTED, UpdateReport
from sash.engine.observe.metrics.json_lines import place_of
from sash.engine.observe.metrics.output import Output, Warn
from sash.engine.observe.metrics.server import Page
from sash.engine.observe.report import BatchReport, Measures, Silent
from sash.files import replace_file

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples. The names of counters end in `_total`."""

    name: str
    help: str
    samples: tuple[Sample, ...]

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        kind = "counter" if self.name.endswith("_total") else "gauge"
        yield f"# HELP {self.name} {_escaped(self.help)}"
        yield f"# TYPE {self.name} {kind}"
        for labels, value in self.samples:
            inside = ",".join(f'{name}="{_escaped(text, quotes=True)}"' for name, text in labels.items())
            yield f"{self.name}{{{inside}}} {_number(value)}" if inside else f"{self.name} {_number(value)}"


class PrometheusMetrics(Silent):
    """A Monitor. `path`: a file to replace after every batch; `page`: where to serve the same text."""

    def __init__(self, warn: Warn, path: Path | None = None, page: Page | None = None) -> None:
        self._output = None if path is None else Output(path, warn)
        self._page = page
        self._batches = self._rows = 0
        self._seconds: dict[str, float] = {}
        self._archives: dict[str, _ArchiveTotals] = {}
        if self._output is not None:
            self._output.open(lambda: self._replace(""))

    def batch(self, report: BatchReport) -> None:
        self._batches += 1
        self._rows += report.rows
        for part, seconds in asdict(report.parts).items():
            self._seconds[part] = self._seconds.get(part, 0.0) + seconds
        for name, update in report.archives.items():
            self._archives.setdefault(name, _ArchiveTotals()).add(update)
        text = exposition([*self._totals(), *families(report, report.measure())])
        if self._page is not None:
            self._page.text = text
        if self._output is not None:
            self._output.attempt(lambda: self._replace(text))

    def _replace(self, text: str) -> None:
        assert self._output is not None
        replace_file(self._output.path, text, durable=False)

    def _totals(self) -> Iterator[Family]:
        yield Family("sash_batches_total", "Micro-batches that are committed.", (({}, self._batches),))
        yield Family("sash_batch_rows_total", "Rows that micro-batches have read.", (({}, self._rows),))
        yield Family(
            "sash_batch_seconds_total",
            "Seconds by part of a micro-batch: read, wait, answer, write, commit.",
            tuple(({"part": part}, seconds) for part, seconds in self._seconds.items()),
        )
        yield from _archives(self._archives)


class _ArchiveTotals:
    """What the updates of an archive have done, and the last of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.last: UpdateReport | None = None

    def add(self, update: UpdateReport) -> None:
        self.counts.update({name: getattr(update, name) for name in COUNTED})
        self.last = update


_ARCHIVE_TOTALS = {
    "scheduled": ("sub_indices_scheduled", "Sub-indices that updates of an archive had to touch."),
    "rewritten": ("sub_indices_rewritten", "Sub-indices that updates of an archive have written."),
    "sought": ("sub_indices_sought", "Sub-indices in which rows were looked for that are taken back."),
    "opened": ("segments_opened", "Files that updates of an archive have read."),
    "dropped": ("segments_dropped", "Files of an archive that went unopened, as all in them had expired."),
    "inserted": ("rows_inserted", "Rows that came into an archive."),
    "removed": ("rows_removed", "Rows that left an archive."),
    "bytes_read": ("bytes_read", "Bytes that updates of an archive have read."),
    "bytes_written": ("bytes_written", "Bytes that updates of an archive have written."),
    "asked": ("questions", "Questions that an archive was asked, by anybody."),
}
_ARCHIVE_STATES = {
    "version": "The current version of an archive.",
    "sub_indices": "Sub-indices of an archive.",
    "rows": "Rows that an archive stores, expired ones among them.",
    "bytes": "Bytes of the files of an archive.",
}


def _archives(archives: Mapping[str, _ArchiveTotals]) -> Iterator[Family]:
    for name, (what, about) in _ARCHIVE_TOTALS.items():
        yield Family(
            f"sash_archive_{what}_total",
            about,
            tuple(({"archive": archive}, each.counts[name]) for archive, each in archives.items()),
        )
    for name, about in _ARCHIVE_STATES.items():
        yield Family(
            f"sash_archive_{name}",
            about,
            tuple(({"archive": archive}, getattr(each.last, name)) for archive, each in archives.items()),
        )


def exposition(families: list[Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines())


def families(report: BatchReport, measures: Measures) -> Iterator[Family]:
    """What a report says, as metrics."""
    yield from _run(report)
    yield Family(
        "sash_stream_rows_total",
        "Rows of a stream by what became of them: accepted, late or rejected.",
        tuple(
            ({"stream": name, "outcome": outcome}, count)
            for name, counts in report.streams.items()
            for outcome, count in asdict(counts).items()
        ),
    )
    yield Family(
        "sash_stream_newest_seconds",
        "The greatest timestamp of a stream, in seconds.",
        tuple(({"stream": n}, at / 1e6) for n, at in report.newest.items() if at is not None),
    )
    yield Family(
        "sash_stream_slack_seconds",
        "The SLACK that would have kept all late rows of a stream.",
        tuple(({"stream": name}, slack / 1e6) for name, slack in report.slacks.items()),
    )
    yield Family(
        "sash_stream_behind_seconds",
        "How far the newest row of a live stream is behind the clock on the wall.",
        tuple(({"stream": name}, seconds) for name, seconds in report.behind.items()),
    )
    yield Family(
        "sash_query_rows_total",
        "Result rows that a query has given to its sink.",
        tuple(({"query": name}, count) for name, count in report.answered.items()),
    )
    yield Family(
        "sash_query_state_rows",
        "Rows of state behind a query; what queries share counts for each.",
        tuple(({"query": name}, held.rows) for name, held in measures.queries.items()),
    )
    yield Family(
        "sash_query_state_bytes",
        "Bytes of state behind a query; what queries share counts for each.",
        tuple(({"query": name}, held.bytes) for name, held in measures.queries.items()),
    )
    yield from _records(measures)
    yield from _refreshes(measures)
    yield from _operators(measures)


def _records(measures: Measures) -> Iterator[Family]:
    """What the answers of queries say of themselves."""
    known = measures.records.items()
    seconds = {name: unit / 1e6 for name, unit in measures.units.items()}
    yield Family(
        "sash_query_complete",
        "Whether the windows of a query are whole: 1, or 0 while they lack rows.",
        tuple(({"query": name}, int(record.is_complete)) for name, record in known),
    )
    yield Family(
        "sash_query_whole_from_seconds",
        "The instant from which the windows of a query are whole, in seconds.",
        tuple(({"query": name}, at * seconds[name]) for name, at in measures.whole_from.items()),
    )
    yield Family(
        "sash_query_skipped_after_seconds",
        "The instant of the answer before the last one, in seconds, if boundaries were skipped in between.",
        tuple(
            ({"query": name}, record.skipped_after * seconds[name])
            for name, record in known
            if record.skipped_after is not None
        ),
    )


def _refreshes(measures: Measures) -> Iterator[Family]:
    """How periodic queries are refreshed, and the groups behind them."""
    known = measures.refreshes.items()
    yield Family(
        "sash_query_state_groups",
        "Groups that the synopsis of a query has.",
        tuple(({"query": name}, each.held.groups) for name, each in known),
    )
    yield Family(
        "sash_query_state_partitions",
        "Among how many partitions the synopsis of a query is divided; 0: it is with the driver.",
        tuple(({"query": name}, each.partitions) for name, each in known),
    )
    yield Family(
        "sash_query_granted_seconds",
        "Event time between the last two answers of a query.",
        tuple(({"query": name}, each.granted) for name, each in known if each.granted is not None),
    )
    yield Family(
        "sash_query_late_seconds",
        "By how much the last period of a query was longer than its SLIDE.",
        tuple(({"query": name}, each.late) for name, each in known),
    )
    yield Family(
        "sash_query_skipped_total",
        "Boundaries that a query has passed over.",
        tuple(({"query": name}, each.skipped) for name, each in known),
    )
    yield Family(
        "sash_query_behind_seconds",
        "How far the instant of an answer over a live stream was behind the clock when it was committed.",
        tuple(({"query": name}, each.behind) for name, each in known if each.behind is not None),
    )
    yield Family("sash_decisions_total", "Decisions of the scheduler.", (({}, measures.decisions),))
    yield Family("sash_deciding_seconds_total", "Seconds that decisions took.", (({}, measures.deciding),))


def _run(report: BatchReport) -> Iterator[Family]:
    singles = (
        ("sash_batch_seconds", "Seconds that the last micro-batch took.", report.seconds),
        ("sash_batch_rows", "Rows that the last micro-batch read.", report.rows),
        ("sash_progress_ratio", "The share of bounded input that is read.", report.progress),
        ("sash_event_time_lag_seconds", "Event time from the clock to the newest row.", report.lag),
        ("sash_memory_bytes", "Memory that the driver's process takes.", report.memory),
        (
            "sash_clock_seconds",
            "The instant up to which queries are answered, in seconds.",
            None if report.clock is None else report.clock / 1e6,
        ),
    )
    for name, about, value in singles:
        if value is not None:
            yield Family(name, about, (({}, value),))
    places = [({"partition": place_of(partition)}, held) for partition, held in report.state.items()]
    yield Family(
        "sash_state_rows", "Rows of state by partition.", tuple((place, held.rows) for place, held in places)
    )
    yield Family(
        "sash_state_bytes",
        "Bytes of state by partition.",
        tuple((place, held.bytes) for place, held in places),
    )


def _operators(measures: Measures) -> Iterator[Family]:
    tallies = [
        ({"query": tally.query, "number": str(tally.number), "operator": tally.operator}, tally)
        for tally in measures.operators
    ]
    yield Family(
        "sash_operator_rows_in_total",
        "Rows that came to an operator.",
        tuple((labels, tally.rows_in) for labels, tally in tallies),
    )
    yield Family(
        "sash_operator_rows_out_total",
        "Rows that left an operator, negative tuples among them.",
        tuple((labels, tally.rows_out) for labels, tally in tallies),
    )
    yield Family(
        "sash_operator_negative_total",
        "Negative tuples that left an operator.",
        tuple((labels, tally.negative) for labels, tally in tallies),
    )
    yield Family(
        "sash_operator_state_rows",
        "Rows of state of an operator.",
        tuple((labels, tally.held.rows) for labels, tally in tallies),
    )
    yield Family(
        "sash_operator_state_bytes",
        "Bytes of state of an operator.",
        tuple((labels, tally.held.bytes) for labels, tally in tallies),
    )


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return repr(value)
