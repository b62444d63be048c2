"""Top-down refinement: one noisy comparison cuts or keeps each node of a tree, at a loss that depth hardly raises."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.model.arrays import Bools, Ints, as_ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest

PRECISION = Context(prec=60)
MARGIN = Fraction(1, 10**40)
"""Exponentials are computed to 60 digits; bounds leave this much relative room, far more than any rounding."""


@dataclass(frozen=True, eq=False)
class RefinementNoise:
    """The noise of a refinement, and the rule by which it cuts.

    Level i has `levels[i]` nodes, each with a whole-number score. A node is cut when

        max(score - first - i spacing, -clip) + noise > 0,

    the noise two-sided of scale `unit`. One record that appears or vanishes moves the scores of one node per level, by
    at most 1 each, and no node's score exceeds its parent's; then the loss is at most

        (1 + sum over t >= 1 of g(t spacing - clip)) / unit,    g(x) = q^x / (1 + q - q^x), q = exp(-1 / unit),

    g(x) = 1 for x <= 0, one term per level below the first; twice that for a record that moves
    (proof: docs/proofs/refinement.md).
    """

    unit: Fraction
    levels: Ints
    first: int
    spacing: int
    clip: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", as_ints(self.levels))
        if not isinstance(self.unit, Fraction) or self.unit <= 0:
            raise PlanError("the unit of a refinement is a positive Fraction")
        if self.levels.ndim != 1 or self.levels.size == 0 or int(self.levels.min()) < 1:
            raise PlanError("a refinement has at least one level, and every level at least one node")
        if self.spacing < 1 or self.clip < 0:
            raise PlanError("thresholds rise by at least 1 a level, and the clip is not negative")

    @property
    def sizes(self) -> Ints:
        """One class of noise variables: the nodes of all levels, the first level first."""
        return np.array([self.levels.sum()])

    @property
    def weights(self) -> Ints:
        """All have noise of the same scale."""
        return np.ones(1, dtype=np.int64)

    @property
    def one_sided(self) -> bool:
        """False: nodes that are kept and nodes that are cut both show."""
        return False

    @property
    def tie_words(self) -> int:
        """None: a comparison has no ties to break."""
        return 0

    def cut(self, level: int, scores: Ints, draws: Ints) -> Bools:
        """Which nodes of one level are cut."""
        above = np.maximum(scores - (self.first + level * self.spacing), -self.clip)
        return np.asarray(above + draws > 0)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """A rational bound on the loss of publishing which nodes were cut."""
        rate = 1 / self.unit
        gaps = [level * self.spacing - self.clip for level in range(1, self.levels.size)]
        loss = rate * (1 + sum((_relative_loss(gap, rate) for gap in gaps), Fraction(0)))
        return loss * (2 if graph.has_value_edges else 1) * graph.rows_per_person

    def digest(self) -> str:
        """A hash of everything above."""
        return digest(("refine", self.unit, self.levels, self.first, self.spacing, self.clip))


def _relative_loss(gap: int, rate: Fraction) -> Fraction:
    """At least g(gap)."""
    if gap <= 0:
        return Fraction(1)
    least = _exponential(rate) * (1 - MARGIN)
    most = _exponential(rate * gap) * (1 + MARGIN)
    return most / (1 + least - most)


def _exponential(rate: Fraction) -> Fraction:
    """exp(-rate) to 50 digits."""
    power = PRECISION.divide(Decimal(rate.numerator), Decimal(rate.denominator))
    return Fraction(PRECISION.exp(-power))
