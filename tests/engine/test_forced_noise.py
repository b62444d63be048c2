"""What is published follows from counts and noise as the mechanism says, for noise that is given: far out, below 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blowfishdb.engine import measure
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, line
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.noise.certified import LawName, Noise, tell
from blowfishdb.noise.quantile_sampler import SpreadRecords
from blowfishdb.plan.certificate import Certificate, CertifiedPlan
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.points import PointAxis, PointPlan
from blowfishdb.plan.program import (
    POSITIONS,
    GroupSelection,
    QuantilePlan,
    SelectionNoise,
    certify_quantiles,
    certify_selection,
)

SIZE = 6
COUNTS = np.array([7, 0, 3, 12, 1, 5], dtype=np.int64)
RANDOM = np.random.default_rng(5)
FAR = 10**9
NOISES = [
    np.zeros(SIZE, dtype=np.int64),
    np.array([0, 0, FAR, -FAR, 1, -1]),
    np.array([-FAR, 2, -3, 4, -5, FAR]),
    *(RANDOM.integers(-20, 20, SIZE) for _ in range(20)),
]


def graph(special: dict[str, Any] | None = None) -> CellGraph:
    declared = domain({"x": integers(0, SIZE - 1, **(special or {"null": 0}))})
    return compile_cells(declared, Policy({"x": line()}), as_axes("x"), None).graph


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Callable[[Ints], list[int]]:
    """Gives the draws that follow; of each, how many variables were asked for."""

    def given(values: Ints) -> list[int]:
        asked, left = list[int](), values.tolist()

        def drawn(law: LawName) -> Callable[..., Ints]:
            def draw(unit: Fraction, weights: Any, size: int | None = None) -> Ints:
                count = np.asarray(weights).size if size is None else size
                tell(Noise(law, unit, weights, count))
                asked.append(count)
                mine, left[:] = left[:count], left[count:]
                return np.array(mine, dtype=np.int64)

            return draw

        monkeypatch.setattr(measure, "sample", drawn("laplace"))
        monkeypatch.setattr(measure, "sample_geometric", drawn("geometric"))
        return asked

    return given


Give = Callable[[Ints], list[int]]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_rows_are_published_with_the_noise_that_was_drawn_for_them(give: Give, noise: Ints) -> None:
    for rows in (Identity(SIZE), Prefix(SIZE)):
        plan = Plan(Fraction(9), (Measurement(rows, np.arange(1, SIZE + 1)),))
        asked = give(noise)
        measured = measure.measure(CertifiedPlan(plan, graph()), COUNTS)
        assert measured.noisy.tolist() == (rows.dense().astype(np.int64) @ COUNTS + noise).tolist()
        assert asked == [SIZE]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_weights_on_points_carry_the_noise_that_was_drawn_for_them(give: Give, noise: Ints) -> None:
    plan = PointPlan(Fraction(9), (PointAxis(1, np.arange(SIZE)),), 1)
    charged = Certificate(Fraction(1), None, False, plan.digest(), "")
    asked = give(noise)
    weights, blocks = measure.measure_points(plan, charged, np.concatenate([COUNTS, [4]]))
    assert weights.tolist() == (COUNTS + noise).tolist()
    assert (blocks.tolist(), asked) == ([4], [SIZE])


@pytest.mark.parametrize("above", [-5, 0, 3, 40])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_list_holds_the_groups_whose_noisy_counts_reach_the_least(give: Give, noise: Ints, above: int) -> None:
    plan = GroupSelection(Fraction(9), SIZE, above=above)
    asked = give(noise)
    listed = measure.choose_groups(plan, graph(), certify_selection(plan, graph()), COUNTS)
    assert listed.tolist() == [group for group in range(SIZE) if COUNTS[group] + noise[group] >= above]
    assert asked == [SIZE]


@pytest.mark.parametrize("most", [1, 2, SIZE])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_every_round_gives_the_largest_of_the_noisy_counts_that_are_left(give: Give, noise: Ints, most: int) -> None:
    plan = GroupSelection(Fraction(9), SIZE, most)
    rounds = np.stack([np.roll(np.abs(noise), number) for number in range(most)])
    asked = give(rounds.reshape(-1))
    chosen = measure.choose_groups(plan, graph(), certify_selection(plan, graph()), COUNTS)
    wanted = list[int]()
    for row in (COUNTS + rounds).tolist():
        wanted.append(max((one for one in range(SIZE) if one not in wanted), key=lambda one: (row[one], -one)))
    assert (chosen.tolist(), asked) == (wanted, [SIZE * most])


@pytest.mark.parametrize("more", [-FAR, -3, 0, 2, 100])
def test_quantiles_are_shares_of_the_published_number_of_records(
    give: Give, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares, cells = (Fraction(1, 4), Fraction(3, 4)), graph({"null": "cell"})
    plan = QuantilePlan(Fraction(9), shares, SIZE, count_unit=Fraction(5))
    wanted = list[Any]()

    def chosen(records: SpreadRecords, gaps: tuple[Fraction, ...], unit: Fraction) -> Ints:
        wanted.append((records.counts.tolist(), gaps, unit))
        tell(Noise("quantiles", unit, 1, len(gaps) - 1))
        return np.array([2 * POSITIONS + 7])

    monkeypatch.setattr(measure, "sample_quantiles", chosen)
    asked = give(np.array([more]))
    counts = np.append(COUNTS, 9)
    found = measure.choose_quantiles(plan, cells, certify_quantiles(plan, cells), counts)
    published = max(0, int(COUNTS.sum()) + more)
    assert wanted == [(COUNTS.tolist(), (published * shares[0], published * shares[1]), Fraction(9))]
    assert (found.tolist(), asked) == ([[2]], [1])


def test_what_is_said_to_have_no_noise_gets_none(give: Give) -> None:
    plan = QuantilePlan(Fraction(9), (Fraction(1, 2), Fraction(1, 2)), SIZE)
    asked = give(np.empty(0, dtype=np.int64))
    places = measure.choose_quantiles(plan, graph(), certify_quantiles(plan, graph()), COUNTS)
    assert places.shape == (1, 1) and 0 <= int(places[0, 0]) < SIZE
    exact = Plan(Fraction(1), (), Identity(SIZE))
    hidden = replace(graph(), factors=(WindowGraph(np.arange(SIZE), np.empty(0, dtype=np.int64)),))
    measured = measure.measure(CertifiedPlan(exact, hidden), COUNTS)
    assert (measured.noisy.size, measured.exact.tolist(), asked) == (0, COUNTS.tolist(), [])


def test_a_selection_of_a_program_gets_the_noise_of_its_classes_in_order(give: Give) -> None:
    noise = SelectionNoise(Fraction(9), np.array([1, 3]), np.array([0, 2]), np.array([2, 3]), one_sided=True)
    heard = list[Ints]()
    stage = SimpleNamespace(noise=noise, choose=lambda counts, draws: heard.append(draws) or draws)
    asked = give(np.array([4, -FAR, 0, FAR, 6]))
    request = SimpleNamespace(stage=stage)
    measure._reply(request, graph(), COUNTS, Fraction(1))  # type: ignore[arg-type]
    assert (asked, heard[0].tolist()) == ([2, 3], [4, -FAR, 0, FAR, 6])
