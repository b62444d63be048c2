"""How far new joint thresholds reach in old steps: on large grids never less than what small ones show edge by edge."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.model import distance
from blowfishdb.model.distance import joint_stretch

METRICS = ("l1", "l2", "linf")
STEPS = ("1", "1.5", "2", "3")
REACHES = ("1", "2", "2.9", "4", "5", "6")
SIDES = {2: (9, 7), 3: (5, 5, 5)}


@pytest.mark.parametrize("axes", sorted(SIDES))
@pytest.mark.parametrize(("before", "after"), list(itertools.product(METRICS, METRICS)))
def test_the_bound_for_large_grids_covers_every_edge_of_small_ones(
    before: str, after: str, axes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "xyz"[:axes]
    declared = [bf.integers(0, side - 1, null=0) for side in SIDES[axes]]
    attained = 0
    for theta, wider in itertools.product(STEPS, REACHES):
        old, new = bf.grid(list(names), theta, before), bf.grid(list(names), wider, after)  # type: ignore[arg-type]
        exact = joint_stretch(declared, old, new)
        with monkeypatch.context() as patch:
            patch.setattr(distance, "STRETCH_LIMIT", 0)
            bound = joint_stretch(declared, old, new)
        assert exact is not None and bound is not None
        assert bound >= exact, (theta, wider)
        attained += bound == exact
    # It is no wild guess: where both count alike it is nearly always what the edges show.
    assert attained >= (12 if before == after else 1)


def test_a_grid_that_is_too_large_to_list_is_counted_as_a_small_one() -> None:
    huge, small = ([bf.integers(0, side, null=0)] * 2 for side in (10**6, 12))
    for before, after in itertools.product(METRICS, METRICS):
        old, new = bf.grid(["x", "y"], 2, before), bf.grid(["x", "y"], 6, after)  # type: ignore[arg-type]
        exact, bound = joint_stretch(small, old, new), joint_stretch(huge, old, new)
        assert exact is not None and bound is not None and bound >= exact
        factor = 1 if after == "l1" or before == "linf" else Fraction(141, 100) if after == "l2" else 2
        assert bound <= 3 * factor + 1
