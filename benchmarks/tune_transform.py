"""Chooses the constants of `dawa-transform` on a line on synthetic histograms alone: penalties, and when to give up.

Cases are 90 tables at one epsilon each. A case is judged by the root mean squared error of a cell, with the same
seeded noise for every setting, over the least of what else a user could ask for: running sums, raw or made monotone,
and `dawa` as it is in the package, so choose its constants first. Rules may be switched off: a limit that no risk
reaches, ends that need not be met. `ours` is what was chosen, `other` what is on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from benchmarks.harness import Row
from benchmarks.synthetic import Histogram, histograms
from benchmarks.tuning import Knob, Setting, rows, search, seeded_run
from blowfishdb.mechanisms.data_aware.dawa import Dawa, RunRule, even_runs
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import line

PART = "transform"
EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))
DRAWS = 1
NEVER = 1e9
"""A limit of roughness that nothing reaches: the rule is off."""
KNOBS = (
    Knob("penalty", (2.0, 3.0, 5.0, 7.0, 10.0, 14.0), 5.0),
    Knob("step_penalty", (6.0, 10.0, 14.0, 20.0, 28.0, 40.0), 14.0),
    Knob("clearly_rough", (0.0, 12.0, 24.0, 48.0, NEVER), NEVER),
    Knob("part_left", (0.25, 0.5, 0.75, 1.0), 1.0),
    Knob("meets_ends", (0.0, 1.0), 0.0),
)
GROUPS = (KNOBS[:1], KNOBS[1:2], KNOBS[2:4], KNOBS[4:])


def run(data: Path | None) -> Iterator[Row]:
    """A row for each constant, and one for the errors of the choice."""
    del data
    yield from rows(PART, search(GROUPS, TransformErrors(list(histograms())).ratios))


class TransformErrors:
    """The errors of settings on some tables, with noise drawn once."""

    def __init__(self, tables: Sequence[Histogram]) -> None:
        self.draws = [
            (table.counts, _noisy_sums(table.counts, _epsilon(seed), [seed, draw]), 2 / float(_epsilon(seed)) ** 2)
            for seed, table in enumerate(tables)
            for draw in range(DRAWS)
        ]
        blind = self._by_table([_blind(counts, sums) for counts, sums, _ in self.draws])
        dawa = [_dawa(table.counts, _epsilon(seed), draw) for seed, table in enumerate(tables) for draw in range(DRAWS)]
        self.rival = np.minimum(blind, self._by_table(dawa))

    def ratios(self, setting: Setting) -> Floats:
        """For each table the root mean squared error over that of the best rival."""
        rule = RunRule(
            setting["penalty"],
            max(setting["step_penalty"], setting["penalty"]),
            setting["clearly_rough"],
            setting["part_left"],
            setting["meets_ends"] > 0,
        )
        errors = [
            float(np.mean((even_runs(sums, float(counts.sum()), variance, rule).cells - counts) ** 2))
            for counts, sums, variance in self.draws
        ]
        return np.sqrt(self._by_table(errors) / self.rival)

    def _by_table(self, errors: Sequence[float]) -> Floats:
        return np.asarray(np.mean(np.reshape(np.asarray(errors), (-1, DRAWS)), axis=1))


def _epsilon(seed: int) -> Fraction:
    return EPSILONS[(seed + seed // len(EPSILONS)) % len(EPSILONS)]


def _noisy_sums(counts: Ints, epsilon: Fraction, seed: Sequence[int]) -> Floats:
    noise = np.random.default_rng(seed).laplace(0.0, float(1 / epsilon), counts.size - 1)
    return np.asarray(np.cumsum(counts)[:-1] + np.rint(noise))


def _blind(counts: Ints, sums: Floats) -> float:
    total = float(counts.sum())
    raw, monotone = sums, np.clip(isotonic_regression(sums).x, 0.0, total)
    found = (np.diff(np.concatenate([[0.0], each, [total]])) for each in (raw, monotone))
    return min(float(np.mean((cells - counts) ** 2)) for cells in found)


def _dawa(counts: Ints, epsilon: Fraction, seed: int) -> float:
    mechanism, problem = Dawa(), Problem(line(counts.size), Identity(counts.size))
    found = seeded_run(mechanism.script(problem, mechanism.program(problem, epsilon)), counts, seed)
    return float(np.mean((found.cells - counts) ** 2))
