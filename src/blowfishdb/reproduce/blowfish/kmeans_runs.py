"""One piece of the k-means figures: a point set under a policy at an epsilon, the paper's way and ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from blowfishdb.reproduce.blowfish.clusters import (
    non_private,
    objective,
    policy_of,
    prepared,
    printed_centers,
    sound_centers,
)
from blowfishdb.reproduce.blowfish.point_sets import PointSet, point_set
from blowfishdb.reproduce.experiment import Case
from blowfishdb.reproduce.result import Row
from blowfishdb.reproduce.settings import Settings

UNITS = {"tweets": " km", "places": "°"}
Policies = Iterable[tuple[str, str]]
"""Kinds of policies, each with its number."""


def epsilons(settings: Settings) -> tuple[str, ...]:
    """The paper's ten, or fewer."""
    return settings.pick(("0.5",), ("0.1", "0.3", "1"), tuple(f"{tenth / 10:g}" for tenth in range(1, 11)))


def repeats(settings: Settings) -> tuple[int, int]:
    """How often the paper's iteration is run, in full as often as in the paper, and our release.

    At the smallest epsilon single objectives of both differ by a fifth and more from their mean.
    """
    return settings.pick((1, 1), (3, 3), (50, 15))


def cases(settings: Settings, names: Iterable[str], policies: Mapping[str, Policies]) -> list[Case]:
    """Every point set under each of its policies at each epsilon."""
    return [(name, *policy, epsilon) for name in names for policy in policies[name] for epsilon in epsilons(settings)]


def thetas(names: Iterable[str], numbers: Mapping[str, Sequence[str]]) -> dict[str, Policies]:
    """The full graph, then thresholds from the widest to the narrowest."""
    return {name: [("full", ""), *(("theta", theta) for theta in numbers[name])] for name in names}


def measure(settings: Settings, case: Case) -> list[Row]:
    """Mean objective over the mean non-private one, with quartiles, as printed and from one certified release.

    `noiseless` is the paper's iteration from the same random centres without any noise: what its start alone costs.
    """
    name, kind, value, epsilon = (str(part) for part in case)
    trials, our_trials = repeats(settings)
    if kind == "cells":
        # Public cells are counted exactly: there is nothing to repeat.
        our_trials = 1
    sets = [point_set(settings, name, repeat) for repeat in range(trials)]
    policy = policy_of(sets[0], kind, value)
    ready = prepared(sets[0], policy, epsilon)
    base, our_base = (float(np.mean([_base(points) for points in sets[:count]])) for count in (trials, our_trials))
    printed = [objective(p, printed_centers(p, seed, kind, value, epsilon)) / base for seed, p in enumerate(sets)]
    own = enumerate(sets[:our_trials])
    ours = [objective(p, sound_centers(p, seed, policy, ready)) / our_base for seed, p in own]
    noiseless = [_without_noise(p, seed) / base for seed, p in enumerate(sets)]
    return [
        {
            "data": sets[0].label,
            "policy": words_of(name, kind, value),
            "epsilon": float(epsilon),
            **_summary("printed", printed),
            **_summary("ours", ours),
            "noiseless": float(np.mean(noiseless)),
            "trials": trials,
            "our_trials": our_trials,
        }
    ]


def words_of(name: str, kind: str, value: str) -> str:
    """The policy as a legend says it."""
    if kind == "theta":
        return f"θ = {value}{UNITS.get(name, '')}"
    if kind == "partition":
        return f"{int(value) ** 2:,} blocks"
    return {"full": "full graph", "attribute": "one attribute at a time", "cells": "each cell by itself"}[kind]


@lru_cache(maxsize=128)
def _base(points: PointSet) -> float:
    return non_private(points)


@lru_cache(maxsize=256)
def _without_noise(points: PointSet, seed: int) -> float:
    """The paper's iteration where every cell is by itself: no noise, whatever epsilon is."""
    return objective(points, printed_centers(points, seed, "cells", "", "1"))


def _summary(name: str, found: list[float]) -> dict[str, float]:
    low, high = np.quantile(found, [0.25, 0.75])
    return {name: float(np.mean(found)), f"{name}_low": float(low), f"{name}_high": float(high)}
