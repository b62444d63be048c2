"""Scripts get what their stages publish, each stage within its allowance, and nothing when the receipt is another's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.measure import run_program
from blowfishdb.errors import AllowanceExceeded, DigestMismatch
from blowfishdb.mechanisms.data_aware import Finding, Script
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import (
    WORD_BITS,
    Allowance,
    Measured,
    MeasurementStage,
    Program,
    SelectionNoise,
    StageRequest,
)

GRAPH = CellGraph((WindowGraph(np.full(4, 3), np.empty(0, np.int64)),), "record", np.array(False), "only")
COUNTS = np.array([50_000, 0, 0, 70_000])
PROGRAM = Program("example", (Allowance("select", Fraction(1)), Allowance("measure", Fraction(2))))


class LargerHalf:
    """Selects the half of the cells that holds more records."""

    cells = 4
    noise = SelectionNoise(Fraction(2), np.array([1]), np.array([1]), np.array([2]), one_sided=True)

    def epsilon(self, graph: CellGraph) -> Fraction:
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        return self.noise.digest()

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        assert draws.shape == (2,)
        assert np.all(draws >= 0)
        return np.array([int(np.argmin(-counts.reshape(2, 2).sum(axis=1) - draws))])


def script(unit: Fraction) -> Script:
    chosen = yield StageRequest("select", LargerHalf())
    assert isinstance(chosen, np.ndarray)
    assert chosen.tolist() == [1]
    buckets = np.array([0, 0, 1, 1])
    plan = Plan(unit, (Measurement(Identity(2), np.array(1)),))
    measured = yield StageRequest("measure", MeasurementStage(plan), buckets)
    assert isinstance(measured, Measured)
    cells = measured.noisy[buckets] / 2.0
    return Finding(cells, cells, np.ones(4), buckets)


def test_a_script_is_answered_stage_by_stage() -> None:
    found = run_program(PROGRAM, PROGRAM.digest(), script(Fraction(1, 2)), GRAPH, COUNTS)
    assert np.allclose(found.cells, [25_000, 25_000, 35_000, 35_000], atol=50)


class WithWords(LargerHalf):
    """The same selection, which also asks for two uniform words per item."""

    noise = SelectionNoise(Fraction(2), np.array([1]), np.array([1]), np.array([2]), one_sided=True, tie_words=2)

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        assert draws.shape == (6,)
        assert np.all((draws[2:] >= 0) & (draws[2:] < 2**WORD_BITS))
        return draws[2:]


def test_words_that_break_ties_are_drawn_after_the_noise_and_differ() -> None:
    seen: list[int] = []

    def ask() -> Script:
        chosen = yield StageRequest("select", WithWords())
        assert isinstance(chosen, np.ndarray)
        seen.extend(chosen.tolist())
        return Finding(np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4, dtype=np.int64))

    for _ in range(50):
        run_program(PROGRAM, PROGRAM.digest(), ask(), GRAPH, COUNTS)
    assert len(set(seen)) == 200
    # The mean of 200 uniform numbers has a standard deviation of 0.02.
    assert 0.35 < np.mean(np.array(seen) / 2**WORD_BITS) < 0.65


def test_a_stage_over_its_allowance_is_not_run() -> None:
    with pytest.raises(AllowanceExceeded):
        run_program(PROGRAM, PROGRAM.digest(), script(Fraction(2, 5)), GRAPH, COUNTS)


def test_another_receipt_runs_nothing() -> None:
    with pytest.raises(DigestMismatch):
        run_program(PROGRAM, "0" * 64, script(Fraction(1)), GRAPH, COUNTS)
