"""The live view, drawn on a recorded console of a given size."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from sash.cli.hints import Hints
from sash.cli.live import LiveView, share_out
from sash.engine.observe.report import BatchReport, Held, StreamCounts, Summary

T0 = 1_790_000_000_000_000  # 2026-09-21 14:13:20 UTC
QUERIES = {name: f"jsonl:{name}.jsonl" for name in ("heavy", "protocols", "lengths", "hosts", "total")}


class Stage:
    """A view on a console of `width` × `height` whose clock moves by hand."""

    def __init__(self, width: int, height: int, hints: Hints | None = None) -> None:
        self.time = 0.0
        self.console = Console(
            record=True, width=width, height=height, force_terminal=True, file=io.StringIO()
        )
        hints = hints or Hints(keys={"lengths": frozenset({"port"})}, rank={"heavy": "bytes"})
        self.view = LiveView(self.console, hints, now=lambda: self.time)

    def batch(
        self, number: int = 3, *, rows: int = 5000, progress: float | None = 0.62, **tables: pa.Table
    ) -> None:
        self.time += 1.0
        streams = {"packets": StreamCounts(accepted=rows * number, late=1234, rejected=7)}
        self.view.batch(BatchReport(number, rows, 0.214, T0, progress, streams, tables))

    def text(self) -> str:
        self.console.export_text(clear=True)
        self.console.print(self.view.render())
        return self.console.export_text()

    def lines(self) -> list[str]:
        return self.text().rstrip("\n").split("\n")


@pytest.fixture
def heavy():
    ts = pa.array([T0] * 3, pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "src": ["small", "big", "middle"], "bytes": [1000, 94_393_106, 50_000]})


def test_before_the_run_begins_it_says_what_it_waits_for():
    stage = Stage(80, 24)
    stage.time = 3.2
    assert "starting spark … 3.20 s" in stage.text()


def test_the_header_shows_speed_batch_clock_and_what_was_set_aside():
    stage = Stage(120, 40)
    stage.view.started(QUERIES, {"packets": "generator:packets"})
    stage.batch(1)
    stage.batch(2)
    text = stage.text()
    for figure in ("8,237", "10,000", "0.21 s", "2026-09-21 14:13:20 UTC", "1,234", "7", "62 %", "running"):
        assert figure in text
    for label in ("rows/s", "batch time", "event clock", "late", "rejected"):
        assert label in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_frame_of_the_header_has_lag_and_state(width):
    stage = Stage(width, 40)
    stage.view.started(QUERIES, {})
    newest, state = {"packets": T0 + 2_500_000}, {-1: Held(4, 1_000), 0: Held(51_200, 8_000_000)}
    stage.view.batch(BatchReport(1, 5, 0.2, T0, 0.5, {}, newest=newest, state=state))
    assert "lag 2.50 s · state 51,204 rows, 8 MB ─╯" in stage.text()


def test_a_warning_stays_in_the_frame_and_after_it():
    stage = Stage(100, 40)
    with stage.view as view:
        view.started(QUERIES, {})
        view.warning("the disk of the metrics is full")
        assert "warning: the disk of the metrics is full" in stage.text()
    assert "warning: the disk of the metrics is full" in stage.console.export_text()


def test_an_integer_clock_is_shown_as_the_integer():
    stage = Stage(120, 40, Hints(unit=1_000_000))
    stage.view.started(QUERIES, {})
    stage.batch()
    assert " 1790000000 " in stage.text()


def test_a_query_s_panel_has_its_sink_and_newest_rows_greatest_first(heavy):
    stage = Stage(120, 40)
    stage.view.started(QUERIES, {})
    stage.batch(heavy=heavy)
    text = stage.text()
    assert "heavy → jsonl:heavy.jsonl" in text
    assert text.index("94,393,106") < text.index("50,000") < text.index("1,000 ")
    assert "3 rows at 14:13:20 · 3 in all" in text
    assert text.count("no answer yet") == 4


def test_quantities_are_right_aligned_and_keys_have_no_separators():
    stage = Stage(80, 40)
    stage.view.started({"lengths": "jsonl:l.jsonl"}, {})
    stage.batch(lengths=pa.table({"ts": [1, 1], "port": [8080, 53], "longest": [1500, 90]}))
    rows = [line for line in stage.lines() if "8080" in line or "53 " in line]
    assert rows[0].startswith("│ 8080 ")
    assert rows[0].endswith(" 1,500 │")
    assert rows[1].endswith("    90 │")


def test_a_wide_terminal_puts_two_queries_side_by_side():
    stage = Stage(120, 40)
    stage.view.started(QUERIES, {})
    stage.batch()
    assert any("heavy →" in line and "protocols →" in line for line in stage.lines())


def test_a_tall_narrow_terminal_puts_them_under_each_other():
    stage = Stage(70, 60)
    stage.view.started(QUERIES, {})
    stage.batch()
    assert not any("heavy →" in line and "protocols →" in line for line in stage.lines())


@pytest.mark.parametrize(
    ("width", "height"), [(200, 60), (120, 40), (80, 24), (60, 20), (40, 12), (30, 8), (20, 5)]
)
def test_the_frame_fits_every_terminal(width, height, heavy):
    stage = Stage(width, height)
    stage.view.started(QUERIES, {})
    stage.batch(heavy=heavy)
    lines = stage.lines()
    assert max(map(len, lines)) <= width
    # Below a dozen lines the header alone may be taller than the terminal; Rich crops that.
    assert len(lines) <= max(height, 11)


def test_a_short_terminal_gets_a_line_a_query(heavy):
    stage = Stage(60, 16)
    stage.view.started(QUERIES, {})
    stage.batch(heavy=heavy)
    lines = stage.lines()
    row = next(line for line in lines if line.startswith("heavy"))
    assert "src big, bytes 94,393,106" in row
    assert not any("→" in line for line in lines)


def test_more_queries_than_lines_are_counted():
    stage = Stage(80, 20)
    stage.view.started({f"q{i}": "jsonl:x" for i in range(240)}, {})
    stage.batch()
    lines = stage.lines()
    assert len(lines) <= 20
    shown = sum(line.startswith("q") and line[1].isdigit() for line in lines)
    assert f"… and {240 - shown} more queries" in lines[-1]


def test_unbounded_input_has_a_spinner_instead_of_a_bar():
    stage = Stage(80, 24)
    stage.view.started(QUERIES, {})
    stage.batch(progress=None)
    text = stage.text()
    assert "until you press Ctrl-C" in text
    assert "━" not in text
    assert "%" not in text


def test_stopping_is_announced_in_the_frame():
    stage = Stage(80, 24)
    stage.view.started(QUERIES, {})
    stage.view.stopping()
    assert "stopping after this batch" in stage.text()


def test_the_end_leaves_the_last_frame_and_a_summary():
    stage = Stage(100, 40)
    with stage.view as view:
        view.started(QUERIES, {})
        stage.batch()
        view.finished(
            Summary(3, 2.5, T0, {"packets": StreamCounts(14_000, 900, 100)}, {"heavy": 4321, "total": 0})
        )
    text = stage.console.export_text()
    assert "finished" in text
    assert "15,000     14,000    900        100" in text
    assert "heavy         4,321   jsonl:heavy.jsonl" in text
    assert "finished: 3 batches, 5,000 rows in 2.50 s (2,000 rows/s), clock 2026-09-21 14:13:20 UTC" in text


def test_an_interrupted_run_says_so_at_the_end():
    stage = Stage(100, 40)
    with stage.view as view:
        view.started(QUERIES, {})
        view.finished(Summary(3, 2.0, None, {}, {}, interrupted=True))
    assert "interrupted after 3 batches" in stage.console.export_text()


def test_text_in_answers_is_never_read_as_markup():
    stage = Stage(80, 24)
    stage.view.started({"[red]q": "jsonl:[b].jsonl"}, {})
    stage.batch(**{"[red]q": pa.table({"ts": [1], "[i]": ["[/nonsense]"]})})
    text = stage.text()
    for literal in ("[red]q", "[b].jsonl", "[i]", "[/nonsense]"):
        assert literal in text


@pytest.mark.parametrize(
    ("lines", "wanted", "shares"),
    [
        (10, [8, 1], [8, 1]),
        (6, [8, 8, 1], [3, 2, 1]),
        (3, [8, 8, 8], [1, 1, 1]),
        (2, [1, 1, 1], None),
        (100, [2, 3], [2, 3]),
    ],
)
def test_lines_are_shared_evenly_up_to_what_each_wants(lines, wanted, shares):
    assert share_out(lines, wanted) == shares
