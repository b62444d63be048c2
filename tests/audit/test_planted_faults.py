"""Every planted fault is caught with the settings of `--quick`, and the same settings find nothing without it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.quote import forget
from blowfishdb.audit import noise
from blowfishdb.audit.cases import Case, battery
from blowfishdb.audit.exact import largest_ratio, people_lines, quantile_lines, selection_lines
from blowfishdb.audit.noise import digit_violations, key_violations
from blowfishdb.audit.replay import Effort, drills, replay
from blowfishdb.audit.report import CheckLine
from blowfishdb.audit.selections import selection_checks
from blowfishdb.model.graphs import CellGraph, EdgeGraph
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.program import GroupSelection
from selfcheck.core import cost_lines
from selfcheck.digests import digest_lines, process_lines
from selfcheck.ledger_drills import ledger_lines
from tests.audit import faults
from tests.audit.faults import Fault
from tests.errata.exact import as_plan, within
from tests.errata.test_ordered_hierarchical import printed_split, sound_split

pytestmark = pytest.mark.audit
REPLAYED: list[tuple[Fault, str, str]] = [
    (faults.loss_a_tenth_short, "identity, full, histogram", "every edge"),
    (faults.clock_stands_still, "ordered, clocks change in spring", "every edge"),
    (faults.clock_stands_still, "ordered, clocks change in autumn", "every edge"),
    (faults.window_one_step_short, "ordered, threshold, ranges", "every edge"),
    (faults.outside_cell_forgotten, "ordered, filter on another attribute", "every edge"),
    (faults.attribute_for_record, "direct, two marginals by record", "every edge"),
    (faults.noise_halved, "identity, full, histogram", "public outputs"),
    (faults.secret_total_told, "histogram, presence secret", "public outputs"),
    (faults.secret_parts_told, "synopsis of a filter", "public outputs"),
    (faults.charge_a_hundredth_short, "identity, full, histogram", "charge"),
    (faults.read_before_charge, "identity, full, histogram", "charge"),
    (faults.read_to_quote, "identity, full, histogram", "charge"),
    (faults.small_counts_left_out, "identity, threshold, histogram", "public outputs"),
    (faults.emptiness_told, "hierarchy, filter on another attribute", "public outputs"),
    (faults.counts_logged, "identity, full, histogram", "public outputs"),
    (faults.ties_counted, "ordered, 3 rows a person", "counting"),
    (faults.leaving_forgotten_in_buckets, "dawa-transform, filter", "every edge"),
    (faults.universal_forgotten_on_long_axes, "ordered by structure, NULL and outside hidden", "every edge"),
    (faults.nobody_absent_in_exchanges, "overlapping counts, presence secret", "every edge"),
]


TRIES = 60
"""Replays with noise of their own until one shows the fault: nearly always the first does."""


def made(name: str) -> Case:
    """A case of the battery, made anew: policies keep their graphs, and a fault may be in how those are made."""
    return next(case for case in battery(quick=True) if case.name == name)


def replayed(name: str, seed: int = 1) -> list[CheckLine]:
    return replay(made(name), Effort.of(quick=True), seed)


@pytest.mark.parametrize(("fault", "name", "check"), REPLAYED, ids=[fault.__name__ for fault, _, _ in REPLAYED])
@pytest.mark.sampled(3)
def test_replay_catches(fault: Fault, name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line for line in replayed(name) if line.verdict != "clean"] == []
    fault(monkeypatch)
    assert any(line.is_violation and line.check == check for seed in range(TRIES) for line in replayed(name, seed))


def test_the_sampler_battery_catches_a_scale_a_tenth_short(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Fraction(40)
    assert not noise.law_line("sample", unit, 1, 20_000, two_sided=True).is_violation
    faults.sampler_a_tenth_short(monkeypatch)
    assert noise.law_line("sample", unit, 1, 20_000, two_sided=True).is_violation


def test_chosen_bits_catch_draws_that_are_clamped(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.draws_clamped(monkeypatch)
    assert digit_violations()


def test_keys_that_can_be_guessed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(key_violations("sample"))
    faults.keys_of_four_bytes(monkeypatch)
    assert list(key_violations("sample"))


def test_digests_that_leave_something_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(line.is_violation for line in digest_lines())
    faults.graphs_alike(monkeypatch)
    assert {line.subject for line in digest_lines() if line.is_violation} == {"digests of graphs"}


@pytest.mark.nightly
def test_nothing_is_taken_for_another_in_one_process() -> None:
    assert [line.verdict for line in process_lines()] == ["clean"] * 3


@pytest.mark.parametrize(
    "fault", [pytest.param(faults.joint_thresholds_alike, marks=pytest.mark.nightly), faults.rankings_by_a_weak_hash]
)
def test_plans_taken_for_others_are_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    caught = process_lines()
    monkeypatch.undo()
    forget()
    assert [line.verdict for line in caught] == ["violation"] * 3
    assert caught[0].found.startswith("NULL of x hidden, marginals of x and y: a hidden change shows exactly")


@pytest.mark.nightly
def test_ledgers_that_lose_something_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(line.is_violation for line in ledger_lines())
    faults.balances_of_this_connection(monkeypatch)
    assert any(line.is_violation for line in ledger_lines())


@pytest.mark.nightly
def test_costs_catch_a_sensitivity_of_half(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(line.is_violation for line in cost_lines())
    faults.matching_sensitivity_halved(monkeypatch)
    caught = [line.subject for line in cost_lines() if line.is_violation]
    assert caught == ["costs of a matching"]


def caught_among(names: Sequence[str]) -> list[str]:
    """Those of the named checks of selections that find something."""
    checks = selection_checks(quick=True)
    return [name for name in names if checks[name]().is_violation]


def test_exact_laws_catch_dawa_at_full_budget_on_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.selection_at_full_budget(monkeypatch)
    kinds = ("gate of 16 cells", "matching of 2 cells", "refinement of 16 cells")
    assert caught_among([f"{kind}, moves" for kind in kinds]) == [f"{kind}, moves" for kind in kinds]
    assert caught_among([f"{kind}, vanishing rows" for kind in kinds]) == []


def test_exact_losses_catch_an_own_sensitivity_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.own_sensitivity_forgotten(monkeypatch)
    bucket = "worst bucket of 16 cells, vanishing rows"
    assert caught_among([bucket, "gate of 16 cells, moves"]) == [bucket]


def test_replay_catches_dawa_at_full_budget_on_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.selection_at_full_budget(monkeypatch)
    case = made("dawa, threshold")
    assert any(line.is_violation for seed in range(TRIES) for line in replay(case, Effort(6), seed))


def test_drills_catch_stages_that_ignore_their_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    case = made("dawa, threshold")
    assert not any(line.is_violation for line in drills(case, 1))
    faults.allowances_ignored(monkeypatch)
    assert [line.check for line in drills(case, 1) if line.is_violation] == ["a stage that wants too much"]


def one_record_tables(cells: int) -> list[tuple[int, ...]]:
    return [tuple(int(i) for i in np.eye(cells, dtype=int)[cell]) for cell in range(cells)]


def ratio(plan: Plan, pairs: Sequence[tuple[int, int]]) -> Fraction:
    graph = CellGraph((EdgeGraph(plan.cells, np.array(pairs)),), "record", np.array(False), "public")
    return largest_ratio(CertifiedPlan(plan, graph), pairs, one_record_tables(plan.cells))


def test_exact_ratios_catch_the_papers_ordered_hierarchical_split() -> None:
    """Claimed to cost 1; a record that moves from the first block to the second shows more."""
    share, pairs = Fraction(1, 4), within(12, 4)
    assert ratio(as_plan(sound_split(3, 4, 2, share)), pairs) == 1
    assert ratio(as_plan(printed_split(3, 4, 2, share)), pairs) > 1


def test_exact_ratios_catch_the_papers_kmeans_calibration() -> None:
    """Sums of two clusters with noise for 2 theta: a record that changes cluster takes its whole value along."""
    values = list(range(11))
    rows = [[v if v < 5 else 0 for v in values], [v if v >= 5 else 0 for v in values]]
    pairs = within(11, 1)
    assert ratio(as_plan([(rows[0], Fraction(2)), (rows[1], Fraction(2))]), pairs) == Fraction(9, 2)
    assert ratio(as_plan([(rows[0], Fraction(9)), (rows[1], Fraction(9))]), pairs) == 1


@pytest.mark.nightly
def test_every_output_of_a_choice_of_quantiles_catches_one_sided_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line for line in quantile_lines() if line.verdict != "clean"] == []
    faults.one_sided_ranks(monkeypatch)
    caught = [line.subject for line in quantile_lines() if line.is_violation]
    assert {"full", "presence only", "presence secret"} <= {subject.rpartition(", ")[2] for subject in caught}


@pytest.mark.nightly
def test_every_list_of_names_catches_moves_that_are_priced_as_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line for line in selection_lines() if line.verdict != "clean"] == []
    priced = GroupSelection.loss
    monkeypatch.setattr(GroupSelection, "loss", lambda plan, graph: priced(plan, graph) / 2)
    caught = {line.subject.rpartition(", ")[2] for line in selection_lines() if line.is_violation}
    assert {"full", "line", "presence only", "presence secret"} <= caught


@pytest.mark.nightly
def test_every_change_of_one_person_catches_persons_that_are_priced_as_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line for line in people_lines() if line.verdict != "clean"] == []
    faults.persons_as_rows(monkeypatch)
    caught = {line.subject.partition(", ")[2] for line in people_lines() if line.is_violation}
    assert {"full", "line", "presence only", "presence secret, 3 rows"} <= caught
