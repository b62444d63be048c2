"""Public synthetic histograms and grids: what tables look like in general, made from a seed and nothing else.

Each kind is a shape that a whole class of columns has, with parameters drawn at random. Records are then drawn from the
shape, from a thousand to a hundred million of them, so that every shape occurs drowned in noise and clear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Floats, Ints

SEED = 20_240
RECORDS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
CELLS = (1024, 2048, 4096)
MARKS = (5, 10, 12, 25, 50, 60, 100)
"""Numbers that people and clocks round to."""

Generator = np.random.Generator
Shape = Callable[[Generator, int], Floats]


@dataclass(frozen=True, eq=False)
class Histogram:
    """A made-up histogram: which kind of shape, how many records were meant, and the counts."""

    kind: str
    records: int
    counts: Ints

    def __post_init__(self) -> None:
        if self.counts.ndim != 1 or np.any(self.counts < 0):
            raise InvalidInput("a histogram is one row of counts")


def flat(generator: Generator, cells: int) -> Floats:
    """Ids, hashes, a uniform draw: all cells alike."""
    del generator
    return np.ones(cells)


def steps(generator: Generator, cells: int) -> Floats:
    """Tariffs, classes, ranges of ids in use: segments of one level, a third of them empty."""
    ends = np.sort(generator.choice(np.arange(1, cells), int(generator.integers(4, 40)), replace=False))
    levels = generator.lognormal(0.0, 1.5, ends.size + 1) * (generator.random(ends.size + 1) > 1 / 3)
    levels[0] += 1.0
    return np.asarray(np.repeat(levels, np.diff(np.concatenate([[0], ends, [cells]]))), dtype=np.float64)


def spikes(generator: Generator, cells: int) -> Floats:
    """Codes of which few are in use: heavy-tailed heights on one to five cells in a hundred."""
    used = generator.choice(cells, int(cells * generator.uniform(0.01, 0.05)), replace=False)
    shape = np.zeros(cells)
    shape[used] = 1.0 + generator.pareto(generator.uniform(0.8, 2.0), used.size)
    return shape


def ranked(generator: Generator, cells: int) -> Floats:
    """Values numbered by how frequent they are, and counts of things per person: a power law in order."""
    return np.asarray((1.0 + np.arange(cells)) ** -generator.uniform(0.7, 1.8), dtype=np.float64)


def shuffled(generator: Generator, cells: int) -> Floats:
    """Codes numbered without regard to frequency: a power law in no order."""
    return generator.permutation(ranked(generator, cells))


def bells(generator: Generator, cells: int) -> Floats:
    """Measured quantities of a few groups: a mixture of bells of very different widths."""
    place = np.arange(cells) / cells
    shape = np.zeros(cells)
    for _ in range(int(generator.integers(1, 8))):
        width = float(generator.lognormal(-3.5, 1.0))
        shape += generator.random() / width * np.exp(-0.5 * ((place - generator.random()) / width) ** 2)
    return shape + 1e-6


def smooth(generator: Generator, cells: int) -> Floats:
    """Seasons, slow growth: a curve of a few long waves."""
    place = np.arange(cells) / cells
    waves = [
        generator.normal(0, 1.0 / wave) * np.cos(np.pi * wave * place + generator.uniform(0, 2 * np.pi))
        for wave in range(1, 7)
    ]
    return np.asarray(np.exp(generator.uniform(0.5, 2.0) * np.sum(waves, axis=0)), dtype=np.float64)


def tailed(generator: Generator, cells: int) -> Floats:
    """Amounts of money, durations: a long tail that is cut off and piled up at a top value, beside a pile at zero."""
    place = np.arange(1, cells + 1) / cells
    shape = np.exp(-0.5 * (np.log(place / generator.uniform(0.02, 0.2)) / generator.uniform(0.4, 1.0)) ** 2) / place
    top = int(cells * generator.uniform(0.5, 1.0)) - 1
    shape[top] += shape[top + 1 :].sum()
    shape[top + 1 :] = 0.0
    shape[0] += generator.uniform(0.0, 2.0) * shape.sum()
    return shape


def heaped(generator: Generator, cells: int) -> Floats:
    """What people report: a smooth or tailed curve of which a part is rounded to multiples of round numbers."""
    shape = (tailed if generator.random() < 0.5 else smooth)(generator, cells)
    for mark in generator.choice(MARKS, 2, replace=False):
        part = generator.uniform(0.1, 0.6)
        moved = part * np.add.reduceat(shape, np.arange(0, cells, mark))
        shape = (1.0 - part) * shape
        shape[::mark] += moved
    return shape


def lattice(generator: Generator, cells: int) -> Floats:
    """Amounts in a coarser unit than the cells: multiples of one number only, of different weight."""
    mark = int(generator.integers(2, 40))
    shape = np.zeros(cells)
    shape[::mark] = bells(generator, cells)[::mark] * generator.lognormal(0.0, 0.5, shape[::mark].size)
    return shape


def cycles(generator: Generator, cells: int) -> Floats:
    """Times: a pattern that repeats every day or week, slowly growing or falling, with quiet hours."""
    period = int(generator.integers(7, 200))
    pattern = np.maximum(generator.gamma(generator.uniform(0.5, 4.0), 1.0, period) - generator.uniform(0.0, 0.5), 0.0)
    return np.tile(pattern, -(-cells // period))[:cells] * smooth(generator, cells) + 1e-6


def dispersed(generator: Generator, cells: int) -> Floats:
    """Counts per day, place or number: a smooth curve around which single cells scatter more than chance does."""
    return smooth(generator, cells) * generator.lognormal(0.0, np.exp(generator.uniform(-3.0, 0.0)), cells)


def rough(generator: Generator, cells: int) -> Floats:
    """Every cell has a level of its own: nothing that neighbours tell of each other."""
    return generator.gamma(generator.uniform(0.3, 3.0), 1.0, cells)


def patchy(generator: Generator, cells: int) -> Floats:
    """Columns of several sources: segments that are flat, rough, spiky or empty side by side."""
    ends = np.sort(generator.choice(np.arange(1, cells), 5, replace=False))
    parts = []
    for size in np.diff(np.concatenate([[0], ends, [cells]])):
        kind = (flat, rough, spikes, dispersed)[int(generator.integers(4))]
        parts.append(generator.random() * kind(generator, max(int(size), 128))[:size])
    return np.concatenate(parts) + 1e-6


def nearly_empty(generator: Generator, cells: int) -> Floats:
    """A domain far larger than what occurs: all records within one hundredth of it."""
    size = max(cells // 100, 4)
    shape = np.zeros(cells)
    start = int(generator.integers(cells - size))
    shape[start : start + size] = generator.gamma(1.0, 1.0, size)
    return shape


def salaries(generator: Generator, cells: int) -> Floats:
    """Pay of a few groups: skewed bells of which most is agreed on, or told, in round numbers, and a pile at 0."""
    place = (np.arange(cells) + 0.5) / cells
    shape = np.zeros(cells)
    for _ in range(int(generator.integers(1, 4))):
        spread = np.log(place / generator.uniform(0.05, 0.4)) / generator.uniform(0.2, 0.8)
        shape += generator.random() * np.exp(-0.5 * spread**2) / place
    exact = shape * generator.uniform(0.05, 0.4)
    left = shape - exact
    shape = exact
    for mark in sorted(generator.choice(MARKS, 3, replace=False)):
        part = generator.uniform(0.2, 0.6) * left
        shape[::mark] += np.add.reduceat(part, np.arange(0, cells, mark))
        left = left - part
    shape[0] += generator.uniform(0.0, 0.5) * shape.sum()
    return np.asarray(shape + left)


def requests(generator: Generator, cells: int) -> Floats:
    """A log of requests by time: hours of the day, days of the week, and bursts that rise at once and fade."""
    day = int(generator.integers(24, 289))
    hours = np.arange(cells) * (2 * np.pi / day)
    waves = np.cos(hours - generator.uniform(0, 2 * np.pi)) + 0.5 * np.cos(2 * hours - generator.uniform(0, 2 * np.pi))
    days = generator.lognormal(0.0, generator.uniform(0.05, 0.5), cells // day + 1)
    shape = np.exp(generator.uniform(0.3, 1.5) * waves) * np.repeat(days, day)[:cells]
    for height in generator.pareto(1.0, int(generator.integers(3, 40))):
        start, length = int(generator.integers(cells)), float(np.exp(generator.uniform(0.0, 5.0)))
        shape[start:] += 5.0 * height * np.exp(-np.arange(cells - start) / length)
    return np.asarray(shape * generator.lognormal(0.0, generator.uniform(0.02, 0.3), cells))


KINDS: tuple[Shape, ...] = (
    flat,
    steps,
    spikes,
    ranked,
    shuffled,
    bells,
    smooth,
    tailed,
    heaped,
    lattice,
    cycles,
    dispersed,
    rough,
    patchy,
    nearly_empty,
)
RANGE_KINDS = (*KINDS, salaries, requests)
"""Those for the constants of ranges over one axis; the last two were added for them."""


def histograms(
    records: tuple[int, ...] = RECORDS, seed: int = SEED, kinds: Sequence[Shape] = KINDS
) -> Iterator[Histogram]:
    """Every kind with every number of records, lengths in turn; each has its own generator."""
    for place, shape in enumerate(kinds):
        for size, number in enumerate(records):
            generator = np.random.default_rng([seed, place, size])
            weights = shape(generator, CELLS[(place + size) % len(CELLS)])
            yield Histogram(shape.__name__, number, generator.poisson(number * weights / weights.sum()))


SIDE = 256
GRID_RECORDS = (10**4, 10**5, 10**6, 10**7)

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


def pay_by_age(generator: Generator, side: int) -> Floats:
    """Age and pay: skewed bells that rise and fall with age, pay mostly told in round numbers, ages sometimes."""
    age, pay = np.arange(side) / side, (np.arange(side) + 0.5) / side
    career = 1.0 + generator.uniform(0.5, 2.0) * np.sin(np.pi * np.minimum(1.3 * age, 1.0))
    spread = np.log(pay[None, :] / (generator.uniform(0.08, 0.25) * career)[:, None]) / generator.uniform(0.3, 0.7)
    weights = np.exp(-0.5 * spread**2) / pay[None, :] * _bell(generator, side, (0.3, 0.5), (0.15, 0.3))[:, None]
    for mark in generator.choice(MARKS[:5], 2, replace=False):
        weights = _told(weights, mark, generator.uniform(0.1, 0.6))
    if generator.random() < 0.5:
        weights = _told(weights.T, int(generator.choice(MARKS[:2])), generator.uniform(0.05, 0.3)).T
    return weights


def amounts(generator: Generator, side: int) -> Floats:
    """Age and gains, or gains and losses: nearly everybody has none, and the others one of few amounts."""
    weights = np.zeros((side, side))
    none = generator.uniform(0.7, 0.97)
    gains, sizes = _few(generator, side)
    if generator.random() < 0.5:
        weights[:, 0] = none * _bell(generator, side, (0.2, 0.5), (0.1, 0.25))
        for gain, size in zip(gains, sizes, strict=True):
            weights[:, gain] += (1.0 - none) * size * _bell(generator, side, (0.2, 0.7), (0.05, 0.25))
        return weights
    losses, parts = _few(generator, side)
    weights[0, 0], weights[0, gains], weights[losses, 0] = none, 0.6 * (1.0 - none) * sizes, 0.4 * (1.0 - none) * parts
    return weights


GRID_KINDS: tuple[Weights, ...] = (clusters, roads, cascade, spots, joint, uniform, country)
TABLE_KINDS: tuple[Weights, ...] = (pay_by_age, amounts)
"""Two columns of a table of persons; for the gate of two axes only."""


def grids(
    records: tuple[int, ...] = GRID_RECORDS, side: int = SIDE, kinds: Sequence[Weights] = GRID_KINDS, seed: int = SEED
) -> Iterator[Grid]:
    """Every kind with every number of records; each has its own generator."""
    for place, kind in enumerate(kinds):
        for size, number in enumerate(records):
            generator = np.random.default_rng([seed, 1, place, size])
            weights = kind(generator, side)
            yield Grid(kind.__name__, generator.poisson(number * weights / weights.sum()))


def _bell(generator: Generator, side: int, centre: tuple[float, float], width: tuple[float, float]) -> Floats:
    bell = np.exp(-0.5 * ((np.arange(side) / side - generator.uniform(*centre)) / generator.uniform(*width)) ** 2)
    return np.asarray(bell / bell.sum())


def _told(weights: Floats, mark: int, part: float) -> Floats:
    """The weights, of each row a part moved to the multiples of a round number."""
    moved = part * np.add.reduceat(weights, np.arange(0, weights.shape[1], mark), axis=1)
    weights = (1.0 - part) * weights
    weights[:, ::mark] += moved
    return weights


def _few(generator: Generator, side: int) -> tuple[Ints, Floats]:
    """Some places but the first, and their heavy-tailed parts of the whole."""
    places = generator.choice(np.arange(1, side), int(generator.integers(10, 80)), replace=False)
    sizes = 1.0 + generator.pareto(1.0, places.size)
    return places, sizes / sizes.sum()


def _heap(side: int, centre: Floats, width: float) -> Floats:
    place = np.arange(side) / side
    rows, columns = (np.exp(-0.5 * ((place - middle) / width) ** 2) for middle in centre)
    heap = np.outer(rows, columns)
    return np.asarray(heap / max(float(heap.sum()), 1e-12))
