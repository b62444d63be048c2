"""Exact discrete Laplace and geometric noise in bulk. The engine alone may import this module."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import InvalidInput, NoiseScaleError, TooLarge
from blowfishdb.noise.digits import HEAD_BITS, DigitTable, Expansion, digit_table
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE
from blowfishdb.noise.keystream import BitStream, Keystream

MAX_SIZE: Final = 2**28
# Every geometric draw stays below this, so a difference of two fits an int64 with a bit to spare.
DRAW_LIMIT: Final = 2**62

Draws = NDArray[np.int64]
Weights = NDArray[np.int64] | int
# Which row of a digit table serves each entry; None when there is only one.
Rows = NDArray[np.intp] | None

_BLOCK = 1 << 14
_FULL_BITS = 256


def sample(unit: Fraction, weights: Weights, size: int | None = None) -> Draws:
    """Independent draws; entry i has P(k) proportional to exp(-|k| weights[i] / unit), exactly.

    A single weight serves all `size` entries; an array of weights fixes the size itself. Scales unit / weight
    from 1/1000 to 10^9 are served. All entries of a call take the same passes, whatever their weight.
    """
    table, rows, length = _prepare(unit, weights, size)
    return draw_laplace(table, rows, length, Keystream())


def sample_geometric(unit: Fraction, weights: Weights, size: int | None = None) -> Draws:
    """Independent draws k >= 0; entry i has P(k) proportional to exp(-k weights[i] / unit), exactly."""
    table, rows, length = _prepare(unit, weights, size)
    return draw_geometric(table, rows, length, Keystream())


def sample_words(size: int, bits: int) -> Draws:
    """Independent uniform whole numbers from 0 to 2^bits - 1, for at most 63 bits."""
    if not 1 <= bits <= 63:
        raise InvalidInput(f"Uniform words have 1 to 63 bits, not {bits!r}.")
    lanes = np.empty((_checked_length(size), 4), np.uint16)
    Keystream().fill(lanes.reshape(-1))
    return (lanes.view(np.uint64).reshape(-1) >> np.uint64(64 - bits)).astype(np.int64)


def draw_laplace(table: DigitTable, rows: Rows, size: int, stream: BitStream) -> Draws:
    """Differences of two geometrics; entry i uses row rows[i] of the table, or row 0 without rows."""
    result = np.empty(size, np.int64)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        part = None if rows is None else rows[start:stop]
        pair = _draw_block(table, part, 2, stop - start, stream)
        np.subtract(pair[0], pair[1], out=result[start:stop])
    return result


def draw_geometric(table: DigitTable, rows: Rows, size: int, stream: BitStream) -> Draws:
    """Geometric draws; entry i uses row rows[i] of the table, or row 0 without rows."""
    result = np.empty(size, np.int64)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        part = None if rows is None else rows[start:stop]
        result[start:stop] = _draw_block(table, part, 1, stop - start, stream)[0]
    return result


def _draw_block(table: DigitTable, rows: Rows, copies: int, count: int, stream: BitStream) -> Draws:
    """A (copies, count) array of geometric draws, highest digit first.

    A digit is 1 when a uniform number lies below its probability. The first 16 bits decide for all entries at
    once; the few that tie with the head of the probability are settled one by one with further bits.
    """
    lanes = np.empty((copies, count), np.uint16)
    digit = np.empty((copies, count), np.bool_)
    octet = np.zeros((copies, count), np.uint8)
    value = np.zeros((copies, count), np.int64)
    tie_bytes = bytearray(copies * count)
    ties = np.frombuffer(tie_bytes, np.bool_).reshape(copies, count)
    flat_digit = digit.reshape(-1)
    for position in reversed(range(table.digits)):
        head = table.heads[position, 0] if rows is None else table.heads[position].take(rows)
        stream.fill(lanes)
        np.less(lanes, head, out=digit)
        np.equal(lanes, head, out=ties)
        at = tie_bytes.find(1)
        while at >= 0:
            row = 0 if rows is None else int(rows[at % count])
            flat_digit[at] = _falls_below(table.digit(position, row), stream)
            at = tie_bytes.find(1, at + 1)
        np.add(octet, octet, out=octet)
        np.bitwise_or(octet, digit.view(np.uint8), out=octet)
        if position % 8 == 0:
            np.left_shift(value, 8, out=value)
            np.bitwise_or(value, octet, out=value)
            octet.fill(0)
    stream.fill(lanes)
    np.equal(lanes, 0, out=ties)
    at = tie_bytes.find(1)
    while at >= 0:
        row = 0 if rows is None else int(rows[at % count])
        value.reshape(-1)[at] += _draw_carry(table, row, stream)
        at = tie_bytes.find(1, at + 1)
    return value


def _draw_carry(table: DigitTable, row: int, stream: BitStream) -> int:
    """2^digits times a geometric H, given that the first head of its first trial was zero.

    By memorylessness the part above the digits is a geometric of its own. Reaching DRAW_LIMIT has probability
    exp(-2^62 / scale), below exp(-4 10^9) at the largest scale served; it is refused, never wrapped.
    """
    expansion, step = table.carry(row), 1 << table.digits
    total = 0
    carried = _falls_below(expansion, stream)
    while carried:
        total += step
        if total > DRAW_LIMIT - step:
            raise TooLarge("A noise draw", total + step, DRAW_LIMIT, "Nothing is wrong; ask again.")
        carried = stream.integer(HEAD_BITS) == 0 and _falls_below(expansion, stream)
    return total


def _falls_below(expansion: Expansion, stream: BitStream) -> bool:
    """Whether a uniform number whose head ties with the expansion lies below the expanded probability."""
    known, bits = HEAD_BITS, _FULL_BITS
    while True:
        fresh = stream.integer(bits - known)
        target = expansion(bits) % (1 << (bits - known))
        if fresh != target:
            return fresh < target
        known, bits = bits, 2 * bits


def _prepare(unit: Fraction, weights: Weights, size: int | None) -> tuple[DigitTable, Rows, int]:
    """The table of distinct weights, each entry's row in it, and the number of entries."""
    _check_unit(unit)
    column, length = _checked_weights(weights, size)
    if length > MAX_SIZE:
        raise TooLarge("Noise for one call", length, MAX_SIZE, "Draw the plan in parts.")
    if column.size == 0:
        # Nothing will be drawn, so any table serves.
        return digit_table(Fraction(1), np.ones(1, np.int64)), None, 0
    _check_scale(unit / int(column.max()))
    _check_scale(unit / int(column.min()))
    # np.unique hashes, which takes many times as long as sorting here.
    ordered = np.sort(column)
    distinct = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    rows = None if distinct.size == 1 else np.searchsorted(distinct, column)
    return digit_table(unit, distinct), rows, length


