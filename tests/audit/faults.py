"""Planted faults: each makes the package claim more privacy than it gives, in one small place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blowfishdb.accuracy import ranking
from blowfishdb.accuracy.quote import forget
from blowfishdb.audit import cases
from blowfishdb.audit.scratch import REAL
from blowfishdb.engine import charge, combination, infer, measure, release, sharing, synopsis_release
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.ledger.amounts import NOTHING, Balance
from blowfishdb.ledger.records import LedgerCursor
from blowfishdb.mechanisms.data_aware import buckets as merged_strategy
from blowfishdb.mechanisms.data_aware import dawa, regions
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingPartition
from blowfishdb.model import aggregates, constraint_graph, policy
from blowfishdb.model.graphs import CellGraph, GridGraph, WindowGraph
from blowfishdb.noise import coupling, sampler
from blowfishdb.plan import certificate, loss
from blowfishdb.plan import program as merge
from blowfishdb.plan.loss import WorstEdge
from blowfishdb.plan.plan import _factor_1
from blowfishdb.plan.program import Program, ProgramRun, QuantilePlan, RefinementNoise, SelectionNoise
from tests.audit.rewritten import rewrite

Fault = Callable[[pytest.MonkeyPatch], None]


def loss_a_tenth_short(patch: pytest.MonkeyPatch) -> None:
    """Plans get nine tenths of the noise that they need."""
    usual = certificate.worst_loss

    def short(plan: Any, graph: CellGraph) -> WorstEdge:
        worst = usual(plan, graph)
        return replace(worst, loss=Fraction(9 * worst.loss, 10))  # type: ignore[arg-type]

    patch.setattr(certificate, "worst_loss", short)


def sampler_a_tenth_short(patch: pytest.MonkeyPatch) -> None:
    """The sampler draws noise of nine tenths of the scale."""

    def short(unit: Fraction, weights: Any, size: int | None = None) -> Any:
        return sampler.sample(unit * Fraction(9, 10), weights, size)

    patch.setitem(REAL, "sample", short)


def window_one_step_short(patch: pytest.MonkeyPatch) -> None:
    """Thresholds join values one step less far apart than declared."""
    usual = policy.StepWindow
    patch.setattr(policy, "StepWindow", lambda size, reach: usual(size, max(reach - 1, 1)))


def clock_stands_still(patch: pytest.MonkeyPatch) -> None:
    """Thresholds on timestamps count what the clock shows, not the time that passes."""
    patch.setattr(policy, "ClockWindow", lambda size, step, *rest: policy.StepWindow(size, step))


def outside_cell_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A record that leaves the filter is taken to change nothing."""
    patch.setattr(CellGraph, "to_zero", property(lambda graph: np.zeros(graph.cells, dtype=np.bool_)))


def attribute_for_record(patch: pytest.MonkeyPatch) -> None:
    """Whole records are protected as if only one attribute could change."""
    patch.setattr(CellGraph, "_strong", CellGraph._cartesian)


def selection_at_full_budget(patch: pytest.MonkeyPatch) -> None:
    """Selections are priced as if a record could only appear or vanish, as DAWA is printed."""

    def halved(usual: Callable[[Any, CellGraph], Fraction]) -> Callable[[Any, CellGraph], Fraction]:
        return lambda noise, graph: usual(noise, graph) / (2 if graph.has_value_edges else 1)

    patch.setattr(SelectionNoise, "epsilon", halved(SelectionNoise.epsilon))
    patch.setattr(RefinementNoise, "epsilon", halved(RefinementNoise.epsilon))


