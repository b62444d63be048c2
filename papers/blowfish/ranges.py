"""Figure 2 of the Blowfish paper: ranges by threshold, with the ordered hierarchical tree as printed and ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms import optimized, ordered_hierarchy
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Intervals
from blowfishdb.noise.distribution import variance
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.plan import Measurement, Plan, Problem
from papers.charts import COLOURS, MARKS, legend_below, plain
from papers.data import generator
from papers.experiment import (
    Case,
    Picture,
    Procedure,
    Result,
    Row,
    Settings,
    Table,
    Value,
    Verdict,
    distinct,
    geometric_mean,
    how_it_holds,
    matching,
    number,
    trials_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The ordered hierarchical mechanism of the Blowfish paper: its tree, its noise as printed and made sound.

FINEST = 2**20
"""Shares of epsilon are whole multiples of one over this; they are rounded down."""


@dataclass(frozen=True)
class OrderedTree:
    """Blocks of theta cells, a running sum at the end of each, and inside each a tree with equal fan-outs.

    Children are disjoint; the paper's text lets the last child overlap the one before it, which costs more.
    """

    cells: int
    theta: int
    fan_out: int

    @property
    def height(self) -> int:
        """Levels below the root of a block."""
        return 0 if self.theta == 1 else math.ceil(round(math.log(min(self.theta, self.cells), self.fan_out), 9))

    @property
    def is_whole(self) -> bool:
        """Whether one block is all there is; its total is public."""
        return self.theta >= self.cells

    @property
    def sums(self) -> Ints:
        """Where the running sums end; the last one is the public number of rows and is not measured."""
        return np.arange(self.theta, self.cells, self.theta, dtype=np.int64)

    @cached_property
    def levels(self) -> list[Ints]:
        """The starts of the nodes of each level inside the blocks, coarsest first."""
        levels = []
        starts = np.arange(0, self.cells, self.theta, dtype=np.int64)
        for _ in range(self.height):
            ends = np.append(starts[1:], self.cells)
            steps = -(-(ends - starts) // self.fan_out)
            pieces = [np.arange(a, b, step) for a, b, step in zip(starts, ends, np.maximum(steps, 1), strict=True)]
            starts = np.concatenate(pieces)
            levels.append(starts)
        return levels

    @property
    def best_split(self) -> float:
        """The share of epsilon for the running sums that the paper recommends after its equation (14)."""
        if self.is_whole:
            return 0.0
        if self.height == 0:
            return 1.0
        sums = 4 * (self.cells - self.theta) / (self.cells + 1)
        depth = math.log(self.theta, self.fan_out)
        nodes = 8 * (self.fan_out - 1) * depth**3 * self.cells / (self.cells + 1)
        return float(np.cbrt(sums) / (np.cbrt(sums) + np.cbrt(nodes)))


@dataclass(frozen=True)
class Noise:
    """One over the scale at epsilon 1: of each running sum, and of each node of each level. Infinite means exact."""

    tree: OrderedTree
    sums: Floats
    levels: tuple[Floats, ...]


def sound_noise(tree: OrderedTree) -> Noise:
    """Every running sum at the split's share, every node at the rest over twice the height."""
    split = tree.best_split
    each = (1 - split) / (2 * max(tree.height, 1))
    levels = tuple(np.full(starts.size, each) for starts in tree.levels)
    return Noise(tree, np.full(tree.sums.size, split), levels)


def printed_noise(tree: OrderedTree) -> Noise:
    """The same, but the first running sum and the first block's tree get the whole epsilon over twice the height."""
    sound = sound_noise(tree)
    first = 1 / (2 * tree.height) if tree.height else math.inf
    sums = np.where(np.arange(sound.sums.size) == 0, first, sound.sums)
    inside = (starts < tree.theta for starts in tree.levels)
    levels = tuple(np.where(where, first, each) for where, each in zip(inside, sound.levels, strict=True))
    return Noise(tree, sums, levels)


def certified_epsilon(noise: Noise) -> float:
    """What the noise that is meant for epsilon 1 really costs under the threshold; infinite where a sum is exact."""
    tree = noise.tree
    shares = np.concatenate([noise.sums, *noise.levels])
    if np.any(np.isinf(shares)):
        return math.inf
    starts = tree.levels
    low = np.concatenate([np.zeros(tree.sums.size, dtype=np.int64), *starts])
    ends = [np.append(level[1:], tree.cells) for level in starts]
    high = np.concatenate([tree.sums, *ends])
    weights = np.floor(shares * FINEST + 1e-9).astype(np.int64)
    plan = Plan(Fraction(FINEST), (Measurement(Intervals(tree.cells, low, high), weights),))
    return float(certify(plan, threshold_graph(tree.cells, tree.theta)).epsilon)


