"""k-means sums (Lemma 6.1), and two statements of the partitioning paper (Theorem 33, Lemma 41)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from scipy.special import gammainccinv

from blowfishdb.plan.certificate import certify
from tests.errata.exact import NoisyRow, as_plan, on_edges, within

ONE = Fraction(1)


def cluster_sums(values: range, centroids: tuple[int, int]) -> list[NoisyRow]:
    """One row per cluster that sums the values nearest to its centroid, noise of scale 1."""
    nearest = [min((abs(value - centre), place) for place, centre in enumerate(centroids))[1] for value in values]
    return [([v if mine == place else 0 for v, mine in zip(values, nearest, strict=True)], ONE) for place in (0, 1)]


def test_a_record_that_changes_cluster_moves_the_sums_by_both_values() -> None:
    theta = 1
    certificate = certify(as_plan(cluster_sums(range(11), (2, 7))), on_edges(11, within(11, theta)))
    assert (certificate.epsilon, certificate.witness) == (9, (4, 5))
    assert certificate.epsilon > 2 * theta


def test_the_claim_for_plain_differential_privacy_fails_when_the_domain_does_not_hold_zero() -> None:
    values, diameter = range(100, 111), 10
    certificate = certify(as_plan(cluster_sums(values, (102, 107))), on_edges(11, within(11, 10)))
    assert certificate.epsilon == 104 + 110 > 2 * diameter


def test_one_sum_over_all_records_does_cost_theta() -> None:
    rows: list[NoisyRow] = [(list(range(11)), ONE)]
    for theta in (1, 3):
        assert certify(as_plan(rows), on_edges(11, within(11, theta))).epsilon == theta


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_the_posterior_after_noisy_histograms_is_bounded_by_twice_the_exponent(releases: int) -> None:
    """Two cells, one unknown record, each count with noise of scale 1/alpha and exp(alpha) = 3: exact rationals."""
    ratio, prior = Fraction(1, 3), Fraction(1, 1000)

    def likelihood(answer: tuple[int, int], cell: int) -> Fraction:
        return ratio ** (abs(answer[0] - (cell == 0)) + abs(answer[1] - (cell == 1)))

    def posterior(answer: tuple[int, int]) -> Fraction:
        right, wrong = likelihood(answer, 0) ** releases, likelihood(answer, 1) ** releases
        return prior * right / (prior * right + (1 - prior) * wrong)

    growth = max(posterior(answer) for answer in itertools.product(range(-3, 5), repeat=2)) / prior
    assert 3**releases < growth <= 9**releases
    assert releases > 1 or growth == pytest.approx(8.93, abs=0.01)


def test_a_single_count_keeps_the_printed_posterior_bound() -> None:
    ratio, prior = Fraction(1, 3), Fraction(1, 1000)
    growth = max(1 / (prior + (1 - prior) * ratio ** abs(a) / ratio ** abs(a - 1)) for a in range(-3, 5))
    assert growth <= 3


def test_lemma_41_is_right_but_six_times_too_large() -> None:
    """Cells 100, alpha 0.05, delta 0.05: summed absolute noise is a Gamma variable with shape 100 and scale 20."""
    cells, scale, delta = 100, 20.0, 0.05
    printed = cells * scale * math.log(cells / delta)
    exact = scale * float(gammainccinv(cells, delta))
    assert printed == pytest.approx(15202, abs=0.5)
    assert exact == pytest.approx(2340, abs=0.5)
    assert exact < printed
