"""Generated histograms in place of data that may not be shipped: seeded, and like the originals in size and shape only.

Each is written from what the papers say about the original (what is counted, how many records, how many empty cells,
how rough it is), not from its counts. A test keeps totals and shares of empty cells near the published ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.reproduce.random_inputs import Generator, generator

CELLS = 4096
SIDE = 256


@dataclass(frozen=True)
class StandIn:
    """What the original counts, how many records it has, which share of its cells is empty, how ours is made."""

    what: str
    records: int
    empty: float
    shape: Callable[[Generator], Floats]
    axes: int = 1

    def make(self, seed: int) -> Ints:
        """Counts with about that many records and that share of empty cells."""
        draw = generator(seed, "stand-in", self.what)
        return _counts(draw, self.shape(draw), self.records, self.empty)


def _counts(draw: Generator, rates: Floats, records: int, empty: float) -> Ints:
    """Poisson counts for the rates; cells with the lowest rates are empty, the others have a record at least."""
    flat = rates.reshape(-1).copy()
    unused = np.argsort(flat, kind="stable")[: round(empty * flat.size)]
    flat[unused] = 0.0
    counts = np.maximum(draw.poisson(flat / flat.sum() * records), 1)
    counts[unused] = 0
    return np.asarray(counts.reshape(rates.shape), dtype=np.int64)


def _net_trace(draw: Generator) -> Floats:
    """Connections by internal host: three blocks of addresses in use, quiet hosts and few very busy ones."""
    rates = draw.uniform(0.0, 1e-6, CELLS)
    for block in (300, 1400, 2900):
        rates[block : block + 48] = draw.uniform(0.5, 1.5, 48)
        rates[block + draw.choice(48, 3, replace=False)] += 1000 * (draw.pareto(1.0, 3) + 0.5)
    return rates


def _medical_cost(draw: Generator) -> Floats:
    """Costs: fewer and fewer upwards, evenly."""
    place = np.arange(CELLS)
    return np.asarray(np.exp(-place / 260.0) * draw.gamma(8.0, 1 / 8, CELLS))


def _search_logs(draw: Generator) -> Floats:
    """How often a name is searched: nearly never for half of the time, then a slow rise with bursts."""
    place = np.arange(CELLS)
    rates = np.where(place < 0.52 * CELLS, 1e-3, 1.0 + 2.0 * (place / CELLS - 0.52)) * draw.gamma(6.0, 1 / 6, CELLS)
    for centre in draw.integers(int(0.55 * CELLS), CELLS, 25):
        rates += draw.pareto(1.2) * 3 * np.exp(-np.abs(place - centre) / draw.uniform(3, 40))
    return np.asarray(rates * (place >= 0.51 * CELLS) + 1e-6 * draw.uniform(0, 1, CELLS))


def _income(draw: Generator) -> Floats:
    """Incomes: log-normal, with most people at round sums; cut off at the top, and thin before."""
    place = np.arange(CELLS) + 0.5
    rates = np.exp(-((np.log(place) - np.log(300.0)) ** 2) / (2 * 0.8**2)) / place
    rates *= draw.gamma(4.0, 1 / 4, CELLS)
    rates[::5] *= 4
    rates[::25] *= 4
    thin = place > 1300
    rates[thin] *= np.where(np.arange(int(thin.sum())) % 25 == 0, 1.0, 1e-5)
    rates[place > 3000] *= 1e-3
    return np.asarray(rates)


def _patent(draw: Generator) -> Floats:
    """Citations by day: nearly none at first, then ever more, more on one day of the week than on the others."""
    place = np.arange(CELLS)
    week = np.where(place % 7 == 2, 3.0, 0.6)
    return np.asarray(np.exp(14.0 * place / CELLS) * week * draw.gamma(12.0, 1 / 12, CELLS))


def _physics(draw: Generator) -> Floats:
    """Citations of preprints by day: rising, rough from day to day, few at weekends."""
    place = np.arange(CELLS)
    week = np.where(place % 7 >= 5, 0.05, 1.0)
    return np.asarray((0.01 + (place / CELLS) ** 2) * week * draw.gamma(1.5, 1 / 1.5, CELLS))


def _towns(towns: int, spread: float, weight: float, side: int = SIDE) -> Callable[[Generator], Floats]:
    """Points around towns of very different size."""

    def shape(draw: Generator) -> Floats:
        places = np.arange(side)
        rates = np.full((side, side), 1e-9)
        for size in draw.pareto(weight, towns) + 0.05:
            x, y = draw.uniform(0, side, 2)
            width = spread * (0.5 + size**0.3)
            near = [places[max(0, int(centre - 6 * width)) : int(centre + 6 * width) + 1] for centre in (x, y)]
            across, along = (np.exp(-((n - c) ** 2) / (2 * width**2)) for n, c in zip(near, (x, y), strict=True))
            rates[np.ix_(*near)] += size * np.outer(across, along)
        return np.asarray(rates * draw.gamma(0.8, 1.25, (side, side)))

    return shape


def _people(draw: Generator) -> Floats:
    """People by age and income: fewer in old age, incomes highest in the fifties and often round."""
    age, income = np.arange(79)[:, None], np.arange(100)[None, :] + 0.5
    people = 1 / (1 + np.exp((age - 48) / 9.0))
    middle = 12 + 16 * np.exp(-(((age - 33) / 20.0) ** 2))
    rates = people * np.exp(-((np.log(income / middle)) ** 2) / (2 * 0.7**2)) / income
    rates[:, ::5] *= 2.5
    return np.asarray(rates * draw.gamma(3.0, 1 / 3, (79, 100)))


STAND_INS = {
    "NETTRACE": StandIn("external connections of each internal host", 25_714, 0.966, _net_trace),
    "MEDCOST": StandIn("medical cost of a person", 9_415, 0.748, _medical_cost),
    "SEARCHLOGS": StandIn("searches for one name over time", 335_889, 0.510, _search_logs),
    "INCOME": StandIn("income of a person", 20_787_122, 0.450, _income),
    "PATENT": StandIn("new citations of patents by day", 27_948_226, 0.062, _patent),
    "HEPTH": StandIn("new citations of physics preprints by day", 347_414, 0.212, _physics),
    "TWITTER": StandIn("messages by place", 193_563, 0.945, _towns(60, 1.5, 1.1), axes=2),
    "ROADS": StandIn("road intersections by place", 1_634_165, 0.80, _towns(400, 5.0, 1.2, side=1024), axes=2),
    "CENSUS": StandIn("people by age and income", 1_000_000, 0.20, _people, axes=2),
}
"""Stand-ins by the name of the original's file."""
