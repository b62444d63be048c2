"""Gated: what decides costs its allowance, decides as it says, and the rest of epsilon goes to what was chosen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.measure import measure, run_program
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware import Finding, Script
from blowfishdb.mechanisms.data_aware.gated import BLOCKS, CLEAR, RECORDS, SHARE, Gated
from blowfishdb.mechanisms.data_aware.partition import KEEP, MERGE, L1Gate
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, line, public, threshold
from blowfishdb.model.query import Kind, query
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import MeasurementStage, merge_counts

EPSILON = Fraction(1)
ONLY, FULL = Policy(presence="only"), Policy()


def problem(shape: tuple[int, ...], policy: Policy, kind: Kind = "histogram") -> Problem:
    names = [f"x{axis}" for axis in range(len(shape))]
    declared = domain({name: integers(0, size - 1, null=0) for name, size in zip(names, shape, strict=True)})
    boxes = [tuple((0, size // 2) for size in shape)] * 3 if kind == "ranges" else ()
    return compile_query(declared, policy, query(kind, names, boxes=boxes)).problem


def released(asked: Problem, counts: Ints) -> tuple[list[str], Finding]:
    """The stages that ran, and what they found."""
    program, names = Gated().program(asked, EPSILON), []

    def heard() -> Script:
        script = Gated().script(asked, program)
        ask = next(script)
        while True:
            names.append(ask.name)
            reply = yield ask
            try:
                ask = script.send(reply)
            except StopIteration as end:
                finding: Finding = end.value
                return finding

    finding = run_program(program, program.digest(), heard(), asked.graph, counts.reshape(-1))
    return names, finding


@pytest.mark.parametrize(
    "policy", [ONLY, FULL, Policy({"x0": line()}, presence="secret"), Policy({"x0": threshold(3)})]
)
@pytest.mark.parametrize("shape", [(300,), (20, 30)])
def test_all_stages_cost_epsilon_and_the_first_one_its_allowance(shape: tuple[int, ...], policy: Policy) -> None:
    asked = problem(shape, policy)
    program = Gated().program(asked, EPSILON)
    assert program.epsilon == EPSILON
    assert program.allowances[0].stage == (RECORDS if len(shape) == 1 else BLOCKS)
    first = next(Gated().script(asked, program))
    graph = asked.graph
    is_free = len(shape) == 1 and policy.presence == "public"
    assert first.stage.epsilon(graph) == (0 if is_free else SHARE * EPSILON)
    if not is_free and isinstance(first.stage, MeasurementStage):
        plan = first.stage.plan
        assert MeasurementStage(plan.with_unit(plan.unit / 2)).epsilon(graph) == 2 * SHARE * EPSILON


@pytest.mark.parametrize("kind", ["histogram", "cdf"])
def test_on_one_axis_the_public_number_of_records_decides_exactly(kind: Kind) -> None:
    asked = problem((256,), FULL, kind)
    counts = np.zeros(256, dtype=np.int64)
    counts[7] = CLEAR * 256
    assert released(asked, counts)[0][:2] == [RECORDS, "gate"]
    counts[7] += 1
    assert released(asked, counts)[0] == [RECORDS, "buckets"]


@pytest.mark.parametrize("kind", ["histogram", "ranges"])
def test_on_one_axis_a_secret_number_of_records_decides_with_little_noise(kind: Kind) -> None:
    """The noise has scale 100, so that it is 4000 or more with a probability of exp(-40)."""
    asked = problem((1024,), ONLY, kind)
    few, many = np.zeros(1024, dtype=np.int64), np.zeros(1024, dtype=np.int64)
    few[5], many[5] = CLEAR * 1024 - 4000, CLEAR * 1024 + 4000
    assert released(asked, few)[0][1] == "gate"
    stages, finding = released(asked, many)
    assert stages == [RECORDS, "buckets"]
    assert np.array_equal(finding.buckets, np.arange(1024))


@pytest.mark.parametrize("kind", ["histogram2d", "ranges"])
@pytest.mark.parametrize("policy", [ONLY, FULL])
def test_on_two_axes_uneven_squares_decide(kind: Kind, policy: Policy) -> None:
    asked = problem((64, 64), policy, kind)
    empty, columns = np.zeros((64, 64), dtype=np.int64), np.zeros((64, 64), dtype=np.int64)
    columns[:, ::3] = 500
    program = Gated().program(asked, EPSILON)
    merging, keeping = (Gated().script(asked, program) for _ in range(2))
    look, _ = next(merging), next(keeping)
    assert isinstance(look.stage, L1Gate)
    assert look.buckets is not None
    low, high = (look.stage.unevenness(merge_counts(each.reshape(-1), look.buckets)) for each in (empty, columns))
    assert low < look.stage.threshold < high
    assert merging.send(np.array([MERGE])).name == "counts 1"
    last = keeping.send(np.array([KEEP]))
    assert (*last.instead_of, last.name) == tuple(allowance.stage for allowance in program.allowances[1:])
    assert last.stage.epsilon(asked.graph) == (1 - SHARE) * EPSILON
    assert isinstance(last.stage, MeasurementStage)
    with pytest.raises(StopIteration) as end:
        keeping.send(measure(CertifiedPlan(last.stage.plan, asked.graph), columns.reshape(-1)))
    finding: Finding = end.value.value
    assert np.array_equal(finding.buckets, np.arange(64 * 64))
    errors = finding.answers - asked.workload.dot(columns.reshape(-1))
    # A Laplace variable is off by 30 standard deviations with a probability of exp(-42).
    assert np.all(np.abs(errors) < 30 * np.sqrt(finding.variances))


def test_where_it_declines() -> None:
    with pytest.raises(Declined, match="one or two axes"):
        Gated().program(problem((4, 4, 4), FULL), EPSILON)
    with pytest.raises(Declined, match="no move is hidden"):
        Gated().program(problem((300,), Policy({"x0": public()})), EPSILON)
