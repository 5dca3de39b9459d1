"""Aggregates that need the values of a group, from the values with their counts, for many groups at once.

Answers are those of the operators (`operators/aggregates`), by the same exact sums and the same texts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.types import Type
from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.calls import check_range, fraction_of, spread_of
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.json_text import json_values, pairs_text, ranges_text
from sash.operators.aggregates.sums import DoubleSums, IntegerSums
from sash.plan.sketches import HASHES
from sash.state.kernels import LOW_BITS
from sash.state.ordering import canonical, ordinal_to_double
from sash.synopses.b_int_qnt import LARGEST_DENOMINATOR, Tallies
from sash.synopses.indexed_values import IndexedWindow
from sash.synopses.value_counts import ValueCounts
from sash.synopses.value_window import ValueWindow

_F = AggregateFunction
QUANTILES = (_F.QUANTILE, _F.APPROX_QUANTILE)
TOPS = (_F.TOP, _F.APPROX_TOP)
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Answer = tuple[Ints | pa.Array, Bools]
"""64 bits a slot as in `finalize.Values`, or texts; and where it is not NULL."""


def answer_from_index(call: AggregateCall, window: IndexedWindow, slots: Ints, counts: ValueCounts) -> Answer:
    """The value of `call` for the one slot of a window, if it is asked for."""
    if call.is_distinct and call.function is _F.COUNT:
        return np.full(len(slots), window.distinct()), np.ones(len(slots), dtype=np.bool_)
    if call.function is _F.QUANTILE and not call.is_distinct:
        found = window.quantile(*_share(call))
        ordinals = np.full(len(slots), 0 if found is None else found)
        return decoded(ordinals, np.full(len(slots), found is not None), counts)
    few = window.for_call(call, slots)
    return answer(call, window.tallies(slots) if few is None else few, counts)


def answer(call: AggregateCall, tallies: Tallies, counts: ValueCounts) -> Answer:
    """The value of `call` for each slot of `tallies`, which are values of `counts`."""
    if call.is_distinct:
        tallies = replace(tallies, counts=np.ones(len(tallies.counts), dtype=np.int64))
    present = tallies.totals
    valid: Bools = present > 0
    is_double = counts.argument.type is Type.DOUBLE
    match call.function:
        case _F.COUNT:
            return present, np.ones(len(present), dtype=np.bool_)
        case _F.APPROX_COUNT_DISTINCT:
            return _distinct(tallies), np.ones(len(present), dtype=np.bool_)
        case _F.SUM | _F.AVG if is_double:
            sums = _double_sums(tallies)
            if call.function is _F.AVG:
                sums = np.divide(sums, present, out=np.zeros(len(present)), where=valid)
            return canonical(sums).view(np.int64), valid
        case _F.SUM | _F.AVG:
            high, low = _integer_sums(tallies)
            if call.function is _F.AVG:
                total = high * float(1 << LOW_BITS) + low
                mean = np.divide(total, present, out=np.zeros(len(present)), where=valid)
                return canonical(mean).view(np.int64), valid
            check_range(call, high)
            return (high << LOW_BITS) + low, valid
        case _F.VAR | _F.VAR_POP | _F.STDDEV | _F.STDDEV_POP:
            spread, valid = spread_of(call, tallies.variances(is_double=is_double), present)
            return canonical(spread).view(np.int64), valid
        case _F.QUANTILE | _F.APPROX_QUANTILE:
            return _quantile(call, tallies, counts, present, valid)
        case _F.TOP | _F.APPROX_TOP:
            return list_texts(tallies.top(call.limit), counts), valid
        case _F.HISTOGRAM if call.ranges is not None:
            return ranges_text(call.ranges, tallies.values, tallies.counts, tallies.offsets), valid
        case _F.HISTOGRAM:
            return list_texts(tallies, counts), valid
        case _:
            raise InternalError(f"{call.function.value} is not made of values")


def list_texts(lists: Tallies, counts: ValueCounts) -> pa.Array:
    """Lists of values and how often each comes, as JSON; NULL where a list is empty."""
    # A value is written once, however often it stands in the lists.
    encoded = pa.array(lists.values).dictionary_encode()
    texts = json_values(counts.decode(np.asarray(encoded.dictionary))).take(encoded.indices)
    return pairs_text(texts, lists.counts, lists.offsets)


def _distinct(tallies: Tallies) -> Ints:
    """How many values there are, from their hashes: the least ones lie as close as there are many."""
    found = tallies.distinct
    many = np.flatnonzero(found > HASHES)
    beyond = tallies.values[tallies.offsets[many] + HASHES]
    found[many] = np.round(HASHES * (2.0**63 / beyond)).astype(np.int64)
    return found


def _quantile(
    call: AggregateCall, tallies: Tallies, counts: ValueCounts, present: Ints, valid: Bools
) -> Answer:
    """The ⌈p·n⌉-th least value."""
    # A rank is found without a product that overflows.
    part, whole = _share(call)
    ranks = (present // whole) * part + ((present % whole) * part + whole - 1) // whole
    upto = np.cumsum(tallies.counts)
    before = np.concatenate([np.zeros(1, dtype=np.int64), upto])[tallies.offsets[:-1]]
    places = np.searchsorted(upto, before + np.maximum(ranks, 1), side="left")
    ordinals = np.zeros(len(present), dtype=np.int64)
    ordinals[valid] = tallies.values[places[valid]]
    return decoded(ordinals, valid, counts)


def quantile(call: AggregateCall, window: ValueWindow, slots: Ints, counts: ValueCounts) -> Answer:
    """The ⌈p·n⌉-th least value of each of some slots, which ascend, without a copy of the values."""
    ordinals, totals = window.quantiles(slots, *_share(call))
    return decoded(ordinals, totals > 0, counts)


@lru_cache(maxsize=256)
def _share(call: AggregateCall) -> tuple[int, int]:
    """The p of a quantile."""
    fraction = fraction_of(call).limit_denominator(LARGEST_DENOMINATOR)
    return fraction.numerator, fraction.denominator


def asked_of(call: AggregateCall) -> tuple[int, int]:
    """A quantile as the rank (part, whole), a list of the k most frequent values as (k, 0)."""
    return _share(call) if call.function in QUANTILES else (call.limit, 0)


def decoded(ordinals: Ints, valid: Bools, counts: ValueCounts) -> Answer:
    """Values from the integers that stand for them."""
    match counts.argument.type:
        case Type.STRING:
            return counts.decode(ordinals[valid]).take(_places(valid)), valid
        case Type.DOUBLE:
            return ordinal_to_double(ordinals).view(np.int64), valid
        case _:
            return ordinals, valid


def _places(valid: Bools) -> pa.Array:
    """Where the value of each slot stands among those that are there."""
    return pa.array(np.cumsum(valid, dtype=np.int64) - 1, mask=~valid)


def _events(tallies: Tallies) -> tuple[Events, Ints]:
    """All values as events of their slots, looked at after the last of each; and who has any."""
    owners = np.repeat(np.arange(len(tallies.slots)), tallies.distinct)
    filled = np.flatnonzero(tallies.distinct)
    marks = np.full(len(owners), -1, dtype=np.int64)
    marks[tallies.offsets[1:][filled] - 1] = np.arange(len(filled))
    nobody = np.zeros(0, dtype=np.int64)
    return Events(owners, tallies.counts, marks, owners, nobody, len(filled), len(tallies.slots)), filled


def _integer_sums(tallies: Tallies) -> tuple[Ints, Ints]:
    events, filled = _events(tallies)
    sums = IntegerSums()
    sums.follow(events, Given(tallies.counts, tallies.values, tallies.values, tallies.values))
    high, low = (np.zeros(len(tallies.slots), dtype=np.int64) for _ in range(2))
    high[filled], low[filled] = sums.high, sums.low
    return high, low


def _double_sums(tallies: Tallies) -> npt.NDArray[np.float64]:
    events, filled = _events(tallies)
    sums = DoubleSums()
    bits = ordinal_to_double(tallies.values).view(np.int64)
    sums.follow(events, Given(tallies.counts, bits, tallies.values, tallies.values))
    found = np.zeros(len(tallies.slots))
    found[filled] = sums.samples
    return found
