"""`generator:packets`: network traffic out of nothing, the same for the same seed.

Row i is a function of the options and of i alone: randomness comes in blocks of BLOCK_ROWS from Philox
keyed by (seed, block), so any stretch can be made without what precedes it and chunking shows nowhere.

Time runs by `rate`. With bursts, a pattern of PATTERN_SECONDS seconds repeats in which a share of the
seconds, chosen by the seed, is `burst_factor` times as busy; the time of row i is found in the pattern's
running total. Disorder moves rows back after that.

Cost: about 9 M rows/s and core with all columns; strings are dictionaries made once a process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.connectors.sources.base import Source
from sash.connectors.sources.chunk import DEFAULT_TARGET_ROWS, Chunk, Int64s, Plan, Position, Rejects, Rows
from sash.connectors.sources.convert import NO_TIMESTAMP, OUT_OF_RANGE, TS_LIMIT, convert
from sash.connectors.sources.options import Options
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition
from sash.lang.types import Type

BLOCK_ROWS = 8192
PATTERN_SECONDS = 1000
SECOND = 1_000_000

OFFERED = {
    "ts": Type.TIMESTAMP,
    "src": Type.STRING,
    "dst": Type.STRING,
    "proto": Type.STRING,
    "port": Type.BIGINT,
    "length": Type.BIGINT,
}
OPTIONS = (
    "rate", "rows", "seed", "hosts", "skew", "start", "bursts", "burst_factor", "disorder", "disorder_share",
    "late_share", "bad_share", "pace",
)  # fmt: skip

_PROTOCOLS = ("tcp", "udp", "icmp")
_PROTOCOL_OF = np.repeat(np.arange(3, dtype=np.int32), (820, 174, 30))  # of 1024
_PORTS = np.array([443, 80, 53, 22, 123, 25, 3306, 5432, 8080, 6379, 993, 8443, 445, 389, 5060, 1883])
_PORT_OF = np.repeat(_PORTS, (96, 48, 40, 14, 10, 8, 6, 6, 6, 5, 4, 4, 3, 2, 2, 2))  # of 256

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PacketOptions:
    """The options of one generator; times in microseconds."""

    rate: float
    rows: int | None
    seed: int
    hosts: int
    skew: float
    start: int
    bursts: float
    burst_factor: float
    disorder: int
    disorder_share: float
    late_share: float
    bad_share: float
    pace: bool

    @classmethod
    def of(cls, stream: StreamDefinition) -> PacketOptions:
        options = Options.of(stream)
        options.check_names(OPTIONS, "generator:packets")
        options.check_pair("burst_factor", "bursts")
        options.check_pair("disorder_share", "disorder")
        disorder = _seconds(options)
        answer = cls(
            rate=options.number("rate", 1000, 1e-6, 1e9),
            rows=options.integer("rows", 0, 0) if "rows" in options.values else None,
            seed=options.integer("seed", 0, 0),
            hosts=options.integer("hosts", 1000, 1),
            skew=options.number("skew", 1.0, 0),
            start=_start(options),
            bursts=options.number("bursts", 0.0, 0, 1),
            burst_factor=options.number("burst_factor", 5.0, 1),
            disorder=disorder,
            # Without a distance there is nothing to displace.
            disorder_share=options.number("disorder_share", 0.1, 0, 1) if disorder else 0.0,
            late_share=options.number("late_share", 0.0, 0, 1),
            bad_share=options.number("bad_share", 0.0, 0, 1),
            pace=options.boolean("pace", False),
        )
        if answer.hosts > 1 << 24:
            raise SourceError(
                f"stream '{stream.name}': option 'hosts' has a wrong value", expected="up to 16777216"
            )
        if answer.seed >= 1 << 64:
            raise SourceError(
                f"stream '{stream.name}': option 'seed' has a wrong value", expected="less than 2**64"
            )
        if answer.disorder_share + answer.late_share + answer.bad_share > 1:
            raise SourceError(
                f"stream '{stream.name}': disorder_share, late_share and bad_share are more than 1 together"
            )
        return answer


def _seconds(options: Options) -> int:
    """A distance given as a number of seconds or as text such as '2 s' or '2 sec'."""
    text = options.text("disorder", "0").lower().strip()
    for ending in ("seconds", "second", "sec", "s"):
        if text.endswith(ending):
            text = text.removesuffix(ending)
            break
    plain = Options(options.stream, {"disorder": text.strip()})
    return round(plain.number("disorder", 0, 0, 1e9) * SECOND)


def _start(options: Options) -> int:
    given = options.text("start", "2026-01-01T00:00:00Z")
    values, bad = convert(pa.array([given]), Type.TIMESTAMP)
    if bad is not None:
        raise SourceError(
            f"stream '{options.stream}': option 'start' has a wrong value",
            expected="a time such as '2026-01-01T00:00:00Z'",
            got=repr(given),
        )
    return int(values.cast(pa.int64())[0].as_py())


class PacketSource(Source):
    """The driver's side. With `pace`, rows become available as the clock moves on from the first plan."""

    def __init__(self, stream: StreamDefinition, rest: str, now: Callable[[], float]) -> None:
        super().__init__(stream)
        if rest != "packets":
            raise self.error(f"unknown generator '{rest}'", expected="'generator:packets'")
        self.options = PacketOptions.of(stream)
        self._now = now
        self._paced_from: tuple[float, int] | None = None

    @property
    def bounded(self) -> bool:
        return self.options.rows is not None

    @property
    def has_wall_time(self) -> bool:
        return False

    @property
    def paced(self) -> bool:
        return self.options.pace

    def check(self) -> None:
        self.check_definition()

    def check_definition(self) -> None:
        super().check_definition()
        for column in self.stream.schema:
            if column.name not in OFFERED:
                raise self.error(
                    f"generator:packets has no column '{column.name}'",
                    expected="some of: " + ", ".join(f"{name} {type}" for name, type in OFFERED.items()),
                )
            allowed = {OFFERED[column.name]} | ({Type.BIGINT} if column.name == "ts" else set())
            if column.type not in allowed:
                raise self.error(
                    f"generator:packets: column '{column.name}' has the wrong type",
                    expected=" or ".join(sorted(str(type) for type in allowed)),
                    got=str(column.type),
                )
        if self.stream.timestamp != "ts":
            raise self.error("generator:packets: the timestamp is 'ts'", got=self.stream.timestamp)

    def plan(self, position: Position, max_rows: int, target_rows: int = DEFAULT_TARGET_ROWS) -> Plan:
        row, sequence = position.get("row", 0), position.get("sequence", 0)
        last = row + max(1, max_rows)
        if self.options.pace:
            last = min(last, self._available(row))
        if self.options.rows is not None:
            last = min(last, self.options.rows)
        chunks: list[Chunk] = []
        while row < last:
            rows = min(max(1, target_rows), last - row)
            chunks.append(Chunk(self.stream.name, sequence, self.stream.source, row, rows, row, row + rows))
            row += rows
            sequence += 1
        ended = self.options.rows is not None and row >= self.options.rows
        return Plan(tuple(chunks), {"row": row, "sequence": sequence}, ended)

    def progress(self, position: Position) -> float | None:
        if self.options.rows is None:
            return None
        return min(1.0, position.get("row", 0) / self.options.rows) if self.options.rows else 1.0

    def _available(self, row: int) -> int:
        """Rows that the clock has released; a resumed run goes on from its row, not from the start."""
        now = self._now()
        if self._paced_from is None:
            self._paced_from = (now, row)
        began, first = self._paced_from
        return first + int((now - began) * self.options.rate)