def own_sensitivity_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Items of a selection pay for how far the others move and not for how far they move themselves."""
    usual = SelectionNoise.epsilon
    patch.setattr(
        SelectionNoise,
        "epsilon",
        lambda noise, graph: usual(noise, graph) * Fraction(1, 2) if noise.sensitivities.min() else usual(noise, graph),
    )


def allowances_ignored(patch: pytest.MonkeyPatch) -> None:
    """Stages of a program are let through whatever they cost."""
    usual = ProgramRun.admit

    def admit(run: ProgramRun, name: str, stage: Any, graph: CellGraph, instead_of: tuple[str, ...] = ()) -> ProgramRun:
        rich = Program(
            run.program.mechanism, tuple(replace(each, epsilon=Fraction(99)) for each in run.program.allowances)
        )
        after = usual(ProgramRun(rich, rich.digest(), run.admitted), name, stage, graph, instead_of)
        return replace(run, admitted=after.admitted)

    patch.setattr(ProgramRun, "admit", admit)


def noise_halved(patch: pytest.MonkeyPatch) -> None:
    """The engine halves what the sampler drew."""

    def measured(certified: Any, counts: Any) -> Any:
        found = measure.measure(certified, counts)
        true = np.concatenate([part.rows.dot(counts) for part in certified.plan.parts])
        return replace(found, noisy=true + (found.noisy - true) // 2)

    patch.setattr(release, "measure", measured)


def secret_total_told(patch: pytest.MonkeyPatch) -> None:
    """Answers are made to add up to the true number of records, secret or not."""
    patch.setattr(release, "public_total", lambda compiled, counts: float(counts.sum()))


def secret_parts_told(patch: pytest.MonkeyPatch) -> None:
    """Synopses tell the totals of parts that records may leave for what does not count."""
    usual = synopsis_release.public_parts

    def told(compiled: Any, counts: Any) -> Any:
        graph = SimpleNamespace(
            components=lambda: np.maximum(compiled.problem.graph.components(), 0), constraint_moves=None
        )
        return usual(SimpleNamespace(problem=SimpleNamespace(graph=graph)), counts)  # type: ignore[arg-type]

    patch.setattr(synopsis_release, "public_parts", told)


def finer_noise_given(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks for less accuracy than somebody has is given the noise of that one."""
    usual = sharing.measure_given

    def given(certified: Any, counts: Any, finer: Any, coarser: Any) -> Any:
        return usual(certified, counts, finer and replace(finer, unit=certified.plan.unit), coarser)

    patch.setattr(sharing, "measure_given", given)


def coupled_by_another_weight(patch: pytest.MonkeyPatch) -> None:
    """A value stays as it is at the next level a tenth less often than it must."""
    usual = coupling.stay
    patch.setattr(coupling, "stay", lambda step, of: usual(step, of) * 0.9)


def changes_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """Rows that are read again are taken for the same whatever happened to them."""
    for mark in ("_write_mark", "_content_mark"):
        patch.setattr(sharing, mark, lambda ledger, handle: "the same")


def star_for_a_chain(patch: pytest.MonkeyPatch) -> None:
    """Levels are drawn from the finer one alone, as if nobody had a coarser one."""
    patch.setattr(release.Sharing, "coarser", None)


def drawn_from_the_finest(patch: pytest.MonkeyPatch) -> None:
    """Levels are drawn from the finest one, past those in between."""
    usual = release.Sharing.finer._compute

    def finest(self: Any) -> Any:
        return None if usual(self) is None else max(self.published, key=release.by_level)

    patch.setattr(release.Sharing, "finer", property(finest))


def combined_by_another_weight(patch: pytest.MonkeyPatch) -> None:
    """The newest of several combined measurements counts for a hundredth too much."""
    usual = combination.least_squares

    def heavier(answers: Any, rows: Any, exact: Any, variances: Any) -> Any:
        coefficients = usual(answers, rows, exact, variances)
        return None if coefficients is None else (coefficients[0] * np.linspace(1.0, 1.01, len(rows)), coefficients[1])

    patch.setattr(combination, "least_squares", heavier)


def combined_with_its_own_chain(patch: pytest.MonkeyPatch) -> None:
    """A measurement that is made more accurate is combined with its old values, as if their noise were independent."""
    usual = sharing._Combining._useful
    patch.setattr(sharing._Combining, "_useful", lambda self, last, beside, most: usual(self, last, self.earlier, most))


