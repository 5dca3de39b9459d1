"""Messages between partitions: a large one is posted in a file, whatever it says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sash.engine.continuous.partitions import ALL, CODEC, NEWS, Message, News, gather
from sash.engine.durability.operator_state import StateFile
from sash.errors import CheckpointError
from sash.operators.stage_planner import TOP


def large_news() -> tuple[News, Message]:
    news = News(cell="1.0", files=tuple(StateFile(f"{i:0100d}", i, i) for i in range(1_000)))
    return news, Message(ALL, TOP, TOP, NEWS, 0, CODEC.to_bytes(news))


def test_large_news_reach_the_driver_by_post(tmp_path):
    news, message = large_news()
    posted = message.posted(tmp_path)
    assert posted.path
    assert not posted.payload
    assert gather([posted]).files == {"1.0": news.files}


def test_a_small_message_is_not_posted(tmp_path):
    message = Message(ALL, TOP, TOP, NEWS, 0, CODEC.to_bytes(News()))
    assert message.posted(tmp_path) is message
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_for_the_post_is_told(tmp_path, monkeypatch):
    def full(self: Path, _: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CheckpointError, match="cannot write") as caught:
        large_news()[1].posted(tmp_path)
    assert caught.value.got == "the disk is full"
