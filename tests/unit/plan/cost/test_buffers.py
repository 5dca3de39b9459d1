"""Which buffer a strategy keeps, and what it costs."""

import pytest

from sash.plan.cost.buffers import BufferKind, Load, Strategy, calendar_partitions, choose_buffer
from sash.plan.cost.buffers import calendar_queue as queue
from sash.plan.patterns import Pattern

LOAD = Load(inserts=100, negatives=0, checks=200)


def buffer(pattern, strategy, *, is_announced=False, is_eager=True, size=10_000, load=LOAD):
    return choose_buffer(pattern, strategy, size, load, is_announced=is_announced, is_eager=is_eager)


@pytest.mark.parametrize(
    ("pattern", "strategy", "kind"),
    [
        (Pattern.MON, Strategy.UPA, BufferKind.APPEND),
        (Pattern.WKS, Strategy.UPA, BufferKind.FIFO),
        (Pattern.WKS, Strategy.DIRECT, BufferKind.FIFO),
        (Pattern.WK, Strategy.UPA, BufferKind.CALENDAR),
        (Pattern.STR, Strategy.UPA, BufferKind.CALENDAR),
        (Pattern.WK, Strategy.DIRECT, BufferKind.LIST),
    ],
)
def test_the_pattern_decides_the_buffer(pattern, strategy, kind):
    assert buffer(pattern, strategy).kind is kind
    assert buffer(pattern, strategy, is_announced=True).kind is BufferKind.HASH


def test_upkeep_rises_from_fifo_to_calendar_queue_to_scanned_list():
    fifo = buffer(Pattern.WKS, Strategy.UPA)
    calendar = buffer(Pattern.WK, Strategy.UPA)
    scanned = buffer(Pattern.WK, Strategy.DIRECT)
    assert fifo.maintenance < calendar.maintenance < scanned.maintenance / 100
    assert fifo.size == calendar.size == scanned.size


def test_lazy_expiration_costs_less_than_eager():
    for strategy in (Strategy.UPA, Strategy.DIRECT):
        lazy = buffer(Pattern.WK, strategy, is_eager=False)
        assert lazy.maintenance < buffer(Pattern.WK, strategy).maintenance


def test_a_negative_tuple_reads_a_calendar_queue_from_end_to_end_and_finds_its_tuple_in_a_hash_table():
    load = Load(inserts=100, negatives=40, checks=200)
    assert buffer(Pattern.STR, Strategy.UPA, load=load).negative == 40 * 10_000
    assert buffer(Pattern.STR, Strategy.UPA, load=load, is_announced=True).negative == 40 * 2


def test_partitions_stay_small_as_results_grow():
    for size in (100, 10_000, 250_000):
        assert size / calendar_partitions(size) <= 10
    assert calendar_partitions(0) == 10
    assert calendar_partitions(1e12) == 65_536


def test_ten_partitions_fail_where_fifty_work():
    """002, Figure 3.9: the size of the result grows tenfold, and insertion with it unless partitions do."""
    work = {
        (size, count): queue(size, LOAD, is_eager=True, partitions=count).maintenance
        for size in (1_000, 10_000)
        for count in (10, 50, None)
    }
    assert work[10_000, 10] > 4 * work[10_000, 50]
    assert work[10_000, 10] > 8 * work[1_000, 10]
    assert work[10_000, None] < 2 * work[1_000, None]
