"""Data for the k-means benchmark: the paper's synthetic set, and sets of places and colours or stand-ins for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import blowfishdb as bf
from blowfishdb.model.arrays import Floats
from blowfishdb.model.domain import Domain

COLUMNS = ("a", "b", "c", "d")
ROWS, CLUSTERS = 1000, 4
"""The size of the synthetic set, and the number of its true centres."""


@dataclass(frozen=True, eq=False)
class Table:
    """Records by columns, the domain that is declared of them, and the thresholds to try in the L1 metric."""

    name: str
    records: Floats
    domain: Domain
    thetas: tuple[str, ...]
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return self.domain.names


def synthetic(seed: int) -> Table:
    """Points of the unit cube around random centres, with noise of standard deviation 0.2 in each direction."""
    rng = np.random.default_rng(seed)
    centers = rng.random((CLUSTERS, len(COLUMNS)))
    points = centers[rng.integers(0, CLUSTERS, ROWS)] + rng.normal(0.0, 0.2, (ROWS, len(COLUMNS)))
    domain = bf.domain({name: bf.bins(0, 1, width="0.001", null=0) for name in COLUMNS})
    return Table("4-D synthetic", np.clip(points, 0.0, 0.9999), domain, ("0.1", "0.5"))


def places(data: Path | None) -> Iterator[Table]:
    """Latitudes and longitudes in the paper's window of the western United States and of the whole world."""
    file = find(data, "geonames_cities1000_latlon.npy")
    if file is None:
        yield _towns()
        return
    world = np.load(file).astype(np.float64)
    yield Table("2-D towns of the world", world, _window(-60, 80, -180, 180), ("1", "10"), "GeoNames cities1000")


def _window(south: int, north: int, west: int, east: int) -> Domain:
    each = {"latitude": (south, north), "longitude": (west, east)}
    return bf.domain({name: bf.bins(low, high, width="0.05", null=low) for name, (low, high) in each.items()})


def _towns() -> Table:
    """Towns of very different sizes, few of them large."""
    rng = np.random.default_rng(11)
    centers = np.stack([rng.uniform(30, 50, 200), rng.uniform(-125, -110, 200)], axis=1)
    sizes = 1.0 / np.arange(1, 201) ** 1.1
    chosen = rng.choice(200, 50_000, p=sizes / sizes.sum())
    records = centers[chosen] + rng.normal(0.0, 0.15, (chosen.size, 2))
    return Table("2-D towns, generated", records, _window(30, 50, -125, -110), ("0.5", "5"), "stand-in without --data")


def colours(data: Path | None) -> Iterator[Table]:
    """Blue, green and red of pixels, and a hundredth of them."""
    file = find(data, "skin_segmentation_245057.csv")
    domain = bf.domain({name: bf.integers(0, 255, null=0) for name in ("blue", "green", "red")})
    rng = np.random.default_rng(12)
    if file is None:
        shade = rng.beta(1.2, 1.2, (50_000, 1))
        tint = np.array([[0.7, 0.85, 1.0], [1.0, 1.0, 1.0], [0.4, 0.55, 0.5]])[rng.integers(0, 3, 50_000)]
        pixels, note = np.clip(shade * tint + rng.normal(0, 0.05, (50_000, 3)), 0, 1) * 255, "stand-in without --data"
    else:
        pixels, note = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(0, 1, 2)), "UCI Skin Segmentation"
    yield Table(f"3-D colours, {len(pixels):,}", np.floor(pixels), domain, ("32", "128"), note)
    few = pixels[rng.choice(len(pixels), len(pixels) // 100, replace=False)]
    yield Table(f"3-D colours, {len(few):,}", np.floor(few), domain, ("32", "128"), note)


def find(data: Path | None, name: str) -> Path | None:
    """The file of that name under the folder that was given."""
    return None if data is None else next(iter(sorted(data.rglob(name))), None)
