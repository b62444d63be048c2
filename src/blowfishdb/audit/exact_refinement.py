"""Refinements against the odds of their comparisons: one record on the path of blocks that all are cut."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.audit.exact_selections import line_graph
from blowfishdb.audit.noise_laws import NoiseLaw
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.plan.refinement import RefinementNoise

SLACK = 1e-9
LEVELS = (1, 2, 3, 5)
RULES = ((1, 3, 2), (3, 9, 5), (0, 4, 4), (2, 1, 6), (5, 2, 0))
"""First threshold, spacing and clip."""
UNITS = (Fraction(2, 3), Fraction(2), Fraction(7))


def refinement_lines() -> list[Line]:
    """For each number of levels and each rule: the worst score of the blocks on the path of one record."""
    troubles, tried, closest = list[str](), 0, 0.0
    alone = line_graph(2, "only")
    for levels in LEVELS:
        for first, spacing, clip in RULES:
            for unit in UNITS:
                noise = RefinementNoise(unit, 4 ** np.arange(levels), first, spacing, clip)
                claimed, true = float(noise.epsilon(alone)), _worst_path(noise)
                closest, tried = max(closest, true / claimed), tried + 1
                if true > claimed + SLACK:
                    troubles.append(f"{levels} levels, scale {unit}: the odds differ by {true:.6g}, not {claimed:.6g}")
    return [
        judged("exact", "cuts on the path of a record", "odds", troubles, f"up to {closest:.4g} of the loss", tried)
    ]


def _worst_path(noise: RefinementNoise) -> float:
    """The most that one record more changes the odds of all blocks on its path being cut, or of the first being kept.

    No block scores more than the one it is part of; at the worst all of them score the same.
    """
    law, worst = NoiseLaw(float(noise.unit)), 0.0
    top = noise.first + noise.levels.size * noise.spacing + 2
    for score in range(top):
        before, after = ([_above(noise, level, score + more) for level in range(noise.levels.size)] for more in (0, 1))
        gained = sum(
            math.log(law.at_least(1 - more) / law.at_least(1 - less)) for less, more in zip(before, after, strict=True)
        )
        # Noise is as likely above as below, so a block is kept as often as noise reaches its score.
        worst = max(worst, gained, math.log(law.at_least(before[0]) / law.at_least(after[0])))
    return worst


def _above(noise: RefinementNoise, level: int, score: int) -> int:
    """What is compared with the noise: how far the score lies above its threshold, or as far below as counts."""
    return max(score - noise.first - level * noise.spacing, -noise.clip)
