"""A question from the options of a command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TypeVar

from blowfishdb.engine.demand import short_number
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.sql import read_axes, read_where

if TYPE_CHECKING:
    from blowfishdb.model.domain import Domain
    from blowfishdb.model.predicate import Axis, Predicate
    from blowfishdb.session import Question, Session

Found = TypeVar("Found", covariant=True)

KINDS = "--histogram, --cdf, --ranges, --marginals, --count, --sum, --mean or --quantiles"
QUARTILES = "0.25,0.5,0.75"


class Askable(Protocol[Found]):
    """A table, which gives questions, or a synopsis, which gives answers."""

    @property
    def domain(self) -> Domain: ...
    def where(self, predicate: Predicate) -> Askable[Found]: ...
    def count(self) -> Found: ...
    def histogram(self, *axes: str | Axis) -> Found: ...
    def cdf(self, axis: str | Axis) -> Found: ...
    def marginals(self, *axes: str | Axis, ways: int = 2) -> Found: ...
    def ranges(self, axis: str | Axis, spans: Iterable[tuple[object, object]] | None = None) -> Found: ...
    def quantiles(self, column: str | Axis, levels: Iterable[Fraction]) -> Found: ...
    def sum(self, column: str) -> Found: ...
    def mean(self, column: str) -> Found: ...


@dataclass(frozen=True)
class Asked:
    """What the options ask; exactly one of the kinds is given."""

    name: str
    histogram: str | None
    cdf: str | None
    ranges: str | None
    marginals: str | None
    count: bool
    sum: str | None
    mean: str | None
    quantiles: str | None
    where: str | None

    def words(self) -> list[str]:
        """The name of the dataset and the options that ask the same."""
        given = {
            "--histogram": self.histogram,
            "--cdf": self.cdf,
            "--ranges": self.ranges,
            "--marginals": self.marginals,
            "--sum": self.sum,
            "--mean": self.mean,
            "--quantiles": self.quantiles,
            "--where": self.where,
        }
        said = [word for option, value in given.items() if value is not None for word in (option, value)]
        return [self.name, *said, *(["--count"] if self.count else [])]

    def question(self, session: Session) -> Question:
        """The question, ready to preview or release."""
        return self.of(session[self.name])

    def of(self, table: Askable[Found]) -> Found:
        """What is asked, of a table or a synopsis."""
        given = [self.histogram, self.cdf, self.ranges, self.marginals, self.sum, self.mean, self.quantiles]
        if sum(one is not None for one in given) + self.count != 1:
            raise QueryError(f"ask for one thing: {KINDS}")
        if self.where is not None:
            table = table.where(read_where(self.where, table.domain))
        if self.histogram is not None:
            return table.histogram(*read_axes(self.histogram, table.domain))
        if self.cdf is not None:
            return table.cdf(_one_axis(self.cdf, table, "--cdf"))
        if self.marginals is not None:
            axes = read_axes(self.marginals, table.domain)
            return table.marginals(*axes, ways=min(2, len(axes)))
        if self.ranges is not None:
            return _ranges(self.ranges, table)
        if self.quantiles is not None:
            return _quantiles(self.quantiles, table)
        if self.sum is not None:
            return table.sum(_one_axis(self.sum, table, "--sum").attribute)
        if self.mean is not None:
            return table.mean(_one_axis(self.mean, table, "--mean").attribute)
        return table.count()


def _one_axis(text: str, table: Askable[Found], option: str) -> Axis:
    axes = read_axes(text, table.domain)
    if len(axes) != 1:
        raise QueryError(f"{option} takes one attribute, not {len(axes)}")
    return axes[0]


def _ranges(text: str, table: Askable[Found]) -> Found:
    name, separator, spans = text.rpartition(":")
    if not separator:
        return table.ranges(_one_axis(text, table, "--ranges"))
    pairs = [span.partition("..") for span in spans.split(",")]
    if not all(middle and low.strip() and high.strip() for low, middle, high in pairs):
        raise QueryError("ranges are written ATTRIBUTE:LOW..HIGH,LOW..HIGH, such as age:18..30,30..65")
    return table.ranges(_one_axis(name, table, "--ranges"), [(low.strip(), high.strip()) for low, _, high in pairs])


def _quantiles(text: str, table: Askable[Found]) -> Found:
    name, separator, levels = text.rpartition(":")
    if not separator:
        name, levels = text, QUARTILES
    try:
        found = [short_number(level, "a level") for level in levels.split(",")]
    except AccuracyError:
        raise QueryError("quantiles are written ATTRIBUTE:LEVEL,LEVEL, such as cost:0.25,0.5,0.75") from None
    return table.quantiles(_one_axis(name, table, "--quantiles"), found)
