"""What an analyst receives: raw answers with their intervals, consistent answers inside them, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.arrays import Floats
from blowfishdb.model.query import Kind
from blowfishdb.plan.certificate import Certificate


@dataclass(frozen=True, eq=False)
class Answer:
    """The release of one question.

    `raw` is unbiased; every true answer lies within `widths.simultaneous` of it with probability 1 - beta, and each
    one within its own `widths.per_answer`. `consistent` lies inside the simultaneous box.
    """

    kind: Kind
    labels: tuple[str, ...]
    raw: Floats
    consistent: Consistent
    widths: HalfWidths
    beta: float
    mechanism: str
    certificate: Certificate

    @property
    def epsilon(self) -> Fraction:
        """What the release costs."""
        return self.certificate.epsilon

    @property
    def values(self) -> Floats:
        """The answers to show: consistent ones where there are such, else the raw ones."""
        return self.consistent.values
