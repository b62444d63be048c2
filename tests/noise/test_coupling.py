"""Levels of one noisy number form a Markov chain in whatever order they are drawn: exact laws, and draws by them."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from blowfishdb.errors import InvalidInput, NoiseScaleError, TooLarge
from blowfishdb.noise import coupling
from blowfishdb.noise.coupling import (
    Enclosed,
    Enclosure,
    Exponentials,
    Step,
    between_law,
    choose,
    coarser_law,
    draw_between,
    draw_coarser,
    is_served,
    settle,
)
from blowfishdb.noise.sampler import Keystream, sample
from tests.noise.support import ALARM, RepeatableStream, laplace_p_value

Law = NDArray[np.float64]
REACH = 60
PLACES = np.arange(-REACH, REACH + 1)
ONE = np.ones(1, dtype=np.int64)


def laplace(rate: float) -> Law:
    return math.tanh(rate / 2) * np.exp(-np.abs(PLACES) * rate)


def kernel(fine: float, coarse: float, stays: float | None = None) -> Law:
    """The law of coarse - fine, from the printed formula."""
    p1, p2 = math.exp(-coarse), math.exp(-fine)
    w0 = (1 - p1) ** 2 / (1 - p2) ** 2 * p2 / p1 if stays is None else stays
    law = (1 - w0) * laplace(coarse)
    law[REACH] += w0
    return law


@functools.cache
def between(finer: Fraction | None, unit: Fraction, coarser: Fraction, apart: int) -> Law:
    """The law of the new value less the finer one, as `draw_between` composes it."""
    left, right = None if finer is None else Step.between(finer, unit), Step.between(unit, coarser)
    one = np.ones(1, dtype=np.int64)
    before = None if left is None else left.floats(one)
    weights = between_law(
        before, right.floats(one), np.array([float(apart)]), np.array([float(apart == 0)]), Exponentials()
    )
    ways = [float(weight[0]) for weight in weights]
    fall, both = float(right.fall), float(right.both)
    law = np.zeros(PLACES.size)
    law[REACH] += ways[0]
    law[REACH + apart] += ways[1]
    law += np.where(PLACES < 0, ways[2] * (1 - math.exp(-both)) * np.exp(both * (PLACES + 1)), 0)
    inside = (PLACES >= 0) & (apart >= PLACES)
    falling = np.where(inside, np.exp(-fall * PLACES), 0)
    law += ways[3] * falling / falling.sum()
    law += np.where(apart < PLACES, ways[4] * (1 - math.exp(-both)) * np.exp(-both * (PLACES - apart - 1)), 0)
    return law / sum(ways)


RATES = [(Fraction(3, 10), Fraction(1)), (Fraction(1, 2), Fraction(51, 100)), (Fraction(1), Fraction(4))]


@pytest.mark.parametrize(("coarse", "fine"), RATES)
def test_the_finer_noise_and_the_step_make_the_coarser_noise(coarse: Fraction, fine: Fraction) -> None:
    stays, moves = (
        float(one[0]) for one in coarser_law(Step.between(1 / fine, 1 / coarse).floats(ONE), Exponentials())
    )
    assert stays + moves == pytest.approx(1, abs=1e-14)
    step = moves * laplace(float(coarse))
    step[REACH] += stays
    both = np.convolve(laplace(float(fine)), step)[REACH:-REACH]
    middle = slice(REACH // 2, -REACH // 2)
    assert np.abs(both - laplace(float(coarse)))[middle].max() < 1e-8
    wrong = (1 - 0.9 * stays) * laplace(float(coarse))
    wrong[REACH] += 0.9 * stays
    off = np.convolve(laplace(float(fine)), wrong)[REACH:-REACH]
    assert np.abs(off - laplace(float(coarse)))[middle].max() > 1e-3


LEVELS = [
    (None, Fraction(1), Fraction(3, 10)),
    (Fraction(2), Fraction(1), Fraction(3, 10)),
    (Fraction(1), Fraction(99, 100), Fraction(98, 100)),
]


@pytest.mark.parametrize(("finer", "rate", "coarser"), LEVELS)
@pytest.mark.parametrize("apart", [0, 1, 7])
def test_a_level_between_follows_both_neighbours(
    finer: Fraction | None, rate: Fraction, coarser: Fraction, apart: int
) -> None:
    law = between(None if finer is None else 1 / finer, 1 / rate, 1 / coarser, apart)
    left = laplace(float(rate)) if finer is None else kernel(float(finer), float(rate))
    right = np.roll(kernel(float(rate), float(coarser)), apart)
    right[:apart] = 0
    expected = left * right / (left * right).sum()
    assert np.abs(law - expected).max() < 1e-9
    skewed = left * np.roll(kernel(float(rate), float(coarser), 0.5), apart)
    assert np.abs(law - skewed / skewed.sum()).max() > 1e-4


def loss_of(joint: dict[tuple[int, ...], float], move: int) -> float:
    """The greatest log-ratio when the true number moves, over outputs well inside the listed ones."""
    worst = 0.0
    for output, mass in joint.items():
        other = joint.get(tuple(value + move for value in output))
        if other is not None and max(map(abs, output)) <= 12:
            worst = max(worst, abs(math.log(mass / other)))
    return worst


def chain(star: bool) -> dict[tuple[int, ...], float]:
    """The joint law of the levels 0.3 and 0.6 that an analyst sees when the data was measured at 1.

    As a chain the second is drawn given the first; as a star both come from the finest by themselves.
    """
    finest, coarse, middle = laplace(1.0), kernel(1.0, 0.3), kernel(1.0, 0.6)
    joint: dict[tuple[int, ...], float] = {}
    reach = range(-20, 21)
    for first, second in itertools.product(range(-13, 14), repeat=2):
        total = 0.0
        for true in reach:
            mass = finest[REACH + true] * coarse[REACH + first - true]
            if star:
                total += mass * middle[REACH + second - true]
            else:
                apart = first - true
                place = second - true if apart >= 0 else true - second
                total += (
                    mass * between(Fraction(1), 1 / Fraction(6, 10), 1 / Fraction(3, 10), abs(apart))[REACH + place]
                )
        joint[first, second] = total
    return joint


def test_levels_of_one_chain_lose_what_the_finest_of_them_loses_and_a_star_loses_more() -> None:
    assert loss_of(chain(star=False), 1) == pytest.approx(0.6, abs=1e-6)
    assert loss_of(chain(star=True), 1) > 0.65


def p_value(draws: NDArray[np.int64], law: Law) -> float:
    inside = np.clip(draws, -REACH, REACH) + REACH
    seen, expected = np.bincount(inside, minlength=law.size), law * draws.size
    often = expected >= 20
    seen, expected = np.append(seen[often], seen[~often].sum()), np.append(expected[often], expected[~often].sum())
    statistic = float(((seen - expected)[expected > 0] ** 2 / expected[expected > 0]).sum())
    return float(stats.chi2.sf(statistic, int((expected > 0).sum()) - 1))


SIZE = 200_000
WEIGHTS = np.ones(SIZE, dtype=np.int64)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("finer", [None, Fraction(1, 2)])
@pytest.mark.parametrize("apart", [0, 5])
def test_draws_between_follow_their_law_and_no_other(finer: Fraction | None, apart: int, sign: int) -> None:
    fine = np.full(SIZE, 1000)
    draws = sign * (draw_between(fine, finer, fine + sign * apart, Fraction(10, 3), Fraction(1), WEIGHTS) - 1000)
    law = between(finer, Fraction(1), Fraction(10, 3), apart)
    assert p_value(draws, law) > ALARM
    left = laplace(1.0) if finer is None else kernel(2.0, 1.0)
    wrong = left * np.roll(kernel(1.0, 0.3, 0.95 * kernel(1.0, 0.3)[REACH]), apart)
    assert p_value(draws, wrong / wrong.sum()) < ALARM


def test_every_level_has_the_noise_that_it_promises_in_whatever_order_it_is_drawn() -> None:
    weights = np.where(np.arange(SIZE) % 2, 3, 1)
    truth = np.zeros(SIZE, dtype=np.int64)
    first = sample(Fraction(12), weights)
    fine = draw_between(truth, None, first, Fraction(12), Fraction(3), weights)
    middle = draw_between(fine, Fraction(3), first, Fraction(12), Fraction(6), weights)
    coarse = draw_coarser(first, Fraction(12), Fraction(30), weights)
    for values, unit in ((first, 12), (fine, 3), (middle, 6), (coarse, 30)):
        for weight in (1, 3):
            assert laplace_p_value(values[weights == weight], unit / weight) > ALARM
    assert laplace_p_value(middle[weights == 1], 6.6) < ALARM
    assert laplace_p_value(coarse[weights == 1], 28) < ALARM


def test_close_calls_are_settled_by_integers() -> None:
    thirds = [Enclosure(Fraction(1), Fraction(1))] * 3
    third = 2**53 // 3
    assert settle(third - 1, lambda bits: thirds, Keystream()) == 0
    assert settle(third + 1, lambda bits: thirds, Keystream()) == 1
    # The next bits of 1/3 are 0101...: below with 0, above with 1.
    for word, way in ((0, 0), (2**53 - 1, 1)):

        class Scripted(RepeatableStream):
            def integer(self, bits: int, word: int = word) -> int:
                return word

        assert settle(third, lambda bits: thirds, Scripted(1)) == way


def test_integers_and_floats_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 300
    coarse = np.arange(size) % 9 - 4
    weights = np.arange(size) % 4 + 1
    left, right = Step.between(Fraction(2), Fraction(5)), Step.between(Fraction(5), Fraction(7))
    apart, meets = np.abs(coarse).astype(np.float64), (coarse == 0).astype(np.float64)
    fast = between_law(left.floats(weights), right.floats(weights), apart, meets, Exponentials())

    def exact(row: int, bits: int) -> list[Enclosure]:
        steps = abs(int(coarse[row]))
        sides = left.at(int(weights[row])), right.at(int(weights[row]))
        return between_law(*sides, steps, int(steps == 0), Enclosed(bits))

    quick = choose(fast, exact, RepeatableStream(3))
    monkeypatch.setattr(coupling, "MARGIN", 2.0)
    assert np.array_equal(quick, choose(fast, exact, RepeatableStream(3)))
    assert set(quick.tolist()) == {0, 1, 2, 3, 4}


def test_levels_out_of_order_or_not_served_are_refused() -> None:
    values = np.zeros(1, dtype=np.int64)
    with pytest.raises(NoiseScaleError, match="out of order"):
        draw_coarser(values, Fraction(2), Fraction(2), ONE)
    with pytest.raises(NoiseScaleError, match="out of order"):
        draw_between(values, None, values, Fraction(1), Fraction(2), ONE)
    assert not is_served(None, Fraction(10**9), Fraction(10**9) + 1, ONE)
    assert not is_served(None, Fraction(1, 1000), Fraction(1, 999), ONE)
    assert is_served(Fraction(1), Fraction(2), Fraction(3), ONE)
    for weights in (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.ones(2, dtype=np.int64)):
        with pytest.raises(InvalidInput):
            draw_coarser(values if weights.size else weights, Fraction(1), Fraction(2), weights)
    with pytest.raises(TooLarge):
        draw_between(values + 2**62, None, values - 2**62, Fraction(2), Fraction(1), ONE)
