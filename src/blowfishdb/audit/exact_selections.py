"""Exact laws of the selections: partitions, matchings, gates, refinements, bounds, on few cells and all neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from blowfishdb.audit.selection_law import Outcome, selection_law, worst_ratio
from blowfishdb.audit.selection_loss import FAR, SLACK, Selected, selection_loss
from blowfishdb.audit.verdicts import Line, amount, judged
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.select.l1_gate import l1_gate
from blowfishdb.mechanisms.select.l1_partition import L1Partition
from blowfishdb.mechanisms.select.l1_refinement import l1_refinement
from blowfishdb.mechanisms.select.matching import MatchingPartition
from blowfishdb.mechanisms.select.worst_bucket import worst_bucket
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph, Presence
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Identity
from blowfishdb.noise.sampler import sample, sample_geometric
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.refinement import RefinementNoise

EPSILON = Fraction(6)
"""Large, so that noise is small and all of it can be gone through; what is shown holds for the formulas as such."""

PENALTIES = (2, 4)
"""What a bucket pays, in noise scales: the first shows most where noise is right, the second where it is half."""


def line_graph(cells: int, presence: Presence) -> CellGraph:
    """Cells in a row, each joined to the next; or rows that may only vanish."""
    reach = np.minimum(np.arange(cells) + 1, cells - 1)
    return CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), presence)


def neighbours_of(counts: Sequence[int], presence: Presence) -> Iterator[tuple[int, ...]]:
    """The tables that one record's step along the line, or its vanishing, makes of this one."""
    for cell, number in enumerate(counts):
        if number == 0:
            continue
        for target in (None,) if presence == "only" else (cell - 1, cell + 1):
            moved = list(counts)
            moved[cell] -= 1
            if target is not None:
                if not 0 <= target < len(counts):
                    continue
                moved[target] += 1
            yield tuple(moved)


def selection_lines(*, quick: bool) -> Iterator[Line]:
    """Every kind of selection under moves and under vanishing rows."""
    presences: tuple[Presence, ...] = ("public", "only")
    for presence in presences:
        graph3, graph2 = line_graph(3, presence), line_graph(2, presence)
        said = "moves" if presence == "public" else "vanishing rows"
        for penalty in PENALTIES:
            name = f"partition of 3 cells, penalty {penalty}, {said}"
            yield _by_law(name, _partition(3, graph3, penalty), _tables(3, quick=quick), presence)
        yield _by_law(f"matching of 2 cells, {said}", _matching(2, graph2), _tables(2, quick=False), presence)
        if not quick:
            yield _by_law(f"matching of 3 cells, {said}", _matching(3, graph3), _tables(3, quick=True), presence)
        gate, allowed = gate_of(16, presence, 4 * EPSILON)
        yield _drawn(f"gate of 16 cells, {said}", gate, presence, allowed, quick=quick)
        graph16, third = line_graph(16, presence), EPSILON / 3
        wide = l1_gate(16, graph16, third, block=4, cap=100, share=0.1)
        yield _drawn(f"gate of 16 cells with a high cap, {said}", wide, presence, third, quick=quick)
        refinement = l1_refinement(16, graph16, third)
        yield _drawn(f"refinement of 16 cells, {said}", refinement, presence, third, quick=quick)
        bound = worst_bucket(16, np.zeros(1, dtype=np.int64), graph16, third)
        yield _drawn(f"worst bucket of 16 cells, {said}", bound, presence, third, quick=quick)
        yield _for_people(said, presence, {"gate": gate, "refinement": refinement, "worst bucket": bound})


def _for_people(said: str, presence: Presence, stages: dict[str, Any]) -> Line:
    """Three rows a person must cost three times as much, since all of them may change at once."""
    graph = line_graph(16, presence)
    wrong = [
        f"the {name} costs {amount(stage.epsilon(replace(graph, rows_per_person=3)))}, not three times its price"
        for name, stage in stages.items()
        if stage.epsilon(replace(graph, rows_per_person=3)) < 3 * stage.epsilon(graph)
    ]
    return judged(
        "exact", f"selections for people, {said}", "price", wrong, "that of all rows of a person", len(stages)
    )


