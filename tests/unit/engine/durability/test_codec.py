"""Values between processes: plans and messages come back as they were; bytes from elsewhere run nothing."""

from __future__ import annotations

import json
import os
import pickle
import random
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash.errors
from sash.connectors.sources import REJECTS_SCHEMA
from sash.engine.continuous.continuous import ContinuousExecutor, OperatorPlan
from sash.engine.continuous.partitions import CODEC, News, Partials
from sash.engine.durability.codec import Codec
from sash.engine.durability.operator_state import StateFile
from sash.engine.durability.pane_files import PaneFile
from sash.engine.durability.wire import pack, unpack
from sash.engine.ingest.first_stage import ChunkExtent, ChunkResult
from sash.engine.ingest.retained_files import RetainedFile
from sash.engine.observe.report import Held, StreamCounts
from sash.engine.periodic.partitioned import PartitionedPlan, PartitionedResult
from sash.errors import InternalError, Place, RunError, SashError
from sash.lang import bind_program
from sash.operators.dataflow import Tally
from sash.operators.preaggregate import Partial
from sash.plan.digests import canonical_text
from sash.plan.join_synopses import SharedJoin
from sash.plan.run_plan import RunPlan, plan_run

PLANS = Codec(OperatorPlan, PartitionedPlan)
PROGRAMS = sorted((Path(__file__).parents[3] / "golden" / "explain").glob("*.cql"))


def same(one: Any, other: Any) -> bool:
    """Equal, with arrays and tables looked into, and of the same types."""
    if type(one) is not type(other):
        return False
    if is_dataclass(one) and not isinstance(one, type):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, np.ndarray):
        return (
            bool(one.dtype == other.dtype and one.shape == other.shape) and one.tobytes() == other.tobytes()
        )
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, SashError):
        return (one.render(), one.id, str(one)) == (other.render(), other.id, str(other))
    return bool(one == other)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_plans_come_back_as_they_were_and_become_the_same_operators(path):
    plan = plan_run(bind_program(path.read_text(encoding="utf-8")))
    executor = ContinuousExecutor(plan, is_cut=True)
    assert executor.operators is not None
    read = PLANS.from_bytes(PLANS.to_bytes(executor.operators), OperatorPlan)
    assert read == executor.operators
    assert canonical_text(read.plan) == canonical_text(executor.operators.plan)
    # Building compares the operators with the digest.
    first, second = read.cut(), read.cut()
    assert len(first.stages) == len(executor.cut.stages if executor.cut else ())
    mine = {id(v.operator) for stage in first.stages for v in stage.vertices if v.operator is not None}
    assert not mine & {id(v.operator) for stage in second.stages for v in stage.vertices}
    whole = Codec(RunPlan)
    assert whole.from_bytes(whole.to_bytes(plan), RunPlan) == plan
    executor.close()


def test_a_plan_of_other_operators_is_refused():
    text = next(path for path in PROGRAMS if path.stem == "two_streams").read_text(encoding="utf-8")
    plan = plan_run(bind_program(text))
    with pytest.raises(InternalError, match="other operators"):
        OperatorPlan(plan, "0123456789abcdef").cut()


def test_what_is_shared_is_written_once():
    text = next(path for path in PROGRAMS if path.stem == "join_synopses").read_text(encoding="utf-8")
    (join, *_) = plan_run(bind_program(text)).joins
    codec = Codec(SharedJoin)
    once, often = (len(codec.to_bytes((join,) * times)) for times in (1, 100))
    assert often - once < 100 * 20


# ---------------------------------------------------------------- messages


def some_partial(rng: random.Random) -> Partial:
    size = rng.randrange(5)
    words = pa.array(["a", None, "ü"][:size], pa.string())
    return Partial(
        "s0",
        (words, words.dictionary_encode()),
        np.arange(size),
        np.arange(size, dtype=np.int32),
        np.array([[2**62, -1]] * size, dtype=np.int64).reshape(size, 2),
        np.array([[np.nan, -0.0]] * size).reshape(size, 2),
        {1: words},
        rng.choice([None, np.arange(size, dtype=np.uint8)]),
        rng.choice([None, np.arange(size + 1)]),
    )


