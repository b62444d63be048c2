"""Public synthetic grids: how records lie on two axes in general, made from a seed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.synthetic import SEED
from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Floats, Ints

SIDE = 256
RECORDS = (10**4, 10**5, 10**6, 10**7)

Generator = np.random.Generator
Weights = Callable[[Generator, int], Floats]


@dataclass(frozen=True, eq=False)
class Grid:
    """A made-up grid: which kind, and the counts of its cells."""

    kind: str
    counts: Ints

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or np.any(self.counts < 0):
            raise InvalidInput("a grid has rows and columns of counts")


def clusters(generator: Generator, side: int) -> Floats:
    """Towns: round heaps whose sizes follow a power law, on a thin background."""
    weights = np.full((side, side), 1e-3 / side**2)
    for size in 1.0 / np.arange(1, 31):
        width = generator.uniform(0.005, 0.05) * np.sqrt(size)
        weights += size * _heap(side, generator.random(2), width)
    return weights


def roads(generator: Generator, side: int) -> Floats:
    """Tracks of vehicles: records along straight lines between places, some lines much busier than others."""
    weights = np.zeros((side, side))
    for busy in generator.pareto(1.0, 25):
        ends = generator.random((2, 2)) * (side - 1)
        along = np.linspace(0.0, 1.0, 2 * side)[:, None]
        place = np.rint(ends[0] + along * (ends[1] - ends[0])).astype(np.int64)
        np.add.at(weights, (place[:, 0], place[:, 1]), busy)
    return weights


def cascade(generator: Generator, side: int) -> Floats:
    """People: each half of a region gets an uneven part of it, down to the cells, at all scales alike."""
    weights = np.ones((1, 1))
    while weights.shape[0] < side:
        parts = generator.beta(0.7, 0.7, (*weights.shape, 3))
        upper, left, right = parts[..., 0], parts[..., 1], parts[..., 2]
        split = np.stack([upper * left, upper * (1 - left), (1 - upper) * right, (1 - upper) * (1 - right)], axis=-1)
        blocks = (weights[..., None] * split).reshape(*weights.shape, 2, 2)
        weights = blocks.transpose(0, 2, 1, 3).reshape(2 * weights.shape[0], 2 * weights.shape[1])
    return weights


def spots(generator: Generator, side: int) -> Floats:
    """Stations, shops: few cells that hold anything, with heavy-tailed numbers."""
    weights = np.zeros(side * side)
    used = generator.choice(side * side, min(int(generator.integers(100, 2000)), side * side // 4), replace=False)
    weights[used] = 1.0 + generator.pareto(1.0, used.size)
    return weights.reshape(side, side)


def joint(generator: Generator, side: int) -> Floats:
    """Two measured quantities of a person, one skewed, that go together: a slanted cloud, rounded on one axis."""
    place = np.arange(side) / side
    centre = generator.uniform(0.3, 0.6) + generator.uniform(-0.4, 0.4) * place[:, None]
    weights = np.exp(-0.5 * ((place[None, :] - centre) / generator.uniform(0.05, 0.2)) ** 2)
    weights = weights * np.exp(-generator.uniform(1.0, 8.0) * place)[:, None]
    weights[:, ::10] *= generator.uniform(1.0, 8.0)
    return np.asarray(weights)


def uniform(generator: Generator, side: int) -> Floats:
    """Nothing to see."""
    del generator
    return np.ones((side, side))


def country(generator: Generator, side: int) -> Floats:
    """All at once: people everywhere at all scales, towns and the roads between, and a sea without anybody."""
    parts = [kind(generator, side) for kind in (clusters, roads, cascade)]
    weights = np.sum([generator.random() * part / part.sum() for part in parts], axis=0)
    place = np.arange(side)
    shore = side * (0.4 + 0.3 * np.cumsum(generator.normal(0.0, 0.02, side)))
    return np.where(place[None, :] < shore[:, None], 0.0, weights)


KINDS: tuple[Weights, ...] = (clusters, roads, cascade, spots, joint, uniform, country)


def grids(records: tuple[int, ...] = RECORDS, side: int = SIDE, seed: int = SEED) -> Iterator[Grid]:
    """Every kind with every number of records; each has its own generator."""
    for place, kind in enumerate(KINDS):
        for size, number in enumerate(records):
            generator = np.random.default_rng([seed, 1, place, size])
            weights = kind(generator, side)
            yield Grid(kind.__name__, generator.poisson(number * weights / weights.sum()))


def _heap(side: int, centre: Floats, width: float) -> Floats:
    place = np.arange(side) / side
    rows, columns = (np.exp(-0.5 * ((place - middle) / width) ** 2) for middle in centre)
    heap = np.outer(rows, columns)
    return np.asarray(heap / max(float(heap.sum()), 1e-12))
