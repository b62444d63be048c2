"""Exact discrete Laplace and geometric noise in bulk. The engine alone may import this module."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from blowfishdb.errors import InvalidInput, NoiseScaleError, TooLarge
from blowfishdb.noise.certified import LawName, Noise, tell
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE, Ints

_GUARD_BITS = 32


def enclose_exp(rate: Fraction, bits: int) -> tuple[int, int]:
    """Integers low, high with low <= 2^bits exp(-rate) <= high, for a rate >= 0.

    The Taylor series is summed at x = rate / 2^halvings <= 2^-8. A computed term, rounded down, is below its
    true value by less than 2, so a sum of m terms is off by less than 2m; the alternating remainder and the
    rounding of x add less than 3. Squaring the interval `halvings` times brings the rate back.
    """
    if rate >= bits:
        return 0, 1
    halvings = int(rate).bit_length() + 8
    precision = bits + halvings + _GUARD_BITS
    x = (rate.numerator << precision) // (rate.denominator << halvings)
    term, total, count = 1 << precision, 0, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = ((term * x) >> precision) // count
    slack = 2 * count + 3
    low, high = max(total - slack, 0), total + slack
    for _ in range(halvings):
        low, high = (low * low) >> precision, ((high * high) >> precision) + 1
    surplus = precision - bits
    return low >> surplus, min(-(-high >> surplus), 1 << bits)


@lru_cache(maxsize=8192)
def digit_expansion(rate: Fraction, bits: int) -> int:
    """The first bits of 1 / (1 + exp(rate)), as the integer floor(2^bits / (1 + exp(rate)))."""
    return _certified_floor(rate, bits, lambda low, scale: (low << bits) // ((1 << scale) + low))


@lru_cache(maxsize=8192)
def power_expansion(rate: Fraction, bits: int) -> int:
    """The first bits of exp(-rate), as the integer floor(2^bits exp(-rate))."""
    return _certified_floor(rate, bits, lambda low, scale: (low << bits) >> scale)


def _certified_floor(rate: Fraction, bits: int, floor: Callable[[int, int], int]) -> int:
    """The value on which both ends of a narrowing enclosure agree.

    `floor` does not decrease in its first argument. The loop ends because exp(-rate) is irrational for every
    rational rate > 0, hence no multiple of 2^-bits; callers never pass rate 0.
    """
    precision = bits + _GUARD_BITS
    while True:
        low, high = enclose_exp(rate, precision)
        first, last = floor(low, precision), floor(high, precision)
        if first == last:
            return first
        precision *= 2


HEAD_BITS = 16
MAX_DIGITS = 61
# A value of 2^digits or more has probability exp(-2^digits / scale), below exp(-48) < 2^-69.
_CARRY_RATE = 48
# heads_of proves 2^-45; the rest absorbs the roundings of the comparison itself.
_HEAD_ERROR = 2.0**-40

Expansion = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class DigitTable:
    """Digit j of a geometric of scale unit / weights[row] is 1 with a probability that begins heads[j, row].

    The exact probability is 1 / (1 + exp(2^j / scale)); `digit` and `carry` give as many bits of it as asked.
    """

    unit: Fraction
    weights: Ints
    heads: NDArray[np.uint16]

    def __post_init__(self) -> None:
        if self.unit <= 0 or self.weights.ndim != 1 or self.weights.size == 0 or int(self.weights.min()) < 1:
            raise InvalidInput("A digit table needs a positive unit and at least one positive weight.")
        if self.heads.ndim != 2 or self.heads.shape[1] != self.weights.size:
            raise InvalidInput("A digit table needs one column of heads for each weight.")
        if self.digits > MAX_DIGITS:
            raise InvalidInput(f"A digit table of {self.digits} digits does not fit an int64.")
        if Fraction(2**self.digits) < 2 * HEAD_BITS * self.unit / int(self.weights.min()):
            raise InvalidInput("A digit table needs so many digits that a carry starts with a zero head.")

    @property
    def digits(self) -> int:
        """How many digits come from heads; what lies above is the carry."""
        return int(self.heads.shape[0])

    def digit(self, position: int, row: int) -> Expansion:
        """The expansion of the probability that one digit is 1."""
        return partial(digit_expansion, self._rate(position, row))

    def carry(self, row: int) -> Expansion:
        """The expansion of exp(-2^digits / scale), the chance of one more 2^digits."""
        return partial(power_expansion, self._rate(self.digits, row))

    def _rate(self, position: int, row: int) -> Fraction:
        return Fraction(int(self.weights[row]) << position) / self.unit


FEW_WEIGHTS = 256
"""Tables of at most this many weights are made once: plans at one noise level ask for the same one again and again."""


def digit_table(unit: Fraction, weights: Ints) -> DigitTable:
    """The table for distinct positive weights, with digits enough for the largest scale among them."""
    if weights.size > FEW_WEIGHTS or weights.dtype != np.int64:
        return _new_table(unit, weights)
    return _known_table(unit, weights.tobytes())


@lru_cache(maxsize=128)
def _known_table(unit: Fraction, weights: bytes) -> DigitTable:
    table = _new_table(unit, np.frombuffer(weights, np.int64))
    table.heads.flags.writeable = False
    return table


def _new_table(unit: Fraction, weights: Ints) -> DigitTable:
    digits = digits_needed(unit / int(weights.min()))
    return DigitTable(unit, weights, heads_of(unit, weights, digits))


def digits_needed(scale: Fraction) -> int:
    """The least J with 2^J >= 48 scale."""
    return (-(-_CARRY_RATE * scale // 1) - 1).bit_length()


def heads_of(unit: Fraction, weights: Ints, digits: int) -> NDArray[np.uint16]:
    """floor(2^16 / (1 + exp(2^j weight / unit))) for every digit j and weight, exact.

    exp(-2^j w / unit) is the product of exp(-2^(i+j) / unit) over the bits i of w. All factors lie in [0, 1],
    so the absolute errors of at most 63 factors and 62 correctly rounded products add up to less than 2^-46,
    and e / (1 + e) stretches no distance. Where that cannot settle the floor, integer arithmetic does.
    """
    width = int(weights.max()).bit_length()
    factors = [_float_exp(Fraction(2**power) / unit) for power in range(width + digits)]
    masks = [(weights >> bit) & 1 == 1 for bit in range(width)]
    heads = np.empty((digits, weights.size), np.uint16)
    for position in range(digits):
        power = np.ones(weights.size)
        for bit, mask in enumerate(masks):
            np.multiply(power, factors[position + bit], out=power, where=mask)
        probability = power / (1.0 + power)
        low = np.floor(np.maximum(probability - _HEAD_ERROR, 0.0) * 2**HEAD_BITS)
        high = np.floor((probability + _HEAD_ERROR) * 2**HEAD_BITS)
        heads[position] = low
        for row in np.flatnonzero(low != high):
            rate = Fraction(int(weights[row]) << position) / unit
            heads[position, row] = digit_expansion(rate, HEAD_BITS)
    return heads


@lru_cache(maxsize=4096)
def _float_exp(rate: Fraction) -> float:
    """exp(-rate) within 2^-53 + 2^-60; a quotient of two integers is rounded correctly."""
    low, _ = enclose_exp(rate, 64)
    return low / 2**64


class BitStream(Protocol):
    """What the sampler needs: independent uniform lanes, and single integers of any width."""

    def fill(self, lanes: NDArray[np.uint16]) -> None: ...

    def integer(self, bits: int) -> int: ...


class Keystream:
    """A stream keyed by 32 fresh bytes of the operating system.

    Nothing outlives the object and the sampler makes one per call, so a process that forks between calls
    never repeats a stream. A fresh key makes the fixed initial counter safe. The key has 256 bits because
    published answers can be attacked for as long as somebody keeps them.
    """

    def __init__(self) -> None:
        self._cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        self._zeros = b""

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        """Overwrite a contiguous array with uniform bits."""
        if len(self._zeros) != lanes.nbytes:
            self._zeros = bytes(lanes.nbytes)
        self._cipher.update_into(self._zeros, lanes.data.cast("B"))

    def integer(self, bits: int) -> int:
        """A uniform integer in [0, 2^bits)."""
        size = -(-bits // 8)
        return int.from_bytes(self._cipher.update(bytes(size)), "big") >> (8 * size - bits)


MAX_SIZE: Final = 2**28
# Every geometric draw stays below this, so a difference of two fits an int64 with a bit to spare.
DRAW_LIMIT: Final = 2**62

Weights = Ints | int
# Which row of a digit table serves each entry; None when there is only one.
RowPlaces = NDArray[np.intp] | None

_BLOCK = 1 << 14
_FULL_BITS = 256


def sample(unit: Fraction, weights: Weights, size: int | None = None) -> Ints:
    """Independent draws; entry i has P(k) proportional to exp(-|k| weights[i] / unit), exactly.

    A single weight serves all `size` entries; an array of weights fixes the size itself. Scales unit / weight
    from 1/1000 to 10^9 are served. All entries of a call take the same passes, whatever their weight.
    """
    table, rows, length = _prepare(unit, weights, size)
    return draw_laplace(table, rows, length, Keystream())


def sample_geometric(unit: Fraction, weights: Weights, size: int | None = None) -> Ints:
    """Independent draws k >= 0; entry i has P(k) proportional to exp(-k weights[i] / unit), exactly."""
    table, rows, length = _prepare(unit, weights, size)
    return draw_geometric(table, rows, length, Keystream())


def sample_words(size: int, bits: int) -> Ints:
    """Independent uniform whole numbers from 0 to 2^bits - 1, for at most 63 bits."""
    if not 1 <= bits <= 63:
        raise InvalidInput(f"Uniform words have 1 to 63 bits, not {bits!r}.")
    lanes = np.empty((_checked_length(size), 4), np.uint16)
    tell(Noise("words", Fraction(1), bits, size))
    Keystream().fill(lanes.reshape(-1))
    return (lanes.view(np.uint64).reshape(-1) >> np.uint64(64 - bits)).astype(np.int64)


def draw_laplace(table: DigitTable, rows: RowPlaces, size: int, stream: BitStream) -> Ints:
    """Differences of two geometrics; entry i uses row rows[i] of the table, or row 0 without rows."""
    _tell("laplace", table, rows, size)
    return _draw(table, rows, 2, size, stream)


def draw_geometric(table: DigitTable, rows: RowPlaces, size: int, stream: BitStream) -> Ints:
    """Geometric draws; entry i uses row rows[i] of the table, or row 0 without rows."""
    _tell("geometric", table, rows, size)
    return _draw(table, rows, 1, size, stream)


def _tell(law: LawName, table: DigitTable, rows: RowPlaces, size: int) -> None:
    """Tells the watch of the scales that these digits have."""
    tell(Noise(law, table.unit, int(table.weights[0]) if rows is None else table.weights.take(rows), size))


def _draw(table: DigitTable, rows: RowPlaces, copies: int, size: int, stream: BitStream) -> Ints:
    """Block by block one geometric, or the first of two less the second."""
    result = np.empty(size, np.int64)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        part = None if rows is None else rows[start:stop]
        drawn = _draw_block(table, part, copies, stop - start, stream)
        if copies == 1:
            result[start:stop] = drawn[0]
        else:
            np.subtract(drawn[0], drawn[1], out=result[start:stop])
    return result


def _draw_block(table: DigitTable, rows: RowPlaces, copies: int, count: int, stream: BitStream) -> Ints:
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

    By memorylessness the part above the digits is geometric too. Reaching DRAW_LIMIT has probability
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


def _prepare(unit: Fraction, weights: Weights, size: int | None) -> tuple[DigitTable, RowPlaces, int]:
    """The table of distinct weights, each entry's row in it, and the number of entries."""
    if not isinstance(unit, Fraction) or unit <= 0:
        raise NoiseScaleError("The unit of the noise scales must be a positive Fraction.")
    column, length = _checked_weights(weights, size)
    if length > MAX_SIZE:
        raise TooLarge("Noise for one call", length, MAX_SIZE, "Draw the plan in parts.")
    if column.size == 0:
        # Nothing will be drawn, so any table serves.
        return digit_table(Fraction(1), np.ones(1, np.int64)), None, 0
    for scale in (unit / int(column.max()), unit / int(column.min())):
        if not MIN_SCALE <= scale <= MAX_SCALE:
            side = f"below {MIN_SCALE}" if scale < MIN_SCALE else f"above {MAX_SCALE}"
            raise NoiseScaleError(
                f"A noise scale {side} is not served. Change epsilon, or split a measurement of extreme weight."
            )
    # np.unique hashes, which takes many times as long as sorting here.
    ordered = np.sort(column)
    distinct = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    rows = None if distinct.size == 1 else np.searchsorted(distinct, column)
    return digit_table(unit, distinct), rows, length


def _checked_weights(weights: Weights, size: int | None) -> tuple[Ints, int]:
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
