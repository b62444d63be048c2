"""Rows for one axis of a product: its cells, and one coarse level of blocks with smooth or sharp borders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Identity, Sparse, Stacked
from blowfishdb.plan.plan import Measurement

LISTED_EDGES = 2_000_000
SHARP_AXIS, LONG_AXIS = 64, 512
"""Plain blocks are tried on short axes only: smooth ones win on others. On long axes fewer sizes are tried."""


@dataclass(frozen=True, eq=False)
class CoarseLevel:
    """Non-negative whole rows that sum to `height` on every cell; height 1 means plain blocks."""

    blocks: Ints
    height: int

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and orthonormal eigenvectors of the level's Gram matrix over the cells, zero ones left out."""
        scaled = self.blocks / self.height
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        kept = values > 1e-9 * values[-1]
        return values[kept], scaled.T @ (vectors[:, kept] / np.sqrt(values[kept]))

    def total_variances(self, energies: Floats, trace: float, shares: Floats) -> Floats:
        """tr(G X^-1) for X = (1 - share)^2 I + share^2 level'level, for each share of the coarse level.

        G enters through its trace and its energies v'Gv along the eigenvectors of the level.
        """
        fine = (1 - shares) ** 2
        coarse = energies / (fine[:, None] + shares[:, None] ** 2 * self.spectrum[0])
        return np.asarray((trace - energies.sum()) / fine + coarse.sum(axis=1))

    def edge_share(self, graph: AxisGraph) -> float:
        """The largest part of the level's weight that one edge moves: half the L1 distance of two columns."""
        if isinstance(graph, WindowGraph) and graph.hubs.size == 0:
            # Memberships only drift apart along the order, so the longest edge of each cell is its worst.
            first, second = np.arange(graph.size), graph.reach
        elif graph.edge_count > LISTED_EDGES:
            return 1.0
        else:
            first, second = graph.edges().T
        if first.size == 0:
            return 0.0
        return max(
            float(np.abs(self.blocks[:, first[at]] - self.blocks[:, second[at]]).sum(axis=0).max())
            for at in np.array_split(np.arange(first.size), 1 + first.size // 20_000)
        ) / (2 * self.height)


def smooth_level(cells: int, size: int, height: int) -> CoarseLevel:
    """Blocks of `size` cells whose borders are ramps of `height` steps: a short move changes them little.

    Block i is ramp i minus ramp i + 1, both rising by one a cell from 0 to `height`, so no entry is negative.
    """
    reach = (cells + height) // size + 2
    borders = np.floor((cells + size * (2 * np.arange(-reach, reach + 1) + 1)) / 2).astype(np.int64)
    start = borders - (height - 1) // 2 - 1
    ramps = np.clip(np.arange(cells)[None, :] - start[:, None], 0, height)
    blocks = ramps[:-1] - ramps[1:]
    return CoarseLevel(blocks[blocks.any(axis=1)], height)


def component_level(labels: Ints) -> CoarseLevel:
    """One block per component of the axis: no move changes any of them."""
    return CoarseLevel((labels[None, :] == np.arange(int(labels.max()) + 1)[:, None]).astype(np.int64), 1)


def candidate_levels(cells: int, labels: Ints) -> list[CoarseLevel]:
    """A short list of coarse levels worth trying on an axis with these components."""
    low, high = max(2.0, cells**0.35), max(2.0, cells**0.75)
    ratio = 1.15 if cells <= LONG_AXIS else 1.5
    steps = max(2, round(np.log(high / low) / np.log(ratio)) + 1)
    sizes = np.unique(np.round(np.geomspace(low, high, steps)).astype(int))
    levels = [smooth_level(cells, cells, 1)]
    if labels.max() > 0:
        levels.append(component_level(labels))
    for size in sizes[sizes < cells].tolist():
        sharp = [1] if cells <= SHARP_AXIS else []
        levels += [smooth_level(cells, size, height) for height in (*sharp, size, 3 * size // 2, 2 * size)]
    return levels


@dataclass(frozen=True, eq=False)
class AxisChoice:
    """The cells of an axis with share 1 - share of its weight, and a coarse level with the rest (None: nothing).

    Weights are whole: a coarse row weighs `grain`, and the weight of the cells is rounded accordingly.
    """

    cells: int
    level: CoarseLevel | None
    share: float
    grain: int = 64

    @cached_property
    def weights(self) -> tuple[int, int]:
        """Whole weights of each cell row and of each coarse row."""
        if self.level is None:
            return 1, 0
        ratio = (1 - self.share) * self.level.height / self.share
        return max(1, round(self.grain * ratio)), self.grain

    @cached_property
    def measurement(self) -> Measurement:
        fine, coarse = self.weights
        if self.level is None:
            return Measurement(Identity(self.cells), np.array([fine]))
        parts: tuple[Rows, ...] = (Identity(self.cells), Sparse(csr_array(self.level.blocks)))
        counts = [self.cells, self.level.blocks.shape[0]]
        return Measurement(Stacked(parts), np.repeat([fine, coarse], counts))

    @property
    def level_starts(self) -> Ints:
        """Where the rows of each level begin: all rows of a level have the same weight."""
        return np.array([0] if self.level is None else [0, self.cells])

    @cached_property
    def covariance(self) -> Floats:
        """(A' W^2 A)^-1: the least-squares covariance of the cells when row i has variance 1 / weight_i^2."""
        fine, coarse = self.weights
        if self.level is None:
            return np.eye(self.cells) / fine**2
        rows = self.level.blocks * (coarse / fine)
        inner = np.linalg.solve(np.eye(rows.shape[0]) + rows @ rows.T, rows)
        return np.asarray((np.eye(self.cells) - rows.T @ inner) / fine**2)

    @cached_property
    def estimator(self) -> Floats:
        """Cells by rows: the least-squares estimate of the cells from the measured rows."""
        fine, coarse = self.weights
        own = self.covariance * fine**2
        if self.level is None:
            return own
        return np.hstack([own, self.covariance @ self.level.blocks.T * coarse**2])
