"""Range queries and sensitivities of the Blowfish paper: the printed noise, tiny runs, and verdicts that can turn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers.blowfish import ranges, sensitivities
from papers.blowfish.ranges import OrderedTree, certified_epsilon, drawn_errors, printed_noise, sound_noise
from papers.blowfish.sensitivities import are_neighbours, histogram_sensitivity, worlds
from papers.experiment import Procedure, Row, Settings
from tests.papers.drawing import tiny_result

TINY = Settings("tiny")


@pytest.mark.parametrize("theta", [1, 4, 10, 16, 64])
def test_sound_noise_costs_epsilon_and_printed_noise_more(theta: int) -> None:
    tree = OrderedTree(64, theta, 4)
    assert certified_epsilon(sound_noise(tree)) == pytest.approx(1.0, abs=1e-4)
    printed = certified_epsilon(printed_noise(tree))
    assert printed == math.inf if theta == 1 else (printed > 1.05) == (theta < 64)


def test_adult_at_theta_ten_costs_what_the_errata_say() -> None:
    assert certified_epsilon(printed_noise(OrderedTree(4357, 10, 16))) == pytest.approx(1.3605, abs=1e-3)


def test_children_are_disjoint_and_cover_their_blocks() -> None:
    tree = OrderedTree(23, 10, 3)
    assert [level.tolist() for level in tree.levels][-1] == list(range(23))
    for level in tree.levels:
        assert level[0] == 0 and np.all(np.diff(level) > 0) and {0, 10, 20} <= set(level.tolist())


def test_drawn_errors_have_the_variance_of_the_nodes_they_use() -> None:
    """[0, 4b + 3) with theta 4, fan-out 2: the running sum of b blocks, then a node of two cells and one of one."""
    noise = sound_noise(OrderedTree(16_000, 4, 2))
    ends = np.arange(1, 3999) * 4 + 3
    errors = drawn_errors(noise, np.zeros_like(ends), ends)
    expected = 2 / noise.sums[0] ** 2 + 4 / noise.levels[0][0] ** 2
    assert np.mean(errors**2) == pytest.approx(expected, rel=0.25)
    assert not np.any(drawn_errors(noise, np.array([0]), np.array([16_000])))


def test_neighbours_without_constraints_are_moves_of_one_record() -> None:
    (everything,) = worlds(3, 2, [])
    pairs = [(a, b) for a in everything for b in everything if a != b]
    found = {pair for pair in pairs if are_neighbours(*pair, everything, lambda a, b: a != b)}
    assert found == {(a, b) for a, b in pairs if sum(x != y for x, y in zip(a, b, strict=True)) == 1}
    assert histogram_sensitivity(3, 2, [], lambda a, b: a != b) == 2


@pytest.mark.parametrize("procedure", [ranges.PROCEDURE_B, ranges.PROCEDURE_C, sensitivities.PROCEDURE])
def test_tiny_runs_end_with_a_verdict(procedure: Procedure) -> None:
    assert tiny_result(procedure).verdict.holds == "partly"


def theta_rows(costs: tuple[float | str, float | str], errors: tuple[float, float]) -> list[Row]:
    both = zip(("full", "1"), costs, errors, strict=True)
    return [
        {"theta": t, "epsilon": 1.0, "sound": e, "optimised": e, "printed": e, "printed_really_costs": c}
        for t, c, e in both
    ]


@pytest.mark.parametrize(
    ("costs", "errors", "holds"),
    [
        ((1.0, 1.0), (900.0, 4.0), "yes"),
        ((1.0, "infinite"), (900.0, 4.0), "partly"),
        ((1.0, 1.2), (4.0, 900.0), "no"),
    ],
)
def test_ranges_are_judged_by_privacy_and_fall(
    costs: tuple[float | str, float | str], errors: tuple[float, float], holds: str
) -> None:
    assert ranges.judge(theta_rows(costs, errors)).holds == holds


@pytest.mark.parametrize(("listed", "holds"), [((2, 3), "yes"), ((2, 4), "partly"), ((3, 4), "no")])
def test_sensitivities_are_judged_by_what_neighbours_show(listed: tuple[int, int], holds: str) -> None:
    rows: list[Row] = [
        {"statement": "one", "example": "x", "stated": stated, "listed": found, "certified": 9.0}
        for stated, found in zip((2, 3), listed, strict=True)
    ]
    verdict = sensitivities.judge(rows)
    assert verdict.holds == holds and "cover every" in verdict.why
    assert "1 certificates are too small" in sensitivities.judge([{**rows[0], "certified": 1.0}]).why


def test_every_statement_of_the_paper_is_covered_by_a_certificate() -> None:
    for place in range(len(sensitivities.STATEMENTS)):
        (row,) = sensitivities.measure(TINY, (place,))
        assert float(str(row["certified"])) >= float(str(row["listed"]))
