"""Every access to the data as it happens: recorded on one table, repeated on its neighbour."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, milp

from blowfishdb.audit.choices import RankChoice, same_list
from blowfishdb.audit.definitions import Adjacency, CellStep, Change, NoisyRows, Record
from blowfishdb.audit.scratch import AnyFunction, Tape, TapedDraw, opened, replaced, sealed, taped
from blowfishdb.audit.selections import Selected, WrongSign, selection_loss, window_graph
from blowfishdb.engine import answer, release, synopsis_release
from blowfishdb.engine import measure as run_program
from blowfishdb.engine.measure import measure
from blowfishdb.engine.release import PlanRelease, Release
from blowfishdb.engine.synopsis_release import SynopsisRelease
from blowfishdb.model.cells import Cells
from blowfishdb.model.numbers import Ints
from blowfishdb.noise.certified import watched
from blowfishdb.noise.quantile_sampler import sample_quantiles
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.program import GroupSelection, Measured, MeasurementStage, QuantilePlan, merge_counts


def smallest_shift(plan: EdgePlan, moved: Ints) -> Ints | None:
    """Whole numbers h with decoder @ h == moved, at the least weighted sum of |h|; None when there are none.

    What an edge plan publishes is workload x + decoder noise, so noise shifted by -h on the neighbour gives the same.
    """
    decoder = plan.decoder.toarray().astype(np.int64)
    weights = plan.weights.astype(np.float64)
    both = np.hstack([decoder, -decoder]).astype(np.float64)
    solved = milp(
        np.concatenate([weights, weights]),
        constraints=LinearConstraint(both, moved.astype(np.float64), moved.astype(np.float64)),
        integrality=np.ones(2 * weights.size),
    )
    if solved.x is None:
        return None
    whole = np.round(solved.x).astype(np.int64)
    shift = whole[: weights.size] - whole[weights.size :]
    return shift if np.array_equal(decoder @ shift, moved) else None


Choosing = Callable[[Ints], Ints]
"""Chooses from counts."""
Measuring = Callable[[], tuple[Ints, Ints]]
"""Measures once more and gives the noisy and the exact rows."""
LARGE = 2**50 + 1
"""Added to noise: any rounding to a shorter type changes it."""
WHEN = "2000-01-01T00:00:00+00:00"
"""All releases of an audit happen at this time, so that what they publish can be compared."""


@dataclass(frozen=True, eq=False)
class DataAccess:
    """One access: what it is (public), the noise it drew, and what became public."""

    name: str
    identity: str
    draws: tuple[TapedDraw, ...]
    noisy: Ints
    exact: Ints
    selected: Selected | None = None
    counts: Ints | None = None
    """The counts that a choice was made from."""
    ranked: tuple[RankChoice, ...] = ()


@dataclass(frozen=True, eq=False)
class Looked:
    """A stage of a program that ran: the plan that it measured, None for a selection, and in which buckets."""

    name: str
    plan: Plan | EdgePlan | None
    buckets: Ints | None

    def bucket(self, cell: int) -> int:
        """The row of a cell among those of the plan; -1, the last one, for what does not count."""
        return cell if cell < 0 or self.buckets is None else int(self.buckets[cell])


@dataclass
class Replayed:
    """The loss of an access on the neighbour, and its violations."""

    name: str
    loss: Fraction | float
    violations: list[str] = field(default_factory=list)


@dataclass
class Recorder:
    """Records the accesses of one release, or repeats those of another one on a neighbouring table."""

    tape: Tape
    accesses: list[DataAccess] = field(default_factory=list)
    past: list[DataAccess] | None = None
    replayed: list[Replayed] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    ranks: list[RankChoice] = field(default_factory=list)
    """The choices of quantiles that the sampler was asked for last."""
    allowed: dict[str, float] = field(default_factory=dict)
    """The allowance of each selection, by its name; only saves looking for a cheaper proof."""

    def record(self) -> None:
        """From now on releases draw noise of their own."""
        self.accesses, self.past, self.replayed, self.looked = [], None, [], []
        self.tape.draw_for_real()
        self.tape.take()

    def repeat(self, accesses: list[DataAccess]) -> None:
        """From now on releases give what these accesses gave."""
        self.accesses, self.past, self.replayed = [], list(accesses), []
        self.tape.take()

    def quiet(self) -> None:
        """From now on all noise is 0."""
        self.accesses, self.past, self.replayed = [], None, []
        self.tape.play([])
        self.tape.take()

    def access(self, name: str, identity: str, run: Measuring, plan: object = None) -> tuple[Ints, Ints]:
        """Runs a measurement, recorded or repeated; gives the noisy and the exact rows."""
        if self.past is None:
            noisy, exact = run()
            self.accesses.append(DataAccess(name, identity, tuple(self.tape.take()), noisy, exact))
            return noisy, exact
        before = self._expected(name, identity)
        if before is None:
            return run()
        return self._coupled(before, run, plan)

    def _expected(self, name: str, identity: str) -> DataAccess | None:
        """The access that the neighbour made at this place; None, and a violation, where it made another or none."""
        past, place = self.past or [], len(self.replayed)
        if place < len(past) and (past[place].name, past[place].identity) == (name, identity):
            return past[place]
        wrong = "an access that the neighbour did not make"
        if place < len(past):
            wrong = "the neighbour asked for another plan or stage although all earlier outputs were the same"
        self.replayed.append(Replayed(name, 0, [f"{name}: {wrong}"]))
        return None

    def _coupled(self, before: DataAccess, run: Measuring, plan: object) -> tuple[Ints, Ints]:
        violations: list[str] = []
        first, exact = self._played(before, [draw.values for draw in before.draws], run, violations)
        if not np.array_equal(exact, before.exact):
            violations.append(f"{before.name}: rows that are published exactly differ between neighbours")
        moved = first - before.noisy if first.shape == before.noisy.shape else None
        loss: Fraction | float = Fraction(0)
        result = first
        if moved is None:
            violations.append(f"{before.name}: neighbours publish different numbers of rows")
        elif moved.any():
            shift = moved if not isinstance(plan, EdgePlan) else smallest_shift(plan, moved)
            if shift is None or len(before.draws) != 1 or shift.shape != before.draws[0].values.shape:
                loss = float("inf")
                violations.append(f"{before.name}: no noise can hide how far published rows move between neighbours")
            else:
                loss = before.draws[0].loss(shift)
                result, _ = self._played(before, [before.draws[0].values - shift], run, violations)
                if not np.array_equal(result, before.noisy):
                    violations.append(f"{before.name}: what is published is not the rows plus the noise that was drawn")
        if before.draws and not isinstance(plan, EdgePlan):
            # Noise that is more by another large number in every row must show as just that, moved or not.
            added = [LARGE + np.arange(draw.values.size) for draw in before.draws]
            raised = [draw.values + more for draw, more in zip(before.draws, added, strict=True)]
            if not np.array_equal(self._played(before, raised, run, violations)[0], first + np.concatenate(added)):
                violations.append(f"{before.name}: some rows do not carry the noise that was drawn for them")
        self.replayed.append(Replayed(before.name, loss, violations))
        return before.noisy if result.shape == before.noisy.shape else result, exact

    def _played(
        self, before: DataAccess, values: list[Ints], run: Measuring, violations: list[str]
    ) -> tuple[Ints, Ints]:
        self.tape.play(values)
        with watched(None):
            # A stage is repeated several times, which no receipt pays for.
            noisy, exact = run()
        self._compare(before, violations)
        return noisy, exact

    def select(self, name: str, stage: Any, counts: Ints, run: Callable[[], Ints]) -> Ints:
        """Runs a selection, recorded; on the neighbour the recorded winner is given and its cost found."""
        if self.past is None:
            winner = run()
            self.accesses.append(_selected(name, stage, counts, winner, self.tape.take()))
            return winner
        before = self._expected(name, stage.digest())
        if before is None or before.selected is None:
            return run()
        violations: list[str] = []
        self._played(before, [draw.values for draw in before.draws], lambda: (run(), before.exact), violations)
        try:
            loss = selection_loss(before.selected, counts, self.allowed.get(name, 0.0))
            if math.isinf(loss):
                violations.append(f"{name}: no noise of its own makes the winner win on the neighbouring table")
        except WrongSign as wrong:
            loss = float("inf")
            violations.append(f"{name}: {wrong}")
        self.replayed.append(Replayed(name, loss, violations))
        return before.selected.winner

    def choose_groups(self, plan: GroupSelection, counts: Ints, run: Choosing) -> Ints:
        """Runs a choice of groups, recorded; on the neighbour the recorded list is given, and what it costs."""
        if self.past is None:
            return self._chosen("list of groups", plan.digest(), counts, run, [])
        before = self._expected("list of groups", plan.digest())
        if before is None or before.counts is None or len(before.draws) != 1:
            return run(counts)
        violations, (draw,) = list[str](), before.draws
        noise = same_list(plan, draw.values, before.noisy, counts - before.counts)
        self.tape.play([noise])
        with watched(None):
            again = run(counts)
        self._compare(before, violations)
        loss: Fraction | float = draw.loss(noise - draw.values)
        if draw.law == "geometric" and int(noise.min(initial=0)) < 0:
            loss = float("inf")
            violations.append(f"{before.name}: no one-sided noise gives the same list on the neighbouring table")
        elif not np.array_equal(again, before.noisy):
            violations.append(f"{before.name}: the list is not that of the noisy counts")
        self.replayed.append(Replayed(before.name, loss, violations))
        return before.noisy

    def choose_quantiles(self, plan: QuantilePlan, rows: Ints, counts: Ints, run: Choosing) -> Ints:
        """Runs a choice of quantiles, recorded; on the neighbour the recorded ones are given, and what they cost."""
        if self.past is None:
            return self._chosen("quantiles", plan.digest(), rows, run, self.ranks, counts)
        before = self._expected("quantiles", plan.digest())
        if before is None or before.counts is None:
            return run(counts)
        violations = list[str]()
        moved = (rows - before.counts).sum(axis=1)
        self.tape.play([draw.values - moved for draw in before.draws])
        self.ranks.clear()
        with watched(None):
            run(counts)
        self._compare(before, violations)
        loss = sum((draw.loss(moved) for draw in before.draws), Fraction(0))
        for here, there, cells in zip(before.ranked, self.ranks, before.noisy, strict=True):
            if (here.unit, here.gaps) != (there.unit, there.gaps) and before.draws:
                violations.append("quantiles: the scale or the shares depend on more than what is published")
            loss += Fraction(abs(here.log_chance(cells) - there.log_chance(cells)))
        self.replayed.append(Replayed(before.name, loss, violations))
        return before.noisy

    def _chosen(
        self, name: str, identity: str, kept: Ints, run: Choosing, ranks: list[RankChoice], counts: Ints | None = None
    ) -> Ints:
        """Runs a choice for real, and keeps what it was made from."""
        ranks.clear()
        chosen = run(kept if counts is None else counts)
        nothing, draws = np.empty(0, dtype=np.int64), tuple(self.tape.take())
        access = DataAccess(name, identity, draws, chosen, nothing, None, kept.copy(), tuple(ranks))
        self.accesses.append(access)
        return chosen

    def _compare(self, before: DataAccess, violations: list[str]) -> None:
        """Whether the noise that was asked for just now is that of before, in law, scale and number."""
        drawn = self.tape.take()
        self.tape.draw_for_real()
        if [draw.variables for draw in drawn] != [draw.variables for draw in before.draws]:
            violations.append(f"{before.name}: the scale or the number of noise variables depends on the data")


def _selected(name: str, stage: Any, counts: Ints, winner: Ints, drawn: list[TapedDraw]) -> DataAccess:
    noise = [draw for draw in drawn if draw.law != "words"]
    scales = np.concatenate([float(draw.unit) / draw.weights.astype(np.float64) for draw in noise])
    values = np.concatenate([draw.values for draw in drawn])
    one_sided = all(draw.law == "geometric" for draw in noise)
    ran = Selected(stage, counts.copy(), values, scales, one_sided, winner)
    return DataAccess(name, stage.digest(), tuple(drawn), winner, np.empty(0, dtype=np.int64), ran)


@contextmanager
def watched_stages() -> Iterator[Recorder]:
    """A recorder around every access that the engine makes, with a tape below it and the clock stopped."""
    reply, points_measured, total = run_program._reply, run_program.measure_points, release.public_total
    groups, quantiles = run_program.choose_groups, run_program.choose_quantiles
    parts = synopsis_release.public_parts
    with taped() as tape:
        recorder = Recorder(tape)

        def measuring(certified: CertifiedPlan, counts: Ints) -> Measured:
            def run() -> tuple[Ints, Ints]:
                measured = measure(certified, opened(counts))
                return measured.noisy, measured.exact

            plan = certified.plan
            return Measured(*recorder.access("measurement", plan.digest(), run, plan))

        def replying(ask: Any, graph: Any, counts: Ints, loss: Fraction) -> Any:
            is_measurement = isinstance(ask.stage, MeasurementStage)
            recorder.looked.append(Looked(ask.name, ask.stage.plan if is_measurement else None, ask.buckets))
            if is_measurement:
                return reply(ask, graph, counts, loss)
            inside = opened(counts)
            return recorder.select(ask.name, ask.stage, inside, lambda: np.asarray(reply(ask, graph, inside, loss)))

        def weighing(plan: Any, charged: Any, counts: Ints) -> tuple[Ints, Ints]:
            inside = opened(counts)
            return recorder.access("point weights", plan.digest(), lambda: points_measured(plan, charged, inside))

        def listing(plan: GroupSelection, graph: Any, charged: Any, counts: Ints) -> Ints:
            return recorder.choose_groups(plan, opened(counts), lambda given: groups(plan, graph, charged, given))

        def ranking(plan: QuantilePlan, graph: Any, charged: Any, counts: Ints) -> Ints:
            inside = opened(counts)
            rows = plan.by_group(inside, graph)
            return recorder.choose_quantiles(plan, rows, inside, lambda given: quantiles(plan, graph, charged, given))

        def ranked(records: Any, gaps: Any, unit: Fraction) -> Ints:
            recorder.ranks.append(RankChoice(records, gaps, unit))
            return sample_quantiles(records, gaps, unit)

        def merging(counts: Ints, buckets: Ints) -> Ints:
            return sealed(merge_counts(opened(counts), buckets))

        def totalling(compiled: Any, counts: Ints) -> float | None:
            return total(compiled, opened(counts))

        def totalling_parts(compiled: Any, counts: Ints) -> Any:
            return parts(compiled, opened(counts))

        stopped: dict[AnyFunction, AnyFunction] = {
            measure: measuring,
            reply: replying,
            points_measured: weighing,
            groups: listing,
            quantiles: ranking,
            sample_quantiles: ranked,
            merge_counts: merging,
            total: totalling,
            parts: totalling_parts,
            answer.now: lambda: WHEN,
        }
        with replaced(stopped):
            yield recorder


MOST_CELLS = 600


@dataclass(frozen=True, eq=False)
class Moved:
    """The loss of each change, over the scales that the engine asks the sampler for."""

    losses: list[Fraction]
    claims_tight: bool
    certified: Fraction
    """The epsilon of the certificate when it is computed once more."""


def inner_release(release: Release) -> Release:
    """The release that a synopsis is made of, or the release itself."""
    return release.inner if isinstance(release, SynopsisRelease) else release


def moved_by_all(recorder: Recorder, release: Release, listed: list[Change], adjacency: Adjacency) -> Moved | None:
    """The loss of every change; None where what is measured depends on earlier outputs or on edges."""
    release = inner_release(release)
    if not isinstance(release, PlanRelease):
        return None
    plan, proof, cells = release.best.plan, release.best.certificate, release.compiled.cells
    if not isinstance(plan, Plan) or cells.graph.cells > MOST_CELLS:
        return None
    certified = CertifiedPlan(plan, cells.graph)
    rows = _rows(recorder, plan, certified)
    if not rows.weights.size:
        return Moved([Fraction(0) for _ in listed], False, proof.epsilon)
    losses = [adjacency.policy.rows_per_person * loss for loss in rows.losses(steps_of(cells, listed))]
    return Moved(losses, proof.is_tight and not adjacency.policy.constraints, certified.certificate.epsilon)


def moved_by_stages(
    recorder: Recorder, looked: Sequence[Looked], cells: Cells, listed: list[Change], each: int
) -> list[Fraction]:
    """The loss of every change over the fixed rows of all stages that measured some, in buckets or in cells."""
    losses, moved = [Fraction(0)] * len(listed), steps_of(cells, listed)
    for stage in looked:
        if not isinstance(stage.plan, Plan) or cells.graph.cells > MOST_CELLS:
            continue
        # Under a policy that hides nothing the engine measures any rows; their loss under the real one is found here.
        hides_nothing = window_graph(np.arange(stage.plan.cells))
        rows = _rows(recorder, stage.plan, CertifiedPlan(stage.plan, hides_nothing))
        if rows.weights.size:
            in_buckets = [[(stage.bucket(old), stage.bucket(new)) for old, new in steps] for steps in moved]
            losses = [loss + each * more for loss, more in zip(losses, rows.losses(in_buckets), strict=True)]
    return losses


def _rows(recorder: Recorder, plan: Plan, certified: CertifiedPlan) -> NoisyRows:
    """The rows as the engine measures them, a cell at a time."""
    recorder.quiet()
    columns = np.zeros((plan.cells + 1, plan.weights.size), dtype=np.int64)
    scales, unit = np.zeros(0, dtype=np.int64), Fraction(1)
    for cell in range(plan.cells):
        columns[cell] = measure(certified, np.eye(1, plan.cells, cell, dtype=np.int64)[0]).noisy
        for draw in recorder.tape.take():
            scales, unit = draw.weights, draw.unit
    return NoisyRows(columns, scales, unit)


def steps_of(cells: Cells, changes: Sequence[Change]) -> list[list[CellStep]]:
    """The cells between which the records of each change move."""
    ends = [record for change in changes for record in (*change.before, *change.after)]
    placed = iter(cells_of_records(cells, [record for record in ends if record is not None]))
    steps = []
    for change in changes:
        before, after = (
            [-1 if record is None else next(placed) for record in side] for side in (change.before, change.after)
        )
        steps.append(list(zip(before, after, strict=True)))
    return steps


def cells_of_records(cells: Cells, records: Sequence[Record]) -> list[int]:
    """The flat cell of each record; -1 for a record that does not count."""
    if not cells.attributes:
        return [0] * len(records)
    codes = {name: np.array([record[name] for record in records], dtype=np.int64) for name in cells.attributes}
    return [int(cell) for cell in cells.cell_of(codes)]


def as_counts(cells: Cells, records: Sequence[Record]) -> Ints:
    """The number of records in each cell."""
    placed = np.array(cells_of_records(cells, records), dtype=np.int64)
    return np.bincount(placed[placed >= 0], minlength=cells.graph.cells)
