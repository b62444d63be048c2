"""The one place where counts meet noise: rows of a plan, stages of a program, weights on points, quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import DigestMismatch, InvalidInput
from blowfishdb.mechanisms.data_aware import Finding, Script
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Ints, check_sum
from blowfishdb.noise.certified import Noise, noise_between
from blowfishdb.noise.certified import certified as certified_draws
from blowfishdb.noise.coupling import draw_between, draw_coarser
from blowfishdb.noise.quantile_sampler import SpreadRecords, sample_quantiles
from blowfishdb.noise.sampler import sample, sample_geometric, sample_words
from blowfishdb.plan.certificate import Certificate, CertifiedPlan
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.points import PointPlan
from blowfishdb.plan.program import (
    POSITIONS,
    GroupSelection,
    Measured,
    MeasurementStage,
    Program,
    ProgramRun,
    QuantilePlan,
    Reply,
    StageRequest,
    certify_quantiles,
    certify_selection,
    merge_counts,
    merge_graph,
    stage_noise,
)


def measure(certified: CertifiedPlan, counts: Ints) -> Measured:
    """Draws the noise of a whole plan at once; refuses a plan that is no longer the one that was certified."""
    plan = _as_certified(certified)
    cells = checked_counts(counts, plan.cells)
    noise = _drawn(plan.noise, certified.certificate.epsilon)
    nothing = np.empty(0, dtype=np.int64)
    if isinstance(plan, EdgePlan):
        largest = int(np.abs(noise).max(initial=0)) * int(abs(plan.decoder).sum(axis=1).max(initial=0))
        check_sum("noise on one answer", largest)
        return Measured(plan.workload.dot(cells) + plan.decoder @ noise, nothing)
    rows, exact = _rows(plan, cells)
    return Measured(rows + noise, exact)


@dataclass(frozen=True, eq=False)
class PublishedLevel:
    """The published values of a plan's rows at another noise level, given by its unit."""

    unit: Fraction
    noisy: Ints


def measure_given(
    certified: CertifiedPlan, counts: Ints | None, finer: PublishedLevel | None, coarser: PublishedLevel | None
) -> Measured:
    """The rows of a plan, drawn given what is published of them at the next finer and the next coarser level.

    Counts are read where no finer level is given, and only there. A finer level of the same unit is repeated.
    """
    plan = _as_certified(certified)
    if isinstance(plan, EdgePlan):
        raise InvalidInput("noise on edges is not drawn at several levels")
    nothing, weights = np.empty(0, dtype=np.int64), plan.weights
    if finer is not None and finer.unit == plan.unit:
        return Measured(finer.noisy, nothing)
    loss = certified.certificate.epsilon
    if finer is not None:
        with certified_draws(
            noise_between(finer.unit, plan.unit, None if coarser is None else coarser.unit, weights), loss
        ):
            if coarser is None:
                return Measured(draw_coarser(finer.noisy, finer.unit, plan.unit, weights), nothing)
            values = finer.noisy, finer.unit, coarser.noisy, coarser.unit
            return Measured(draw_between(*values, plan.unit, weights), nothing)
    if counts is None:
        raise InvalidInput("without a finer level the counts are needed")
    if coarser is None:
        return measure(certified, counts)
    rows, exact = _rows(plan, checked_counts(counts, plan.cells))
    with certified_draws(noise_between(None, plan.unit, coarser.unit, weights), loss):
        return Measured(draw_between(rows, None, coarser.noisy, coarser.unit, plan.unit, weights), exact)


def _as_certified(certified: CertifiedPlan) -> Plan | EdgePlan:
    if certified.certificate.plan_digest != certified.plan.digest():
        raise DigestMismatch("the certificate was made for another plan: nothing was measured")
    return certified.plan


def _rows(plan: Plan, cells: Ints) -> tuple[Ints, Ints]:
    """The true values of the rows to be noised, and of those that are released exactly."""
    nothing = np.empty(0, dtype=np.int64)
    exact = plan.exact.dot(cells) if plan.exact is not None else nothing
    return np.concatenate([nothing, *(part.rows.dot(cells) for part in plan.parts)]), exact


