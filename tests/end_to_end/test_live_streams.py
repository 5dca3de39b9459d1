"""Live streams: batches by a trigger, and little work where little comes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from tests.end_to_end.kit import Started

PACED = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT)
  TIMESTAMP BY ts FROM 'generator:packets' WITH (rate = 2000, hosts = 100, pace = true);
CREATE QUERY q INTO 'jsonl:q.jsonl' AS
  SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SEC SLIDE 1 SEC] GROUP BY src;
"""
TICK = os.sysconf("SC_CLK_TCK")


def worked(process: int) -> float:
    """The seconds of processor that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_paced_stream_has_a_batch_a_trigger_and_leaves_the_processor_alone(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text(PACED)
    metrics = tmp_path / "m.jsonl"
    for trigger, most in ((), 10), (("--trigger", "500ms"), 2):
        metrics.unlink(missing_ok=True)
        with Started(
            "run", "p.cql", "--runtime", "inline", "-q", "--metrics", metrics, *trigger, cwd=tmp_path
        ) as run:
            run.until(lambda: len(lines(metrics)) >= 3)
            [process] = run.survivors()
            before, begun, batches = worked(process), time.monotonic(), len(lines(metrics))
            time.sleep(5)
            share = (worked(process) - before) / (time.monotonic() - begun)
            batches = len(lines(metrics)) - batches
            run.send(signal.SIGINT)
            assert run.end(20).code == 0
        # It was a whole core; the processor is busy with other things, so this is not the measurement itself.
        assert share < 0.3
        assert 5 <= batches <= 5 * most + 2
    seen = [json.loads(line) for line in lines(metrics)]
    assert sum(report["rows"] for report in seen) >= 5 * 2000 * 0.9
