"""DAWA, Theorem 2 and its Remark: what choosing a noisy partition costs when records move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from tests.errata.exact import Noise, OneSided, TwoSided
from tests.errata.three_cells import INTERVALS, SENSITIVITY, Cells, Interval, deviation, law

EPSILON = 3


def with_remark(kind: Callable[[float], Noise], factor: int = 1) -> dict[Interval, Noise]:
    """Noise of scale factor x (largest sensitivity + the bucket's own) / epsilon, in grid steps."""
    largest = SENSITIVITY[3]
    return {b: kind(factor * (largest + SENSITIVITY[b[1] - b[0]]) / EPSILON) for b in INTERVALS}


def subtracted(scale: float) -> Noise:
    return OneSided(scale, -1)


def added(scale: float) -> Noise:
    return OneSided(scale, +1)


def losses(one: Cells, two: Cells, per_bucket: int, noise: dict[Interval, Noise], reach: int) -> list[float]:
    """For each partition a certain lower bound of its log-probability ratio, in multiples of epsilon."""
    first, second = law(one, per_bucket, noise, reach), law(two, per_bucket, noise, reach)
    assert abs(1 - first.sum()) < 1e-6
    left_out = abs(1 - second.sum()) + 1e-13
    return [math.log(p / (q + left_out)) / EPSILON for p, q in zip(first, second, strict=True)]


@pytest.mark.parametrize("counts", [(1, 2, 4), (3, 6, 0), (0, 0, 0)])
def test_the_exact_law_agrees_with_enumeration_of_every_noise_vector(counts: Cells) -> None:
    """All 7^6 noise vectors of a tiny support, each partition chosen by comparing its cost with the others."""
    noise: dict[Interval, Noise] = {bucket: TwoSided(0.3) for bucket in INTERVALS}
    steps = np.arange(-3, 4)
    grid = np.stack(np.meshgrid(*[steps] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
    weight = np.prod([noise[b].mass(grid[:, i]) for i, b in enumerate(INTERVALS)], axis=0)
    one, two, three, left, right, whole = (grid[:, i] + 2 + deviation(counts, b) for i, b in enumerate(INTERVALS))
    chosen = np.argmin(np.stack([whole, left + three, one + right, one + two + three]), axis=0)
    by_hand = np.bincount(chosen, weights=weight, minlength=4)
    assert law(counts, 2, noise, 12) == pytest.approx(by_hand, abs=2e-4)


def test_full_budget_as_printed_loses_more_than_epsilon_on_one_step_along_the_line() -> None:
    noise = with_remark(TwoSided)
    spent = losses((2, 7, 0), (3, 6, 0), 24, noise, 60)
    assert spent[3] == pytest.approx(1.3553, abs=2e-4)
    assert losses((2, 7, 0), (3, 6, 0), 24, with_remark(TwoSided, 2), 120)[3] < 1


@pytest.mark.parametrize("kind", [TwoSided, subtracted])
@pytest.mark.sampled(2)
def test_doubled_noise_is_enough_for_moves(kind: Callable[[float], Noise]) -> None:
    noise = with_remark(kind, 2)
    seen: dict[Cells, np.ndarray] = {}

    def chances(counts: Cells) -> np.ndarray:
        low = min(counts)
        shifted = (counts[0] - low, counts[1] - low, counts[2] - low)
        if shifted not in seen:
            seen[shifted] = law(shifted, 9, noise, 44)
        return seen[shifted]

    spent = 0.0
    for counts in itertools.product((0, 2), (0, 1, 3), (0, 2)):
        for source, target in ((0, 1), (1, 0), (1, 2), (2, 1)):
            moved = list(counts)
            moved[source] -= 1
            moved[target] += 1
            if min(moved) >= 0:
                ratio = chances((moved[0], moved[1], moved[2])) / chances(counts)
                spent = max(spent, float(np.abs(np.log(ratio)).max()) / EPSILON)
    assert 0.3 < spent <= 1


def spread(counts: Sequence[int]) -> Fraction:
    """Summed distance to the mean."""
    mean = Fraction(sum(counts), len(counts))
    return sum((abs(count - mean) for count in counts), Fraction(0))


def test_two_halves_against_the_whole_approach_four_thirds_at_four_cells() -> None:
    """Candidates [1,2], [3,4] and [1..4] only. A step from cell 2 to cell 3 makes each half dearer by 1 and the whole
    cheaper by 2: 4 in all, against noise of scale 3/epsilon on the whole.
    """
    per_bucket, reach = 100, 400
    steps = np.arange(-reach, reach + 1)
    half, whole = (TwoSided(scale / EPSILON).mass(steps) for scale in (1.5 + 1, 1.5 + 1.5))
    noise = np.cumsum(np.convolve(np.convolve(half, half), whole))

    def halves_chosen(counts: Sequence[int]) -> float:
        excess = spread(counts[:2]) + spread(counts[2:]) + per_bucket - spread(counts)
        return float(noise[3 * reach - int(excess)])

    assert spread((20, 17, 4, 1)) - spread((20, 18, 3, 1)) == -2
    spent = math.log(halves_chosen((20, 18, 3, 1)) / halves_chosen((20, 17, 4, 1))) / EPSILON
    assert 1.3 < spent < Fraction(4, 3)


def test_noise_with_the_wrong_sign_loses_more_even_when_records_are_only_added() -> None:
    """Output all single cells: three other partitions must each be unlucky, and their losses add up."""
    one, two, per_bucket = (0, 3, 0), (0, 4, 0), 18
    exponent = Fraction(0)
    for bucket in INTERVALS[3:]:
        length = bucket[1] - bucket[0]
        assert (length - 1) * per_bucket >= deviation(two, bucket)
        change = deviation(two, bucket) - deviation(one, bucket)
        exponent += Fraction(change, SENSITIVITY[3] + SENSITIVITY[length])
    assert exponent == Fraction(19, 14)
    first, second = (law(counts, per_bucket, with_remark(added), 60)[3] for counts in (one, two))
    assert math.log(second / first) / EPSILON == pytest.approx(19 / 14)
    first, second = (law(counts, per_bucket, with_remark(subtracted), 60)[3] for counts in (one, two))
    assert abs(math.log(second / first)) / EPSILON <= 1


def singles_chosen(counts: list[int], lengths: list[int], per_bucket: int) -> float:
    """The chance of all single cells under the published code without its clamp: no noise on single cells."""
    chance, cells = 1.0, len(counts)
    for length in lengths:
        scale = (2 - 1 / length - 1 / cells) / EPSILON
        for start in range(cells - length + 1):
            inside = counts[start : start + length]
            mean = sum(inside) / length
            bound = (length - 1) * per_bucket - sum(abs(count - mean) for count in inside)
            chance *= 0.5 * math.exp(-bound / scale) if bound >= 0 else 1 - 0.5 * math.exp(bound / scale)
    return chance


@pytest.mark.parametrize(("lengths", "expected"), [([2, 4], Fraction(34, 15)), ([2, 3, 4], Fraction(818, 255))])
def test_the_published_code_is_not_private_at_its_epsilon(lengths: list[int], expected: Fraction) -> None:
    low, high = (singles_chosen(counts, lengths, 2) for counts in ([1, 2, 1, 4], [1, 3, 1, 4]))
    assert math.log(high / low) / EPSILON == pytest.approx(float(expected), abs=1e-9)
    assert expected > 2
