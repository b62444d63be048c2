"""Programs stop a stage that would spend more than its allowance, and selection costs what its proof says."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.errors import AllowanceExceeded, CannotCertify, DigestMismatch, PlanError
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import Allowance, MeasurementStage, Program, ProgramRun, SelectionNoise
from tests.plan.test_certificate import line

PROGRAM = Program("example", (Allowance("partition", Fraction(1, 4)), Allowance("counts", Fraction(3, 4))))


def select(unit: Fraction) -> SelectionNoise:
    return SelectionNoise(unit, np.array([1, 1]), np.array([1, 2]), np.array([3, 5]), one_sided=True)


def counts(unit: Fraction) -> MeasurementStage:
    return MeasurementStage(Plan(unit, (Measurement(Identity(6), np.array(1)),)))


def test_a_program_costs_the_sum_and_runs_in_order() -> None:
    assert PROGRAM.epsilon == 1
    run = ProgramRun(PROGRAM, PROGRAM.digest())
    with pytest.raises(CannotCertify, match="next stage"):
        run.admit("counts", counts(Fraction(8, 3)), line(6))
    run = run.admit("partition", select(Fraction(32)), line(6))
    run = run.admit("counts", counts(Fraction(8, 3)), line(6))
    with pytest.raises(CannotCertify, match="every stage"):
        run.admit("counts", counts(Fraction(8, 3)), line(6))


def test_an_excess_stops_the_program() -> None:
    run = ProgramRun(PROGRAM, PROGRAM.digest())
    with pytest.raises(AllowanceExceeded) as refused:
        run.admit("partition", select(Fraction(31)), line(6))
    assert refused.value.allowed == Fraction(1, 4) < refused.value.requested == Fraction(8, 31)


def test_a_stage_takes_over_what_those_it_replaces_were_allowed() -> None:
    run = ProgramRun(PROGRAM, PROGRAM.digest())
    with pytest.raises(AllowanceExceeded):
        run.admit("counts", counts(Fraction(19, 10)), line(6), ("partition",))
    with pytest.raises(CannotCertify, match="next stage"):
        run.admit("counts", counts(Fraction(2)), line(6), ("gate",))
    with pytest.raises(CannotCertify, match="next stage"):
        run.admit("more", counts(Fraction(2)), line(6), ("partition", "counts"))
    run = run.admit("counts", counts(Fraction(2)), line(6), ("partition",))
    assert run.admitted == ("partition", "counts")


def test_a_receipt_for_another_program_is_refused() -> None:
    other = Program("example", (Allowance("partition", Fraction(1, 2)),))
    with pytest.raises(DigestMismatch):
        ProgramRun(PROGRAM, other.digest())


def test_moves_cost_twice_what_presence_costs() -> None:
    moves = line(6)
    only = CellGraph(moves.factors, "record", np.array(False), "only")
    assert select(Fraction(1)).epsilon(moves) == 8
    assert select(Fraction(1)).epsilon(only) == 4


def test_stages_have_distinct_digests() -> None:
    one = select(Fraction(1))
    others = [replace(one, one_sided=False), replace(one, tie_words=1)]
    stages = [one, *others, select(Fraction(2)), counts(Fraction(1)), counts(Fraction(2))]
    assert len({stage.digest() for stage in stages}) == 6
    assert counts(Fraction(1)).cells == 6


def test_bad_stages_are_refused() -> None:
    one = np.array([1])
    for bad in (
        lambda: SelectionNoise(Fraction(0), one, one, one, one_sided=True),
        lambda: SelectionNoise(Fraction(1), one, np.array([1, 2]), one, one_sided=True),
        lambda: SelectionNoise(Fraction(1), np.array([0]), one, one, one_sided=True),
        lambda: SelectionNoise(Fraction(1), one, one, np.array([-1]), one_sided=True),
        lambda: SelectionNoise(Fraction(1), one, one, one, one_sided=True, tie_words=-1),
        lambda: Allowance("x", Fraction(-1)),
        lambda: Program("x", ()),
    ):
        with pytest.raises(PlanError):
            bad()


def chosen_probability(costs: tuple[int, int, int], scale: float) -> float:
    """P(the two-item candidate {0, 1} beats {2}) when each item's cost is reduced by a geometric variable."""
    decay, top = math.exp(-1 / scale), 400
    mass = [(1 - decay) * decay**k for k in range(top)]
    summed = np.convolve(mass, mass)
    at_most = np.concatenate([[0.0], np.cumsum(mass)])
    gap = costs[2] - (costs[0] + costs[1])
    return float(sum(p * at_most[min(max(total + gap + 1, 0), top)] for total, p in enumerate(summed)))


def test_selection_loss_is_attained_within_its_bound_and_a_smaller_one_is_false() -> None:
    """One record raises item 0 by 1 and item 2 falls by 1: the exact loss lies between half the bound and the bound."""
    scale = 3.0
    before, after = chosen_probability((40, 0, 0), scale), chosen_probability((41, 0, -1), scale)
    loss = math.log(before / after)
    bound = (1 + 1) / scale
    assert bound * 0.9 < loss <= bound + 1e-9
