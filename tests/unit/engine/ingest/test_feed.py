"""The feed: every row is planned once, streams stay in step, and entries survive being written down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sash.connectors.sources import Chunk, Plan, Position, Source
from sash.engine.durability.feed_log import FeedLog
from sash.engine.ingest.feed import Entry, Feeder
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Schema, Type


class Clockwork(Source):
    """A source whose row number i has the time i × `step`; its position is the next row."""

    def __init__(self, name: str, rows: int, step: int) -> None:
        schema = Schema((Column("t", Type.BIGINT),))
        super().__init__(StreamDefinition(name, schema, "t", 1, 0, "clockwork:", ()))
        self.rows, self.step = rows, step

    @property
    def bounded(self) -> bool:
        return True

    def check(self) -> None:
        """Always in order."""

    def plan(self, position: Position, max_rows: int, target_rows: int = 1) -> Plan:
        start = position.get("row", 0)
        stop = min(self.rows, start + max_rows)
        chunks = [
            Chunk(self.stream.name, begin, "", begin, min(target_rows, stop - begin), begin, stop)
            for begin in range(start, stop, target_rows)
        ]
        return Plan(tuple(chunks), {"row": stop}, stop == self.rows)

    def progress(self, position: Position) -> float | None:
        return float(position.get("row", 0) / self.rows)

    def newest(self, position: Position) -> int | None:
        row = position.get("row", 0)
        return (row - 1) * self.step if row else None


speeds = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 50)), min_size=1, max_size=4)


def run(sources: dict[str, Clockwork], batch_rows: int, *, resume_at: int | None = None) -> list[Entry]:
    feeder = Feeder(sources, batch_rows, max(1, batch_rows // 2))
    entries: list[Entry] = []
    newest: dict[str, int | None] = dict.fromkeys(sources)
    while (entry := feeder.next(newest)) is not None:
        assert Entry.from_json(entry.to_json()) == entry
        entries.append(entry)
        newest = {name: source.newest(entry.positions[name]) for name, source in sources.items()}
        if len(entries) == resume_at:
            feeder = Feeder(sources, batch_rows, max(1, batch_rows // 2))
            ended = {name for e in entries for name in e.ended}
            feeder.resume(entry.number + 1, entry.positions, ended, entry.is_last)
        assert len(entries) < 10_000
    return entries


def sources_of(shapes: list[tuple[int, int]]) -> dict[str, Clockwork]:
    return {f"s{i}": Clockwork(f"s{i}", rows, step) for i, (rows, step) in enumerate(shapes)}


@given(speeds, st.integers(1, 40), st.one_of(st.none(), st.integers(1, 5)))
def test_every_row_is_planned_once_in_order_and_every_stream_ends_once(shapes, batch_rows, resume_at):
    sources = sources_of(shapes)
    entries = run(sources, batch_rows, resume_at=resume_at)
    assert [entry.number for entry in entries] == list(range(len(entries)))
    assert [entry.is_last for entry in entries] == [False] * (len(entries) - 1) + [True]
    for name, source in sources.items():
        planned = [chunk for entry in entries for chunk in entry.chunks if chunk.stream == name]
        rows = [row for chunk in planned for row in range(chunk.first_row, chunk.first_row + chunk.rows)]
        assert rows == list(range(source.rows))
        assert sum(name in entry.ended for entry in entries) == 1


@given(speeds, st.integers(4, 40))
def test_a_batch_holds_no_more_rows_than_asked_for(shapes, batch_rows):
    for entry in run(sources_of(shapes), batch_rows):
        assert sum(chunk.rows for chunk in entry.chunks) <= batch_rows


@given(st.integers(1, 100), st.integers(1, 100), st.integers(2, 20))
def test_a_fast_stream_waits_for_a_slow_one(step, other_step, batch_rows):
    """While both have rows, neither runs ahead by more than what one batch of it spans, twice."""
    sources = sources_of([(200, step), (200, other_step)])
    limit = 2 * batch_rows * max(step, other_step)
    for entry in run(sources, batch_rows):
        instants = [source.newest(entry.positions[name]) for name, source in sources.items()]
        if entry.ended:
            break
        assert None not in instants
        one, other = (instant or 0 for instant in instants)
        assert abs(one - other) <= limit


def test_streams_of_about_one_pace_are_read_side_by_side():
    sources = sources_of([(300, 9), (300, 10), (300, 11)])
    for entry in run(sources, 30)[:20]:
        instants = [source.newest(entry.positions[name]) or 0 for name, source in sources.items()]
        assert max(instants) - min(instants) <= 2 * 11 * 10, "each has ten rows of a batch"


def test_progress_is_the_mean_share_of_what_lies_before_the_positions():
    sources = sources_of([(10, 1), (10, 1)])
    feeder = Feeder(sources, 10, 10)
    assert feeder.progress({name: {} for name in sources}) == 0.0
    entry = feeder.next(dict.fromkeys(sources))
    assert entry is not None
    assert feeder.progress(entry.positions) == 0.5


def test_there_is_nothing_after_the_last_entry_even_after_a_restart():
    sources = sources_of([(3, 1)])
    feeder = Feeder(sources, 10, 10)
    entry = feeder.next({"s0": None})
    assert entry is not None
    assert entry.is_last
    assert feeder.next({"s0": 2}) is None
    again = Feeder(sources, 10, 10)
    again.resume(1, entry.positions, {"s0"}, True)
    assert again.next({"s0": 2}) is None


# ------------------------------------------------------------------------ on disk


def test_the_log_gives_back_what_was_published(tmp_path):
    log = FeedLog(tmp_path / "feed")
    assert log.count() == 0
    assert log.read(0) is None
    for number in range(3):
        log.publish(number, f"entry {number}")
    assert log.count() == 3
    assert [log.read(number) for number in range(4)] == ["entry 0", "entry 1", "entry 2", None]
    assert FeedLog(tmp_path / "feed").count() == 3


def test_publishing_a_number_again_replaces_it(tmp_path):
    log = FeedLog(tmp_path)
    log.publish(0, "one")
    log.publish(0, "two")
    assert log.read(0) == "two"
    assert log.count() == 1


def test_forgotten_entries_are_gone_and_the_count_stays(tmp_path):
    log = FeedLog(tmp_path)
    for number in range(5):
        log.publish(number, str(number))
    log.forget(3)
    assert [log.read(number) for number in range(5)] == [None, None, None, "3", "4"]
    assert log.count() == 5


# ------------------------------------------------------------------------ heartbeats


class Live(Source):
    """A source without an end that gives the rows that it is handed."""

    def __init__(self, name: str, heartbeat: float | None, slack: int = 0) -> None:
        schema = Schema((Column("t", Type.BIGINT),))
        options = () if heartbeat is None else (("heartbeat", heartbeat),)
        super().__init__(StreamDefinition(name, schema, "t", 1, slack, "live:", options))
        self.waiting: list[int] = []
        self.newest: int | None = None
        self._given = 0

    @property
    def bounded(self) -> bool:
        return False

    def check(self) -> None:
        """Always in order."""

    def plan(self, position: Position, max_rows: int, target_rows: int = 1) -> Plan:
        rows, self.waiting = self.waiting, []
        if not rows:
            return Plan((), position, False)
        self._given += 1
        self.newest = max(rows + ([] if self.newest is None else [self.newest]))
        return Plan((Chunk(self.stream.name, self._given, "", 0, len(rows), 0, 0),), {}, False)

    def progress(self, position: Position) -> float | None:
        return None


class Beating:
    """A feeder over live sources, and a clock on the wall that goes on when it is told to."""

    def __init__(self, *together: str, **sources: Live) -> None:
        """`together` are the streams that each query reads, a letter each; left out, one reads all."""
        self.wall = 0.0
        self.sources = sources
        self.newest: dict[str, int | None] = dict.fromkeys(sources)
        self.feeder = Feeder(sources, 10, 10, lambda: self.wall, together=together or None)

    def step(self, seconds: float = 0.0, **rows: int) -> dict[str, int] | None:
        """Let time pass, hand rows over, and give the beats of the next entry, None if there is none."""
        self.wall += seconds
        for name, instant in rows.items():
            self.sources[name].waiting.append(instant)
        entry = self.feeder.next(self.newest)
        if entry is None:
            return None
        assert Entry.from_json(entry.to_json()) == entry
        for name, source in self.sources.items():
            known = [i for i in (source.newest, self.newest[name], entry.beats.get(name)) if i is not None]
            self.newest[name] = max(known, default=None)
        return dict(entry.beats)


def test_a_silent_stream_goes_on_with_the_others():
    feed = Beating(a=Live("a", None), b=Live("b", 5.0, slack=3))
    assert feed.step(a=100, b=90) == {}
    assert feed.step(4.0, a=200) is None, "a waits for b, which may still give rows"
    assert feed.step(2.0) == {"b": 103}, "a is at 100, and b may be 3 behind its newest"
    assert feed.step(0.0, a=300) == {"b": 203}
    assert feed.step(0.0, b=150) == {}, "it speaks again: older rows than 200 are late now"
    assert feed.step(1.0, a=400) == {}


def test_a_stream_that_has_never_given_a_row_holds_nobody_back_for_ever():
    feed = Beating(a=Live("a", None), b=Live("b", 2.0))
    assert feed.step(a=100) == {}
    assert feed.step(3.0, a=101) == {"b": 100}


def test_where_all_are_silent_time_goes_on_with_the_clock_on_the_wall():
    feed = Beating(a=Live("a", 2.0))
    assert feed.step(a=1_000_000) == {}
    assert feed.step(1.0) is None
    assert feed.step(1.5) == {"a": 3_500_000}
    assert feed.step(0.5) is None, "not more often than the heartbeat"
    assert feed.step(1.5) == {"a": 5_500_000}
    assert feed.step(0.0, a=6_000_000) == {}
    assert feed.step(2.5) == {"a": 8_500_000}


def test_without_a_heartbeat_everybody_waits():
    feed = Beating(a=Live("a", None), b=Live("b", None))
    assert feed.step(a=100, b=90) == {}
    assert feed.step(1_000.0) is None


def test_a_stream_waits_only_for_those_that_a_query_reads_with_it():
    #  a and b are read together, c alone: b is slow
    feed = Beating("ab", "c", a=Live("a", None), b=Live("b", None), c=Live("c", None))
    assert feed.step(a=100, b=90, c=5) == {}
    for instant, slow in ((200, 91), (300, 92), (400, 93)):
        assert feed.step(a=instant, b=slow, c=instant) == {}
    assert feed.newest == {"a": 100, "b": 93, "c": 400}
    assert feed.step(b=150) == {}
    assert feed.step() == {}
    assert feed.newest["a"] == 400, "b has caught up"


def test_nobody_waits_for_a_stream_that_has_nothing_to_read():
    #  a and b are read together, and a alone: b is silent
    feed = Beating("ab", "a", a=Live("a", None), b=Live("b", None))
    assert feed.step(a=100) == {}
    for instant in (200, 300, 400):
        feed.step(a=instant)
    feed.step(b=90)
    assert feed.newest == {"a": 400, "b": 90}
    assert feed.step(a=500, b=91) == {}
    assert feed.newest == {"a": 400, "b": 91}, "it speaks again, and a waits"


def test_a_stream_waits_for_those_that_queries_connect_it_with():
    feed = Beating("ab", "bc", "d", **{name: Live(name, None) for name in "abcd"})
    assert feed.step(a=100, b=90, c=80, d=7) == {}
    assert feed.step(a=200, b=200, c=81, d=8) == {}
    assert feed.newest == {"a": 100, "b": 90, "c": 81, "d": 8}
    assert feed.step(c=150) == {}
    assert feed.step() == {}
    assert feed.newest == {"a": 100, "b": 200, "c": 150, "d": 8}, "b was the slowest, then a"
    assert feed.step() == {}
    assert feed.newest == {"a": 200, "b": 200, "c": 150, "d": 8}


def test_time_goes_on_with_the_clock_on_the_wall_for_streams_that_are_read_by_themselves():
    feed = Beating("a", "b", a=Live("a", 2.0), b=Live("b", None))
    assert feed.step(a=1_000_000, b=50) == {}
    assert feed.step(1.0, b=60) == {}
    assert feed.step(1.5, b=70) == {"a": 3_500_000}, "b goes on, and moves nobody else"
    assert feed.step(1.0, b=80) == {"a": 4_500_000}
    assert feed.step(0.5) is None, "not more often than the heartbeat"


def test_a_silent_stream_goes_on_with_those_of_its_own_queries():
    feed = Beating("ab", "c", a=Live("a", None), b=Live("b", 5.0), c=Live("c", None))
    assert feed.step(a=100, b=90, c=7) == {}
    assert feed.step(6.0, a=200, c=1_000_000) == {"b": 100}
    assert feed.step(0.0, a=300) == {"b": 200}


def test_queries_that_come_and_go_change_who_waits_for_whom():
    feed = Beating("a", "b", a=Live("a", None), b=Live("b", None))
    assert feed.step(a=100, b=90) == {}
    assert feed.step(a=200, b=91) == {}
    feed.feeder.change(feed.sources, ["ab"])
    assert feed.step(a=300, b=92) == {}
    assert feed.newest == {"a": 200, "b": 92}, "a is ahead of b by more than it moved on"
    feed.feeder.change(feed.sources, ["a"])
    assert feed.step() == {}
    assert feed.newest["a"] == 300
