"""Policy-aware transform: float rounding of edge noise, and noisy edge vectors of a graph with cycles."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from blowfishdb.errors import PlanError
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import EdgePlan
from tests.errata.exact import TwoSided

HALF = Fraction(1, 2)


def triangle_chance(answer: tuple[int, int], reach: int) -> Fraction:
    """The exact chance of noise `answer` in two of three counts, edge noise P(k) ~ 2^-|k| on the three edges.

    With edges 0-1, 1-2, 2-0 the counts of cells 0 and 1 receive a - c and b - a.
    """
    total = Fraction(0)
    for a in range(-reach, reach + 1):
        b, c = answer[1] + a, a - answer[0]
        total += HALF ** (abs(a) + abs(b) + abs(c))
    return total


def test_answers_of_a_cycle_cost_one_epsilon() -> None:
    """Epsilon is ln 2: no answer may be more than twice as likely after a record has moved along an edge."""
    reach = 40
    left_out = 4 * HALF**reach
    moves = {(1, -1): "0-1", (0, 1): "1-2", (-1, 0): "2-0"}
    for answer in itertools.product(range(-5, 6), repeat=2):
        for move in moves:
            shifted = (answer[0] - move[0], answer[1] - move[1])
            assert triangle_chance(shifted, reach) <= 2 * (triangle_chance(answer, reach) + left_out)


@pytest.mark.parametrize("length", [3, 4, 7])
def test_the_noisy_edge_vector_of_a_cycle_costs_its_stretch(length: int) -> None:
    """A right inverse of the incidence matrix supported on a path; the edge that closes the cycle is length-1 edges."""
    incidence = np.zeros((length, length), dtype=np.int64)
    for edge in range(length):
        incidence[edge, edge], incidence[(edge + 1) % length, edge] = 1, -1
    dropped = incidence[:-1]
    inverse = np.zeros((length, length - 1), dtype=np.int64)
    inverse[: length - 1] = np.rint(np.linalg.inv(dropped[:, : length - 1])).astype(np.int64)
    assert np.array_equal(dropped @ inverse, np.eye(length - 1, dtype=np.int64))
    changes = np.abs(inverse @ dropped).sum(axis=0)
    assert changes.max() == length - 1
    shortest = np.abs(np.linalg.pinv(dropped) @ dropped).sum(axis=0).max()
    assert shortest == pytest.approx(2 * (length - 1) / length)
    assert shortest > 1


def rounded_loss(round_half: str) -> float:
    """The worst loss of `count + round(noise / 2)` between counts 0 and 1, with noise of scale 2.

    The strategy row is 2 x edge, so the certificate says 2 / 2 = 1.
    """
    noise = np.arange(-400, 401)
    mass = TwoSided(2.0).mass(noise)
    halved = noise / 2
    value = np.rint(halved) if round_half == "to even" else np.floor(halved + 0.5)
    chance = np.bincount(value.astype(np.int64) + 201, weights=mass)[100:302]
    return float(np.abs(np.log(chance[1:] / chance[:-1])).max())


def test_rounding_halves_to_even_voids_the_certificate_and_floor_keeps_it() -> None:
    real = 1 + math.log(math.exp(0.5) + 1 + math.exp(-0.5))
    assert rounded_loss("to even") == pytest.approx(real)
    assert real > 2.18
    assert rounded_loss("floor") == pytest.approx(1)


def test_float_noise_tells_two_counts_apart_with_certainty() -> None:
    """Noise / 3 added to the counts 0 and 1: in exact arithmetic one is the other shifted, in floats it is not."""
    noise = range(-3000, 3001)
    from_zero = {0 + k * (1 / 3) for k in noise}
    from_one = {1 + k * (1 / 3) for k in range(-2000, 2001)}
    assert 1 + -2 * (1 / 3) in from_one - from_zero
    exact = {Fraction(k, 3) for k in noise}
    assert {1 + Fraction(k, 3) for k in range(-2000, 2001)} <= exact


def test_the_package_refuses_edge_noise_that_is_not_made_of_whole_numbers() -> None:
    edges = np.array([[0, 1]])
    strategy, decoder = csr_array(np.array([[3]])), csr_array(np.array([[1 / 3], [-1 / 3]]))
    with pytest.raises(PlanError):
        EdgePlan(Fraction(3), Identity(2), edges, strategy, decoder, np.array([1]))
