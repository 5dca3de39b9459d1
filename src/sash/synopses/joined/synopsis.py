"""What the three join synopses have in common: groups, results that wait for the next update, snapshots.

A join synopsis with parameters s, b and g (002, section 8.3.2) summarises the results of a join whose
windows have up to b panes of length s each. Its intervals are expiration times: a result is in the interval
of the older of its two tuples, so an update changes all intervals and drops the oldest. It answers for
windows of n₁ and n₂ panes, n₁, n₂ ≤ b, that differ by up to g (SS3 asks moreover that both are at least b −
g).

Cells are dense arrays over (interval, class, group). Where those would be too large results are kept as rows
(`rows.py`); `copied_from` makes one synopsis of another. A snapshot has the live results as rows, whatever
the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.evaluate import ARROW_TYPES
from sash.operators.operator import State
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.state.groups import GroupTable, plain
from sash.state.layout import Layout
from sash.state.ordering import Words, is_code, recode
from sash.synopses.basic_interval import Dependent
from sash.synopses.joined import kernels
from sash.synopses.joined.results import class_count

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

# Groups that are in no live result are forgotten once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


@dataclass(slots=True)
class Results:
    """Join results, pre-aggregated by interval (`panes`), class, group and pane of arrival."""

    slots: Int64Array
    panes: Int64Array
    classes: Int64Array
    arrivals: Int64Array
    ints: Int64Array
    floats: Float64Array

    def where(self, mask: npt.NDArray[np.bool_]) -> Results:
        return Results(*(getattr(self, name)[mask] for name in self.__slots__))

    @property
    def nbytes(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in self.__slots__)


class JoinSynopsis(ABC):
    """`cells` and `cell_floats` hold measures by (interval, class, slot); `newest` is the last pane."""

    def __init__(self, spec: SynopsisSpec, g: int = 0) -> None:
        if len(spec.panes.offsets) != 1 or spec.longest % spec.panes.period:
            raise InternalError(
                "the panes of a join synopsis are all of one length, which divides its windows"
            )
        self.spec = spec
        self.b = spec.longest // spec.panes.period
        self.g = g
        if not 0 <= g <= self.b - 1:
            raise InternalError(f"g = {g} is not among 0 … b − 1 = {self.b - 1}")
        self.layout = Layout.of(spec.measures)
        self.ops = self.layout.ops
        self.words: dict[int, Words] = {}
        self.newest: int | None = None
        self.groups = GroupTable([ARROW_TYPES[key.type] for key in spec.keys])
        # Who keeps totals by slot beside it.
        self.dependents: list[Dependent] = []
        self._waiting: list[Results] = []
        self.cells, self.cell_floats = self._empty(self._intervals, self.groups.size)

    @property
    @abstractmethod
    def _intervals(self) -> int:
        """How many intervals there are cells of."""

    def _empty(self, intervals: int, slots: int) -> tuple[Int64Array, Float64Array]:
        shape = (intervals, class_count(self.g), slots)
        ints = np.empty((*shape, len(self.ops)), dtype=np.int64)
        ints[:] = self.layout.identity()
        return ints, np.zeros((*shape, self.layout.float_columns))

    # ------------------------------------------------------------------ updates

    def absorb(self, partial: Partial) -> None:
        """Take in results (`preaggregate_results`); they count from the update to their pane on."""
        *keys, classes, arrivals = partial.keys
        ints = partial.ints.copy() if partial.words else partial.ints
        for column, vocabulary in partial.words.items():
            recode(ints[:, column], self._learn(column, vocabulary))
        rows = partial.groups
        slots = self.groups.encode(keys)[rows] if self.spec.keys else np.zeros(len(rows), dtype=np.int64)
        waiting = Results(
            slots, partial.panes, np.asarray(classes)[rows], np.asarray(arrivals)[rows], ints, partial.floats
        )
        if self.newest is not None and len(rows) and int(waiting.arrivals.min()) <= self.newest:
            raise InternalError("a join result arrives in a pane that is closed")
        self._waiting.append(waiting)

    def advance(self, boundary: int) -> None:
        """Update to `boundary`, the end of a pane: what arrived by then enters, what expires leaves."""
        newest = self.spec.panes.number_at(boundary)
        if self.spec.panes.right_edge(newest) != boundary:
            raise InternalError(f"{boundary} is not the end of a pane")
        if self.newest is not None and newest <= self.newest:
            return
        self._reserve(self.groups.size)
        fresh = self.b if self.newest is None else min(self.b, newest - self.newest)
        due = [each.where(each.arrivals <= newest) for each in self._waiting]
        self._waiting = [w for each in self._waiting if len((w := each.where(each.arrivals > newest)).slots)]
        self.newest = newest
        self._open(fresh)
        for each in due:
            live = each.where(each.panes > newest - self.b)
            if len(live.slots):
                self._enter(live)
        self._close()
        self._forget_groups()
        for column, words in self.words.items():
            if len(words.values) >= _LEAST_TO_COMPACT:
                self._forget_words(column, words)

    @abstractmethod
    def _open(self, fresh: int) -> None:
        """Make room for the `fresh` youngest panes, in place of as many oldest."""

    @abstractmethod
    def _enter(self, come: Results) -> None:
        """Results of live panes."""

    def _add(self, come: Results, places: Int64Array) -> None:
        """Add results to the cells of intervals."""
        rows = come.classes, come.slots, come.ints, come.floats
        kernels.add_rows(self.cells, self.cell_floats, places, *rows, self.ops)

    def _close(self) -> None:  # noqa: B027 (most have nothing to do here)
        """All results have entered."""

    def _reserve(self, slots: int) -> None:
        have = self.cells.shape[2]
        if slots > have:
            more = max(slots, 2 * have) - have
            ints, floats = self._empty(self._intervals, more)
            self.cells = np.concatenate([self.cells, ints], axis=2)
            self.cell_floats = np.concatenate([self.cell_floats, floats], axis=2)

    def _learn(self, column: int, vocabulary: pa.Array) -> Int64Array:
        words = self.words.setdefault(column, Words())
        moved = words.insert(vocabulary)
        if moved is not None:
            for rows in self._matrices():
                recode(rows[..., column], moved)
        return words.codes(vocabulary)

    def _forget_words(self, column: int, words: Words) -> None:
        """Drop words that no result refers to, once they are the greater part."""
        used = np.zeros(len(words.values), dtype=np.bool_)
        for matrix in self._matrices():
            codes = matrix[..., column]
            used[codes[is_code(codes)]] = True
        if 2 * np.count_nonzero(used) < len(used):
            moved = words.keep(np.flatnonzero(used))
            for matrix in self._matrices():
                recode(matrix[..., column], moved)

    def _matrices(self) -> Iterator[Int64Array]:
        yield self.cells
        yield from (each.ints for each in self._waiting)
        yield from (dependent.totals() for dependent in self.dependents)

    def _forget_groups(self) -> None:
        if not self.spec.keys or self.groups.size < _LEAST_TO_COMPACT:
            return
        used = np.zeros(self.groups.size, dtype=np.bool_)
        ints, _ = self.totals(self.b, self.b)
        used[ints[: self.groups.size, 0] != 0] = True
        for each in self._waiting:
            used[each.slots] = True
        for dependent in self.dependents:
            used[np.flatnonzero(dependent.totals()[:, 0])] = True
        slots = np.flatnonzero(used)
        if 2 * len(slots) >= self.groups.size:
            return
        place = np.full(self.groups.size, -1, dtype=np.int64)
        keys = self.groups.keys_of(slots)
        self.groups = GroupTable(self.groups.types)
        place[slots] = self.groups.encode(keys)
        self._renumber(slots, place)
        for each in self._waiting:
            each.slots = place[each.slots]
        for dependent in self.dependents:
            dependent.renumber(slots)

    def _renumber(self, slots: Int64Array, place: Int64Array) -> None:
        """Slot slots[i] is now slot i, and `place` says it the other way round."""
        self.cells, self.cell_floats = self.cells[:, :, slots], self.cell_floats[:, :, slots]

    # ------------------------------------------------------------------ answers

    def totals(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        """Measures per slot of the join of the youngest `first` and `second` panes of its two inputs."""
        ((ints, floats),) = self.totals_of([(first, second)])
        return ints, floats

    def totals_of(self, lengths: Sequence[tuple[int, int]]) -> list[tuple[Int64Array, Float64Array]]:
        """The same for several pairs of lengths; what can be shared between them is done once."""
        for first, second in lengths:
            if min(first, second) < 1 or max(first, second) > self.b or abs(first - second) > self.g:
                raise InternalError(
                    f"a join of {first} and {second} panes cannot be answered with b = {self.b}, g = {self.g}"
                )
        if self.newest is None:
            return [self.layout.empty(self.groups.size) for _ in lengths]
        return self._totals_of(lengths)

    def _totals_of(self, lengths: Sequence[tuple[int, int]]) -> list[tuple[Int64Array, Float64Array]]:
        """Checked lengths, after an update."""
        known = {pair: self._probe(*pair) for pair in dict.fromkeys(lengths)}
        return [known[pair] for pair in lengths]

    @abstractmethod
    def _probe(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        """The same for one pair of lengths."""

    @property
    def nbytes(self) -> int:
        waiting = sum(each.nbytes for each in self._waiting)
        return self.cells.nbytes + self.cell_floats.nbytes + self.groups.nbytes + waiting

    @property
    def next_arrival(self) -> int | None:
        """The first pane in which a result arrived that has not entered yet."""
        return min((int(each.arrivals.min()) for each in self._waiting), default=None)

    # ------------------------------------------------------------------ snapshots

    @abstractmethod
    def elements(self) -> Results:
        """The live results, one row for each interval, class and group that has any."""

    def _live(self) -> Int64Array:
        """The panes that are held, the oldest first."""
        return np.zeros(0, dtype=np.int64) if self.newest is None else self.newest - np.arange(self.b)[::-1]

    def _rows_of(self, panes: Int64Array, cells: Int64Array, floats: Float64Array) -> Results:
        """The cells of single panes as rows."""
        places, classes, slots = np.nonzero(cells[:, :, :, 0])
        arrivals = np.full(len(slots), -1 if self.newest is None else self.newest, dtype=np.int64)
        found = cells[places, classes, slots], floats[places, classes, slots]
        return Results(slots, panes[places], classes, arrivals, *found)

    def copied_from(self, other: JoinSynopsis) -> JoinSynopsis:
        """Become what another one is, which is not used any more; only for one that is empty."""
        self.groups, self.words, self.dependents = other.groups, other.words, other.dependents
        self._take_up(other.newest, other.elements(), other._waiting)
        return self

    def _take_up(self, newest: int | None, entered: Results, waiting: list[Results]) -> None:
        self._reserve(self.groups.size)
        self.newest, self._waiting = newest, waiting
        if newest is not None:
            # It may be shorter than the one before it.
            entered = entered.where(entered.panes > newest - self.b)
            self._open(self.b)
            self._enter(entered)
            self._close()

    def snapshot(self) -> State:
        keys = self.groups.keys_of(np.arange(self.groups.size)) if self.spec.keys else []
        groups = {f"k{i}": key for i, key in enumerate(keys)}
        words = {f"words {column}": pa.table({"word": w.values}) for column, w in self.words.items()}
        newest = pa.array([self.newest], pa.int64())
        parts = [_table(results) for results in (self.elements(), *self._waiting)]
        rows = pa.concat_tables(parts).combine_chunks()
        return {"newest": pa.table({"newest": newest}), "groups": pa.table(groups), "rows": rows, **words}

    def restore(self, state: State) -> None:
        """Become what a synopsis with the same parameters was; only for one that is empty."""
        if self.spec.keys and state["groups"].num_rows:
            self.groups.encode([plain(column) for column in state["groups"].columns])
        for name, table in state.items():
            if name.startswith("words "):
                words = self.words[int(name.removeprefix("words "))] = Words()
                words.insert(plain(table.column("word")))
        (newest,) = state["newest"].column("newest").to_pylist()
        rows = _results(state["rows"], len(self.ops))
        waits = rows.arrivals > (newest if newest is not None else np.iinfo(np.int64).min)
        self._take_up(newest, rows.where(~waits), [rows.where(waits)] if waits.any() else [])


def _table(results: Results) -> pa.Table:
    numbers = (results.slots, results.panes, results.classes, results.arrivals)
    columns = [*numbers, *results.ints.T, *results.floats.T]
    names = [f"c{i}" for i in range(len(columns))]
    return pa.Table.from_arrays([pa.array(column) for column in columns], names=names)


def _results(table: pa.Table, ints: int) -> Results:
    columns = [plain(column).to_numpy(zero_copy_only=False).copy() for column in table.columns]
    slots, panes, classes, arrivals = columns[:4]
    floats = columns[4 + ints :]
    return Results(
        slots,
        panes,
        classes,
        arrivals,
        np.column_stack(columns[4 : 4 + ints]),
        np.column_stack(floats) if floats else np.zeros((len(slots), 0)),
    )
