"""The controls of a query: template, attributes, ranges, filters and accuracy; and the query they make."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

from nicegui import ui

from blowfishdb.errors import QueryError
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.calendar import NESTS, Dates, Timestamps
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, Both, Comparison, Member, Negation, Predicate
from blowfishdb.server.pages.controls import Tile, choice, icon_button, small, spread, tiles

UNITS_OF = frozenset(NESTS)
COMFORTABLE = 24
"""So many bars are easy to read; the first choice has at most these."""
LISTED = 9
FEWEST = 2


def is_calendar(attribute: Attribute) -> bool:
    """Whether it goes by days or hours."""
    return isinstance(attribute, Dates | Timestamps)


def steps_of(attribute: Attribute) -> dict[str, str]:
    """Each way to group the attribute, with words for it: "5" becomes "by 5 (20 bins)"."""
    found = {"": f"all {attribute.size:,} {_unit(attribute)}s"}
    if isinstance(attribute, Dates | Timestamps):
        return found | {unit: f"by {unit}" for unit in NESTS[attribute.by]}
    for width, groups in _widths(attribute):
        found[show(width)] = f"by {show(width)} ({groups:,} bins)"
    return found


def usual_step(attribute: Attribute) -> str:
    """The finest grouping that is easy to read."""
    if isinstance(attribute, Dates | Timestamps):
        units = [unit for unit in ("month", "week", "day", "quarter", "year") if unit in NESTS[attribute.by]]
        return "" if attribute.size <= COMFORTABLE or not units else units[0]
    fitting = [show(width) for width, groups in _widths(attribute) if groups <= COMFORTABLE]
    return "" if attribute.size <= COMFORTABLE or not fitting else fitting[0]


def _unit(attribute: Attribute) -> str:
    if isinstance(attribute, Dates | Timestamps):
        return attribute.by
    return "bin" if isinstance(attribute, Bins) else "value"


def _widths(attribute: Attribute) -> list[tuple[Fraction, int]]:
    """Round widths, from fine to coarse, with the number of groups each makes."""
    if isinstance(attribute, Integers):
        own = Fraction(1)
    elif isinstance(attribute, Bins) and attribute.width is not None:
        own = attribute.width
    else:
        return []
    found = []
    for times in _round_numbers():
        groups = -(-attribute.size // times)
        if groups < FEWEST:
            break
        found.append((times * own, groups))
    comfortable = [one for one in found if one[1] <= 20 * COMFORTABLE]
    return (comfortable or found)[:LISTED]


def _round_numbers() -> itertools.chain[int]:
    """2, 5, 10, 20, 25, 50, 100, ..."""
    tens = itertools.count(1)
    return itertools.chain(
        [2, 5], itertools.chain.from_iterable((10**k, 2 * 10**k, 25 * 10 ** (k - 1), 5 * 10**k) for k in tens)
    )


Template = Literal["histogram", "cdf", "heat", "ranges", "marginals", "sql"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
Condition = Literal["between", "among", "not among"]
Span: TypeAlias = tuple[object, object]
Outcome = TypeVar("Outcome", covariant=True)
SPAN = re.compile(r"\s*(\S+)\s*(?:to|\.\.|,|;|\s)\s*(\S+)\s*")
PAIR = 2
LONGEST = 15
"""So many digits a number may have before and behind its point."""


class Queryable(Protocol[Outcome]):
    """A table, which gives questions, or a synopsis, which gives answers."""

    @property
    def domain(self) -> Domain: ...
    def where(self, predicate: Predicate) -> Queryable[Outcome]: ...
    def histogram(self, *axes: str | Axis) -> Outcome: ...
    def histogram2d(self, first: str | Axis, second: str | Axis) -> Outcome: ...
    def cdf(self, axis: str | Axis) -> Outcome: ...
    def ranges(self, axis: str | Axis, spans: Iterable[Span] | None = None) -> Outcome: ...
    def marginals(self, *axes: str | Axis, ways: int = 2) -> Outcome: ...


@dataclass(frozen=True)
class AxisChoice:
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
class FilterChoice:
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
class QueryDraft:
    """One question as the page has it. `spans` are lines such as "10 to 20", for ranges; empty means all ranges."""

    dataset: str
    template: Template
    chosen: tuple[AxisChoice, ...] = ()
    filters: tuple[FilterChoice, ...] = ()
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


def build_query(draft: QueryDraft, table: Queryable[Outcome]) -> Outcome:
    """The question of a table, or the answer of a synopsis."""
    axes = draft.axes()
    for condition in draft.conditions(table.domain):
        table = table.where(condition)
    match draft.template:
        case "cdf":
            return table.cdf(axes[0])
        case "heat":
            return table.histogram2d(axes[0], axes[1])
        case "ranges":
            return table.ranges(axes[0], draft.ranges(table.domain))
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
class AccuracyDraft:
    """How good the answer shall be, or what it may cost. Numbers are as typed."""

    by: Literal["accuracy", "budget"] = "accuracy"
    alpha: str = "100"
    confidence: str = "0.95"
    epsilon: str = "0.1"
    mechanism: str | None = None

    def keywords(self) -> tuple[str | None, str | None]:
        """Alpha and epsilon, one of them None."""
        return (self.alpha.strip(), None) if self.by == "accuracy" else (None, self.epsilon.strip())


WORDS: dict[Condition, str] = {"among": "is one of", "not among": "is none of"}
MOST_LISTED = 2_000
MOST_FILTERS = 8


class FilterForm:
    """Rows of conditions; `on_change` gets all of them after every change."""

    def __init__(
        self, domain: Domain, filters: tuple[FilterChoice, ...], on_change: Callable[[tuple[FilterChoice, ...]], object]
    ) -> None:
        self._domain, self._filters, self._on_change = domain, list(filters), on_change
        with spread().style("margin-top:12px"):
            ui.label("Filter").classes("bf-label").style("margin:0")
            self._button = ui.button("Add", icon="filter_alt", on_click=self._add).props("flat dense size=sm")
        self._box = ui.element("div").classes("bf-stack")
        self._build()

    def _build(self) -> None:
        self._box.clear()
        self._button.set_enabled(len(self._filters) < MOST_FILTERS)
        with self._box:
            if not self._filters:
                small("All records.")
            for place in range(len(self._filters)):
                self._row(place)

    def _row(self, place: int) -> None:
        one = self._filters[place]
        attribute = self._domain[one.attribute]
        with ui.element("div").style("display:grid;grid-template-columns:minmax(0,1fr) auto;gap:6px;align-items:start"):
            with ui.element("div").classes("bf-stack").style("gap:6px"):
                with ui.element("div").classes("bf-pair"):
                    name = ui.select(list(self._domain), value=one.attribute).props("outlined dense options-dense")
                    name.props('aria-label="Attribute of the filter"')
                    name.on_value_change(lambda e: self._put(place, blank(self._domain, e.value), rebuild=True))
                    if isinstance(attribute, Categorical):
                        how = ui.select(dict(WORDS), value=one.condition).props("outlined dense options-dense")
                        how.props('aria-label="Condition"')
                        how.on_value_change(
                            lambda e: self._put(place, replace(self._filters[place], condition=e.value))
                        )
                    else:
                        small("from … to, both included", "align-self:center")
                if isinstance(attribute, Categorical):
                    self._values(place, attribute)
                else:
                    self._ends(place, calendar=is_calendar(attribute))
            icon_button("close", f"Remove the filter on {one.attribute}", lambda: self._drop(place))

    def _values(self, place: int, attribute: Categorical) -> None:
        listed = [str(value) for value in attribute.values[:MOST_LISTED]]
        values = ui.select(listed, value=list(self._filters[place].values), multiple=True, label="Values")
        values.props("outlined dense options-dense use-chips").classes("w-full")
        values.on_value_change(lambda e: self._put(place, replace(self._filters[place], values=tuple(e.value or ()))))

    def _ends(self, place: int, *, calendar: bool) -> None:
        example = "2025-01-31" if calendar else ""
        with ui.element("div").classes("bf-pair"):
            low = ui.input("From", value=self._filters[place].low, placeholder=example)
            high = ui.input("To", value=self._filters[place].high, placeholder=example)
            for end in (low, high):
                end.props("outlined dense debounce=250")
            low.on_value_change(lambda e: self._put(place, replace(self._filters[place], low=e.value or "")))
            high.on_value_change(lambda e: self._put(place, replace(self._filters[place], high=e.value or "")))

    def _put(self, place: int, one: FilterChoice, *, rebuild: bool = False) -> None:
        self._filters[place] = one
        if rebuild:
            self._build()
        self._on_change(tuple(self._filters))

    def _add(self) -> None:
        self._filters.append(blank(self._domain, next(iter(self._domain))))
        self._build()

    def _drop(self, place: int) -> None:
        del self._filters[place]
        self._build()
        self._on_change(tuple(self._filters))


def blank(domain: Domain, name: str) -> FilterChoice:
    """A condition on the attribute that says nothing yet."""
    return FilterChoice(name, "among" if isinstance(domain[name], Categorical) else "between")


TILES: tuple[Tile, ...] = (
    Tile("histogram", "Histogram", "bar_chart", "One count for each value or bin"),
    Tile("cdf", "Cumulative", "stacked_line_chart", "How many records up to each value"),
    Tile("heat", "Heat map", "grid_on", "Counts of two attributes together"),
    Tile("ranges", "Ranges", "straighten", "Counts of ranges that you list, or of all of them"),
    Tile("marginals", "Marginals", "view_module", "The tables of all pairs of several attributes"),
    Tile("sql", "SQL", "code", "A statement in SQL"),
)
ORDERED: tuple[Template, ...] = ("cdf", "ranges")
MOST_ATTRIBUTES = 4


class QueryForm:
    """Controls over one domain. `on_change` hears of every change; `draft` and `sql` are what they say now."""

    def __init__(
        self, dataset: str, domain: Domain, on_change: Callable[[], object], offered: Sequence[Tile] = TILES
    ) -> None:
        first = self._usable(domain, "histogram")[0]
        self.draft = QueryDraft(dataset, "histogram", (AxisChoice(first, usual_step(domain[first])),))
        self.sql = f"SELECT {first}, COUNT(*)\nFROM {dataset}\nGROUP BY {first}"
        self._domain, self._on_change = domain, on_change
        self._tips = {tile.value: tile.tip for tile in offered}
        tiles(offered, "histogram", self._choose_template, "What to ask")
        self._said = small(offered[0].tip, "margin-top:8px")
        self._box = ui.element("div")
        self._build()

    @staticmethod
    def _usable(domain: Domain, template: Template) -> list[str]:
        return [name for name in domain if template not in ORDERED or domain[name].ordered]

    def _put(self, draft: QueryDraft, *, rebuild: bool = False) -> None:
        self.draft = draft
        if rebuild:
            self._build()
        self._on_change()

    def _choose_template(self, chosen: str) -> None:
        known = next(template for template in TEMPLATES if template == chosen)
        usable = self._usable(self._domain, known)
        kept = [one for one in self.draft.chosen if one.attribute in usable]
        needed = PAIR if known in ("heat", "marginals") else 1
        for name in usable:
            if len(kept) < needed and name not in [one.attribute for one in kept]:
                kept.append(AxisChoice(name, usual_step(self._domain[name])))
        most = MOST_ATTRIBUTES if known == "marginals" else needed
        self._said.text = self._tips[known]
        self._put(replace(self.draft, template=known, chosen=tuple(kept[:most])), rebuild=True)

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            if self.draft.template == "sql":
                self._statement()
                return
            usable = self._usable(self._domain, self.draft.template)
            if not usable or (self.draft.template in ("heat", "marginals") and len(usable) < PAIR):
                small("This dataset has no attribute for that.", "margin-top:14px")
                return
            for place in range(len(self.draft.chosen)):
                self._attribute(place, usable)
            if self.draft.template == "marginals" and len(self.draft.chosen) < min(MOST_ATTRIBUTES, len(usable)):
                ui.button("Another attribute", icon="add", on_click=self._add).props("flat dense").style(
                    "margin-top:4px"
                )
            if self.draft.template == "ranges":
                self._ranges()
            FilterForm(self._domain, self.draft.filters, lambda found: self._put(replace(self.draft, filters=found)))

    def _attribute(self, place: int, usable: list[str]) -> None:
        chosen = self.draft.chosen[place]
        label = self._label(place)
        can_drop = self.draft.template == "marginals" and len(self.draft.chosen) > PAIR
        with (
            ui.element("div")
            .classes(f"bf-pair bf-attribute {'has-third' if can_drop else ''}")
            .style("margin-top:14px")
        ):
            select = ui.select(usable, value=chosen.attribute, label=label)
            select.props("outlined dense options-dense").on_value_change(
                lambda e: self._choose_attribute(place, e.value)
            )
            steps = steps_of(self._domain[chosen.attribute])
            step = ui.select(steps, value=chosen.step, label="How finely").props("outlined dense options-dense")
            step.on_value_change(lambda e: self._choose_step(place, e.value))
            if len(steps) == 1:
                step.props("readonly hide-dropdown-icon")
            if can_drop:
                icon_button("close", f"Leave out {chosen.attribute}", lambda: self._drop(place))

    def _label(self, place: int) -> str:
        if self.draft.template == "heat":
            return ("Down", "Across")[place]
        return "Attribute" if len(self.draft.chosen) == 1 else f"Attribute {place + 1}"

    def _choose_attribute(self, place: int, name: str) -> None:
        """Puts the attribute there; where another place has it, the two change places."""
        listed = list(self.draft.chosen)
        other = next((n for n, one in enumerate(listed) if one.attribute == name), None)
        if other is None:
            listed[place] = AxisChoice(name, usual_step(self._domain[name]))
        else:
            listed[place], listed[other] = listed[other], listed[place]
        self._put(replace(self.draft, chosen=tuple(listed)), rebuild=True)

    def _choose_step(self, place: int, step: str) -> None:
        listed = list(self.draft.chosen)
        listed[place] = replace(listed[place], step=step)
        self._put(replace(self.draft, chosen=tuple(listed)))

    def _add(self) -> None:
        taken = {one.attribute for one in self.draft.chosen}
        name = next(name for name in self._domain if name not in taken)
        added = AxisChoice(name, usual_step(self._domain[name]))
        self._put(replace(self.draft, chosen=(*self.draft.chosen, added)), rebuild=True)

    def _drop(self, place: int) -> None:
        kept = tuple(one for n, one in enumerate(self.draft.chosen) if n != place)
        self._put(replace(self.draft, chosen=kept), rebuild=True)

    def _ranges(self) -> None:
        attribute = self._domain[self.draft.chosen[0].attribute]
        hint = "One range on each line, such as 10 to 20 (20 itself is not in it). Empty: all ranges at once."
        area = ui.textarea("Ranges", value=self.draft.spans).props("outlined dense autogrow")
        area.classes("w-full").style("margin-top:14px").props(f'hint="{hint}" debounce=250')
        area.on_value_change(lambda e: self._put(replace(self.draft, spans=e.value or "")))
        if isinstance(attribute, Categorical):
            area.props("readonly")

    def _statement(self) -> None:
        area = ui.textarea("Statement", value=self.sql).props("outlined autogrow debounce=300 spellcheck=false")
        area.classes("w-full").style("margin-top:14px").props('input-class="bf-mono"')
        said = "SELECT, one of COUNT(*), SUM, AVG, MEDIAN, CDF, QUANTILES, WHERE and GROUP BY; bin(x, 10) makes bins."
        small(said, "margin-top:6px")

        def write(text: str | None) -> None:
            self.sql = text or ""
            self._on_change()

        area.on_value_change(lambda e: write(e.value))


CONFIDENCES = {"0.9": "90 %", "0.95": "95 %", "0.99": "99 %", "0.999": "99.9 %"}
AUTOMATIC = "automatic"


class AccuracyForm:
    """Either alpha with a confidence, or epsilon; `draft` is what the controls say now."""

    def __init__(self, on_change: Callable[[], object]) -> None:
        self.draft = AccuracyDraft()
        self._on_change = on_change
        choice({"accuracy": "Choose accuracy", "budget": "Choose budget"}, "accuracy", self._by, "Accuracy or budget")
        self._box = ui.element("div").style("margin-top:12px")
        self._build()

    def _by(self, chosen: str) -> None:
        self._put(replace(self.draft, by="budget" if chosen == "budget" else "accuracy", mechanism=None))
        self._build()

    def _put(self, draft: AccuracyDraft) -> None:
        self.draft = draft
        self._on_change()

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            with ui.element("div").classes("bf-pair"):
                if self.draft.by == "accuracy":
                    within = ui.input("Within ±", value=self.draft.alpha).props("outlined dense debounce=200")
                    within.on_value_change(lambda e: self._put(replace(self.draft, alpha=e.value or "")))
                else:
                    spend = ui.input("Spend epsilon", value=self.draft.epsilon).props("outlined dense debounce=200")
                    spend.on_value_change(lambda e: self._put(replace(self.draft, epsilon=e.value or "")))
                sure = ui.select(CONFIDENCES, value=self.draft.confidence, label="Confidence")
                sure.props("outlined dense options-dense")
                sure.on_value_change(lambda e: self._put(replace(self.draft, confidence=e.value)))
            self._mechanism()

    def _mechanism(self) -> None:
        """Which mechanism to use; those that look at the data promise no accuracy, so they need a budget."""
        aware = list(DATA_AWARE) if self.draft.by == "budget" else []
        options = {AUTOMATIC: "the best for this question"} | {name: name for name in MECHANISMS}
        options |= {name: f"{name} (looks at the data)" for name in aware}
        with ui.expansion("Mechanism").props("dense").classes("w-full").style("margin-top:6px"):
            select = ui.select(options, value=self.draft.mechanism or AUTOMATIC).props("outlined dense options-dense")
            select.classes("w-full").props('aria-label="Mechanism"')
            select.on_value_change(
                lambda e: self._put(replace(self.draft, mechanism=None if e.value == AUTOMATIC else e.value))
            )
