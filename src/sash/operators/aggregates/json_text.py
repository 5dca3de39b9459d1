"""Values as JSON, spelled as in result files.

Times are in ISO 8601 with six digits and Z; doubles are the shortest that read back the same (1.0, not 1),
with "NaN", "Infinity" and "-Infinity" as strings; text is UTF-8, and only what must be is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.operators.delta import Ints
from sash.state.fingerprints import string_buffers
from sash.state.jit import kernel

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int32]

_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(32)}


def json_values(values: pa.Array) -> pa.Array:
    """Each value as JSON; none is NULL."""
    if pa.types.is_string(values.type):
        return _quoted(_escaped(values))
    if pa.types.is_timestamp(values.type):
        # Arrow's years have 16 bits; numpy's have enough.
        times = values.cast(pa.int64()).to_numpy().view("datetime64[us]")
        texts = [f"{text}Z" for text in np.datetime_as_string(times, unit="us").tolist()]
        return _quoted(pa.array(texts, pa.string()))
    text = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
        text = pc.if_else(whole, _join(text, pa.scalar(".0")), text)
        infinity = pc.if_else(pc.greater(values, 0), pa.scalar('"Infinity"'), pa.scalar('"-Infinity"'))
        text = pc.if_else(pc.is_inf(values), infinity, text)
        text = pc.if_else(pc.is_nan(values), pa.scalar('"NaN"'), text)
    return text


def pairs_text(values: pa.Array, counts: Ints, offsets: Ints) -> pa.Array:
    """Lists of pairs, such as [["a", 3], ["b", 1]]; list i begins at offsets[i]. NULL where it is empty."""
    starts, data = string_buffers(values)
    ends = _measured(starts, counts, offsets)
    out = np.empty(int(ends[-1]), dtype=np.uint8)
    _spell(starts, data, counts, offsets, ends, out)
    filled = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = (pa.py_buffer(each) for each in (filled, ends, out))
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, list(buffers)).cast(pa.string())


@kernel
def _digits(number: int) -> int:
    """How many digits a number has that is not negative."""
    count = 1
    while number > 9:
        number //= 10
        count += 1
    return count


@kernel
def _measured(starts: Starts, counts: Ints, offsets: Ints) -> Ints:
    """Where the text of each list begins, and the end."""
    ends = np.zeros(len(offsets), dtype=np.int64)
    for i in range(len(offsets) - 1):
        size = 0
        for pair in range(offsets[i], offsets[i + 1]):
            # A pair has two brackets, and ", " in it and after it, the last one the outer brackets.
            size += starts[pair + 1] - starts[pair] + _digits(counts[pair]) + 6
        ends[i + 1] = ends[i] + size
    return ends


@kernel
def _spell(starts: Starts, data: Bytes, counts: Ints, offsets: Ints, ends: Ints, out: Bytes) -> None:
    opening, closing, comma, space, zero = 91, 93, 44, 32, 48
    for i in range(len(offsets) - 1):
        to = ends[i]
        for pair in range(offsets[i], offsets[i + 1]):
            is_first = pair == offsets[i]
            out[to] = opening if is_first else comma
            if not is_first:
                out[to + 1] = space
            to += 1 if is_first else 2
            out[to] = opening
            to += 1
            for at in range(starts[pair], starts[pair + 1]):
                out[to] = data[at]
                to += 1
            out[to], out[to + 1] = comma, space
            to += 2 + _digits(counts[pair])
            rest, place = counts[pair], to - 1
            while True:
                out[place] = zero + rest % 10
                rest //= 10
                place -= 1
                if rest == 0:
                    break
            out[to] = closing
            to += 1
        if to > ends[i]:
            out[to] = closing


def ranges_text(names: Sequence[str], ranges: Ints, counts: Ints, offsets: Ints) -> pa.Array:
    """Lists of all ranges, by their names, with their counts; list i has those from offsets[i] on.

    Ranges without a count are 0; a list without any is NULL.
    """
    filled = np.diff(offsets) > 0
    owners = np.repeat(np.cumsum(filled) - 1, np.diff(offsets))
    dense = np.zeros((np.count_nonzero(filled), len(names)), dtype=np.int64)
    dense[owners, ranges] = counts
    labels = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), len(dense))))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(filled * len(names))])
    return pairs_text(labels, dense.ravel(), starts)


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _quoted(text: pa.Array) -> pa.Array:
    return _join(pa.scalar('"'), text, pa.scalar('"'))


def _escaped(text: pa.Array) -> pa.Array:
    if not _holds(text, r'["\\\x00-\x1f]'):
        return text
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if _holds(text, r"[\x00-\x1f]"):
        for character, escape in _CONTROLS.items():
            text = pc.replace_substring(text, character, escape)
    return text


def _holds(text: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(text, pattern)).as_py() is True