def threshold_graph(cells: int, theta: int) -> CellGraph:
    """Values up to theta apart are hidden from each other, and the number of rows is public."""
    window = WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), np.empty(0, dtype=np.int64))
    return CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "public")


def drawn_errors(noise: Noise, low: Ints, high: Ints) -> Floats:
    """The error of each range [low, high) in one release at epsilon 1, answered as the paper answers it.

    A running count is a running sum plus nodes of one block, on each level those before the node it ends in.
    """
    tree = noise.tree
    ends = np.arange(tree.cells + 1)
    block = np.minimum(ends, tree.cells - 1) // tree.theta
    before = np.concatenate([[0.0], _drawn(noise.sums)])
    errors = before[block]
    parents = np.arange(0, tree.cells, tree.theta)
    for starts, shares in zip(tree.levels, noise.levels, strict=True):
        running = np.concatenate([[0.0], np.cumsum(_drawn(shares))])
        inside = np.minimum(ends, tree.cells - 1)
        own = np.searchsorted(starts, inside, side="right") - 1
        first = np.searchsorted(starts, parents[np.searchsorted(parents, inside, side="right") - 1])
        errors = errors + running[own] - running[first]
        parents = starts
    errors[-1] = 0.0
    return np.asarray(errors[high] - errors[low])


def _drawn(shares: Floats) -> Floats:
    """Laplace noise of scale 1 / share, in steps of the scale over FINEST."""
    return sample(Fraction(FINEST), 1, shares.size) / (FINEST * shares)


# Figures 2(b) and 2(c): squared error of range queries under distance thresholds.
#
# Every mechanism here adds noise that does not look at the data, so the errors are the same for any counts: the papers'
# data sets give the number of values, and nothing else.

FAN_OUT = 16
ORDERS = 100.0
"""Orders of magnitude: at least so many times."""
METHODS = {
    "printed": "as printed (not private)",
    "sound": "same tree, sound noise",
    "optimised": "certified optimised plan",
}
CLAIM = (
    "The ordered hierarchical mechanism is private, and its error falls with θ, by orders of magnitude from the whole "
    "domain to one step."
)


@dataclass(frozen=True)
class Ranges:
    """One panel of Figure 2: how many values there are, and the thresholds in words and in cells."""

    figure: str
    data: str
    cells: int
    thetas: Mapping[str, int]

    def cases(self, settings: Settings) -> list[Case]:
        """One for each threshold, widest first."""
        words = list(self.thetas)
        return [(one,) for one in settings.pick([words[0], words[-2], words[-1]], words, words)]

    def measure(self, settings: Settings, case: Case) -> list[Row]:
        """The mean squared error of the ranges at each epsilon, and what the noise as printed really costs."""
        (words,) = case
        theta = self.thetas[str(words)]
        low, high = ranges(self.cells, settings)
        tree = OrderedTree(self.cells, theta, FAN_OUT)
        noises = {"printed": printed_noise(tree), "sound": sound_noise(tree)}
        spent = certified_epsilon(noises["printed"])
        trials = settings.pick(2, 20, 50)
        at_one = {name: drawn(noise, (low, high), trials) for name, noise in noises.items()}
        expected = optimised(self.cells, theta, low, high)
        rows: list[Row] = []
        for epsilon in _epsilons(settings):
            # Continuous noise is proportional to one over epsilon.
            errors = {name: error / epsilon**2 for name, error in at_one.items()}
            row: dict[str, Value] = {"theta": str(words), "cells": theta, "epsilon": epsilon, **errors}
            row["optimised"] = float(expected(epsilon).mean())
            row["printed_really_costs"] = spent * epsilon if math.isfinite(spent) else "infinite"
            row["trials"] = trials
            rows.append(row)
        return rows

    def conclude(self, settings: Settings, rows: Sequence[Row]) -> Result:
        del settings
        table = Table("errors", f"Mean squared error of a range, {self.data}, {self.cells} values", tuple(rows))

        def draw(figure: Figure) -> None:
            panels = figure.subplots(1, len(METHODS), sharey=True)
            for axes, (method, words) in zip(panels, METHODS.items(), strict=True):
                for look, theta in enumerate(distinct(rows, "theta")):
                    own = matching(rows, theta=theta)
                    x, y = ([number(row, column) for row in own] for column in ("epsilon", method))
                    label = "full graph" if theta == "full" else f"θ = {theta}"
                    axes.plot(x, y, color=COLOURS[look], marker=MARKS[look], markersize=4, label=label)
                plain(axes, "ε", "mean squared error of a range" if axes is panels[0] else "", words, log_y=True)
            legend_below(figure, panels[0], columns=7)

        title = f"Blowfish, {self.figure}: error of random ranges, {self.data} ({self.cells} values)"
        trials = f"mean of {trials_of(rows)}; the optimised plan's error is exact"
        return Result((table,), (Picture("errors", title, trials, draw, (9.6, 4.2)),), judge(rows))


