"""What the controls of a page ask, as a value: it becomes a question of a table, or an answer of a synopsis."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

from blowfishdb.engine.demand import Number
from blowfishdb.errors import QueryError
from blowfishdb.model.domain import Categorical, Domain
from blowfishdb.model.domain.base import Attribute
from blowfishdb.model.predicate import Axis, Both, Comparison, Member, Negation, Predicate
from blowfishdb.server.pages.steps import UNITS_OF, is_calendar

Template = Literal["histogram", "cdf", "heat", "ranges", "marginals", "sql"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
Condition = Literal["between", "among", "not among"]
Span: TypeAlias = tuple[object, object]
Found = TypeVar("Found", covariant=True)
SPAN = re.compile(r"\s*(\S+)\s*(?:to|\.\.|,|;|\s)\s*(\S+)\s*")
PAIR = 2
LONGEST = 15
"""So many digits a number may have before and behind its point."""


class Askable(Protocol[Found]):
    """A table, which gives questions, or a synopsis, which gives answers."""

    @property
    def domain(self) -> Domain: ...
    def where(self, predicate: Predicate) -> Askable[Found]: ...
    def histogram(self, *axes: str | Axis) -> Found: ...
    def histogram2d(self, first: str | Axis, second: str | Axis) -> Found: ...
    def cdf(self, axis: str | Axis) -> Found: ...
    def ranges(self, axis: str | Axis, spans: Iterable[Span] | None = None) -> Found: ...
    def marginals(self, *axes: str | Axis, ways: int = 2) -> Found: ...


@dataclass(frozen=True)
class Chosen:
    """An attribute and how finely it is grouped: a width, a calendar unit, or "" for every value."""

    attribute: str
    step: str = ""

    def axis(self) -> Axis:
        """The same as the engine knows it."""
        if not self.step:
            return Axis(self.attribute)
        if self.step in UNITS_OF:
            return Axis(self.attribute, unit=self.step)
        return Axis(self.attribute, width=number(self.step))


@dataclass(frozen=True)
class Filtered:
    """A condition on one attribute: between two ends, both included, or among listed values."""

    attribute: str
    condition: Condition
    low: str = ""
    high: str = ""
    values: tuple[str, ...] = ()

    @property
    def is_blank(self) -> bool:
        """Whether nothing was filled in yet, so that everything passes."""
        return not (self.low.strip() or self.high.strip()) if self.condition == "between" else not self.values

    def predicate(self, attribute: Attribute) -> Predicate:
        """The same as the engine knows it."""
        if self.condition != "between":
            values = tuple(literal(attribute, value) for value in self.values)
            one = len(values) == 1
            found = Comparison(self.attribute, "==", values[0]) if one else Member(self.attribute, values)
            return found if self.condition == "among" else Negation(found)
        low = None if not self.low.strip() else Comparison(self.attribute, ">=", literal(attribute, self.low))
        high = None if not self.high.strip() else Comparison(self.attribute, "<=", literal(attribute, self.high))
        if low is not None and high is not None:
            return Both(low, high)
        end = high if low is None else low
        if end is None:
            raise QueryError(f"say from where or to where {self.attribute} shall be")
        return end


@dataclass(frozen=True)
class Asking:
    """One question as the page has it. `spans` are lines such as "10 to 20", for ranges; empty means all ranges."""

    dataset: str
    template: Template
    chosen: tuple[Chosen, ...] = ()
    filters: tuple[Filtered, ...] = ()
    spans: str = ""

    def axes(self) -> list[Axis]:
        """The attributes to group by; QueryError while the template needs others."""
        needed = {"heat": PAIR, "marginals": PAIR}.get(self.template, 1)
        if len(self.chosen) < needed:
            raise QueryError("choose an attribute" if needed == 1 else "choose at least two attributes")
        return [chosen.axis() for chosen in self.chosen]

    def conditions(self, domain: Domain) -> list[Predicate]:
        """The filters that say something."""
        return [one.predicate(domain.find(one.attribute)) for one in self.filters if not one.is_blank]

    def ranges(self, domain: Domain) -> list[Span] | None:
        """The ranges that were listed, each from its low end up to but without its high end; None for all of them."""
        lines = [line for line in self.spans.splitlines() if line.strip()]
        if not lines:
            return None
        attribute = domain.find(self.chosen[0].attribute)
        return [_span(line, attribute) for line in lines]


def asked(asking: Asking, table: Askable[Found]) -> Found:
    """The question of a table, or the answer of a synopsis."""
    axes = asking.axes()
    for condition in asking.conditions(table.domain):
        table = table.where(condition)
    match asking.template:
        case "cdf":
            return table.cdf(axes[0])
        case "heat":
            return table.histogram2d(axes[0], axes[1])
        case "ranges":
            return table.ranges(axes[0], asking.ranges(table.domain))
        case "marginals":
            return table.marginals(*axes, ways=PAIR)
        case "histogram":
            return table.histogram(axes[0])
    raise QueryError("a statement is asked on its own")


def literal(attribute: Attribute, text: str) -> object:
    """A value of the attribute from what somebody typed; QueryError says what it should look like."""
    plain = text.strip()
    if isinstance(attribute, Categorical):
        return next((value for value in attribute.values if str(value) == text), plain)
    if is_calendar(attribute):
        try:
            return (
                datetime.date.fromisoformat(plain) if len(plain) <= 10 else datetime.datetime.fromisoformat(plain)
            )  # an ISO date
        except ValueError:
            raise QueryError(f"{plain[:40]!r} is no date; write for example 2025-03-31") from None
    return number(plain)


def number(text: str) -> int | float:
    """A number as a program would write it, so that page and program ask the very same; floats count as they print."""
    try:
        found = Decimal(text.replace(" ", ""))
    except InvalidOperation:
        raise QueryError(f"{text[:40]!r} is no number") from None
    if not found.is_finite() or (found and not -LONGEST < found.adjusted() < LONGEST):
        raise QueryError(f"{text[:40]!r} is no number that can be used here")
    return int(found) if found == found.to_integral_value() else float(found)


def _span(line: str, attribute: Attribute) -> Span:
    found = SPAN.fullmatch(line)
    if found is None:
        raise QueryError(f"{line[:40]!r} is no range; write one on each line, such as 10 to 20")
    return literal(attribute, found[1]), literal(attribute, found[2])


@dataclass(frozen=True)
class Wanted:
    """How good the answer shall be, or what it may cost. Numbers are as typed."""

    by: Literal["accuracy", "budget"] = "accuracy"
    alpha: str = "100"
    confidence: str = "0.95"
    epsilon: str = "0.1"
    mechanism: str | None = None

    def keywords(self) -> tuple[Number | None, Number | None]:
        """Alpha and epsilon, one of them None."""
        return (self.alpha.strip(), None) if self.by == "accuracy" else (None, self.epsilon.strip())
