"""The text format of Prometheus, read by a strict parser and held against a run."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request

import pytest
from tests.unit.engine.observe.metrics.metrics_kit import parse, run, value

from sash.engine.observe.metrics import JsonLinesMetrics, PrometheusMetrics
from sash.engine.observe.metrics.prometheus import Family, exposition
from sash.engine.observe.metrics.server import served
from sash.engine.observe.report import BatchReport, Monitors, Silent
from sash.errors import UserError
from sash.lang import bind_program
from sash.runtime.run import run_program


def no_warning(text):
    raise AssertionError(text)


def test_the_file_says_what_the_run_did(tmp_path):
    path = tmp_path / "sash.prom"
    lines = JsonLinesMetrics(tmp_path / "m.jsonl", no_warning)
    summary = run(tmp_path, Monitors(PrometheusMetrics(no_warning, path), lines))
    metrics = parse(path.read_text())
    assert all(name.startswith("sash_") for name in metrics)
    assert value(metrics, "sash_batches_total") == summary.batches
    assert value(metrics, "sash_batch_rows_total") == 14
    for outcome, count in (("accepted", 12), ("late", 1), ("rejected", 1)):
        assert value(metrics, "sash_stream_rows_total", stream="s", outcome=outcome) == count
    assert value(metrics, "sash_clock_seconds") == 12
    assert value(metrics, "sash_event_time_lag_seconds") == 0
    assert value(metrics, "sash_progress_ratio") == 1
    for query, answered in summary.answered.items():
        assert value(metrics, "sash_query_rows_total", query=query) == answered
    record = json.loads((tmp_path / "m.jsonl").read_text().splitlines()[-1])
    assert len(metrics["sash_operator_rows_in_total"].samples) == len(record["operators"])
    for operator in record["operators"]:
        labels = {
            "query": operator["query"], "number": str(operator["number"]), "operator": operator["operator"]
        }  # fmt: skip
        assert value(metrics, "sash_operator_rows_in_total", **labels) == operator["rows_in"]
        assert value(metrics, "sash_operator_rows_out_total", **labels) == operator["rows_out"]
        assert value(metrics, "sash_operator_negative_total", **labels) == operator["negative"]
        assert value(metrics, "sash_operator_state_rows", **labels) == operator["state_rows"]
        assert value(metrics, "sash_operator_state_bytes", **labels) == operator["state_bytes"]
    assert value(metrics, "sash_state_bytes", partition="driver") == record["state"]["state_bytes"]
    parts = {"read", "wait", "answer", "write", "commit"}
    assert {dict(labels)["part"] for labels in metrics["sash_batch_seconds_total"].samples} == parts


def test_queries_say_whether_they_are_complete_and_after_what_they_skipped(tmp_path):
    """Of batches of four rows, a second each, an elastic query answers one boundary."""
    rows = "".join(f"{t},{t}\n" for t in range(1, 18))
    (tmp_path / "s.csv").write_text("t,n\n" + rows)
    text = "CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';" + "".join(
        f"CREATE QUERY {name} INTO 'noop:' AS SELECT APPROX_COUNT_DISTINCT(n) AS c "
        f"FROM s [RANGE 4 SEC SLIDE 2 SEC] WITH (refresh = '{name}');"
        for name in ("exact", "elastic")
    )
    path = tmp_path / "sash.prom"
    lines = JsonLinesMetrics(tmp_path / "m.jsonl", no_warning)
    skipped: list[float | None] = []

    class Reader(Silent):
        def batch(self, report: BatchReport) -> None:
            metrics = parse(path.read_text())
            for query in ("exact", "elastic"):
                assert value(metrics, "sash_query_complete", query=query) == 1
                assert value(metrics, "sash_query_whole_from_seconds", query=query) == 1
            found = metrics.get("sash_query_skipped_after_seconds")
            if found is not None:
                assert list(found.samples) == [frozenset({("query", "elastic")})]
            skipped.append(None if found is None else next(iter(found.samples.values())))

    run_program(
        bind_program(text),
        base_dir=tmp_path,
        runtime="inline",
        batch_rows=4,
        monitor=Monitors(PrometheusMetrics(no_warning, path), lines, Reader()),
    )
    records = [json.loads(line)["queries"] for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    told = [each["elastic"]["record"]["skipped_after"] for each in records]
    assert told == skipped
    assert [each for each in told if each is not None]
    assert all(each["exact"]["record"]["skipped_after"] is None for each in records)
    assert list(records[-1]["exact"]["record"]["bounds"]) == ["c"]
    assert records[-1]["elastic"]["record"]["instant"] == 17


def test_the_file_is_whole_after_every_batch(tmp_path):
    path = tmp_path / "sash.prom"
    seen: list[float] = []

    class Reader(Silent):
        def batch(self, report: BatchReport) -> None:
            seen.append(value(parse(path.read_text()), "sash_batches_total"))

    summary = run(tmp_path, Monitors(PrometheusMetrics(no_warning, path), Reader()))
    assert seen == [batch + 1 for batch in range(summary.batches)]
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".tmp")] == []


@pytest.mark.parametrize("text", ['say "x"', "a\\b", "two\nlines", "{}=,", "é ∞", "", "\\n"])
def test_label_values_come_back_as_they_were(text):
    metrics = parse(exposition([Family("sash_x", f"about {text}", (({"a": text, "b": "1"}, 2.5),))]))
    assert metrics["sash_x"].samples == {frozenset({("a", text), ("b", "1")}): 2.5}


def test_a_folder_that_goes_away_is_one_warning_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    warnings: list[str] = []
    monitor = PrometheusMetrics(warnings.append, folder / "sash.prom")
    shutil.rmtree(folder)
    assert run(tmp_path, monitor).batches > 2
    assert len(warnings) == 1


def fetch(port: int, path: str = "/metrics"):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5)


def test_the_page_has_the_text_of_the_last_batch_until_the_run_ends(tmp_path):
    seen: list[float] = []

    class Reader(Silent):
        def batch(self, report: BatchReport) -> None:
            with fetch(page.port) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                seen.append(value(parse(answer.read().decode()), "sash_batches_total"))

    with served("127.0.0.1", 0) as page:
        with fetch(page.port) as answer:
            assert answer.read() == b""
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            fetch(page.port, "/")
        refused.value.close()
        summary = run(tmp_path, Monitors(PrometheusMetrics(no_warning, page=page), Reader()))
    assert seen == [batch + 1 for batch in range(summary.batches)]
    with pytest.raises(urllib.error.URLError):
        fetch(page.port)


def test_a_port_that_is_taken_is_refused_before_the_run():
    again = pytest.raises(UserError, match="cannot serve metrics")
    with served("127.0.0.1", 0) as page, again as caught, served("127.0.0.1", page.port):
        pass
    assert "--metrics-port" in str(caught.value.hint)