def _check_unit(unit: object) -> None:
    if not isinstance(unit, Fraction) or unit <= 0:
        raise NoiseScaleError("The unit of the noise scales must be a positive Fraction.")


def _checked_weights(weights: Weights, size: int | None) -> tuple[NDArray[np.int64], int]:
    """The weights as an array that is as long as the answer, or of length one, with the answer's length."""
    column = np.asarray(weights)
    if column.dtype != np.int64 or column.ndim > 1:
        raise InvalidInput("Noise weights must be one integer or a one-dimensional int64 array.")
    if column.size and int(column.min()) < 1:
        raise InvalidInput(f"Noise weights must be positive, not {int(column.min())}.")
    length = column.size if size is None else _checked_length(size)
    if column.ndim == 1 and column.size != length:
        raise InvalidInput(f"{column.size} weights cannot serve {length} noise draws.")
    return column.reshape(-1), length


def _checked_length(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise InvalidInput(f"The number of noise draws must be a non-negative integer, not {size!r}.")
    return int(size)


def _check_scale(scale: Fraction) -> None:
    if scale < MIN_SCALE or scale > MAX_SCALE:
        side = f"below {MIN_SCALE}" if scale < MIN_SCALE else f"above {MAX_SCALE}"
        raise NoiseScaleError(
            f"A noise scale {side} is not served. Change epsilon, or split a measurement of extreme weight."
        )