def _tables(cells: int, *, quick: bool) -> list[tuple[int, ...]]:
    """Tables to begin with; on three cells the quick ones are those with the worst neighbours."""
    if quick and cells == 3:
        return [(2, 2, 0), (0, 0, 2)]
    values = (0, 1, 3) if quick else (0, 1, 2, 4)
    listed = list(itertools.product(values, repeat=cells))
    return listed[:: max(1, len(listed) // (7 if quick else 40))]


def _partition(cells: int, graph: CellGraph, penalty: int) -> L1Partition:
    """The partition whose noise costs EPSILON, with costs in whole records."""
    loss = L1Partition(cells, "powers", Fraction(1), Fraction(0), grid=1).epsilon(graph)
    return L1Partition(cells, "powers", loss / EPSILON, Fraction(penalty), grid=1)


def _matching(cells: int, graph: CellGraph) -> MatchingPartition:
    ones = np.ones(cells, dtype=np.int64)
    loss = MatchingPartition(ones, Fraction(1), Fraction(2**24)).epsilon(graph) * 2**24
    return MatchingPartition(ones, Fraction(1), loss / EPSILON)


def item_scales(stage: Any) -> list[float]:
    """The scale of the noise of every item, as it would be drawn."""
    noise = stage.noise
    pairs = zip(noise.weights.tolist(), noise.sizes.tolist(), strict=True)
    return [float(noise.unit / weight) for weight, size in pairs for _ in range(size)]


def gate_of(cells: int, presence: Presence, epsilon: Fraction) -> tuple[Any, Fraction]:
    """The stage with which dawa begins, and what it may spend."""
    problem = Problem(line_graph(cells, presence), Identity(cells))
    mechanism = DATA_AWARE["dawa"]
    program = mechanism.program(problem, epsilon)
    return next(mechanism.script(problem, program)).stage, program.allowances[0].epsilon


def _by_law(subject: str, stage: Any, tables: list[tuple[int, ...]], presence: Presence) -> Line:
    """The largest ratio of any outcome between any two neighbouring tables, against epsilon."""
    known: dict[tuple[int, ...], dict[Outcome, float]] = {}
    scales = item_scales(stage)
    words = stage.noise.tie_words * len(scales)

    def law(counts: tuple[int, ...]) -> dict[Outcome, float]:
        if counts not in known:
            known[counts] = selection_law(stage, counts, scales, words)
        return known[counts]

    worst, tried = 0.0, 0
    troubles: list[str] = []
    for counts in tables:
        for moved in neighbours_of(counts, presence):
            ratio = worst_ratio(law(counts), law(moved))
            worst, tried = max(worst, ratio), tried + 1
            if ratio > float(EPSILON) + SLACK:
                troubles.append(f"an outcome is e^{amount(ratio)} times likelier on {counts} than on {moved}")
    said = f"largest log-ratio {amount(worst)} of {amount(EPSILON)}"
    return judged("exact", subject, "every outcome", troubles, said, tried)


def _drawn(subject: str, stage: Any, presence: Presence, epsilon: Fraction, *, quick: bool) -> Line:
    """The loss of outcomes that were drawn, on tables that are even, uneven, steep or have a peak.

    For gates and refinements it is their exact ratio, also where everything or nothing is cut, however rare; for a
    winner among items, that given the noise of the others.
    """
    shapes: list[Callable[[int], int]] = [
        lambda i: i // 9 + 3,
        lambda i: 9 * (i % 2),
        lambda i: 40 * (i == 3),
        lambda i: i,
    ]
    worst, tried = 0.0, 0
    troubles: list[str] = []
    for shape in shapes:
        counts = tuple(shape(i) for i in range(stage.cells))
        listed = list(neighbours_of(counts, presence))
        for moved in listed[:: 2 if quick else 1]:
            for ran in _runs(stage, np.array(counts, dtype=np.int64), 2 if quick else 6):
                loss = selection_loss(ran, np.array(moved, dtype=np.int64))
                worst, tried = max(worst, loss), tried + 1
                if loss > float(epsilon) + SLACK:
                    given = "" if ran.is_refinement else "given the noise of the others "
                    troubles.append(f"{given}an outcome is e^{amount(loss)} times likelier on one of two neighbours")
    said = f"largest log-ratio {amount(worst)} of {amount(epsilon)}"
    return judged("exact", subject, "outcomes that were drawn", troubles, said, tried)


def _runs(stage: Any, counts: Ints, times: int) -> Iterator[Selected]:
    noise = stage.noise
    items, scales = int(noise.sizes.sum()), np.array(item_scales(stage))
    draw, is_refinement = sample_geometric if noise.one_sided else sample, isinstance(noise, RefinementNoise)
    drawn = [draw(noise.unit, 1, items) for _ in range(times)]
    if is_refinement:
        drawn += [np.full(items, FAR), np.full(items, -FAR)]
    for draws in drawn:
        yield Selected(stage, counts, draws, scales, noise.one_sided, is_refinement, stage.choose(counts, draws))
