"""Chooses the constants of trees over two axes on synthetic grids alone: shares, cuts, kinds of estimates.

Cases are 28 grids of 256 x 256 cells at one epsilon each, 500 rectangles, the same seeded noise for every setting;
errors are over those of the best plan that does not look at the data. Structure is chosen as well: how fine a grid is
halved before anything is seen, and whether estimates may be negative (linear) or may not. When small counts beside
large ones are taken for 0 is chosen on those grids and eight tables of persons, at three epsilons each. On grids no
promise is made about the worst case, so there is no limit to it. `ours` is what was chosen, `other` what is on record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row
from benchmarks.spatial_error import rectangles
from benchmarks.synthetic import GRID_KINDS, TABLE_KINDS, Grid, grids
from benchmarks.tuning import Knob, Setting, rows, search, seeded_run
from blowfishdb.inference.least_squares import EmptyRule
from blowfishdb.mechanisms import kronecker
from blowfishdb.mechanisms.data_aware import shared_program
from blowfishdb.mechanisms.data_aware.dawa import MEASURE, REFINE, SELECT, script_2d
from blowfishdb.mechanisms.data_aware.kdtree import AdaptiveTree, KdTree
from blowfishdb.mechanisms.data_aware.regions import TreeEstimate, least_squares, not_negative
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record

TREE, KD_TREE, DAWA, EMPTY = "adaptive-tree", "kdtree", "dawa-2d", "empty"
EPSILONS = (Fraction(1, 50), Fraction(1, 10), Fraction(1, 2))
BOXES = 500
LINEAR, NOT_NEGATIVE = 0.0, 1.0
TREE_KNOBS = (
    (Knob("per_piece", (1.0, 2.0, 3.0, 4.0, 6.0), 4.0), Knob("clearance", (2.0, 3.0, 4.0, 5.0), 2.0)),
    (Knob("growth", (1.0, 1.25, 1.5, 2.0), 1.0),),
    (Knob("unseen_halvings", (0.0, 2.0, 4.0, 6.0), 0.0),),
    (Knob("estimate", (LINEAR, NOT_NEGATIVE), NOT_NEGATIVE),),
)
KD_KNOBS = ((Knob("unseen_boxes", (1.0, 64.0, 256.0, 1024.0), 1.0),),)
DAWA_KNOBS = (
    (Knob("select_share", (0.0625, 0.125, 0.25), 0.25),),
    (Knob("refine_share", (0.25, 0.375, 0.5, 0.625), 0.375),),
)
EMPTY_KNOBS = (
    (
        Knob("clear", (2.0, 3.0, 4.0), 3.0),
        Knob("together", (0.0, 1.0, 2.0), 0.0),
        Knob("part", (0.02, 0.05, 0.1, 0.2), 0.05),
    ),
)


def run(data: Path | None) -> Iterator[Row]:
    """A row for each constant of three mechanisms and of their estimates, and one for the errors of the choices."""
    del data
    known = [GridCase.of(grid, seed) for seed, grid in enumerate(grids())]
    few, tables = known[::2], grids(kinds=(*GRID_KINDS, *TABLE_KINDS))
    sparse = [GridCase.of(grid, seed) for place, grid in enumerate(tables) for seed in range(3 * place, 3 * place + 3)]
    for part, knobs, cases, answers in (
        (TREE, TREE_KNOBS, known, tree_answers),
        (KD_TREE, KD_KNOBS, known, kd_answers),
        (DAWA, DAWA_KNOBS, few, line_answers),
        (EMPTY, EMPTY_KNOBS, sparse, sparse_answers),
    ):
        yield from rows(part, search(knobs, partial(ratios, cases, answers), limit=math.inf))


@dataclass(frozen=True, eq=False)
class GridCase:
    """One grid at one epsilon with its rectangles; `blind` is the error of the best data-independent plan."""

    counts: Ints
    problem: Problem
    boxes: Rectangles
    epsilon: Fraction
    seed: int
    blind: float

    @staticmethod
    def of(grid: Grid, seed: int) -> GridCase:
        shape = (grid.counts.shape[0], grid.counts.shape[1])
        boxes = rectangles(shape, BOXES, 0)
        problem = Problem(one_record(*shape), boxes)
        epsilon = EPSILONS[(seed + seed // len(EPSILONS)) % len(EPSILONS)]
        counts = np.ascontiguousarray(grid.counts.reshape(-1))
        return GridCase(counts, problem, boxes, epsilon, seed, blind_error(shape) / float(epsilon))

    @cached_property
    def estimate(self) -> TreeEstimate:
        """The least squares counts of one adaptive tree."""
        mechanism = AdaptiveTree()
        program = mechanism.program(self.problem, self.epsilon)
        return least_squares(*seeded_run(mechanism.grown(self.problem, program), self.counts, self.seed))


Answers = Callable[[GridCase, Setting], Floats]


def ratios(known: Sequence[GridCase], answers: Answers, setting: Setting) -> Floats:
    """For each case the mean absolute error over that of the best plan that does not look at the data."""
    errors = [np.abs(answers(case, setting) - case.boxes.dot(case.counts)).mean() for case in known]
    return np.asarray(np.array(errors) / np.array([case.blind for case in known]), dtype=np.float64)


def tree_answers(case: GridCase, setting: Setting) -> Floats:
    """What an adaptive tree with these constants answers."""
    mechanism = AdaptiveTree(
        Fraction(str(setting["growth"])),
        int(setting["unseen_halvings"]),
        Fraction(str(setting["per_piece"])),
        Fraction(str(setting["clearance"])),
    )
    program = mechanism.program(case.problem, case.epsilon)
    tree, views = seeded_run(mechanism.grown(case.problem, program), case.counts, case.seed)
    estimate = least_squares(tree, views)
    cells = (estimate if setting["estimate"] == LINEAR else not_negative(estimate)).cells
    return np.asarray(case.boxes.dot(cells))


def sparse_answers(case: GridCase, setting: Setting) -> Floats:
    """What an adaptive tree answers where counts are taken for 0 by these constants."""
    rule = EmptyRule(setting["clear"], setting["together"], setting["part"])
    return np.asarray(case.boxes.dot(not_negative(case.estimate, rule).cells))


def kd_answers(case: GridCase, setting: Setting) -> Floats:
    """What a kd-tree with these constants answers."""
    mechanism = KdTree(unseen_boxes=int(setting["unseen_boxes"]))
    program = mechanism.program(case.problem, case.epsilon)
    return seeded_run(mechanism.script(case.problem, program), case.counts, case.seed).answers


def line_answers(case: GridCase, setting: Setting) -> Floats:
    """What `dawa` on a Hilbert curve answers with these shares of epsilon."""
    select, refine = Fraction(str(setting["select_share"])), Fraction(str(setting["refine_share"]))
    shares = [(SELECT, select), (MEASURE, 1 - select - refine), (REFINE, refine)]
    program = shared_program(DAWA, case.epsilon, shares)
    return seeded_run(script_2d(case.problem, program), case.counts, case.seed).answers


@cache
def blind_error(shape: tuple[int, int]) -> float:
    """The expected error at epsilon 1 of the best plan that does not look at the data, for the rectangles of a case."""
    problem = Problem(one_record(*shape), rectangles(shape, BOXES, 0))
    strategy = kronecker.propose(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    return float(np.sqrt(2 / np.pi * strategy.answer_variances(row_variances(plan))).mean())
