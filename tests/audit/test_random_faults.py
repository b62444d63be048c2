"""Faults that no question of the battery shows: made-up plans, sealed counts and drills catch them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from blowfishdb.audit.report import CheckLine, judged
from blowfishdb.catalog import policy_change
from blowfishdb.engine.release import PlanRelease
from blowfishdb.ledger import ledger
from blowfishdb.mechanisms.data_aware.partition import WorstBucket
from blowfishdb.model import constraint_graph
from blowfishdb.model.graphs import CellGraph, EdgeGraph
from blowfishdb.plan import certificate, points, program
from blowfishdb.plan import loss as edge_noise
from blowfishdb.plan import loss as product_loss
from blowfishdb.plan.program import RefinementNoise
from blowfishdb.sources import statement
from selfcheck.chains import chain_lines, session_chain_lines
from selfcheck.core import choice_lines, refinement_lines, refusal_lines, threshold_lines
from selfcheck.ledger_drills import ledger_lines
from selfcheck.random_cases import (
    WAYS,
    account_lines,
    certificate_checks,
    declaration_lines,
    graph_checks,
    people_constraint_lines,
    point_lines,
)
from selfcheck.session_drills import joined_lines, session_lines
from tests.audit import faults
from tests.audit.faults import Fault
from tests.audit.rewritten import rewrite
from tests.audit.test_planted_faults import replayed

pytestmark = pytest.mark.audit
Lines = Callable[[], Iterable[CheckLine]]


def shares_too_small(patch: pytest.MonkeyPatch) -> None:
    """Joint thresholds are shared out among their axes as if theta were half of what it is."""
    usual = product_loss._shares_of_theta
    patch.setattr(product_loss, "_shares_of_theta", lambda factor: [tuple(r // 2 for r in s) for s in usual(factor)])


def many_edges_join_nothing(patch: pytest.MonkeyPatch) -> None:
    """Buckets of a graph with very many edges are taken to be joined by none."""

    def axis(graph: CellGraph, buckets: Any, count: int) -> Any:
        found = usual(graph, buckets, count)
        is_large = graph.value_edge_bound > program.LISTED_EDGES
        return EdgeGraph(count, np.empty((0, 2), dtype=np.int64)) if is_large else found

    usual = program._axis
    patch.setattr(program, "_axis", axis)


def exact_rows_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Rows may be released exactly whatever they tell."""
    patch.setattr(certificate, "check_exact_rows", lambda rows, graph: None)


def rounding_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Weights on points keep no margin for being rounded."""
    usual = points.point_loss

    def short(plan: Any, graph: Any) -> int:
        loss = usual(plan, graph)
        return max(loss - 2 ** len(plan.axes), 1) if loss and plan.rounding > 1 else loss

    patch.setattr(points, "point_loss", short)


def penalty_by_counts(patch: pytest.MonkeyPatch) -> None:
    """Every second level of the worst bucket costs more where some count is above 8."""
    usual = WorstBucket.choose

    def choose(bucket: WorstBucket, counts: Any, draws: Any) -> Any:
        return usual(bucket, counts, draws - 10**6 * int(counts.max() > 8) * (np.arange(draws.size) % 2))

    patch.setattr(WorstBucket, "choose", choose)


def edges_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Edge plans may leave out edges of the policy."""
    patch.setattr(edge_noise, "_check_edges", lambda edges, graph: None)


def past_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Policies change as if no two values had ever been further apart."""
    patch.setattr(policy_change, "attribute_stretch", lambda attribute, old, new: 1)


def past_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    """A new policy leaves the balances as they are."""
    patch.setattr(ledger, "_carry_over", lambda cursor, account, factor: None)


def keys_occur_twice(patch: pytest.MonkeyPatch) -> None:
    """Keys that a dimension table has twice multiply rows."""
    rewrite(patch, statement, "_dimension", "counted.same == 1", "counted.same >= 1")


def clip_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Blocks far below their threshold are taken to be cut by next to no chance."""

    def short(noise: RefinementNoise, graph: CellGraph) -> Fraction:
        return usual(replace(noise, clip=0), graph)

    usual = RefinementNoise.epsilon
    patch.setattr(RefinementNoise, "epsilon", short)


def one_row_taken_for_all(patch: pytest.MonkeyPatch) -> None:
    """Constraints are let through where one row of each person counts, as if nobody had another one."""
    patch.setattr(constraint_graph, "_check_unit", lambda policy, changed: None)


