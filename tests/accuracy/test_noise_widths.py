"""Half-widths from variances alone hold for sums of few and of many noise variables, and tighter ones would not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.errors import AccuracyError
from blowfishdb.noise.sampler import sample

BETA = 0.05


@pytest.mark.parametrize(("terms", "scale"), [(1, 40), (1, 1), (3, 10), (200, 5)])
def test_sums_stay_inside_their_own_half_width(terms: int, scale: int) -> None:
    trials = 20_000
    sums = sample(Fraction(scale), 1, terms * trials).reshape(trials, terms).sum(axis=1)
    width = noise_widths(np.array([2.0 * terms * scale**2]), BETA).per_answer[0]
    assert np.mean(np.abs(sums) > width) <= BETA
    assert np.mean(np.abs(sums) > width / 1.6) > BETA


def test_all_answers_stay_inside_together() -> None:
    scales = np.repeat([4, 60], 30)
    trials = 4_000
    draws = np.stack([sample(Fraction(int(scale)), 1, trials) for scale in scales])
    widths = noise_widths(2.0 * scales**2.0, BETA)
    assert np.mean(np.any(np.abs(draws) > widths.simultaneous, axis=0)) <= BETA
    assert np.all(widths.per_answer <= widths.simultaneous)
    assert widths.per_answer[0] < widths.per_answer[-1]


def test_answers_without_noise_are_exact() -> None:
    widths = noise_widths(np.zeros(3), BETA)
    assert widths.simultaneous == 0.0
    assert widths.per_answer.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("beta", [0.0, 1.0, -1.0])
def test_beta_is_a_probability(beta: float) -> None:
    with pytest.raises(AccuracyError):
        noise_widths(np.ones(1), beta)