def combined_with_other_rows(patch: pytest.MonkeyPatch) -> None:
    """Earlier measurements are taken for those of the records that they left out."""
    usual = sharing._Combining._checked

    def taken_for_others(self: Any, query: Any, past: Any) -> Any:
        one = usual(self, query, past)
        if one is None or query.where is None:
            return one
        others = self.part(replace(query, where=~query.where), one.part.candidate.strategy.mechanism, one.part.level)
        is_as_large = others is not None and others.candidate.weights.size == one.part.candidate.weights.size
        return replace(one, part=others) if is_as_large else one

    patch.setattr(sharing._Combining, "_checked", taken_for_others)


def chains_across_versions(patch: pytest.MonkeyPatch) -> None:
    """Answers of earlier versions and snapshots are built on."""
    patch.setattr(DatasetHandle, "versions", lambda self: {})
    patch.setattr(LedgerCursor, "end_chains", lambda self, account: None)


def sharing_where_it_is_off(patch: pytest.MonkeyPatch) -> None:
    """Noise is shared between analysts although the curator keeps releases apart."""
    patch.setattr(sharing, "OFF", "never")


def charge_a_hundredth_short(patch: pytest.MonkeyPatch) -> None:
    """Accounts are debited 99 % of what a release costs."""

    class Short(Balance):
        def plus(self, amount: Fraction) -> Balance:
            return super().plus(amount * Fraction(99, 100))

    usual = LedgerCursor.balance

    def short(cursor: Any, account: str, analyst: str | None = None) -> Balance:
        balance = usual(cursor, account, analyst)
        return balance if analyst else Short(balance.units, balance.grid)

    patch.setattr(LedgerCursor, "balance", short)


def read_before_charge(patch: pytest.MonkeyPatch) -> None:
    """Rows are counted before the charge is on record."""
    usual = charge._prepared_count

    def eager(handle: Any, ready: Any) -> Any:
        counting = usual(handle, ready)
        counting.run(None)
        return counting

    patch.setattr(charge, "_prepared_count", eager)


def draws_clamped(patch: pytest.MonkeyPatch) -> None:
    """Noise beyond twelve scales, which hardly ever comes, is cut off."""

    def cut(unit: Fraction, weights: Any, size: int | None = None) -> Any:
        most = int(12 * unit)
        return np.clip(sampler.sample(unit, weights, size), -most, most)

    patch.setitem(REAL, "sample", cut)