@dataclass(frozen=True, slots=True)
class _Tables:
    """What does not depend on the row: names, the draw of hosts, the pattern of bursts."""

    names: pa.Array
    host_of: npt.NDArray[np.int32]
    dst_of: npt.NDArray[np.int32]
    weights: Int64s
    totals: Int64s


@lru_cache(maxsize=4)
def _tables(options: PacketOptions) -> _Tables:
    hosts = options.hosts
    # A power of two entries, so that bits of a random word draw a host without a search.
    size = 1 << min(22, max(16, (16 * hosts - 1).bit_length()))
    shares = np.arange(1, hosts + 1, dtype=np.float64) ** -options.skew
    running = np.cumsum(shares / shares.sum())
    host_of = np.searchsorted(running, (np.arange(size) + 0.5) / size).astype(np.int32)
    generator = np.random.Generator(np.random.Philox(key=options.seed))
    ranks = generator.permutation(hosts).astype(np.int32)
    busy = generator.permutation(PATTERN_SECONDS)[: round(options.bursts * PATTERN_SECONDS)]
    weights = np.full(PATTERN_SECONDS, SECOND, np.int64)
    weights[busy] = round(options.burst_factor * SECOND)
    numbers = range(hosts)
    names = pa.array([f"10.{(n >> 16) & 255}.{(n >> 8) & 255}.{n & 255}" for n in numbers])
    # The busiest receivers are not the busiest senders.
    return _Tables(names, host_of, ranks[host_of], weights, np.concatenate([[0], np.cumsum(weights)]))


def _words(options: PacketOptions, begin: int, end: int, count: int) -> Words:
    """`count` random words for each row; row i's words depend on the seed and on i only."""
    first, last = begin // BLOCK_ROWS, (end - 1) // BLOCK_ROWS
    out = np.empty((count, (last - first + 1) * BLOCK_ROWS), np.uint64)
    for block in range(first, last + 1):
        # Block 0 of the key's second word is taken by the tables.
        bits = np.random.Philox(key=options.seed + ((block + 1) << 64))
        at = (block - first) * BLOCK_ROWS
        out[:, at : at + BLOCK_ROWS] = bits.random_raw(count * BLOCK_ROWS).reshape(count, BLOCK_ROWS)
    return out[:, begin - first * BLOCK_ROWS : end - first * BLOCK_ROWS]


