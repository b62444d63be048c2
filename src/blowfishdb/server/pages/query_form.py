"""The controls of a query: template, attributes, ranges, filters and accuracy; and the query they make."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import reduce
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from nicegui import ui

from blowfishdb.errors import BlowfishError, QueryError, plural
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import CHOICES, MECHANISMS
from blowfishdb.model.calendar import NESTS, Dates, Timestamps
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, Both, Comparison, Member, Negation, Predicate
from blowfishdb.server.pages.controls import Tile, choice, icon_button, redraw, small, spread, tiles
from blowfishdb.server.pages.page_context import PageContext

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
    if isinstance(attribute, Dates | Timestamps):
        return {"": f"all {attribute.size:,} {attribute.by}s"} | {unit: f"by {unit}" for unit in NESTS[attribute.by]}
    whole = f"all {attribute.size:,} {'bins' if isinstance(attribute, Bins) else 'values'}"
    return {"": whole} | {step: f"by {step} ({plural(groups, 'bin')})" for step, groups in _widths(attribute).items()}


def usual_step(attribute: Attribute) -> str:
    """The finest grouping that is easy to read."""
    if attribute.size <= COMFORTABLE:
        return ""
    if isinstance(attribute, Dates | Timestamps):
        steps: list[str] = [unit for unit in ("month", "week", "day", "quarter", "year") if unit in NESTS[attribute.by]]
    else:
        steps = [step for step, groups in _widths(attribute).items() if groups <= COMFORTABLE]
    return steps[0] if steps else ""


def _widths(attribute: Attribute) -> dict[str, int]:
    """Round widths, from fine to coarse, with the number of groups each makes."""
    if isinstance(attribute, Integers):
        unit = Fraction(1)
    elif isinstance(attribute, Bins) and attribute.width is not None:
        unit = attribute.width
    else:
        return {}
    # 2, 5, 10, 20, 25, 50, 100, ...
    tens = ((10**k, 2 * 10**k, 25 * 10 ** (k - 1), 5 * 10**k) for k in itertools.count(1))
    counts = itertools.chain((2, 5), itertools.chain.from_iterable(tens))
    fitting = itertools.takewhile(lambda count: -(-attribute.size // count) >= FEWEST, counts)
    widths = {show(count * unit): -(-attribute.size // count) for count in fitting}
    comfortable = {step: groups for step, groups in widths.items() if groups <= 20 * COMFORTABLE}
    return dict(itertools.islice((comfortable or widths).items(), LISTED))


Template = Literal["histogram", "cdf", "heat", "ranges", "marginals", "sql"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
Condition = Literal["between", "among", "not among"]
Span: TypeAlias = tuple[object, object]
Outcome = TypeVar("Outcome", covariant=True)
SPAN = re.compile(r"\s*(\S+)\s*(?:to|\.\.|,|;|\s)\s*(\S+)\s*")
PAIR = 2
NEEDED: dict[Template, int] = {"heat": PAIR, "marginals": PAIR}
"""How many attributes a template needs, where it is not one."""
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
        """The same as the engine knows it, of a filter that is not blank."""
        if self.condition != "between":
            values = tuple(literal(attribute, value) for value in self.values)
            is_one = len(values) == 1
            listed = Comparison(self.attribute, "==", values[0]) if is_one else Member(self.attribute, values)
            return listed if self.condition == "among" else Negation(listed)
        ends: list[Predicate] = []
        if self.low.strip():
            ends.append(Comparison(self.attribute, ">=", literal(attribute, self.low)))
        if self.high.strip():
            ends.append(Comparison(self.attribute, "<=", literal(attribute, self.high)))
        return reduce(Both, ends)


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
        needed = NEEDED.get(self.template, 1)
        if len(self.chosen) < needed:
            raise QueryError("choose an attribute" if needed == 1 else "choose at least two attributes")
        return [chosen.axis() for chosen in self.chosen]

    def conditions(self, domain: Domain) -> list[Predicate]:
        """The filters that say something."""
        return [one.predicate(domain.find(one.attribute)) for one in self.filters if not one.is_blank]

    def ranges(self, domain: Domain) -> list[Span] | None:
        """The ranges that were listed, each from its low end up to but without its high end; None for all of them."""
        attribute = domain.find(self.chosen[0].attribute)
        spans: list[Span] = []
        for line in filter(str.strip, self.spans.splitlines()):
            ends = SPAN.fullmatch(line)
            if ends is None:
                raise QueryError(f"{line[:40]!r} is no range; write one on each line, such as 10 to 20")
            spans.append((literal(attribute, ends[1]), literal(attribute, ends[2])))
        return spans or None


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
        is_day = len(plain) <= len("2025-03-31")
        try:
            return datetime.date.fromisoformat(plain) if is_day else datetime.datetime.fromisoformat(plain)
        except ValueError:
            raise QueryError(f"{plain[:40]!r} is no date; write for example 2025-03-31") from None
    return number(plain)


def number(text: str) -> int | float:
    """A number as a program would write it, so that page and program ask the very same; floats count as they print."""
    try:
        exact = Decimal(text.replace(" ", ""))
    except InvalidOperation:
        raise QueryError(f"{text[:40]!r} is no number") from None
    if not exact.is_finite() or (exact and not -LONGEST < exact.adjusted() < LONGEST):
        raise QueryError(f"{text[:40]!r} is no number that can be used here")
    return int(exact) if exact == exact.to_integral_value() else float(exact)


CONFIDENCES = {"0.9": "90 %", "0.95": "95 %", "0.99": "99 %", "0.999": "99.9 %"}


@dataclass(frozen=True)
class AccuracyDraft:
    """How good the answer shall be, or what it may cost. Numbers are as typed."""

    by: Literal["accuracy", "budget"] = "accuracy"
    alpha: str = "100"
    confidence: str = "0.95"
    epsilon: str = "0.1"
    mechanism: str | None = None
    fresh: bool = False

    def keywords(self) -> tuple[str | None, str | None]:
        """Alpha and epsilon, one of them None."""
        return (self.alpha.strip(), None) if self.by == "accuracy" else (None, self.epsilon.strip())


LONGEST_QUESTION = 6_000
"""A longer question is not kept in the address of its page: browsers and proxies limit those."""


def write_question(draft: QueryDraft, sql: str, accuracy: AccuracyDraft) -> str:
    """What the controls say, for the address of the page; empty where it is too long for that."""
    content = {**asdict(draft), "sql": sql if draft.template == "sql" else "", "accuracy": asdict(accuracy)}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= LONGEST_QUESTION else ""


def read_question(text: str, domain_of: Callable[[str], Domain]) -> tuple[QueryDraft, str, AccuracyDraft] | None:
    """What the controls said when `write_question` wrote it; None where the text, or part of it, makes no sense now."""
    try:
        content = json.loads(text)
        accuracy = AccuracyDraft(**content.pop("accuracy"))
        sql = str(content.pop("sql"))
        chosen = tuple(AxisChoice(**one) for one in content.pop("chosen"))
        filters = tuple(FilterChoice(**one | {"values": tuple(one["values"])}) for one in content.pop("filters"))
        draft = QueryDraft(**content, chosen=chosen, filters=filters)
        domain = domain_of(draft.dataset)
        texts = [accuracy.alpha, accuracy.epsilon, draft.spans]
        mechanisms = (*MECHANISMS, *CHOICES, *(DATA_AWARE if accuracy.by == "budget" else ()))
        is_usable = (
            draft.template in TEMPLATES
            and len(chosen) >= (0 if draft.template == "sql" else NEEDED.get(draft.template, 1))
            and len({axis.attribute for axis in chosen}) == len(chosen) <= MOST_ATTRIBUTES
            and all(axis.step in steps_of(domain[axis.attribute]) for axis in chosen)
            and all(draft.template not in ORDERED or domain[axis.attribute].ordered for axis in chosen)
            and len(filters) <= MOST_FILTERS
            and all(_is_usable(one, domain[one.attribute]) for one in filters)
            and accuracy.by in ("accuracy", "budget")
            and accuracy.confidence in CONFIDENCES
            and accuracy.mechanism in (None, *mechanisms)
            and isinstance(accuracy.fresh, bool)
            and all(isinstance(one, str) for one in texts)
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BlowfishError):
        return None
    return (draft, sql, accuracy) if is_usable else None


def _is_usable(one: FilterChoice, attribute: Attribute) -> bool:
    if one.condition == "between":
        return not isinstance(attribute, Categorical) and isinstance(one.low, str) and isinstance(one.high, str)
    if not isinstance(attribute, Categorical) or one.condition not in WORDS:
        return False
    return {str(value) for value in attribute.values[:MOST_LISTED]}.issuperset(one.values)


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
        condition = self._filters[place]
        attribute = self._domain[condition.attribute]
        with ui.element("div").style("display:grid;grid-template-columns:minmax(0,1fr) auto;gap:6px;align-items:start"):
            with ui.element("div").classes("bf-stack").style("gap:6px"):
                with ui.element("div").classes("bf-pair"):
                    name = ui.select(list(self._domain), value=condition.attribute)
                    name.props('aria-label="Attribute of the filter"')
                    name.on_value_change(lambda e: self._choose_attribute(place, e.value))
                    if isinstance(attribute, Categorical):
                        how = ui.select(dict(WORDS), value=condition.condition).props('aria-label="Condition"')
                        how.on_value_change(lambda e: self._put(place, condition=e.value))
                    else:
                        small("from … to, both included", "align-self:center")
                if isinstance(attribute, Categorical):
                    listed = [str(value) for value in attribute.values[:MOST_LISTED]]
                    values = ui.select(listed, value=list(condition.values), multiple=True, label="Values")
                    values.props("use-chips").classes("w-full")
                    values.on_value_change(lambda e: self._put(place, values=tuple(e.value or ())))
                else:
                    example = "2025-01-31" if is_calendar(attribute) else ""
                    with ui.element("div").classes("bf-pair"):
                        low = ui.input("From", value=condition.low, placeholder=example).props("debounce=250")
                        low.on_value_change(lambda e: self._put(place, low=e.value or ""))
                        high = ui.input("To", value=condition.high, placeholder=example).props("debounce=250")
                        high.on_value_change(lambda e: self._put(place, high=e.value or ""))
            icon_button("close", f"Remove the filter on {condition.attribute}", lambda: self._drop(place))

    def _put(self, place: int, **changes: Any) -> None:
        self._filters[place] = replace(self._filters[place], **changes)
        self._on_change(tuple(self._filters))

    def _choose_attribute(self, place: int, name: str) -> None:
        self._filters[place] = blank(self._domain, name)
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


PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """A name as a statement writes it: in quotes, unless it is a plain word."""
    return name if PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


class QueryForm:
    """Controls over one domain. `on_change` hears of every change; `draft` and `sql` are what they say now."""

    def __init__(
        self,
        dataset: str,
        domain: Domain,
        on_change: Callable[[], object],
        offered: Sequence[Tile] = TILES,
        draft: QueryDraft | None = None,
        sql: str = "",
    ) -> None:
        self._domain, self._on_change = domain, on_change
        first = next(iter(domain))
        self.draft = draft or QueryDraft(dataset, "histogram", (self._usual(first),))
        column = quoted(first)
        self.sql = sql or f"SELECT {column}, COUNT(*)\nFROM {quoted(dataset)}\nGROUP BY {column}"
        self._tips = {tile.value: tile.tip for tile in offered}
        tiles(offered, self.draft.template, self._choose_template, "What to ask")
        self._tip = small(self._tips[self.draft.template], "margin-top:8px")
        self._box = ui.element("div")
        redraw(self._box, self._build)

    def _usable(self, template: Template) -> list[str]:
        return [name for name in self._domain if template not in ORDERED or self._domain[name].ordered]

    def _usual(self, name: str) -> AxisChoice:
        return AxisChoice(name, usual_step(self._domain[name]))

    def _put(self, *, rebuild: bool = False, **changes: Any) -> None:
        self.draft = replace(self.draft, **changes)
        if rebuild:
            redraw(self._box, self._build)
        self._on_change()

    def _choose_template(self, chosen: str) -> None:
        template = next(template for template in TEMPLATES if template == chosen)
        usable, needed = self._usable(template), NEEDED.get(template, 1)
        axes = [axis for axis in self.draft.chosen if axis.attribute in usable]
        free = [name for name in usable if name not in [axis.attribute for axis in axes]]
        axes += [self._usual(name) for name in free[: max(needed - len(axes), 0)]]
        most = MOST_ATTRIBUTES if template == "marginals" else needed
        self._tip.text = self._tips[template]
        self._put(template=template, chosen=tuple(axes[:most]), rebuild=True)

    def _build(self) -> None:
        template, chosen = self.draft.template, self.draft.chosen
        if template == "sql":
            self._statement()
            return
        usable = self._usable(template)
        if len(usable) < NEEDED.get(template, 1):
            small("This dataset has no attribute for that.", "margin-top:14px")
            return
        for place in range(len(chosen)):
            self._attribute(place, usable)
        if template == "marginals" and len(chosen) < min(MOST_ATTRIBUTES, len(usable)):
            more = ui.button("Another attribute", icon="add", on_click=self._add)
            more.props("flat dense").style("margin-top:4px")
        if template == "ranges":
            self._ranges()
        FilterForm(self._domain, self.draft.filters, lambda filters: self._put(filters=filters))

    def _attribute(self, place: int, usable: list[str]) -> None:
        template, axis, many = self.draft.template, self.draft.chosen[place], len(self.draft.chosen)
        label = "Attribute" if many == 1 else f"Attribute {place + 1}"
        if template == "heat":
            label = ("Down", "Across")[place]
        can_drop = template == "marginals" and many > PAIR
        classes = f"bf-pair bf-attribute {'has-third' if can_drop else ''}"
        with ui.element("div").classes(classes).style("margin-top:14px"):
            select = ui.select(usable, value=axis.attribute, label=label)
            select.on_value_change(lambda e: self._choose_attribute(place, e.value))
            steps = steps_of(self._domain[axis.attribute])
            step = ui.select(steps, value=axis.step, label="How finely")
            step.on_value_change(lambda e: self._put(chosen=self._with(place, replace(axis, step=e.value))))
            if len(steps) == 1:
                step.props("readonly hide-dropdown-icon")
            if can_drop:
                icon_button("close", f"Leave out {axis.attribute}", lambda: self._drop(place))

    def _with(self, place: int, axis: AxisChoice) -> tuple[AxisChoice, ...]:
        return (*self.draft.chosen[:place], axis, *self.draft.chosen[place + 1 :])

    def _choose_attribute(self, place: int, name: str) -> None:
        """Puts the attribute there; where another place has it, the two change places."""
        axes = list(self.draft.chosen)
        other = next((n for n, axis in enumerate(axes) if axis.attribute == name), None)
        if other is None:
            axes[place] = self._usual(name)
        else:
            axes[place], axes[other] = axes[other], axes[place]
        self._put(chosen=tuple(axes), rebuild=True)

    def _add(self) -> None:
        taken = {axis.attribute for axis in self.draft.chosen}
        name = next(name for name in self._domain if name not in taken)
        self._put(chosen=(*self.draft.chosen, self._usual(name)), rebuild=True)

    def _drop(self, place: int) -> None:
        self._put(chosen=self.draft.chosen[:place] + self.draft.chosen[place + 1 :], rebuild=True)

    def _ranges(self) -> None:
        hint = "One range on each line, such as 10 to 20 (20 itself is not in it). Empty: all ranges at once."
        area = ui.textarea("Ranges", value=self.draft.spans).props(f'autogrow hint="{hint}" debounce=250')
        area.classes("w-full").style("margin-top:14px")
        area.on_value_change(lambda e: self._put(spans=e.value or ""))
        if isinstance(self._domain[self.draft.chosen[0].attribute], Categorical):
            area.props("readonly")

    def _statement(self) -> None:
        def write(text: str | None) -> None:
            self.sql = text or ""
            self._on_change()

        area = ui.textarea("Statement", value=self.sql, on_change=lambda e: write(e.value))
        area.props('autogrow debounce=300 spellcheck=false input-class="bf-mono"', remove="dense")
        area.classes("w-full").style("margin-top:14px")
        text = (
            "COUNT(*), SUM, AVG, STDDEV, MEDIAN, shares and more, by groups; bin(x, 10) makes bins. See the SQL guide."
        )
        small(text, "margin-top:6px")


class DatasetForm:
    """A choice of datasets, and the controls of a query over the chosen one; `on_change` hears of every change."""

    def __init__(
        self,
        context: PageContext,
        names: list[str],
        dataset: str,
        on_change: Callable[[], object],
        offered: Sequence[Tile] = TILES,
        draft: QueryDraft | None = None,
        sql: str = "",
    ) -> None:
        self._context, self._on_change, self._offered = context, on_change, offered
        data = ui.select(names, value=dataset, label="Dataset", on_change=lambda e: self._choose(e.value))
        data.classes("w-full").style("margin-bottom:14px")
        self._box = ui.element("div")
        self._build(dataset, draft, sql)

    def _choose(self, dataset: str) -> None:
        self._build(dataset)
        self._on_change()

    def _build(self, dataset: str, draft: QueryDraft | None = None, sql: str = "") -> None:
        domain = self._context.session()[dataset].domain
        self._box.clear()
        with self._box:
            self.query = QueryForm(dataset, domain, self._on_change, self._offered, draft, sql)


AUTOMATIC = "automatic"


class AccuracyForm:
    """Either alpha with a confidence, or epsilon; `draft` is what the controls say now."""

    def __init__(self, on_change: Callable[[], object], draft: AccuracyDraft | None = None) -> None:
        self.draft = draft or AccuracyDraft()
        self._on_change = on_change
        ways = {"accuracy": "Choose accuracy", "budget": "Choose budget"}
        choice(ways, self.draft.by, self._by, "Accuracy or budget")
        self._box = ui.element("div").style("margin-top:12px")
        redraw(self._box, self._build)

    def _by(self, chosen: str) -> None:
        self._put(by="budget" if chosen == "budget" else "accuracy", mechanism=None)
        redraw(self._box, self._build)

    def _put(self, **changes: Any) -> None:
        self.draft = replace(self.draft, **changes)
        self._on_change()

    def _build(self) -> None:
        with ui.element("div").classes("bf-pair"):
            if self.draft.by == "accuracy":
                self.amount = ui.input("Within ±", value=self.draft.alpha).props("debounce=200")
                self.amount.on_value_change(lambda e: self._put(alpha=e.value or ""))
            else:
                self.amount = ui.input("Spend epsilon", value=self.draft.epsilon).props("debounce=200")
                self.amount.on_value_change(lambda e: self._put(epsilon=e.value or ""))
            sure = ui.select(CONFIDENCES, value=self.draft.confidence, label="Confidence")
            sure.on_value_change(lambda e: self._put(confidence=e.value))
        # Mechanisms that look at the data promise no accuracy, so they need a budget.
        aware = list(DATA_AWARE) if self.draft.by == "budget" else []
        options = {AUTOMATIC: "the best for this question"} | {name: name for name in (*MECHANISMS, *CHOICES)}
        options |= {name: f"{name} (looks at the data)" for name in aware}
        with ui.expansion("Mechanism").props("dense").classes("w-full").style("margin-top:6px"):
            select = ui.select(options, value=self.draft.mechanism or AUTOMATIC)
            select.classes("w-full").props('aria-label="Mechanism"')
            select.on_value_change(lambda e: self._put(mechanism=None if e.value == AUTOMATIC else e.value))
            fresh = ui.switch("Noise independent of earlier answers", value=self.draft.fresh)
            fresh.props('dense data-testid="fresh"').style("margin-top:8px")
            fresh.on_value_change(lambda e: self._put(fresh=bool(e.value)))