def certificates(way: str) -> Iterable[CheckLine]:
    """The checks of `certificate_lines(way, quick=True, seed=1)`, one line each, so that the first fault ends them."""
    return (judged(way, "every edge", faults_of, "none too low", 1) for faults_of in certificate_checks(way, 120, 1))


def chain_sessions(seed: int = 1) -> Iterable[CheckLine]:
    return itertools.islice(session_chain_lines(quick=True, seed=seed), 1)


def few_levels() -> Iterable[CheckLine]:
    """Sessions whose steps at random draw no level below two others of its chain, and none between two."""
    return chain_sessions(seed=5)


CASES: list[tuple[Fault, Lines]] = [
    (shares_too_small, threshold_lines),
    (many_edges_join_nothing, lambda: certificates("by structure")),
    (exact_rows_unchecked, lambda: certificates("edges listed")),
    (penalty_by_counts, choice_lines),
    (clip_forgotten, refinement_lines),
    (edges_unchecked, refusal_lines),
    (keys_occur_twice, joined_lines),
    (faults.finer_noise_given, session_lines),
    (faults.sharing_where_it_is_off, session_lines),
    (faults.changes_not_noticed, session_lines),
    (faults.chains_across_versions, session_lines),
    (faults.coupled_by_another_weight, chain_lines),
]
LONG: list[tuple[Fault, Lines]] = [
    (one_row_taken_for_all, people_constraint_lines),
    (past_not_carried_over, ledger_lines),
    (rounding_forgotten, lambda: point_lines(quick=True, seed=1)),
    (past_forgotten, lambda: declaration_lines(quick=True, seed=1)),
    (faults.drawn_from_the_finest, few_levels),
    (faults.star_for_a_chain, few_levels),
    (faults.combined_with_its_own_chain, chain_sessions),
    (faults.combined_by_another_weight, chain_sessions),
    (faults.combined_with_other_rows, chain_sessions),
]
PARAMETERS = [pytest.param(*case, id=case[0].__name__) for case in CASES]
PARAMETERS += [pytest.param(*case, id=case[0].__name__, marks=pytest.mark.nightly) for case in LONG]


@pytest.mark.parametrize(("fault", "lines"), PARAMETERS)
@pytest.mark.sampled(3)
def test_the_fault_is_caught(fault: Fault, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(line.is_violation for line in lines())


@pytest.mark.parametrize("settings", [4, pytest.param(200, marks=pytest.mark.nightly)])
def test_no_made_up_plan_is_certified_too_low(settings: int) -> None:
    assert not any(faults_of for way in WAYS for faults_of in certificate_checks(way, settings, seed=2))


@pytest.mark.nightly
@pytest.mark.parametrize("lines", [account_lines, point_lines, declaration_lines])
def test_nothing_else_made_up_is_priced_too_low(lines: Callable[..., Iterable[CheckLine]]) -> None:
    assert [line for line in lines(quick=True, seed=2) if line.verdict != "clean"] == []


@pytest.mark.parametrize("settings", [60, pytest.param(240, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("way", WAYS)
def test_no_made_up_graph_is_projected_too_small(way: str, settings: int) -> None:
    checked = list(graph_checks(way, settings, seed=2))
    assert checked
    assert not any(checked)


@pytest.mark.nightly
def test_drills_find_nothing_without_a_fault() -> None:
    found = [
        *choice_lines(),
        *refinement_lines(),
        *threshold_lines(),
        *refusal_lines(),
        *people_constraint_lines(),
        *ledger_lines(),
        *session_lines(),
        *joined_lines(),
        *chain_lines(),
        *chain_sessions(),
    ]
    assert [line for line in found if line.verdict != "clean"] == []


def test_whoever_looks_at_sealed_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remark at just one number of small cells, which hardly any table would show."""

    usual = PlanRelease.answer

    def finish(release: PlanRelease, counts: Any) -> Any:
        answer = usual(release, counts)
        return answer if np.count_nonzero(counts < 5) != 1_000_003 else None

    name = "identity, threshold, histogram"
    assert not any(line.is_violation for line in replayed(name))
    monkeypatch.setattr(PlanRelease, "answer", finish)
    assert "public outputs" in {line.check for line in replayed(name) if line.is_violation}
