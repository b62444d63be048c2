"""A refinement loses what its bound says, close to it on the worst path, and more when its noise is too small."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError
from blowfishdb.model.graphs import CellGraph
from blowfishdb.noise.distribution import pmf
from blowfishdb.plan.program import RefinementNoise
from tests.plan.test_certificate import line

MOVES = line(6)
ONLY = CellGraph(MOVES.factors, "record", np.array(False), "only")


def noise(unit: str = "3", spacing: int = 5, clip: int = 3, levels: int = 3) -> RefinementNoise:
    return RefinementNoise(Fraction(unit), np.ones(levels, dtype=np.int64), 4, spacing, clip)


def log_chances(rule: RefinementNoise, most: int) -> dict[tuple[int, int], tuple[float, float]]:
    """For each level and score the logarithms of the chances to be kept and to be cut, by the rule itself."""
    draws = np.arange(-400, 401)
    weights = pmf(float(rule.unit), draws)
    found = {}
    for level, score in itertools.product(range(rule.levels.size), range(most + 1)):
        cut = float(weights[rule.cut(level, np.full(draws.size, score), draws)].sum())
        found[level, score] = (math.log1p(-cut), math.log(cut))
    return found


def worst_path_loss(rule: RefinementNoise, most: int) -> float:
    """The largest log-ratio of any outcome along one path, over all falling scores and their neighbours."""
    chance = log_chances(rule, most)
    levels = rule.levels.size
    paths = [
        s for s in itertools.product(range(most + 1), repeat=levels) if all(a >= b for a, b in itertools.pairwise(s))
    ]
    known = set(paths)
    worst = 0.0
    for path, step in itertools.product(paths, itertools.product((-1, 0, 1), repeat=levels)):
        other = tuple(a + b for a, b in zip(path, step, strict=True))
        if other not in known:
            continue
        above = 0.0
        for level in range(levels):
            kept = chance[level, other[level]][0] - chance[level, path[level]][0]
            worst = max(worst, above + kept)
            above += chance[level, other[level]][1] - chance[level, path[level]][1]
        worst = max(worst, above)
    return worst


@pytest.mark.parametrize(("spacing", "clip"), [(5, 3), (4, 4), (7, 2), (2, 6), (3, 0)])
def test_the_bound_holds_and_is_nearly_attained(spacing: int, clip: int) -> None:
    rule = noise(spacing=spacing, clip=clip)
    bound = float(rule.epsilon(ONLY))
    attained = worst_path_loss(rule, most=4 + 3 * spacing)
    assert attained <= bound + 1e-9
    assert attained >= 0.93 * bound


def test_less_noise_exceeds_the_bound() -> None:
    rule = noise()
    assert worst_path_loss(replace(rule, unit=rule.unit * Fraction(4, 5)), most=18) > float(rule.epsilon(ONLY))


def test_closer_thresholds_exceed_the_bound() -> None:
    rule = noise(spacing=5)
    assert worst_path_loss(replace(rule, spacing=1), most=18) > float(rule.epsilon(ONLY))


def test_moves_and_several_rows_multiply_the_loss() -> None:
    several = replace(MOVES, rows_per_person=3)
    assert noise().epsilon(MOVES) == 2 * noise().epsilon(ONLY)
    assert noise().epsilon(several) == 6 * noise().epsilon(ONLY)


def test_one_level_costs_one_comparison() -> None:
    assert noise(levels=1).epsilon(ONLY) == Fraction(1, 3)


@given(
    st.fractions(Fraction(1, 2), 500, max_denominator=50), st.integers(1, 900), st.integers(0, 900), st.integers(1, 12)
)
def test_the_rational_bound_is_just_above_the_formula(unit: Fraction, spacing: int, clip: int, levels: int) -> None:
    rule = RefinementNoise(unit, np.ones(levels, dtype=np.int64), 0, spacing, clip)
    q = math.exp(-1 / unit)
    total = 1.0
    for level in range(1, levels):
        gap = level * spacing - clip
        total += 1.0 if gap <= 0 else q**gap / (1 + q - q**gap)
    assert float(rule.epsilon(ONLY)) == pytest.approx(total / unit, rel=1e-9)


def test_what_is_drawn() -> None:
    rule = noise()
    assert rule.sizes.tolist() == [3]
    assert rule.weights.tolist() == [1]
    assert not rule.one_sided
    assert rule.tie_words == 0
    assert rule.digest() != replace(rule, first=5).digest()


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": Fraction(0)},
        {"unit": 3},
        {"levels": np.empty(0, dtype=np.int64)},
        {"levels": np.array([1, 0])},
        {"spacing": 0},
        {"clip": -1},
    ],
)
def test_senseless_rules_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        replace(noise(), **wrong)  # type: ignore[arg-type]
