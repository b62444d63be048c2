"""Chooses the constants of `dawa` on synthetic histograms alone: where blocks are cut, shares of epsilon, the gate.

Cases are 90 tables, each at one epsilon, each with three workloads: random ranges, ranges of up to 64 cells, cells. The
search starts from what the literature has (a quarter for looking, a clip as wide as the spacing) and from halves. Then
the constants for long ranges, whose shares of epsilon are the same: 102 tables at three epsilons, random ranges only.
`ours` is what was chosen, `other` what is on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.expected_error import WORKLOADS, Case, keep_chance, merged, problem_of, short_part
from benchmarks.harness import Row
from benchmarks.synthetic import RANGE_KINDS, Histogram, histograms
from benchmarks.tuning import LIMIT, Knob, Outcome, Setting, rows, search
from blowfishdb.mechanisms.data_aware.dawa import SELECT_SHARE
from blowfishdb.mechanisms.data_aware.partition import RANGE_GATE, CutRule, GateRule, gate_stage
from blowfishdb.model.numbers import Floats

PART, RANGES = "dawa", "dawa-ranges"
EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
DRAWS = 1
LOOKING = (
    (Knob("select_share", (0.05, 0.1, 0.15, 0.2, 0.25, 0.35), 0.25),),
    (Knob("spacing", (1.0, 1.5, 2.0, 2.5, 3.0), 2.0),),
    (Knob("clip", (0.5, 1.0, 1.5, 2.0, 3.0), 2.0),),
    (Knob("first", (-1.0, 0.0, 1.0, 2.0), 0.0),),
)
GATE = (
    Knob("gate_share", (0.005, 0.01, 0.02), 0.02),
    Knob("block", (4.0, 8.0, 16.0, 32.0), 16.0),
    Knob("cap", (15.0, 20.0, 30.0, 45.0, 70.0), 45.0),
    Knob("uneven_for_ranges", (0.2, 0.3, 0.4, 0.5, 0.6, 0.7), 0.5),
    Knob("uneven_for_cells", (0.1, 0.15, 0.2, 0.3, 0.4), 0.3),
    Knob("short", (8.0, 16.0, 32.0), 16.0),
)
RANGE_LOOKING = (
    (Knob("spacing", (2.0, 2.5, 3.0, 3.5), 2.0),),
    (Knob("clip", (1.5, 2.0, 2.5), 2.0),),
    (Knob("first", (-2.0, -1.0, 0.0, 1.0), 0.0),),
)
RANGE_GATE_KNOBS = (
    Knob("block", (16.0, 32.0, 64.0, 128.0), 16.0),
    Knob("cap", (30.0, 45.0, 65.0, 90.0), 45.0),
    Knob("uneven_for_ranges", (0.3, 0.35, 0.4, 0.45, 0.5, 0.55), 0.5),
)
FIXED: Setting = {"select_share": float(SELECT_SHARE), "gate_share": float(RANGE_GATE.share), "short": RANGE_GATE.short}
RANGE_LIMIT = 1.035
"""Long ranges are held to 1.05 times the error of the best plan that does not look: a third of the margin is left."""


def run(data: Path | None) -> Iterator[Row]:
    """A row for each constant, and one for the errors of the choice."""
    del data
    yield from rows(PART, chosen(DawaErrors(list(cases())), LOOKING, GATE))
    errors = DawaErrors(list(range_cases()), for_ranges=True)
    yield from rows(RANGES, chosen(errors, RANGE_LOOKING, RANGE_GATE_KNOBS, RANGE_LIMIT))


def chosen(
    errors: DawaErrors, looking: Sequence[Sequence[Knob]], gate: Sequence[Knob], limit: float = LIMIT
) -> Outcome:
    """The best constants for looking, each tried with the gate that suits it best, then that gate."""

    def with_its_gate(setting: Setting) -> Floats:
        return errors.ratios({**setting, **best_gate(setting).setting})

    def best_gate(setting: Setting) -> Outcome:
        return search((gate,), lambda tried: errors.ratios({**setting, **tried}), limit)

    found = search(looking, with_its_gate, limit)
    suits = best_gate(found.setting)
    return Outcome((*found.choices, *suits.choices), suits.mean, suits.worst, found.tried * suits.tried)


def cases(tables: Sequence[Histogram] | None = None) -> Iterator[Case]:
    """Every table with every workload, at epsilons in turn."""
    for seed, table in enumerate(histograms() if tables is None else tables):
        for workload in WORKLOADS:
            yield Case(table.counts, EPSILONS[(seed + seed // len(EPSILONS)) % len(EPSILONS)], workload, seed)


def range_cases(tables: Sequence[Histogram] | None = None) -> Iterator[Case]:
    """Every table of the kinds for ranges at every epsilon."""
    for seed, table in enumerate(histograms(kinds=RANGE_KINDS) if tables is None else tables):
        for epsilon in EPSILONS:
            yield Case(table.counts, epsilon, WORKLOADS[0], seed)


class DawaErrors:
    """The errors of settings on some cases, what they share computed once; `for_ranges` as long ranges are served."""

    def __init__(self, known: Sequence[Case], *, for_ranges: bool = False) -> None:
        self.cases = known
        self.for_ranges = for_ranges
        self.epsilon = np.array([float(case.epsilon) for case in known])
        self.kept = np.array([case.kept for case in known])
        self.blind = np.array([case.blind for case in known])
        self.merged = cache(self._merged)
        self.uneven = cache(self._uneven)
        self.limits = cache(self._limits)

    def ratios(self, setting: Setting) -> Floats:
        """For each case the expected error over that of the best plan that does not look at the data."""
        setting = self.complete(setting)
        looking = tuple(setting[group[0].name] for group in LOOKING)
        merged_errors = self.merged(looking)[setting["gate_share"]]
        keeps = self.keeps(setting)
        kept = self.kept / (1.0 - setting["gate_share"])
        return np.asarray((keeps * kept + (1.0 - keeps) * merged_errors) / self.blind)

    def keeps(self, setting: Setting) -> Floats:
        """For each case the probability that the gate says to measure every cell."""
        setting = self.complete(setting)
        uneven, largest, loss = self.uneven(setting["cap"], setting["block"])
        short = self.limits(setting["short"])
        limit = setting["uneven_for_ranges"] + short * (setting["uneven_for_cells"] - setting["uneven_for_ranges"])
        return keep_chance(uneven - np.floor(limit * largest), loss / (self.epsilon * setting["gate_share"]))

    def complete(self, setting: Setting) -> Setting:
        """The setting with the constants that ranges do not choose."""
        if not self.for_ranges:
            return setting
        return {**FIXED, "uneven_for_cells": setting["uneven_for_ranges"], **setting}

    def _merged(self, looking: tuple[float, ...]) -> dict[float, Floats]:
        """For each share of the gate the errors where buckets are looked for."""
        share, spacing, clip, first = looking
        rule = CutRule(first, spacing, clip)
        found = [merged(case, Fraction(str(share)), rule, DRAWS, self.for_ranges) for case in self.cases]
        return {
            gate: np.array([one.error(e * (1.0 - gate - share)) for one, e in zip(found, self.epsilon, strict=True)])
            for gate in GATE[0].values
        }

    def _uneven(self, cap: float, block: float) -> tuple[Floats, Floats, Floats]:
        """What the gate sees of each case, the most it could see, and what it costs at noise of unit 1."""
        rule = GateRule(Fraction(1, 2), int(block), cap, 1.0, 1.0, 1, self.for_ranges)
        stages = [gate_stage(problem_of(c.cells, c.workload), c.epsilon / 2, c.epsilon, rule) for c in self.cases]
        uneven = [stage.unevenness(case.counts) for stage, case in zip(stages, self.cases, strict=True)]
        largest = [stage.cap * -(-stage.cells // stage.block) for stage in stages]
        loss = [float(stage.unit * case.epsilon / 2) for stage, case in zip(stages, self.cases, strict=True)]
        return np.array(uneven, dtype=np.float64), np.array(largest, dtype=np.float64), np.array(loss)

    def _limits(self, short: float) -> Floats:
        rule = GateRule(Fraction(1, 2), 2, 1.0, 1.0, 1.0, int(short))
        return np.array([short_part(case.cells, case.workload, rule) for case in self.cases])