def some_news(rng: random.Random) -> News:
    counts = StreamCounts(3, 2, 1)
    rows = pa.table({"source": ["p"], "row": [2], "reason": ["late"], "data": ["{}"]}, schema=REJECTS_SCHEMA)
    result = ChunkResult(
        "s", 3, 5, 2**60, None, (some_partial(rng),), rows, REJECTS_SCHEMA.empty_table(), (),
        RetainedFile("s", 1, 2, -3, 4, 5, "0123456789ab"),
    )  # fmt: skip
    given = PartitionedResult(
        1, {"q": [rows]}, (PaneFile("f", "s0", 2**61, 7, 1, 3),), {"s0": Held(1, 2, 3)}, {"s0": ("a", "b")}
    )
    return News(
        (ChunkExtent("s", 1, None, 5, counts),), rng.choice([None, {"a": -1}]), rng.choice([None, result]),
        "0.1.2", (StateFile("f", 2**32 - 1, 9),), {(1, -1): Tally(1, 2, 3, 4, 5)},
        rng.choice([None, given]), rng.choice([None, RunError("no", got="x", id="y")]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_messages_come_back_as_they_were(seed):
    rng = random.Random(seed)
    news, partials = some_news(rng), Partials(tuple(some_partial(rng) for _ in range(3)))
    assert same(CODEC.from_bytes(CODEC.to_bytes(news), News), news)
    read = CODEC.from_bytes(CODEC.to_bytes(partials), Partials)
    assert same(read, partials)
    assert all(partial.ints.flags.writeable for partial in read.added)


@pytest.mark.parametrize(
    "kind", [k for k in vars(sash.errors).values() if isinstance(k, type) and issubclass(k, SashError)]
)
def test_errors_come_back_as_they_were(kind):
    error: SashError = kind.__new__(kind)
    place = Place("SELECT x", 7, 8)
    SashError.__init__(error, "what", place=place, expected="e", got="g", hint="h", id="some-id")
    read = CODEC.from_bytes(CODEC.to_bytes(News(failure=error)), News).failure
    assert type(read) is kind
    assert same(read, error)


# ---------------------------------------------------------------- bytes from elsewhere


class Evil:
    """What an attacker would have unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch evil",)


@dataclass(frozen=True)
class Stranger:
    x: int


def header(root: Any, nodes: list[Any] | None = None, version: int = 1) -> bytes:
    return b"".join(pack({"version": version, "nodes": nodes or [], "root": root}, []))


SOUND = CODEC.to_bytes(News(extents=(ChunkExtent("s", 1, 2, 3),)))
FORGED = {
    "a pickle": pickle.dumps(Evil()),
    "a pickle behind a length": len(p := pickle.dumps(Evil())).to_bytes(8, "little") + p,
    "nothing": b"",
    "half": SOUND[: len(SOUND) // 2],
    "a length beyond the end": (2**62).to_bytes(8, "little") + SOUND[8:],
    "text": b"\x04\0\0\0\0\0\0\0null",
    "another version": header(None, version=2),
    "another class of ours": header(["node", 0], [["runtime.partitions.Partials", ["("]]]),
    "a class that no message has": header(["node", 0], [["runtime.spark.holder.Run"]]),
    "a function": header(["node", 0], [["os.system", "touch evil"]]),
    "an unknown kind": header(["call", "os.system", "touch evil"]),
    "a list for a kind": header([["("]]),
    "a node of later": header(["node", 1], [["runtime.clock.Clock"]]),
    "a field too few": header(["node", 0], [["runtime.report.StreamCounts", 1, 2]]),
    "a text for a number": header(
        ["node", 1],
        [
            ["runtime.report.StreamCounts", 0, 0, 0],
            ["ingest.first_stage.ChunkExtent", "s", "1", 2, 3, ["node", 0]],
        ],
    ),
    "an array of objects": header(["array", "|O", [1], 0]),
    "bytes that are not there": header(["array", "<i8", [1], 3]),
    "bytes from the end": header(["array", "<i8", [1], -1]),
    "an error of Python's": header(["error", "Exception", "x", None, None, None, None, None]),
    "an error that is none": header(["error", "difflib", "x", None, None, None, None, None]),
    "a plain value": header(5),
    "an enumeration that is none": header(["one of", "ingest.first_stage.ChunkExtent", "x"]),
    "depth": b"\0\0\x10\0\0\0\0\0" + b"[" * (1 << 20),
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED.keys())
def test_forged_bytes_are_refused_and_run_nothing(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError) as caught:
        CODEC.from_bytes(content, News)
    assert caught.value.id == "message-damaged"
    assert list(tmp_path.iterdir()) == []


def test_random_damage_is_refused_or_read_as_a_message():
    rng = random.Random(3)
    refused = 0
    for _ in range(2_000):
        content = bytearray(SOUND)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        try:
            assert isinstance(CODEC.from_bytes(bytes(content), News), News)
        except RunError:
            refused += 1
    assert 1_000 < refused < 2_000


def test_what_no_message_has_is_not_written():
    with pytest.raises(InternalError, match="no codec for Stranger"):
        CODEC.to_bytes(Stranger(1))


def test_the_header_is_plain_text():
    found, parts = unpack(SOUND)
    assert json.loads(json.dumps(found)) == found
    assert parts == []
    assert "ingest.first_stage.ChunkExtent" in json.dumps(found)
