"""The global order of an n-way window join (002, section 5.3.2).

The initial order puts selective joins first: the pair with the smallest intermediate result, then always
the window that keeps the result smallest. Which of the pair comes first is open in the paper; both are
costed and the cheaper one is kept (every published example agrees).

It looks only at sizes. But a tuple of a fast stream starts a probe more often than others do, and a probe
that starts at stream i does not scan window i; so a fast stream pays off near the top of the order. The
augmentation also costs the orders in which fast streams are moved up, and the cheapest of all wins.

- A stream is **fast** if its rate is at least `FAST` times that of the slowest one. This names the
  streams that the paper calls fast in Tables 5.5 and 5.6. Measured on random windows, stricter rules
  (twice the median, twice the geometric mean) miss the best order twice as often or more.
- Each fast stream stays or moves to any place further up, the top too. The paper advises against the very
  top ("not all the way"), but since every candidate is costed, its being there can only help, and it
  often does.
- So the fast stream in place p (from 0) has p + 1 ≤ n places and there are at most n^f candidates. Where
  that is more than `MAX_CANDIDATES` the slowest of the fast streams count as not fast.

Cost: O(n²) for each candidate. Exhaustive search: n! candidates, for up to `MAX_EXHAUSTIVE` windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from sash.plan.cost.joins import Windows, join_cost, result_size

FAST = 2.0
MAX_CANDIDATES = 4096
MAX_EXHAUSTIVE = 6


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """A global order (positions of the windows), its cost per unit time, and how many orders were costed."""

    order: tuple[int, ...]
    cost: float
    candidates: int


def order_windows(windows: Windows, *, is_hashed: bool = False, exhaustive: bool = False) -> JoinOrder:
    """The cheapest order that the augmented heuristic finds, or with `exhaustive` the cheapest of all.

    Equally cheap orders: the one closest to the initial order (or to the order as given) wins.
    """
    if exhaustive:
        if len(windows) > MAX_EXHAUSTIVE:
            raise ValueError(f"exhaustive search takes up to {MAX_EXHAUSTIVE} windows, got {len(windows)}")
        candidates = list(itertools.permutations(range(len(windows))))
    else:
        candidates = candidate_orders(windows, is_hashed=is_hashed)
    costs = [join_cost(windows, order, is_hashed=is_hashed) for order in candidates]
    # Orders that differ in rounding only are equally cheap.
    best = min(range(len(costs)), key=lambda i: (float(f"{costs[i]:.12g}"), i))
    return JoinOrder(candidates[best], costs[best], len(candidates))


def initial_order(windows: Windows, *, is_hashed: bool = False) -> tuple[int, ...]:
    """Ascending intermediate results; ties go to the windows that come first in `windows`."""
    count = len(windows)
    if count < 2:
        return tuple(range(count))
    pairs = list(itertools.combinations(range(count), 2))
    pair = min(pairs, key=lambda each: result_size(windows, each))
    chosen = list(pair)
    rest = [i for i in range(count) if i not in chosen]
    while rest:
        following = min(rest, key=lambda i: result_size(windows, [*chosen, i]))
        chosen.append(following)
        rest.remove(following)
    first, second, *others = chosen
    orders = ((first, second, *others), (second, first, *others))
    return min(orders, key=lambda order: float(f"{join_cost(windows, order, is_hashed=is_hashed):.12g}"))


def fast_streams(windows: Windows) -> tuple[int, ...]:
    """The streams at least `FAST` times as fast as the slowest, fastest first, as many as may be tried."""
    count = len(windows)
    slowest = min((window.rate for window in windows), default=0.0)
    fast = [i for i in range(count) if windows[i].rate >= FAST * slowest and windows[i].rate > slowest]
    fast.sort(key=lambda i: (-windows[i].rate, i))
    limit = 0
    while limit < len(fast) and count ** (limit + 1) <= MAX_CANDIDATES:
        limit += 1
    return tuple(fast[:limit])


def candidate_orders(windows: Windows, *, is_hashed: bool = False) -> list[tuple[int, ...]]:
    """The initial order and those with fast streams moved up, without repetition; at most n^f."""
    initial = initial_order(windows, is_hashed=is_hashed)
    fast = set(fast_streams(windows))
    moved = _move_up(initial, [i for i in initial if i in fast])
    return list(dict.fromkeys(moved))


def _move_up(order: tuple[int, ...], fast: list[int]) -> Iterator[tuple[int, ...]]:
    """All orders in which each of `fast`, from the first on, stays or moves up; the order itself first."""
    if not fast:
        yield order
        return
    stream, *others = fast
    place = order.index(stream)
    rest = order[:place] + order[place + 1 :]
    for target in range(place, -1, -1):
        yield from _move_up((*rest[:target], stream, *rest[target:]), others)