def measure_points(plan: PointPlan, charged: Certificate, counts: Ints) -> tuple[Ints, Ints]:
    """The weights on the points with their noise, and the exact counts of the blocks; refuses a plan not charged."""
    if plan.digest() != charged.plan_digest:
        raise DigestMismatch("the certificate was made for another plan: nothing was measured")
    sums, blocks = counts[: plan.grid_points], counts[plan.grid_points :]
    return sums if plan.unit is None else sums + _drawn(plan.noise, charged.epsilon), blocks


def choose_quantiles(plan: QuantilePlan, graph: CellGraph, charged: Certificate, counts: Ints) -> Ints:
    """The cell of each quantile, in order, a row for each group; refuses a plan that is not the one charged."""
    if certify_quantiles(plan, graph) != charged:
        raise DigestMismatch("the certificate was made for another plan or policy: nothing was chosen")
    rows = plan.by_group(checked_counts(counts, graph.cells), graph)
    with certified_draws(plan.noise, charged.epsilon):
        noise = _sampled(plan.count_noise) if plan.count_noise else np.zeros(plan.groups, dtype=np.int64)
        chosen = []
        for row, more in zip(rows, noise.tolist(), strict=True):
            records = SpreadRecords(row, POSITIONS)
            chosen.append(sample_quantiles(records, plan.gaps(records.total + more), plan.unit) // POSITIONS)
    return np.stack(chosen)


def choose_groups(plan: GroupSelection, graph: CellGraph, charged: Certificate, counts: Ints) -> Ints:
    """The places of the chosen groups; refuses a plan that is not the one that was charged."""
    if certify_selection(plan, graph) != charged:
        raise DigestMismatch("the certificate was made for another plan or policy: nothing was chosen")
    return plan.choose(checked_counts(counts, graph.cells), _drawn(plan.noise, charged.epsilon))


def checked_counts(counts: Ints, cells: int) -> Ints:
    """Whole counts for each cell; the message names sizes, never values."""
    if counts.shape != (cells,) or counts.dtype != np.int64:
        raise InvalidInput(f"counts are {cells} 64-bit whole numbers, one per cell, not {counts.shape} {counts.dtype}")
    return counts


def run_program(program: Program, receipt_digest: str, script: Script, graph: CellGraph, counts: Ints) -> Finding:
    """What the script found; AllowanceExceeded stops it before the stage that would spend too much.

    The receipt must have been written for this program. Counts and noise stay here: the script gets what each stage
    publishes, and nothing else.
    """
    run = ProgramRun(program, receipt_digest)
    cells = checked_counts(counts, graph.cells)
    try:
        ask = next(script)
        while True:
            buckets = ask.buckets
            merged = graph if buckets is None else merge_graph(graph, buckets)
            before, run = run.spent, run.admit(ask.name, ask.stage, merged, ask.instead_of)
            inside = cells if buckets is None else merge_counts(cells, buckets)
            ask = script.send(_reply(ask, merged, inside, run.spent - before))
    except StopIteration as end:
        if not isinstance(end.value, Finding):
            raise TypeError("a script ends with a Finding") from None
        return end.value


def _reply(ask: StageRequest, graph: CellGraph, counts: Ints, loss: Fraction) -> Reply:
    stage = ask.stage
    if isinstance(stage, MeasurementStage):
        return measure(CertifiedPlan(stage.plan, graph), counts)
    return stage.choose(counts, _drawn(stage_noise(stage.noise), loss))


def _drawn(noise: tuple[Noise, ...], loss: Fraction) -> Ints:
    """The certified noise, one variable after the other; its loss is what the certificate of it says."""
    with certified_draws(noise, loss):
        return _sampled(noise)


def _sampled(noise: tuple[Noise, ...]) -> Ints:
    if len(noise) == 1:
        return _sample(noise[0])
    return np.concatenate([np.empty(0, dtype=np.int64), *map(_sample, noise)])


def _sample(noise: Noise) -> Ints:
    if isinstance(noise.weights, int) and noise.law == "words":
        return sample_words(noise.size, noise.weights)
    draw = sample if noise.law == "laplace" else sample_geometric
    return draw(noise.unit, noise.weights, noise.size)
