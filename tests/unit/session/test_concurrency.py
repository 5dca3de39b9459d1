"""Many threads at one run: every answer is the truth at its instant, nobody is refused without a reason."""

from __future__ import annotations

import pytest

from sash.testing.concurrency import Concurrency
from sash.transactions.verify import verify_file


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_many_threads_ask_while_queries_come_and_go(tmp_path, has_checkpoint):
    tally = Concurrency(tmp_path, 5, batch_rows=1000, has_checkpoint=has_checkpoint, record_history=True).run(
        4
    )
    assert tally.faults == []
    assert tally.answered > 0
    assert tally.queries > 0
    assert verify_file(tmp_path / "run1" / "history.jsonl").violation is None
