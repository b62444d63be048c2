"""The L1 partition of the DAWA paper's first stage, in a sound form; `dawa` itself refines from the top down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.errors import PlanError, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.encoding import digest
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Ints, distinct
from blowfishdb.plan.program import SelectionNoise
from papers.data import MOST_CELLS

Candidates = Literal["powers", "aligned", "all"]
"""Buckets whose length is a power of two, at every position or at multiples of their length; or all intervals."""

EXACT_WEIGHTS = 2**40
ROUNDED_WEIGHTS = 2**24


@dataclass(frozen=True, eq=False)
class L1Partition:
    """Publishes the first cell of each bucket of the partition that minimises the sum over its buckets of

        sum |count - mean| - noise + penalty x noise scale.

    One record moves the cost of a bucket of L cells by at most 2 (1 - 1/L). Costs are whole multiples of 1 / grid;
    `unit` sets the noise level.
    """

    cells: int
    candidates: Candidates
    unit: Fraction
    penalty: Fraction
    one_sided: bool = True
    grid: int = 64

    def __post_init__(self) -> None:
        if self.candidates not in ("powers", "aligned", "all"):
            raise PlanError(f"candidates are 'powers', 'aligned' or 'all', not {self.candidates!r}")
        if self.cells < 1 or self.grid < 1 or self.penalty < 0:
            raise PlanError("a partition has at least one cell, a positive grid, and a penalty that is not negative")
        if self.candidates == "all" and self.cells > MOST_CELLS:
            raise TooLarge("cells of a partition into any intervals", self.cells, MOST_CELLS, "Use 'powers'.")

    @cached_property
    def lengths(self) -> Ints:
        """The lengths a bucket may have, in increasing order."""
        if self.candidates == "all":
            return np.arange(1, self.cells + 1)
        return 2 ** np.arange(self.cells.bit_length())

    @cached_property
    def steps(self) -> Ints:
        """A bucket of each length starts at multiples of its step."""
        return self.lengths if self.candidates == "aligned" else np.ones_like(self.lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Where the items of each length start, by length and then by first cell; the number of items at the end."""
        return np.concatenate([[0], np.cumsum((self.cells - self.lengths) // self.steps + 1)])

    @cached_property
    def sensitivities(self) -> Ints:
        """How far one record moves the cost of a bucket of each length, on the grid: 2 (1 - 1/L) grid, rounded up."""
        return 2 * self.grid - 2 * self.grid // self.lengths

    @cached_property
    def noise(self) -> SelectionNoise:
        """One class for each different sensitivity; noise of scale proportional to the largest plus its own."""
        own = distinct(self.sensitivities)
        reach = [int(self.sensitivities[-1]) + int(value) or 1 for value in own]
        common = math.lcm(*reach)
        whole = common if common <= EXACT_WEIGHTS else ROUNDED_WEIGHTS
        sizes = np.bincount(np.searchsorted(own, self.sensitivities), weights=np.diff(self.offsets)).astype(np.int64)
        return SelectionNoise(self.unit, np.array([whole // value for value in reach]), own, sizes, self.one_sided)

    @cached_property
    def penalties(self) -> Ints:
        """What a bucket of each length pays, on the grid."""
        weights = self.noise.weights[np.searchsorted(self.noise.sensitivities, self.sensitivities)]
        return np.array([round(self.penalty * self.unit / int(weight)) for weight in weights])

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the buckets."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the choice depend on."""
        own = (self.cells, self.candidates, self.penalty, self.grid)
        return digest(("l1 partition", *own, self.noise.digest()))

    def costs(self, counts: Ints) -> Ints:
        """The cost of every item on the grid, in the order of `offsets`.

        Counts beyond what 64-bit arithmetic can hold for this many cells are cut off: the cap is public, and cutting
        off never makes two neighbouring tables differ more.
        """
        from papers.baselines import kernels

        cells = np.minimum(counts, 2**60 // (4 * self.grid * self.cells))
        values, rank = np.unique(cells, return_inverse=True)
        costs = np.empty(int(self.offsets[-1]), dtype=np.int64)
        if self.candidates == "all":
            kernels.fill_all_costs(cells, rank, values, self.offsets, self.grid, costs)
        else:
            kernels.fill_costs(cells, rank, values, self.lengths, self.steps, self.offsets, self.grid, costs)
        return costs

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The first cell of each bucket; ties go to the shortest last bucket."""
        from papers.baselines import kernels

        scores = self.costs(counts)
        scores -= draws
        for place, penalty in enumerate(self.penalties):  # in place: all intervals of 8,192 cells take 256 MB each time
            scores[self.offsets[place] : self.offsets[place + 1]] += penalty
        starts = kernels.least_partition(self.cells, self.lengths, self.steps, self.offsets, scores)
        return np.asarray(starts, dtype=np.int64)


def l1_partition(
    cells: int,
    graph: CellGraph,
    epsilon: Fraction,
    *,
    candidates: Candidates,
    penalty: Fraction,
    one_sided: bool = True,
) -> L1Partition:
    """The partition that costs exactly epsilon."""
    loss = L1Partition(cells, candidates, Fraction(1), penalty, one_sided).epsilon(graph)
    if loss == 0:
        raise PlanError("one cell has one partition: there is nothing to select")
    return L1Partition(cells, candidates, loss / epsilon, penalty, one_sided)
