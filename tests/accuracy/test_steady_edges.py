"""Noise on edges is combined in one way at every level, so its bounds are made once; they are those made anew."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.bounds import Bound, tails_of
from blowfishdb.accuracy.candidates import CertifiedCandidate
from blowfishdb.accuracy.tails import LaplaceSums
from blowfishdb.mechanisms.edge_transform import EdgeStrategy, propose
from blowfishdb.model.workload import Identity
from tests.accuracy.cases import certified, on_threshold

EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(9)]


def edge_candidate() -> CertifiedCandidate:
    found = certified(on_threshold(Identity(20), 4), propose)
    assert isinstance(found.strategy, EdgeStrategy)
    return found


def same(one: object, two: object) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(two, field.name)) for field in fields(LaplaceSums))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_kept_bounds_are_those_made_anew_at_every_level(epsilon: Fraction) -> None:
    candidate = edge_candidate()
    kept = Bound(candidate, together=True)._tails_at(epsilon)
    anew, _ = tails_of(candidate, candidate.variances(epsilon))
    assert isinstance(kept, LaplaceSums) and same(kept, anew)
    assert not same(kept, anew.inflated(1.01))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_answers_themselves_do_not_look_at_the_level(epsilon: Fraction) -> None:
    candidate = edge_candidate()
    noise, nothing = np.arange(candidate.weights.size, dtype=np.float64) ** 2, np.empty(0)
    there = candidate.strategy.decode(noise, nothing, candidate.variances(epsilon))
    assert np.array_equal(there, candidate.strategy.decode(noise, nothing, candidate.coarse_variances))
