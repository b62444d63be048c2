"""Quantiles drawn by the joint exponential mechanism: the exact law of small tables, and the pieces it is made of."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from blowfishdb.errors import InvalidInput, NoiseScaleError
from blowfishdb.noise.quantile_sampler import (
    Proposal,
    SpreadRecords,
    _compiled,
    draw_quantiles,
    happens,
    ordered_choice,
    passed_on,
    penalty,
    sample_quantiles,
)
from blowfishdb.noise.sampler import Keystream, power_expansion

FALSE_ALARM = 1e-12


def spread(*counts: int, parts: int = 2) -> SpreadRecords:
    return SpreadRecords(np.array(counts, dtype=np.int64), parts)


def even(records: SpreadRecords, levels: int) -> list[Fraction]:
    return [Fraction(records.total, levels + 1)] * (levels + 1)


def law(records: SpreadRecords, gaps: list[Fraction], unit: Fraction) -> dict[tuple[int, ...], float]:
    """The chance of every ordered vector of positions, each worked out on its own."""
    vectors = list(itertools.combinations_with_replacement(range(records.positions), len(gaps) - 1))
    weights = [math.exp(-float(penalty(records, vector, gaps) / unit)) for vector in vectors]
    return {vector: weight / sum(weights) for vector, weight in zip(vectors, weights, strict=True)}


def statistic(proposal: Proposal, expected: dict[tuple[int, ...], float], draws: int) -> tuple[float, int]:
    """Pearson's statistic over vectors, rare ones together, and its degrees of freedom."""
    stream = Keystream()
    counts = Counter(tuple(draw_quantiles(proposal, stream).tolist()) for _ in range(draws))
    assert set(counts) <= set(expected)
    usual = [vector for vector, chance in expected.items() if chance * draws >= 5]
    seen, wanted = [counts[vector] for vector in usual], [expected[vector] * draws for vector in usual]
    if draws - sum(wanted) >= 5:
        seen, wanted = [*seen, draws - sum(seen)], [*wanted, draws - sum(wanted)]
    else:
        # So few that a single one would look like very many: they count with the rarest of the others.
        rarest = wanted.index(min(wanted))
        seen[rarest], wanted[rarest] = seen[rarest] + draws - sum(seen), wanted[rarest] + draws - sum(wanted)
    return sum((a - b) ** 2 / b for a, b in zip(seen, wanted, strict=True)), len(wanted) - 1


