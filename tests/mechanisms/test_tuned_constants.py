"""The constants of data-aware mechanisms are those that the search on synthetic data gave, and the search works."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import tune_dawa, tune_spatial, tune_transform
from benchmarks.expected_error import WORKLOADS, Case, keep_chance, make_workload, merged
from benchmarks.synthetic import RANGE_KINDS, Histogram, grids, histograms
from benchmarks.tuning import RECORD, Knob, Setting, recorded_setting, rows, score, search
from blowfishdb.engine.measure import run_program
from blowfishdb.errors import InvalidInput, PlanError
from blowfishdb.mechanisms.data_aware import dawa, kdtree
from blowfishdb.mechanisms.data_aware.dawa import RUN_RULE, SELECT_SHARE, Dawa
from blowfishdb.mechanisms.data_aware.kdtree import AdaptiveTree
from blowfishdb.mechanisms.data_aware.partition import (
    CUT_RULE,
    GATE_RULE,
    RANGE_GATE,
    RANGE_RULE,
    GateRule,
    gate_stage,
)
from blowfishdb.mechanisms.data_aware.regions import EMPTY_RULE
from blowfishdb.model.numbers import Floats
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record


def in_use() -> dict[str, dict[str, float]]:
    """The constants of the package, by the names that the search has for them."""
    tree = AdaptiveTree()
    select, _, refine = dawa.SHARES_2D.values()
    return {
        "dawa": {
            "select_share": float(SELECT_SHARE),
            "spacing": CUT_RULE.spacing,
            "clip": CUT_RULE.clip,
            "first": CUT_RULE.first,
            "gate_share": float(GATE_RULE.share),
            "block": GATE_RULE.block,
            "cap": GATE_RULE.cap,
            "uneven_for_ranges": GATE_RULE.uneven_for_ranges,
            "uneven_for_cells": GATE_RULE.uneven_for_cells,
            "short": GATE_RULE.short,
        },
        "dawa-ranges": {
            "spacing": RANGE_RULE.spacing,
            "clip": RANGE_RULE.clip,
            "first": RANGE_RULE.first,
            "block": RANGE_GATE.block,
            "cap": RANGE_GATE.cap,
            "uneven_for_ranges": RANGE_GATE.uneven_for_ranges,
        },
        "transform": {
            "penalty": RUN_RULE.penalty,
            "step_penalty": RUN_RULE.step_penalty,
            "clearly_rough": RUN_RULE.clearly_rough,
            "part_left": RUN_RULE.part_left,
            "meets_ends": float(RUN_RULE.meets_ends),
        },
        "adaptive-tree": {
            "per_piece": float(tree.per_piece),
            "clearance": float(tree.clearance),
            "growth": float(tree.growth),
            "unseen_halvings": tree.unseen_halvings,
            "estimate": tune_spatial.NOT_NEGATIVE,
        },
        "kdtree": {"unseen_boxes": kdtree.UNSEEN_BOXES},
        "dawa-2d": {"select_share": float(select), "refine_share": float(refine)},
        "empty": {"clear": EMPTY_RULE.clear, "together": EMPTY_RULE.together, "part": EMPTY_RULE.part},
    }


def test_the_constants_in_use_are_the_recorded_ones() -> None:
    assert json.loads(RECORD.read_text(encoding="utf-8")) == in_use()


def test_recorded_values_are_among_those_that_are_tried() -> None:
    knobs = {
        "dawa": (*tune_dawa.LOOKING, tune_dawa.GATE),
        "dawa-ranges": (*tune_dawa.RANGE_LOOKING, tune_dawa.RANGE_GATE_KNOBS),
        "transform": tune_transform.GROUPS,
        "adaptive-tree": tune_spatial.TREE_KNOBS,
        "kdtree": tune_spatial.KD_KNOBS,
        "dawa-2d": tune_spatial.DAWA_KNOBS,
        "empty": tune_spatial.EMPTY_KNOBS,
    }
    for part, groups in knobs.items():
        recorded = recorded_setting(part)
        assert [knob.name for group in groups for knob in group] == list(recorded)
        assert all(recorded[knob.name] in knob.values for group in groups for knob in group)


def few_tables() -> list[Histogram]:
    return [table for table in histograms((10**4,)) if table.counts.size == 1024]


def test_synthetic_tables_come_from_their_seed_alone() -> None:
    for one, two in zip(few_tables(), few_tables(), strict=True):
        assert np.array_equal(one.counts, two.counts)
    one, other = (next(histograms((10**4,), seed)).counts for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert len({table.kind for table in histograms((10**3,))}) == 15
    assert len({table.kind for table in histograms((10**3,), kinds=RANGE_KINDS)}) == 17
    small = [grid.counts for grid in grids((10**3,), 16)]
    assert all(np.array_equal(a, b.counts) for a, b in zip(small, grids((10**3,), 16), strict=True))
    with pytest.raises(InvalidInput):
        Histogram("wrong", 1, np.array([1, -1]))


def test_the_search_finds_the_least_error_and_repeats_itself() -> None:
    knobs = ((Knob("a", (0.0, 1.0, 2.0, 3.0, 4.0), 0.0),), (Knob("b", (0.0, 1.0), 0.0), Knob("c", (5.0,), 5.0)))

    def judged(setting: Setting) -> Floats:
        return np.array([0.1, 0.2]) + 0.1 * abs(setting["a"] - 2.0) + 0.01 * abs(setting["b"] - setting["a"])

    first, second = search(knobs, judged), search(knobs, judged)
    assert first == second
    assert first.setting == {"a": 2.0, "b": 1.0, "c": 5.0}
    assert first.worst == pytest.approx(0.21)
    assert [choice.surely for choice in first.choices] == [1.0, 1.0, None]
    assert [row.ours for row in rows("nowhere", first)] == [2.0, 1.0, 5.0, None]
    with pytest.raises(InvalidInput):
        Knob("d", (1.0,), 2.0)


def test_a_case_above_the_limit_makes_a_setting_worse() -> None:
    safe, daring = np.array([0.9, 0.9, 1.1]), np.array([0.5, 0.5, 1.8])
    assert score(daring, np.inf) < score(safe, np.inf)
    assert score(safe) < score(daring)


def test_the_gate_of_the_search_is_the_gate_of_the_mechanism() -> None:
    setting = recorded_setting("dawa")
    cases = list(tune_dawa.cases(few_tables()[:3]))
    chances = tune_dawa.DawaErrors(cases).keeps(setting)
    for case, chance in zip(cases, chances, strict=True):
        problem = Problem(one_record(case.cells), make_workload(case.cells, case.workload))
        stage = gate_stage(problem, case.epsilon * GATE_RULE.share, case.epsilon)
        excess = np.array(stage.unevenness(case.counts) - stage.threshold)
        assert float(keep_chance(excess, np.array(float(stage.unit)))) == pytest.approx(chance)


def test_the_procedure_for_dawa_runs_on_a_few_tables() -> None:
    fixed = recorded_setting("dawa")
    looking = [(Knob(group[0].name, (fixed[group[0].name],), fixed[group[0].name]),) for group in tune_dawa.LOOKING]
    looking[0] = (Knob("select_share", (0.2, 0.6), 0.6),)
    gate = [Knob(knob.name, (fixed[knob.name],), fixed[knob.name]) for knob in tune_dawa.GATE]
    gate[2] = Knob("cap", (fixed["cap"], 1e-3), 1e-3)
    found = tune_dawa.chosen(tune_dawa.DawaErrors(list(tune_dawa.cases(few_tables()[:2]))), looking, gate)
    assert found.setting == {**fixed, "select_share": 0.2}
    assert found.mean < 1


def test_long_ranges_stay_below_their_limit_on_every_kind() -> None:
    tables = [table for table in histograms((10**4, 10**8), kinds=RANGE_KINDS) if table.counts.size == 1024]
    errors = tune_dawa.DawaErrors(list(tune_dawa.range_cases(tables)), for_ranges=True)
    recorded = recorded_setting("dawa-ranges")
    assert errors.ratios(recorded).max() <= tune_dawa.RANGE_LIMIT
    assert errors.ratios({**recorded, "uneven_for_ranges": 1.0}).max() > tune_dawa.RANGE_LIMIT


def test_the_chance_of_keeping_is_that_of_the_noise() -> None:
    drawn = sample(Fraction(40), 1, 100_000)
    for excess in (-28.0, 0.0, 48.0):
        said = float(keep_chance(np.array(excess), np.array(40.0)))
        assert said == pytest.approx((excess + drawn > 0).mean(), abs=0.012)
        assert said != pytest.approx((excess + drawn / 2 > 0).mean(), abs=0.03) or excess == 0


def test_expected_errors_are_those_of_releases() -> None:
    table = next(table for table in few_tables() if table.counts.max() > 20)
    case = Case(table.counts, Fraction(1, 10), WORKLOADS[0], 3)
    workload = make_workload(case.cells, case.workload)
    problem = Problem(one_record(case.cells), workload)
    mechanism = Dawa()
    program = mechanism.program(problem, case.epsilon)
    errors = []
    for _ in range(60):
        found = run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, table.counts)
        errors.append(float(np.abs(found.answers - workload.dot(table.counts)).mean()))
    left = float(case.epsilon * (1 - GATE_RULE.share - SELECT_SHARE))
    expected = merged(case, SELECT_SHARE, RANGE_RULE, 20, for_ranges=True).error(left)
    # One error has a standard deviation of 0.42, so that the mean of 60 is this far off with chance below 1e-9.
    assert np.mean(errors) == pytest.approx(expected, rel=0.4)
    assert merged(case, SELECT_SHARE, RANGE_RULE, 20, for_ranges=True).error(left / 2) > 1.7 * expected


def test_transform_and_grid_procedures_run_on_a_few_tables() -> None:
    errors = tune_transform.TransformErrors(few_tables()[:3])
    knobs = (tune_transform.KNOBS[2:3],)
    fixed = recorded_setting("transform")
    outcome = search(knobs, lambda setting: errors.ratios({**fixed, **setting}))
    assert outcome.setting["clearly_rough"] in tune_transform.KNOBS[2].values
    cases = [tune_spatial.GridCase.of(grid, seed) for seed, grid in enumerate(grids((10**4,), 32))]
    for part, answers in (
        (tune_spatial.TREE, tune_spatial.tree_answers),
        (tune_spatial.KD_TREE, tune_spatial.kd_answers),
        (tune_spatial.DAWA, tune_spatial.line_answers),
        (tune_spatial.EMPTY, tune_spatial.sparse_answers),
    ):
        one, two = (tune_spatial.ratios(cases[:2], answers, recorded_setting(part)) for _ in range(2))
        assert np.array_equal(one, two)
        assert np.all(one > 0)


def test_senseless_gates_are_refused() -> None:
    good = (Fraction(1, 50), 16, 80.0, 0.45, 0.18, 16)
    for place, wrong in enumerate((Fraction(1), 1, 0.0, 0.0, 0.0, 0)):
        with pytest.raises(PlanError):
            GateRule(*good[:place], wrong, *good[place + 1 :])
