"""The sampler equals a plain reference on the same bits, settles ties exactly, and refuses the rest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.errors import InvalidInput, NoiseScaleError, TooLarge
from blowfishdb.noise.sampler import (
    MAX_SIZE,
    DigitTable,
    Keystream,
    digit_expansion,
    digit_table,
    draw_geometric,
    draw_laplace,
    power_expansion,
    sample,
    sample_geometric,
    sample_words,
)
from tests.noise.support import RepeatableStream, ScriptedStream

NO_CARRY = 65_535


def reference_draw(unit: Fraction, weights: list[int], digits: int, stream: RepeatableStream) -> list[int]:
    """Two geometrics an entry, digit by digit, each by one comparison of integers."""
    values = [0] * (2 * len(weights))
    for position in [*reversed(range(digits)), None]:
        lanes = np.empty((2, len(weights)), np.uint16)
        stream.fill(lanes)
        for at, lane in enumerate(lanes.reshape(-1).tolist()):
            weight = weights[at % len(weights)]
            if position is None:
                target = power_expansion(Fraction(2**digits * weight) / unit, 256)
            else:
                target = digit_expansion(Fraction(2**position * weight) / unit, 256)
            low = stream.integer(240) if lane == target >> 240 else 0
            if (lane << 240) + low < target:
                values[at] += 2 ** (digits if position is None else position)
    return [values[i] - values[i + len(weights)] for i in range(len(weights))]


@pytest.mark.parametrize("unit", [Fraction(1, 3), Fraction(7, 3), Fraction(1000), Fraction(10**9)])
def test_draws_equal_a_plain_reference_on_the_same_bits(unit: Fraction) -> None:
    weights, rows = np.array([1, 2, 5]), np.arange(400) % 3
    table = digit_table(unit, weights)
    ours = draw_laplace(table, rows, 400, RepeatableStream(7))
    expected = reference_draw(unit, weights[rows].tolist(), table.digits, RepeatableStream(7))
    assert ours.tolist() == expected
    other = draw_laplace(digit_table(unit * 2, weights), rows, 400, RepeatableStream(7))
    assert ours.tolist() != other.tolist()


def tied_table() -> tuple[DigitTable, list[int]]:
    table = digit_table(Fraction(1), np.array([1]))
    return table, [int(table.heads[j, 0]) for j in reversed(range(table.digits))]


@pytest.mark.parametrize(("step", "digit"), [(-1, 1), (1, 0)])
def test_a_tie_is_settled_by_the_rest_of_the_expansion(step: int, digit: int) -> None:
    table, heads = tied_table()
    lanes = [NO_CARRY] * (len(heads) - 1) + [heads[-1], NO_CARRY]
    rest = table.digit(0, 0)(256) % 2**240
    stream = ScriptedStream(lanes, [rest + step])
    assert draw_geometric(table, None, 1, stream).tolist() == [digit]
    assert stream.widths == [240]
    assert stream.lanes == [] == stream.integers


@pytest.mark.parametrize(("step", "digit"), [(-1, 1), (1, 0)])
def test_a_tie_over_256_bits_goes_on_with_a_longer_expansion(step: int, digit: int) -> None:
    table, heads = tied_table()
    lanes = [NO_CARRY] * (len(heads) - 1) + [heads[-1], NO_CARRY]
    first = table.digit(0, 0)(256) % 2**240
    second = table.digit(0, 0)(512) % 2**256
    third = table.digit(0, 0)(1024) % 2**512
    stream = ScriptedStream(lanes, [first, second, third + step])
    assert draw_geometric(table, None, 1, stream).tolist() == [digit]
    assert stream.widths == [240, 256, 512]


def test_every_tie_of_a_pass_is_settled_for_its_own_entry_and_row() -> None:
    weights = np.array([1, 3])
    table = digit_table(Fraction(2), weights)
    rows = np.array([0, 1, 0])
    head = int(table.heads[0, 1])
    lanes = [NO_CARRY] * (table.digits - 1) + [head, NO_CARRY]
    rest = table.digit(0, 1)(256) % 2**240
    stream = ScriptedStream(lanes, [rest - 1])
    # Row 0 has the larger head, so the lane lies below it; row 1 ties.
    assert int(table.heads[0, 0]) > head
    assert draw_geometric(table, rows, 3, stream).tolist() == [1, 1, 1]
    stream = ScriptedStream([NO_CARRY] * (table.digits - 1) + [head, NO_CARRY], [rest + 1])
    assert draw_geometric(table, rows, 3, stream).tolist() == [1, 0, 1]


def test_carries_add_whole_steps_until_one_fails() -> None:
    table, heads = tied_table()
    rest = table.carry(0)(256) % 2**240
    stream = ScriptedStream([NO_CARRY] * len(heads) + [0], [rest - 1, 0, rest - 1, 5])
    assert draw_geometric(table, None, 1, stream).tolist() == [2 * 2**table.digits]
    assert stream.widths == [240, 16, 240, 16]
    stream = ScriptedStream([NO_CARRY] * len(heads) + [0], [rest + 1])
    assert draw_geometric(table, None, 1, stream).tolist() == [0]


def test_all_digits_one_give_the_largest_value_below_a_carry() -> None:
    table = digit_table(Fraction(10**9), np.array([1]))
    heads = [int(table.heads[j, 0]) for j in reversed(range(table.digits))]
    rests = [table.digit(j, 0)(256) % 2**240 for j in reversed(range(table.digits))]
    stream = ScriptedStream([*heads, NO_CARRY], [rest - 1 for rest in rests])
    assert draw_geometric(table, None, 1, stream).tolist() == [2**table.digits - 1]


def test_a_draw_that_would_leave_int64_is_refused_not_wrapped() -> None:
    scale = Fraction(2**61, 48)
    table = DigitTable(scale, np.array([1]), np.full((61, 1), 32_767, np.uint16))
    rest = table.carry(0)(256) % 2**240
    stream = ScriptedStream([0] * 62, [rest - 1, 5])
    assert draw_geometric(table, None, 1, stream).tolist() == [2**62 - 1]
    stream = ScriptedStream([0] * 62, [rest - 1, 0, rest - 1])
    with pytest.raises(TooLarge) as caught:
        draw_geometric(table, None, 1, stream)
    assert caught.value.limit == 2**62


def test_blocks_join_without_gap() -> None:
    table = digit_table(Fraction(50), np.array([1]))
    draws = draw_laplace(table, None, 40_000, RepeatableStream(3))
    assert draws.shape == (40_000,)
    assert len(set(draws[:16_384].tolist())) > 100
    assert len(set(draws[32_768:].tolist())) > 100


def test_sizes_and_types() -> None:
    unit = Fraction(5)
    for call in (sample, sample_geometric):
        assert call(unit, 1, 0).shape == (0,)
        assert call(unit, np.array([], np.int64)).shape == (0,)
        assert call(unit, 1).shape == (1,)
        assert call(unit, np.array([1, 2, 3])).shape == (3,)
        assert call(unit, np.array([1, 2, 3]), 3).dtype == np.int64
        assert call(unit, np.int64(2), np.int64(4)).shape == (4,)
    assert (sample_geometric(unit, 1, 1000) >= 0).all()


def test_two_calls_never_share_a_stream() -> None:
    assert sample(Fraction(10**6), 1, 50).tolist() != sample(Fraction(10**6), 1, 50).tolist()
    first, second = Keystream(), Keystream()
    assert first.integer(256) != second.integer(256)
    assert first.integer(256) != first.integer(256)


def test_a_keystream_overwrites_every_lane_and_keeps_its_widths() -> None:
    stream = Keystream()
    total = np.zeros((2, 1000), np.uint16)
    for _ in range(20):
        lanes = np.zeros((2, 1000), np.uint16)
        stream.fill(lanes)
        total |= lanes
    assert (total != 0).all()
    assert {stream.integer(1) for _ in range(200)} == {0, 1}
    assert max(stream.integer(13) for _ in range(200)) < 2**13


@pytest.mark.parametrize("unit", [Fraction(0), Fraction(-1), 1.5, 3, "1"])
def test_a_unit_that_is_no_positive_fraction_is_refused(unit: object) -> None:
    with pytest.raises(NoiseScaleError):
        sample(unit, 1, 3)  # type: ignore[arg-type]


def test_scales_outside_the_range_served_are_refused() -> None:
    assert sample(Fraction(10**9), 1, 3).shape == (3,)
    assert sample(Fraction(1, 1000), 1, 3).tolist() == [0, 0, 0]
    for unit in (Fraction(10**9) + Fraction(1, 10**9), Fraction(10) ** 400):
        with pytest.raises(NoiseScaleError, match="above"):
            sample(unit, 1, 3)
    for unit in (Fraction(999, 10**6), Fraction(1, 10**400)):
        with pytest.raises(NoiseScaleError, match="below"):
            sample(unit, 1, 3)
    with pytest.raises(NoiseScaleError, match="below"):
        sample(Fraction(1), np.array([1, 1001]))
    with pytest.raises(NoiseScaleError, match="above"):
        sample_geometric(Fraction(10**10), np.array([1, 100]))


@pytest.mark.parametrize(
    "weights",
    [0, -1, np.array([1, 0]), np.array([1.0]), np.array([[1]]), np.array([1], np.int32), 2**63, 2**70],
)
def test_bad_weights_are_refused(weights: object) -> None:
    with pytest.raises(InvalidInput):
        sample(Fraction(5), weights)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [-1, 2.0, True, "3"])
def test_a_bad_size_is_refused(size: object) -> None:
    with pytest.raises(InvalidInput):
        sample(Fraction(5), 1, size)  # type: ignore[arg-type]


def test_a_size_that_contradicts_the_weights_or_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInput):
        sample(Fraction(5), np.array([1, 2]), 3)
    with pytest.raises(TooLarge) as caught:
        sample(Fraction(5), 1, 10**12)
    assert (caught.value.requested, caught.value.limit) == (10**12, MAX_SIZE)


def test_uniform_words_fill_their_bits_and_no_more() -> None:
    words = sample_words(4000, 62)
    assert words.min() >= 0
    assert words.max() < 2**62
    shares = [float(np.mean(words >> place & 1)) for place in range(62)]
    assert all(0.44 < share < 0.56 for share in shares)
    assert sample_words(0, 1).size == 0
    for bits in (0, 64):
        with pytest.raises(InvalidInput, match="bits"):
            sample_words(1, bits)
