"""A data-aware release is charged as a program, carries honest intervals, and declines what it cannot promise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.program import ProgramRelease
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import Declined, ReleaseFailed
from blowfishdb.mechanisms import table
from blowfishdb.mechanisms.data_aware import DataAware, Finding, Script
from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, Measured, MeasurementStage, Program, StageRequest
from tests.engine.held import HISTOGRAM, RAW, Bench, bench

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Halves:
    """Measures two buckets and spreads them; `greed` makes it ask for more than it may spend."""

    greed: int = 1
    name: str = "halves"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        return Program(self.name, (Allowance("halves", epsilon),))

    def script(self, problem: Problem, program: Program) -> Script:
        cells = problem.graph.cells
        buckets = (np.arange(cells) >= cells // 2).astype(np.int64)
        scale = Fraction(2) / program.epsilon / self.greed
        reply = yield StageRequest(
            "halves", MeasurementStage(Plan(scale, (Measurement(Identity(2), np.array(1)),))), buckets
        )
        assert isinstance(reply, Measured)
        size = np.bincount(buckets)[buckets]
        variances = 2.0 * float(scale) ** 2 / size**2
        return Finding(reply.noisy[buckets] / size, reply.noisy[buckets] / size, variances, buckets)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mechanisms = {"halves": Halves(), "greedy": Halves(greed=2, name="greedy")}
    monkeypatch.setattr(table, "DATA_AWARE", mechanisms)
    yield


@pytest.fixture
def held(tmp_path: Path) -> Bench:
    return bench(tmp_path)


def test_a_program_is_charged_whole_and_replayed_free(held: Bench) -> None:
    wanted = accuracy_target(epsilon=0.5, mechanism="halves")
    first, second = held.release(wanted=wanted), held.release(wanted=wanted)
    assert held.spent == HALF
    assert np.array_equal(first.raw, second.raw)
    assert first.mechanism == "halves"
    assert first.stages == (Allowance("halves", HALF),)
    assert abs(first.raw.sum() - RAW.size) < 200


def test_the_answer_says_what_its_intervals_leave_out(held: Bench) -> None:
    answer = held.release(wanted=accuracy_target(epsilon=0.5, mechanism="halves"))
    assert "noise only" in answer.caveat
    assert answer.caveat in answer.note()
    assert answer.caveat in repr(answer)
    assert "noise within" in repr(answer)
    assert Answer.from_json(answer.to_json()).stages == answer.stages


def test_a_stage_that_would_overspend_stops_the_program_charged(held: Bench) -> None:
    with pytest.raises(ReleaseFailed):
        held.release(wanted=accuracy_target(epsilon=0.5, mechanism="greedy"))
    assert held.spent == HALF


def test_nobody_promises_an_accuracy(held: Bench) -> None:
    with pytest.raises(Declined, match="Give epsilon"):
        held.release(wanted=accuracy_target(alpha=5, mechanism="halves"))
    assert held.spent == 0
    assert held.rows.reads == 0


def test_an_epsilon_too_small_for_some_stage_is_refused_before_the_charge(held: Bench) -> None:
    with pytest.raises(Declined, match="more noise in one stage"):
        held.release(wanted=accuracy_target(epsilon="0.000001", mechanism="halves"))
    assert held.spent == 0
    assert held.rows.reads == 0


def test_sums_are_read_off_a_synopsis_instead(held: Bench) -> None:
    with pytest.raises(Declined, match="synopsis"):
        held.release(bf.query("sum", "age"), wanted=accuracy_target(epsilon=1, mechanism="halves"))


def test_the_preview_shows_stages_and_what_others_promise(held: Bench) -> None:
    request = make_request(held.handle, HISTOGRAM, accuracy_target(epsilon=0.5, mechanism="halves"))
    found = prepare(held.handle, request).preview(held.handle)
    assert (found.mechanism, found.epsilon, found.alpha) == ("halves", HALF, None)
    assert len(found.offers) > 1
    assert all(offer.alpha for offer in found.offers[1:])
    assert "halves 0.5" in str(found)
    assert "depends on the data" in str(found)
    json.dumps(found.to_dict())


def test_a_mechanism_is_known_by_its_name() -> None:
    assert accuracy_target(epsilon=1, mechanism="halves").is_data_aware
    assert not accuracy_target(epsilon=1, mechanism="identity").is_data_aware


def test_intervals_cover_a_bias_that_was_paid_for(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, DataAware], table.DATA_AWARE), "bounded", Dawa("bounded", Fraction(1, 20)))
    answer = held.release(wanted=accuracy_target(epsilon=0.5, mechanism="bounded"))
    assert "noise only" not in answer.caveat
    assert "privately estimated" in answer.caveat
    tight = held.release(wanted=accuracy_target(epsilon=0.5, mechanism="bounded", beta=0.0005))
    assert "noise only" in tight.caveat


def test_intervals_are_wider_by_what_answers_were_moved(held: Bench) -> None:
    prepared = prepare(
        held.handle, make_request(held.handle, HISTOGRAM, accuracy_target(epsilon=0.5, mechanism="halves"))
    )
    assert isinstance(prepared, ProgramRelease)
    plain = prepared.run(np.arange(prepared.compiled.problem.graph.cells))
    by = np.arange(plain.answers.size, dtype=np.float64)
    moved = prepared.answer_of(replace(plain, adjusted=by)).widths
    narrow = prepared.answer_of(plain).widths
    assert moved.per_answer == pytest.approx(narrow.per_answer + by)
    assert moved.simultaneous == pytest.approx(narrow.simultaneous + by[-1])
