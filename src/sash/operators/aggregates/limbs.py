"""Exact sums: long fixed-point numbers to which doubles and their squares are added, and rounded once.

A number is a row of limbs of 32 bits each in int64 words, the least first; the last limb is signed. Adding to it
never loses a bit, so a sum does not depend on the order of its terms, what was added can be subtracted again,
and a sum of nothing is exactly 0 (the small superaccumulator of R. M. Neal, Fast exact summation using small
and large superaccumulators, 2015). Limbs are not carried until the number is looked at; a billion terms fit
between two looks.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sash.operators.delta import Ints
from sash.state.jit import kernel

BITS = 32
MASK = (1 << BITS) - 1
_MANTISSA = 52
_FRACTION = (1 << _MANTISSA) - 1
ODD = 0x7FF


@kernel
def exponent(bits: int) -> int:
    """The biased exponent of a double, 0x7FF for NaN and infinities."""
    return (bits >> _MANTISSA) & ODD


@kernel
def mantissa(bits: int) -> int:
    """The digits of a finite double as an integer."""
    fraction = bits & _FRACTION
    return fraction if exponent(bits) == 0 else fraction | (1 << _MANTISSA)


@kernel
def position(bits: int) -> int:
    """The place of a finite double's last digit: it is ±mantissa · 2^(position − 1074)."""
    return max(exponent(bits), 1) - 1


@kernel
def add(row: Ints, low: int, place: int, digits: int, rest: int, sign: int) -> None:
    """row += sign · (rest · 2³² + digits) · 2^place; the row's first limb is the one with number `low`."""
    at = (place >> 5) - low
    shift = place & 31
    a = digits << shift
    b = rest << shift
    row[at] += sign * (a & MASK)
    row[at + 1] += sign * ((a >> BITS) + (b & MASK))
    row[at + 2] += sign * (b >> BITS)


@kernel
def add_square(row: Ints, low: int, place: int, digits: int, rest: int, sign: int) -> None:
    """row += sign · (rest · 2³² + digits)² · 2^place."""
    at = (place >> 5) - low
    shift = place & 31
    x, y = np.uint64(digits), np.uint64(rest)
    mask, bits = np.uint64(MASK), np.uint64(BITS)
    xx, xy, yy = x * x, x * y, y * y
    carried = np.int64(0)
    for k in range(4):
        if k == 0:
            term = np.int64(xx & mask)
        elif k == 1:
            term = np.int64(xx >> bits) + 2 * np.int64(xy & mask)
        elif k == 2:
            term = 2 * np.int64(xy >> bits) + np.int64(yy & mask)
        else:
            term = np.int64(yy >> bits)
        term += carried
        carried = term >> BITS
        part = (term & MASK) << shift
        row[at + k] += sign * (part & MASK)
        row[at + k + 1] += sign * (part >> BITS)


@kernel
def carry(row: Ints) -> None:
    """Bring all limbs but the last into 0 … 2³² − 1."""
    over = 0
    last = row.shape[0] - 1
    for k in range(last):
        limb = row[k] + over
        row[k] = limb & MASK
        over = limb >> BITS
    if last >= 0:
        row[last] += over


@kernel
def magnitude(row: Ints, out: Ints) -> bool:
    """The absolute value of a carried number, one limb longer, all limbs plain; whether it was negative."""
    count = row.shape[0]
    if count == 0:
        out[0] = 0
        return False
    negative = row[count - 1] < 0
    for k in range(count - 1):
        out[k] = row[k]
    out[count - 1] = row[count - 1] & MASK
    out[count] = (row[count - 1] >> BITS) & MASK
    if negative:
        over = 1
        for k in range(count + 1):
            limb = (~out[k] & MASK) + over
            out[k] = limb & MASK
            over = limb >> BITS
    return negative


@kernel
def rounded(limbs: Ints, count: int) -> tuple[float, int]:
    """A number of plain limbs as m · 2^e, m with at most 53 bits: to the nearest, ties to even."""
    top = count - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return 0.0, 0
    if top == 0:
        return float(limbs[0]), 0
    # The 64 bits from the first one that is set, and whether there are more after them.
    length = math.frexp(float(limbs[top]))[1]
    lead = BITS - length
    word = (np.uint64(limbs[top]) << np.uint64(BITS)) | np.uint64(limbs[top - 1])
    below = limbs[top - 2] if top >= 2 else 0
    sticky = (below & ((1 << length) - 1)) != 0
    word = word << np.uint64(lead)
    if lead > 0:
        word |= np.uint64(below >> length)
    for k in range(top - 2):
        if limbs[k] != 0:
            sticky = True
            break
    highest = top * BITS + length - 1
    if highest <= _MANTISSA:
        return float(word >> np.uint64(63 - highest)), 0
    digits = np.int64(word >> np.uint64(11))
    rest = np.int64(word & np.uint64(0x7FF))
    if rest > 0x400 or (rest == 0x400 and (sticky or (digits & 1) == 1)):
        digits += 1
    return float(digits), highest - _MANTISSA


@kernel
def span(bits: Ints, signs: Ints) -> tuple[int, int]:
    """The least and the greatest position of the finite doubles that count and are not 0; (1, 0) for none."""
    least, greatest = 4096, -1
    for i in range(len(bits)):
        if signs[i] != 0 and exponent(bits[i]) != ODD and mantissa(bits[i]) != 0:
            place = position(bits[i])
            least = min(least, place)
            greatest = max(greatest, place)
    return (least, greatest) if greatest >= 0 else (1, 0)


@kernel
def count_odd(bits: int, sign: int, odd: Ints) -> None:
    """Count a NaN, +∞ or −∞."""
    if bits & _FRACTION:
        odd[0] += sign
    elif bits > 0:
        odd[1] += sign
    else:
        odd[2] += sign


def widened(matrix: Ints, limbs_below: int, limbs: int) -> Ints:
    """Carried numbers with more limbs: so many new ones below, and so many in all."""
    rows, old = matrix.shape
    wide: npt.NDArray[np.int64] = np.zeros((rows, limbs), dtype=np.int64)
    wide[:, limbs_below : limbs_below + old] = matrix
    if old:
        # The last limb is signed and may be long; above it the new ones take what does not fit.
        last = limbs_below + old - 1
        for k in range(last, limbs - 1):
            wide[:, k + 1] += wide[:, k] >> BITS
            wide[:, k] &= MASK
    return wide
