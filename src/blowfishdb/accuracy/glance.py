"""Quick looks that rank strategies before any is examined closely; no promise ever rests on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.bound import REFERENCE_BETA, ROUGHLY, least_alpha
from blowfishdb.accuracy.setting import GivesCoefficients, Setting
from blowfishdb.accuracy.sum_tails import from_coefficients
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import AllRanges, as_intervals
from blowfishdb.plan.plan import Measurement, Plan

LOOKED_AT = 2_000
"""Answers whose variances are looked at."""
TYPICAL = 4.0
"""The number of standard deviations at which answers of different variance are weighed against each other."""
LIKELY_LARGEST = 5.5
"""How many standard deviations off the worst of many answers is, where nothing better is known."""
AT_LEAST = 4.5
"""The same, with some certainty too small."""
EDGES = 4
"""Edges whose loss is looked at before a certificate looks at all of them."""


@dataclass(frozen=True, eq=False)
class Glance:
    """A strategy before its certificate: what alpha times epsilon is about, for each unit of loss."""

    setting: Setting

    def least_price(self) -> float:
        """About the least that the price may turn out to be, from variances alone; 0 where they tell nothing."""
        if self.setting.is_exact or isinstance(self.setting.problem.workload, AllRanges):
            return 0.0
        return AT_LEAST * math.sqrt(float(self._variances[1].max())) / self.setting.coarse_unit * self.loss

    @cached_property
    def price_per_loss(self) -> float:
        """About alpha times epsilon at the reference beta if the loss at unit 1 were 1."""
        setting, strategy = self.setting, self.setting.strategy
        unit = setting.coarse_unit
        if isinstance(setting.problem.workload, AllRanges):
            typical = setting.total_variance(setting.coarse_variances) / setting.problem.workload.shape[0]
            return LIKELY_LARGEST * math.sqrt(typical) / unit
        chosen, found = self._variances
        worst = int(found.argmax())
        if not isinstance(strategy, GivesCoefficients):
            return LIKELY_LARGEST * math.sqrt(float(found[worst])) / unit
        relative = found[worst] / np.maximum(found, found[worst] / 100.0)
        alike = float(np.mean(np.exp(TYPICAL**2 / 2.0 * (1.0 - relative)))) * setting.problem.workload.shape[0]
        coefficients = strategy.coefficients(chosen[worst : worst + 1], setting.coarse_variances)
        tails = from_coefficients(coefficients, 1.0 / setting.weights, np.array([alike]))
        return least_alpha(lambda alpha: tails.failure(unit, alpha), REFERENCE_BETA, unit, ROUGHLY) / unit

    @cached_property
    def loss(self) -> float:
        """The largest loss at unit 1 of a few long edges of one ordered axis; 0 where these are not easily found."""
        graph, plan = self.setting.problem.graph, self.setting.plan
        window = graph.factors[0]
        if len(graph.factors) > 1 or not isinstance(window, WindowGraph) or not isinstance(plan, Plan):
            return 0.0
        losses = np.zeros(EDGES)
        starts = np.linspace(0, window.size - 1, EDGES + 1).astype(np.int64)[:-1]
        for part in plan.parts:
            spans = as_intervals(part.rows) if isinstance(part, Measurement) else None
            if spans is None:
                return 0.0
            for place, (first, last) in enumerate(zip(starts, window.reach[starts], strict=True)):
                differs = ((spans.low <= first) & (first < spans.high)) != ((spans.low <= last) & (last < spans.high))
                losses[place] += float(np.sum(part.weights[differs]))
        return float(losses.max()) * graph.rows_per_person

    @cached_property
    def _variances(self) -> tuple[Ints, Floats]:
        """Some answers and their variances at the coarse unit."""
        setting = self.setting
        if isinstance(setting.strategy, GivesCoefficients):
            return setting.strategy.some_variances(LOOKED_AT, setting.coarse_variances)
        return np.arange(setting.problem.workload.shape[0]), setting.coarse_answer_variances
