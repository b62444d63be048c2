"""Parameters of mechanisms: each is checked, each changes what is measured, and allowances still sum to the charge."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.audit.cases import battery
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.measure import run_program
from blowfishdb.engine.request import read_settings
from blowfishdb.errors import AllowanceExceeded, Declined, ParameterError, PlanError
from blowfishdb.mechanisms.data_aware import DataAware, Finding
from blowfishdb.mechanisms.parameters import FINEST, Parameter, ParameterValues, check_settings, settings_words
from blowfishdb.mechanisms.table import DATA_AWARE, MECHANISMS, PARAMETERS, data_aware_with, mechanism_with
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, line, threshold
from blowfishdb.model.query import query
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Measured, MeasurementStage, merge_counts

EPSILON = Fraction(1, 3)
OTHER = {
    ("hierarchy", "fan_out"): "2",
    ("ordered-hierarchical", "fan_out"): "2",
    ("ordered-hierarchical", "split"): "0.9",
    ("dawa", "split"): "0.3",
    ("dawa-bounded", "split"): "0.3",
    ("dawa-bounded", "bias"): "0.1",
    ("dawa-transform", "split"): "0.3",
    ("matching-transform", "rounds"): "1",
    ("matching-transform", "split"): "0.3",
    ("matching-transform", "caution"): "0",
    ("adaptive-tree", "growth"): "2",
    ("adaptive-tree", "halvings"): "2",
    ("adaptive-tree", "records"): "1000",
    ("adaptive-tree", "clearance"): "100",
    ("gated", "split"): "0.1",
    ("kdtree", "split"): "1/3",
    ("kdtree", "boxes"): "1",
    ("kdtree", "clearance"): "0",
    ("kdtree", "records"): "1000000",
}
"""A value of each parameter that is not its default."""
DECLARED = [(name, one) for name, taken in PARAMETERS.items() for one in taken]


def problem(shape: tuple[int, ...], policy: Policy | None = None) -> Problem:
    names = [f"x{axis}" for axis in range(len(shape))]
    declared = domain({name: integers(0, size - 1, null=0) for name, size in zip(names, shape, strict=True)})
    kind = "histogram" if len(shape) == 1 else "histogram2d"
    return compile_query(declared, policy or Policy(), query(kind, names)).problem


def settings(name: str, parameter: str) -> ParameterValues:
    return ((parameter, Fraction(OTHER[name, parameter])),)


def clustered(shape: tuple[int, ...]) -> Ints:
    """Many records in one corner, some in a block, a few below the corner, none elsewhere."""
    counts = np.zeros(shape, dtype=np.int64)
    counts[tuple(slice(0, size // 4) for size in shape)] = 5000
    counts[tuple(slice(size // 2, size // 2 + 3) for size in shape)] = 30
    counts[(slice(shape[0] // 2, None), *(slice(0, size // 4) for size in shape[1:]))] += 2
    return counts.reshape(-1)


def quiet(mechanism: DataAware, asked: Problem, epsilon: Fraction, counts: Ints) -> Finding:
    """What a mechanism finds where no noise is drawn, so that two runs differ by their parameters alone."""
    script = mechanism.script(asked, mechanism.program(asked, epsilon))
    ask = next(script)
    while True:
        cells = counts if ask.buckets is None else merge_counts(counts, ask.buckets)
        stage = ask.stage
        try:
            if isinstance(stage, MeasurementStage):
                nothing, plan = np.empty(0, dtype=np.int64), stage.plan
                rows = np.concatenate([nothing, *(part.rows.dot(cells) for part in plan.parts)])
                ask = script.send(Measured(rows, nothing if plan.exact is None else plan.exact.dot(cells)))
            else:
                noise = stage.noise
                ask = script.send(stage.choose(cells, np.zeros(int(noise.sizes.sum()) * (1 + noise.tie_words), int)))
        except StopIteration as end:
            finding: Finding = end.value
            return finding


def shape_of(name: str) -> tuple[int, ...]:
    return (16, 16) if name in ("kdtree", "adaptive-tree") else (64,)


def differs(name: str, chosen: ParameterValues, epsilon: Fraction = Fraction(2)) -> bool:
    """Whether the stages, or the buckets that they lead to without noise, are others than by default."""
    asked, counts = problem(shape_of(name)), clustered(shape_of(name))
    one, two = DATA_AWARE[name], data_aware_with(name, chosen)
    if one.program(asked, epsilon) != two.program(asked, epsilon):
        return True
    buckets = [quiet(each, asked, epsilon, counts).buckets for each in (one, two)]
    return not np.array_equal(*buckets)


def test_every_parameter_has_a_case_here() -> None:
    assert {(name, one.name) for name, one in DECLARED} == set(OTHER)
    assert set(PARAMETERS) <= {*MECHANISMS, *DATA_AWARE}


@pytest.mark.parametrize(("name", "parameter"), [pair for pair in OTHER if pair[0] in DATA_AWARE])
def test_each_parameter_of_a_program_changes_its_stages_or_its_buckets(name: str, parameter: str) -> None:
    chosen = settings(name, parameter)
    check_settings(PARAMETERS, name, chosen)
    assert differs(name, chosen)


def test_a_parameter_that_is_not_used_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.mechanisms import table

    monkeypatch.setattr(table, "arguments", lambda *_: {})
    for name, parameter in (("dawa", "split"), ("matching-transform", "caution"), ("kdtree", "clearance")):
        assert not differs(name, settings(name, parameter))


@pytest.mark.parametrize(("name", "parameter"), [pair for pair in OTHER if pair[0] in MECHANISMS])
def test_each_parameter_of_a_plan_changes_its_rows_or_weights(name: str, parameter: str) -> None:
    asked = problem((64,), Policy({"x0": threshold(16)}))
    digests = {
        certified_strategy(asked, mechanism_with(name, chosen)(asked)).plan.digest()
        for chosen in ((), settings(name, parameter))
    }
    assert len(digests) == 2


def test_a_fan_out_is_that_of_the_tree() -> None:
    asked = problem((64,))
    rows = {
        fan_out: certified_strategy(asked, mechanism_with("hierarchy", (("fan_out", Fraction(fan_out)),))(asked))
        for fan_out in (2, 4, 64, 1024)
    }
    sizes = {fan_out: candidate.weights.size for fan_out, candidate in rows.items()}
    # Cells, then as many nodes as cells / fan-out on each level; the root is public.
    assert sizes[2] == 64 + 32 + 16 + 8 + 4 + 2
    assert sizes[4] == 64 + 16 + 4
    assert sizes[64] == sizes[1024] == 64


def test_one_function_serves_equal_settings_so_that_rankings_are_cached() -> None:
    chosen = settings("hierarchy", "fan_out")
    assert mechanism_with("hierarchy", chosen) is mechanism_with("hierarchy", settings("hierarchy", "fan_out"))
    assert mechanism_with("hierarchy", ()) is MECHANISMS["hierarchy"]
    assert data_aware_with("dawa", ()) is DATA_AWARE["dawa"]


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name in DATA_AWARE])
def test_allowances_are_exact_and_sum_to_the_charge_at_the_ends_of_every_range(name: str) -> None:
    ends = [tuple((one.name, getattr(one, end)) for one in PARAMETERS[name]) for end in ("low", "high")]
    for shape in [(64,), (16, 16)] if name not in ("dawa-bounded", "matching-transform") else [(64,)]:
        for chosen in ends:
            ordered = tuple(sorted(chosen))
            check_settings(PARAMETERS, name, ordered)
            program = data_aware_with(name, ordered).program(problem(shape), EPSILON)
            assert program.epsilon == EPSILON
            assert all(isinstance(one.epsilon, Fraction) and one.epsilon > 0 for one in program.allowances)


def test_a_split_gives_its_part_to_the_stage_that_looks() -> None:
    part = Fraction(3, 10)
    expected = {
        ("dawa", (64,)): {"gate": Fraction(1, 100), "partition": part, "buckets": Fraction(69, 100)},
        ("dawa", (8, 8)): {"partition": part, "buckets": Fraction(2, 5), "pieces": part},
        ("dawa-transform", (64,)): {"gate": Fraction(1, 100), "partition": part, "buckets": Fraction(69, 100)},
        ("matching-transform", (64,)): {**{f"matching {n}": part / 3 for n in (1, 2, 3)}, "buckets": 1 - part},
        ("kdtree", (8, 8)): {"cells": part, "partition": 1 - part},
    }
    for (name, shape), shares in expected.items():
        program = data_aware_with(name, (("split", part),)).program(problem(shape), EPSILON)
        assert {one.stage: one.epsilon / EPSILON for one in program.allowances} == shares
    gated = data_aware_with("gated", (("split", part),)).program(problem((64,)), EPSILON)
    assert gated.allowances[0].epsilon == part * EPSILON
    assert gated.epsilon == EPSILON


def test_a_split_that_did_not_sum_would_stop_the_program() -> None:
    """The engine admits a stage by the program that was charged, whatever a script believes."""
    asked, counts = problem((8, 8)), clustered((8, 8))
    charged = data_aware_with("kdtree", (("split", Fraction(1, 10)),)).program(asked, EPSILON)
    believed = data_aware_with("kdtree", (("split", Fraction(3, 10)),))
    script = believed.script(asked, believed.program(asked, EPSILON))
    with pytest.raises(AllowanceExceeded):
        run_program(charged, charged.digest(), script, asked.graph, counts)


def test_a_program_with_parameters_has_a_digest_of_its_own() -> None:
    program = DATA_AWARE["kdtree"].program(problem((8, 8)), EPSILON)
    others = [replace(program, parameters=(("records", Fraction(value)),)) for value in (24, 25)]
    assert len({one.digest() for one in (program, *others)}) == 3
    assert len({one.digest_1() for one in (program, *others)}) == 3


def test_on_a_line_there_is_nothing_to_split() -> None:
    asked = problem((64,), Policy({"x0": line()}))
    assert len(DATA_AWARE["dawa-transform"].program(asked, EPSILON).allowances) == 1
    with pytest.raises(Declined, match="nothing is split"):
        data_aware_with("dawa-transform", (("split", Fraction(1, 2)),)).program(asked, EPSILON)


@pytest.mark.parametrize(
    ("mechanism", "name", "value", "words"),
    [
        (None, "split", "0.3", "name the mechanism that they are for; those with parameters are hierarchy,"),
        ("auto", "split", "0.3", "auto takes none; those with parameters are hierarchy"),
        ("identity", "fan_out", "2", "identity takes none"),
        ("dawa", "rounds", "2", "'rounds' is a parameter of matching-transform; dawa takes split"),
        ("dawa", "splitt", "0.3", "there is no parameter 'splitt'; did you mean 'split'[?] dawa takes"),
        ("dawa", "split", "0.9", "split of dawa is a number from 0.01 to 0.8, with .* not 0.9"),
        ("dawa", "split", "0", "split of dawa is a number from 0.01 to 0.8"),
        ("dawa", "split", "1/1001", "a denominator of at most 1000"),
        ("dawa", "split", "0.30001", "a denominator of at most 1000"),
        ("hierarchy", "fan_out", "2.5", "fan_out of hierarchy is a whole number from 2 to 1024, not 2.5"),
        ("matching-transform", "rounds", "11", "rounds of matching-transform is a whole number from 1 to 10, not 11"),
    ],
)
def test_what_a_mechanism_does_not_take_is_refused(mechanism: str | None, name: str, value: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        check_settings(PARAMETERS, mechanism, ((name, Fraction(value)),))


@pytest.mark.parametrize(("name", "one"), DECLARED, ids=lambda part: part if isinstance(part, str) else part.name)
def test_defaults_are_those_of_the_mechanism(name: str, one: Parameter) -> None:
    assert one.meaning.endswith(".")
    assert one.low.denominator <= FINEST >= one.high.denominator
    if name in DATA_AWARE:
        in_use = getattr(DATA_AWARE[name], one.field or one.name)
        assert in_use in (None, one.default)
        if in_use is None:
            explicit = data_aware_with(name, ((one.name, one.default or Fraction(1, 5)),))
            assert explicit.program(problem((64,)), EPSILON) == DATA_AWARE[name].program(problem((64,)), EPSILON)


def test_a_parameter_is_declared_with_a_default_in_its_range() -> None:
    with pytest.raises(PlanError):
        Parameter("split", "A part.", Fraction(0), Fraction(1), Fraction(2))
    with pytest.raises(PlanError):
        Parameter("split", "A part.", Fraction(0), Fraction(1))


def test_settings_are_written_as_they_are_given() -> None:
    assert settings_words((("rounds", Fraction(2)), ("split", Fraction(3, 10)))) == "rounds=2, split=0.3"


def test_the_audit_sets_every_parameter() -> None:
    audited = {case.mechanism: read_settings(case.parameters) for case in battery(quick=True) if case.parameters}
    assert {name: {one for one, _ in chosen} for name, chosen in audited.items()} == {
        name: {one.name for one in taken} for name, taken in PARAMETERS.items()
    }
    for name, chosen in audited.items():
        check_settings(PARAMETERS, name, chosen)


def test_the_documentation_lists_what_is_declared() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data-aware.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert listed == [(name, one.name, one.range, one.usual, one.meaning) for name, one in DECLARED]
    whole = re.search(r"(`fan_out`.*) are whole numbers", page)
    assert whole is not None
    assert set(re.findall(r"`(\w+)`", whole[1])) == {one.name for _, one in DECLARED if one.is_whole}