CASES = {
    "one quantile": (spread(1, 0, 3, 0, 0, 2, parts=3), [Fraction(3), Fraction(3)], Fraction(2)),
    "three quantiles among few records": (spread(2, 0, 1, 1), [Fraction(1)] * 4, Fraction(3, 2)),
    "a published number of records": (spread(0, 4, 0, 1), [Fraction(3), Fraction(1, 2), Fraction(4)], Fraction(1)),
    "no records": (spread(0, 0, 0), [Fraction(0)] * 4, Fraction(1)),
    "ties and little noise": (spread(5, 9, 0, 3), [Fraction(17, 3)] * 3, Fraction(1, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_law_is_exact(name: str) -> None:
    records, gaps, unit = CASES[name]
    found, freedom = statistic(Proposal(records, gaps, unit), law(records, gaps, unit), 1000)
    assert found < chi2.isf(FALSE_ALARM, freedom)


def test_a_wrong_unit_is_noticed() -> None:
    """Half the unit, and so twice the loss, gives another law by far.

    The root of the statistic of 3000 draws is 16.5, with a spread of 0.9, and 9.8 is needed.
    """
    records, gaps, unit = CASES["one quantile"]
    found, freedom = statistic(Proposal(records, gaps, unit / 2), law(records, gaps, unit), 3000)
    assert found > chi2.isf(FALSE_ALARM, freedom)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_the_law_is_exact_in_many_draws(name: str) -> None:
    records, gaps, unit = CASES[name]
    found, freedom = statistic(Proposal(records, gaps, unit), law(records, gaps, unit), 20_000)
    assert found < chi2.isf(FALSE_ALARM, freedom)


@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("unit", [Fraction(1, 3), Fraction(5)])
def test_no_vector_is_proposed_too_rarely(levels: int, unit: Fraction) -> None:
    """The summed weights of the chain are at least those of all vectors, and at most what wide intervals add."""
    random = np.random.default_rng(levels)
    for _ in range(10):
        records = SpreadRecords(random.integers(0, 4, size=4).astype(np.int64), 2)
        gaps = even(records, levels)
        vectors = itertools.combinations_with_replacement(range(records.positions), levels)
        total = sum(math.exp(-float(penalty(records, vector, gaps) / unit)) for vector in vectors)
        assert math.log(total) <= float(Proposal(records, gaps, unit).log_bound) <= math.log(total) + 4.0


def test_proposals_are_accepted_with_the_chance_that_corrects_them() -> None:
    """One over the probability of each proposal, times its weight, never exceeds the bound."""
    records, stream = spread(3, 0, 2, 7, 1, parts=16), Keystream()
    proposal = Proposal(records, even(records, 3), Fraction(1, 2))
    for _ in range(150):
        positions, odds = proposal.draw(stream)
        if len(positions) == 3:
            log_odds = math.log(odds.numerator) - math.log(odds.denominator)
            loss = float(penalty(records, positions, proposal.wanted) / proposal.unit)
            assert log_odds - loss <= float(proposal.log_bound)


def test_the_kernel_sums_what_it_says() -> None:
    random = np.random.default_rng(5)
    for _ in range(20):
        ends = np.sort(random.random(24) * 30)
        lows, highs, weights = ends[::2], ends[1::2], random.random(12)
        gap, rate = float(random.random() * 12), float(0.1 + 2 * random.random())
        apart = np.maximum(0, np.maximum(lows[:, None] - highs - gap, gap - highs[:, None] + lows))
        wanted = np.tril(np.exp(-rate * apart) * weights, -1).sum(axis=1)
        for sums in (passed_on, _compiled()):
            np.testing.assert_allclose(sums(weights, lows, highs, gap, rate), wanted, rtol=1e-12)


def test_ranks_grow_within_and_between_cells() -> None:
    records = spread(1, 0, 3)
    assert records.ranks(np.arange(6)).tolist() == [1, 3, 4, 4, 7, 13]
    wanted = [-1, 0, 1, 2, 4, 5, 8, 13, 14, 16, 17]
    first = [int(np.searchsorted(records.ranks(np.arange(6)), rank)) for rank in wanted]
    assert records.first_at_least(np.array(wanted)).tolist() == [0, 0, *first[2:]]


def test_records_are_counted() -> None:
    for counts in ([], [1, -1], [2**60]):
        with pytest.raises(InvalidInput):
            SpreadRecords(np.array(counts, dtype=np.int64), 4)


def test_an_ordered_choice_is_uniform() -> None:
    stream, draws = Keystream(), 3000
    counts = Counter(tuple(ordered_choice(3, 2, stream)) for _ in range(draws))
    assert sorted(counts) == list(itertools.combinations_with_replacement(range(3), 2))
    assert sum((n - draws / 6) ** 2 / (draws / 6) for n in counts.values()) < chi2.isf(FALSE_ALARM, 5)


class Bits:
    """A stream of given integers."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def fill(self, lanes: np.ndarray) -> None:
        raise AssertionError("no lanes are drawn here")

    def integer(self, bits: int) -> int:
        assert bits > 0
        return self.values.pop(0)


def test_a_chance_is_compared_to_the_last_bit_that_matters() -> None:
    half = 2**63
    assert happens(Fraction(1, 2), Fraction(0), Bits(half - 1, 0))
    assert not happens(Fraction(1, 2), Fraction(0), Bits(half))
    tie = power_expansion(Fraction(1), 64)
    assert happens(Fraction(1), Fraction(1), Bits(tie, 0))
    assert not happens(Fraction(1), Fraction(1), Bits(tie, 2**64 - 1))


def test_a_chance_above_1_is_refused() -> None:
    for odds, exponent in ((Fraction(3), Fraction(1)), (Fraction(1), Fraction(-1))):
        with pytest.raises(NoiseScaleError):
            happens(odds, exponent, Bits(0))


def test_many_records_and_levels_take_no_more_than_a_few_proposals() -> None:
    random = np.random.default_rng(8)
    counts = random.poisson(0.2, size=5000).astype(np.int64)
    counts[100] = 40_000
    records = SpreadRecords(counts, 2**16)
    positions = sample_quantiles(records, even(records, 20), Fraction(2))
    assert np.all(np.diff(positions) >= 0)
    targets = np.arange(1, 21) * records.total / 21
    ranks = records.ranks(positions) / 2**17
    # Bounds by 2 * (ln of the number of vectors + 14) ranks: less than one in a million is further off.
    assert np.all(np.abs(ranks - targets) < 2 * (20 * math.log(5000 * 2**16 * math.e / 20) + 14))