def keys_of_four_bytes(patch: pytest.MonkeyPatch) -> None:
    """The key of the noise can be guessed."""
    patch.setattr(sampler, "os", SimpleNamespace(urandom=lambda size: os.urandom(4) * (size // 4)))


def small_counts_left_out(patch: pytest.MonkeyPatch) -> None:
    """Cells with fewer than five records are published as 0."""
    usual = infer.consistent_answers

    def measured(certified: Any, counts: Any) -> Any:
        found = measure.measure(certified, counts)
        patch.setattr(infer, "consistent_answers", partial(_left_out, usual, counts))
        return found

    patch.setattr(release, "measure", measured)


def _left_out(usual: Any, counts: Any, compiled: Any, raw: Any, widths: Any, total: Any) -> Any:
    raw[counts < 5] = 0.0
    return usual(compiled, raw, widths, total)


def emptiness_told(patch: pytest.MonkeyPatch) -> None:
    """Nothing is answered where nothing is counted."""

    def measured(certified: Any, counts: Any) -> Any:
        if not counts.any():
            raise ValueError("nothing to count")
        return measure.measure(certified, counts)

    patch.setattr(release, "measure", measured)


def counts_logged(patch: pytest.MonkeyPatch) -> None:
    """The engine says what it counted to whoever listens."""

    def measured(certified: Any, counts: Any) -> Any:
        logging.getLogger("blowfishdb.engine").debug("counted %s", counts.max())
        return measure.measure(certified, counts)

    patch.setattr(release, "measure", measured)


def read_to_quote(patch: pytest.MonkeyPatch) -> None:
    """The data is looked at before there is a price."""
    usual = charge.prepare

    def prepare(handle: Any, asked: Any) -> Any:
        ready = usual(handle, asked)
        ready.counting(handle).run(None)
        return ready

    patch.setattr(cases, "prepare", prepare)


def ties_counted(patch: pytest.MonkeyPatch) -> None:
    """Of rows whose keys tie, as many count as still fit, whichever the engine meets first."""
    import ibis

    usual = ibis.window
    patch.setattr(ibis, "window", lambda range=None, **given: usual(rows=range, **given))


def leaving_forgotten_in_buckets(patch: pytest.MonkeyPatch) -> None:
    """Once cells are merged, records are taken to stay in the filter."""

    def merged(graph: CellGraph, buckets: Any) -> CellGraph:
        return merge.merge_graph(replace(graph, outside=np.zeros(graph.cells, dtype=np.bool_)), buckets)

    for user in (regions, dawa, merged_strategy, measure):
        patch.setattr(user, "merge_graph", merged)


def graphs_alike(patch: pytest.MonkeyPatch) -> None:
    """What records leave is no part of a graph's digest."""
    usual = CellGraph.digest
    patch.setattr(CellGraph, "digest", lambda graph: usual(replace(graph, outside=np.array(False))))


def joint_thresholds_alike(patch: pytest.MonkeyPatch) -> None:
    """Universal vertices of all axes are joined without lengths, and rankings are told apart by the digest alone."""
    patch.setattr(GridGraph, "fingerprint", _factor_1)

    def alike(one: Any, two: Any) -> bool:
        own, other = ((each.problem.digest(), each.mechanisms, each.guarantee) for each in (one, two))
        return bool(own == other)

    patch.setattr(ranking.RankingKey, "__eq__", alike)
    forget()


def rankings_by_a_weak_hash(patch: pytest.MonkeyPatch) -> None:
    """Rankings are found by what is asked, whatever the policy."""

    def key(asked: Any) -> tuple[object, ...]:
        return asked.problem.graph.shape, asked.problem.workload.fingerprint()

    patch.setattr(ranking.RankingKey, "__eq__", lambda one, two: key(one) == key(two))
    patch.setattr(ranking.RankingKey, "__hash__", lambda one: hash(key(one)))
    forget()


def balances_of_this_connection(patch: pytest.MonkeyPatch) -> None:
    """Accounts are not read again from the ledger before they are debited."""
    known: dict[str, Balance] = {}
    usual = LedgerCursor.balance

    def remembered(cursor: Any, account: str, analyst: str | None = None) -> Balance:
        if analyst:
            return usual(cursor, account, analyst)
        return known.setdefault(f"{id(cursor)} {account}", NOTHING)

    patch.setattr(LedgerCursor, "balance", remembered)


def universal_forgotten_on_long_axes(patch: pytest.MonkeyPatch) -> None:
    """On long axes NULL counts as no neighbour of anything."""
    usual = loss._worst_window_edge

    def without(intervals: Any, weights: Any, graph: WindowGraph) -> WorstEdge:
        return usual(intervals, weights, replace(graph, universal=np.empty(0, dtype=np.int64)))

    patch.setattr(loss, "_worst_window_edge", without)


def matching_sensitivity_halved(patch: pytest.MonkeyPatch) -> None:
    """One record is taken to move the cost of a pair of buckets half as far as it does."""
    usual = MatchingPartition._pair_sensitivity
    patch.setattr(MatchingPartition, "_pair_sensitivity", lambda matching, pairs: usual(matching, pairs) // 2)


def one_sided_ranks(patch: pytest.MonkeyPatch) -> None:
    """A choice of quantiles is charged as if a record changed penalties in one direction alone."""
    usual = QuantilePlan.loss
    patch.setattr(QuantilePlan, "loss", lambda plan, graph: usual(plan, graph) / 2)


def persons_as_rows(patch: pytest.MonkeyPatch) -> None:
    """Counts of persons are priced as if each had one row."""
    usual = aggregates._people_cells

    def one_row(*given: Any) -> Any:
        cells = usual(*given)
        return replace(cells, graph=replace(cells.graph, rows_per_person=1))

    patch.setattr(aggregates, "_people_cells", one_row)


def nobody_absent_in_exchanges(patch: pytest.MonkeyPatch) -> None:
    """Under overlapping constraints records change their values together, and none comes or goes."""
    rewrite(patch, constraint_graph, "_exchanges", "{(0,) * vectors.shape[1]: {ZERO}} if absence else {}", "{}")
