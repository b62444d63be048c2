"""The values of one release: answers with their intervals, what they stand for, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from importlib import metadata
from typing import get_args

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer_bounds import Bounds, around, of_counts, of_running_counts
from blowfishdb.engine.answer_table import AnswerTable
from blowfishdb.engine.evidence import Evidence
from blowfishdb.errors import InvalidInput
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.arrays import Floats
from blowfishdb.model.query import Kind
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.stages import Allowance

VALUE_NAMES = {"sum": "sum", "mean": "mean", "quantiles": "value"}
"""What the main column of an answer is called where it is not a count."""


@cache
def software_version() -> str:
    """The version of BlowfishDB that is running."""
    return metadata.version("blowfishdb")


@dataclass(frozen=True, eq=False, repr=False)
class Released:
    """The release of one question, as values.

    `raw` is unbiased; every true answer lies within `widths.simultaneous` of it with probability 1 - beta, and each
    one within its own `widths.per_answer`. `consistent` lies inside the simultaneous box. Where an interval is not
    raw plus or minus a width (a quantile, a mean), `together` and `alone` give it. `stages` are those of a data-aware
    mechanism, and `caveat` says what its intervals leave out. `evidence` is what its certificate is checked with.
    """

    kind: Kind
    title: str
    tables: tuple[AnswerTable, ...]
    raw: Floats
    consistent: Consistent
    widths: HalfWidths
    beta: float
    mechanism: str
    certificate: Certificate
    dataset: str = ""
    policy_version: int | None = None
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    released: str = ""
    version: str = field(default_factory=software_version)
    together: Bounds | None = None
    alone: Bounds | None = None
    stages: tuple[Allowance, ...] = ()
    caveat: str = ""
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        sizes = {
            "labels": sum(table.size for table in self.tables),
            "consistent answers": self.consistent.values.size,
            "half-widths": self.widths.per_answer.size,
        }
        for bounds in (self.together, self.alone):
            if bounds is not None:
                sizes |= {"low ends": bounds.low.size, "high ends": bounds.high.size}
        wrong = [f"{size} {what}" for what, size in sizes.items() if size != self.raw.size]
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"an answer is of a kind in {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.kind == "cdf" and [len(table.axes) for table in self.tables] != [1]:
            raise InvalidInput("running counts are one table along one attribute")
        if wrong:
            raise InvalidInput(f"an answer with {self.raw.size} values has {' and '.join(wrong)}")

    @property
    def epsilon(self) -> Fraction:
        """What the release costs."""
        return self.certificate.epsilon

    @property
    def values(self) -> Floats:
        """The answers to show: consistent ones where there are such, else the raw ones."""
        return self.consistent.values

    @property
    def is_counts(self) -> bool:
        """Whether the answers are counts of records, and so never below 0."""
        return self.kind not in VALUE_NAMES

    @property
    def value_name(self) -> str:
        """What the answers are: count, sum, mean or value."""
        return VALUE_NAMES.get(self.kind, "count")

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each answer, in order."""
        sets = [(table, len(self.tables) > 1) for table in self.tables]
        named = [
            " × ".join(f"{name} {part}" if several else part for name, part in zip(table.names, row, strict=True))
            for table, several in sets
            for row in table.rows()
        ]
        plain = self.running
        return tuple(f"up to {name}" if place < plain else name for place, name in enumerate(named))

    @property
    def running(self) -> int:
        """How many of the first answers are running counts."""
        return self.tables[0].axes[0].plain if self.kind == "cdf" else 0

    @cached_property
    def bounds(self) -> Bounds:
        """Intervals that hold for all answers together with probability 1 - beta."""
        if self.together is not None:
            return self.together
        found = around(self.raw, self.widths.simultaneous)
        return of_running_counts(of_counts(found), self.running) if self.is_counts else found

    @cached_property
    def own_bounds(self) -> Bounds:
        """Intervals that hold for each answer on its own with probability 1 - beta."""
        if self.alone is not None:
            return self.alone
        found = around(self.raw, self.widths.per_answer)
        return of_counts(found) if self.is_counts else found