def ranges(cells: int, settings: Settings) -> tuple[Ints, Ints]:
    """Ranges [low, high) with uniform ends; the paper has 10 000."""
    draw = generator(settings.seed, "ranges", cells)
    ends = np.sort(draw.integers(0, cells, (settings.pick(200, 10_000, 10_000), 2)), axis=1)
    return ends[:, 0], ends[:, 1] + 1


def drawn(noise: Noise, spans: tuple[Ints, Ints], releases: int) -> float:
    """The mean squared error over all ranges and several releases at epsilon 1."""
    return float(np.mean([np.mean(drawn_errors(noise, *spans) ** 2) for _ in range(releases)]))


def optimised(cells: int, theta: int, low: Ints, high: Ints) -> Callable[[float], Floats]:
    """By epsilon, the expected squared error of each range under the optimised plan, certified at that epsilon."""
    graph = threshold_graph(cells, theta)
    strategy: Strategy
    if theta == 1:
        strategy = ordered_hierarchy.propose_ordered(Problem(graph, Intervals(cells, low, high)))
        spread = strategy.answer_variances
    else:
        tree = optimized.propose(Problem(graph, AllRanges(cells)))
        strategy, spread = tree, partial(tree.estimator.range_variances, low, high)
    free = strategy.plan(Fraction(1))

    def at(epsilon: float) -> Floats:
        plan, _ = calibrate(free, graph, Fraction(str(epsilon)))
        return spread(variance(float(plan.unit) / plan.weights))

    return at


def _epsilons(settings: Settings) -> tuple[float, ...]:
    return settings.pick((0.5,), (0.1, 0.3, 0.5, 1.0), tuple(tenth / 10 for tenth in range(1, 11)))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether the noise is private as printed, whether errors fall with theta, and by how much, once it is sound."""
    costs = [math.inf if row["printed_really_costs"] == "infinite" else _cost(row) for row in rows]
    finite = max((cost for cost in costs if math.isfinite(cost)), default=1.0)
    widest, *_, one = (_errors(rows, theta) for theta in distinct(rows, "theta"))
    falls = all(_falls(rows, method) for method in ("sound", "optimised"))
    gain = widest["sound"] / one["sound"]
    better = max(number(row, "sound") / number(row, "optimised") for row in rows)
    is_private = max(costs) <= 1.0 + 1e-5
    printed = f"The printed noise costs up to {finite:.3g} ε"
    if not is_private:
        printed += " (Theorem 7.2 forgets that a record may cross from the first block into the second)"
    if math.inf in costs:
        printed += ", and with one step it would release the first count exactly"
    why = (
        f"{printed}; with sound noise the error falls {gain:.3g} times from the whole domain to one step, and "
        f"optimised shares make it up to {better:.3g} times smaller at the same epsilon."
    )
    return Verdict(CLAIM, how_it_holds([is_private, falls, gain >= ORDERS]), why)


def _cost(row: Row) -> float:
    return number(row, "printed_really_costs") / number(row, "epsilon")


def _errors(rows: Sequence[Row], theta: str) -> dict[str, float]:
    """The geometric mean of each method's errors over the epsilons."""
    own = matching(rows, theta=theta)
    return {method: geometric_mean(number(row, method) for row in own) for method in METHODS}


def _falls(rows: Sequence[Row], method: str) -> bool:
    """Whether the error never rises by more than the trials differ as theta gets narrower."""
    errors = [_errors(rows, theta)[method] for theta in distinct(rows, "theta")]
    return all(narrow <= 1.1 * wide for wide, narrow in pairwise(errors))


ADULT = Ranges(
    "Figure 2(b)",
    "capital loss",
    4357,
    {"full": 4357, "1000": 1000, "500": 500, "100": 100, "50": 50, "10": 10, "1": 1},
)
LATITUDE = Ranges("Figure 2(c)", "latitude of tweets", 400, {"full": 400, "500 km": 90, "50 km": 9, "5 km": 1})
"""A cell is 5.55 km high; theta 5 km reaches the next cell and no further."""

PROCEDURE_B = Procedure(ADULT.cases, ADULT.measure, ADULT.conclude)
PROCEDURE_C = Procedure(LATITUDE.cases, LATITUDE.measure, LATITUDE.conclude)