def _times(options: PacketOptions, tables: _Tables, begin: int, end: int) -> Int64s:
    """When each row would arrive in order."""
    rows = np.arange(begin, end, dtype=np.int64)
    if options.rate == int(options.rate):
        whole, rest = np.divmod(rows, int(options.rate))
        passed = whole * SECOND + rest * SECOND // int(options.rate)
    else:
        passed = np.floor(rows * (SECOND / options.rate)).astype(np.int64)
    times: Int64s = passed + options.start
    if options.bursts == 0.0:
        return times
    # `passed` counts work; the pattern says how long the work takes.
    cycles, rest = np.divmod(passed, tables.totals[-1])
    second = np.searchsorted(tables.totals, rest, side="right") - 1
    within = (rest - tables.totals[second]) * SECOND // tables.weights[second]
    times = options.start + (cycles * PATTERN_SECONDS + second) * SECOND + within
    return times


def _displace(options: PacketOptions, times: Int64s, words: Words) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Move a share of the rows back in time; gives the new times and which rows have none."""
    draw = (words >> np.uint64(40)).astype(np.float64) / float(1 << 24)
    amount = (words & np.uint64(0xFFFFFFFF)).astype(np.float64) / float(1 << 32)
    bad = draw < options.bad_share
    late = ~bad & (draw < options.bad_share + options.late_share)
    moved = ~bad & ~late & (draw < options.bad_share + options.late_share + options.disorder_share)
    back = np.where(moved, amount * options.disorder, 0.0)
    back = np.where(late, (10 * options.disorder + 10 * SECOND) * (1.0 + amount), back)
    return times - back.astype(np.int64), bad


def read_packets(stream: StreamDefinition, chunk: Chunk, columns: Sequence[str] | None) -> Rows:
    """The rows of a chunk."""
    options = PacketOptions.of(stream)
    tables = _tables(options)
    asked = list(stream.schema.names if columns is None else columns)
    begin, end = chunk.begin, chunk.end
    ts = _times(options, tables, begin, end)
    disturbed = options.disorder_share + options.late_share + options.bad_share > 0
    words = _words(options, begin, end, 3 if disturbed else 2)
    bad = np.zeros(end - begin, np.bool_)
    if disturbed:
        ts, bad = _displace(options, ts, words[2])
    outside = (ts > TS_LIMIT) | (ts < -TS_LIMIT)
    table = pa.table({name: _column(stream, name, ts, words, tables) for name in asked})
    numbers = np.arange(begin, end, dtype=np.int64)
    rejects = Rejects(chunk.path)
    refused = bad | outside
    if refused.any():
        _reject(stream, rejects, refused, bad, words, tables, ts, begin)
        keep = ~refused
        ts, numbers = ts[keep], numbers[keep]
        table = table.filter(pa.array(keep)) if asked else table
    if stream.has_integer_time:
        # The stream sees whole units, so its time is that of the integer it reads.
        ts = ts // stream.unit * stream.unit
    return Rows(ts, table, numbers, rejects.to_table())


def _column(stream: StreamDefinition, name: str, ts: Int64s, words: Words, tables: _Tables) -> pa.Array:
    mask = np.uint64(len(tables.host_of) - 1)
    if name == "ts":
        if stream.has_integer_time:
            return pa.array(ts // stream.unit)
        return pa.array(ts, pa.timestamp("us"))
    if name == "src":
        return pa.DictionaryArray.from_arrays(tables.host_of[words[0] & mask], tables.names)
    if name == "dst":
        return pa.DictionaryArray.from_arrays(tables.dst_of[(words[0] >> np.uint64(32)) & mask], tables.names)
    kind = _PROTOCOL_OF[words[1] & np.uint64(1023)]
    if name == "proto":
        return pa.DictionaryArray.from_arrays(kind, pa.array(_PROTOCOLS))
    if name == "port":
        ports = _PORT_OF[(words[1] >> np.uint64(10)) & np.uint64(255)]
        return pa.array(np.where(kind == 2, 0, ports))  # ICMP knows no ports
    # Acknowledgements, full frames, and what lies between.
    size = (words[1] >> np.uint64(18)) & np.uint64(1023)
    between = 40 + ((words[1] >> np.uint64(28)) & np.uint64(0xFFFF)) * np.uint64(1461) // np.uint64(1 << 16)
    return pa.array(np.where(size < 400, 40, np.where(size < 720, 1500, between.astype(np.int64))))


def _reject(
    stream: StreamDefinition,
    rejects: Rejects,
    refused: npt.NDArray[np.bool_],
    bad: npt.NDArray[np.bool_],
    words: Words,
    tables: _Tables,
    ts: Int64s,
    begin: int,
) -> None:
    names = [name for name in stream.schema.names if name != stream.timestamp]
    at = np.flatnonzero(refused)
    columns = {name: _column(stream, name, ts[at], words[:, at], tables) for name in names}
    shown = pa.table(columns).to_pylist()
    for number, i in enumerate(at.tolist()):
        values = shown[number] if names else {}
        row = {name: values.get(name) for name in stream.schema.names}
        why = NO_TIMESTAMP if bad[i] else OUT_OF_RANGE
        rejects.add(begin + i, f"{stream.timestamp}: {why}", json.dumps(row))
