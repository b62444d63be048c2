"""What the controls of a query say, as values: the query they make, their text in an address, and their Python."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import reduce
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.request import read_query
from blowfishdb.errors import BlowfishError, QueryError, plural
from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS, PARAMETERS
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.calendar import NESTS, Dates, Timestamps
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, Both, Comparison, Member, Negation, Predicate, condition_code
from blowfishdb.model.query import MOST_LEVELS, Query, Questions, Span, levels_of
from blowfishdb.model.serialize import Field
from blowfishdb.present.answer_values import query_document
from blowfishdb.present.words import readable, upper_end
from blowfishdb.session.session import Session
from blowfishdb.session.table import Table
from blowfishdb.sql import write_statement

UNITS_OF = frozenset(NESTS)
COMFORTABLE = 24
"""The number of bars that is still easy to read; the first choice of a grouping makes at most this many."""
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


Template = Literal[
    "histogram", "cdf", "heat", "number", "quantiles", "shares", "top", "compare", "ranges", "marginals", "sql"
]
Statistic = Literal["count", "mean", "sum", "stddev"]
ConditionForm = Literal["between", "among", "not among"]
Result = TypeVar("Result")
SPAN = re.compile(r"\s*(\S+)\s*(?:to|\.\.|,|;|\s)\s*(\S+)\s*")
PERCENT = 100


@dataclass(frozen=True)
class Form:
    """What a template has controls for: how many attributes to group by, and the words before each of them.

    With `is_measured` a number is taken of an attribute; with `is_ordered` the groups have an order.
    """

    labels: tuple[str, ...]
    least: int = 1
    is_measured: bool = False
    is_ordered: bool = False
    more: str = "Another attribute"
    """On the button that adds an attribute."""

    @property
    def most(self) -> int:
        """The most attributes to group by."""
        return len(self.labels)


FORMS: dict[Template, Form] = {
    "histogram": Form(("Attribute",)),
    "cdf": Form(("Attribute",), is_ordered=True),
    "heat": Form(("Down", "Across"), 2),
    "number": Form(("For each", "And each"), 0, is_measured=True, more="For each group"),
    "quantiles": Form(("For each",), 0, is_measured=True, more="For each group"),
    "shares": Form(("Shares of", "Within each"), more="Within each group"),
    "top": Form(("Attribute",)),
    "compare": Form(("Groups of", "For each"), is_measured=True, more="For each group"),
    "ranges": Form(("Attribute",), is_ordered=True),
    "marginals": Form(("Attribute 1", "Attribute 2", "Attribute 3", "Attribute 4"), 2),
    "sql": Form((), 0),
}
FUNCTIONS: dict[Statistic, str] = {"count": "Count", "mean": "Mean", "sum": "Sum", "stddev": "Standard deviation"}
MOST_GROUPS = 1_000
LONGEST = 15
"""Digits that a number may have before and after its point."""


@dataclass(frozen=True)
class AxisDraft:
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
    condition: ConditionForm
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
    """One question as the page has it; numbers are as typed.

    `of` is the attribute that is measured, by `function` or at the quantiles `levels`, in percent; `most` is how many
    groups a top list has. `spans` are lines such as "10 to 20", for ranges; empty means all ranges. A comparison is
    of the values `first` and `second` of its first attribute, or of what lies before and from `cut` on.
    """

    dataset: str
    template: Template
    chosen: tuple[AxisDraft, ...] = ()
    filters: tuple[FilterChoice, ...] = ()
    spans: str = ""
    of: str = ""
    function: Statistic = "mean"
    levels: str = "25, 50, 75"
    most: str = "10"
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    cut: str = ""

    @property
    def measures(self) -> bool:
        """Whether an attribute is measured: everything but a count needs one."""
        return FORMS[self.template].is_measured and (self.template == "quantiles" or self.function != "count")

    def axes(self, domain: Domain) -> list[Axis]:
        """The attributes to group by; QueryError while the template needs others."""
        needed = FORMS[self.template].least
        if len(self.chosen) < needed:
            raise QueryError("choose an attribute" if needed == 1 else "choose at least two attributes")
        if self.measures and not self.of:
            raise QueryError("a mean, a sum or a quantile is of numbers, and no attribute here has any")
        axes = [chosen.axis() for chosen in self.chosen]
        return [self._two_groups(domain), *axes[1:]] if self.template == "compare" else axes

    def _two_groups(self, domain: Domain) -> Axis:
        """The two groups that are compared, as one axis."""
        name = self.chosen[0].attribute
        attribute = domain.find(name)
        if isinstance(attribute, Categorical):
            if not self.first or not self.second:
                raise QueryError("choose the values of both groups")
            names = [", ".join(values) for values in (self.first, self.second)]
            if len(set(names)) == 1:
                raise QueryError("the two groups are the same; choose different values for one of them")
            sides = [tuple(literal(attribute, value) for value in values) for values in (self.first, self.second)]
            return Axis(name, groups=tuple(zip(names, sides, strict=True)))
        if not self.cut.strip():
            raise QueryError(f"say at which value of {name} the second group begins")
        low, high = ends_of(attribute)
        return Axis(name, edges=(low, literal(attribute, self.cut), high))

    def aggregates(self) -> list[Aggregate]:
        """What is asked of every group, where it is not a count."""
        if self.template == "shares":
            within = tuple(axis.attribute for axis in self.chosen[1:])
            return [Aggregate("share", of=within, times=PERCENT, name="percent")]
        if self.template == "quantiles":
            return [Aggregate("quantile", (self.of,), level=level) for level in self.shares()]
        return [Aggregate(self.function, (self.of,))]

    def shares(self) -> tuple[Fraction, ...]:
        """The levels of the quantiles."""
        levels = [Fraction(str(number(part))) / PERCENT for part in re.split(r"[,;\s]+", self.levels) if part]
        if not 0 < len(levels) <= MOST_LEVELS or not all(0 < level < 1 for level in levels):
            raise QueryError("quantiles are percentages between 0 and 100, such as 25, 50, 75")
        return levels_of(dict.fromkeys(levels))

    def top(self) -> int:
        """How many groups a top list has."""
        if not self.most.strip().isdecimal() or not 0 < int(self.most[:9]) <= MOST_GROUPS:
            raise QueryError(f"a top list has 1 to {MOST_GROUPS:,} groups")
        return int(self.most)

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
                raise QueryError(f"{line[:40]!r} is not a range; write one on each line, such as 10 to 20")
            spans.append((literal(attribute, ends[1]), literal(attribute, ends[2])))
        return spans or None

    def unit(self) -> str:
        """The unit in which the accuracy of the answers is said."""
        if self.template in ("sql", "shares"):
            return {"shares": "% points"}.get(self.template, "")
        return f"of {self.of}" if self.measures and self.template != "quantiles" else "records"

    def usual_alpha(self, domain: Domain) -> str:
        """How far off answers may be where nobody says it: a hundred records, or a hundredth of the declared values."""
        if self.template == "shares":
            return "2"
        if not self.measures or self.template == "quantiles" or not self.of:
            return "100"
        low, high = (Fraction(str(end)) for end in ends_of(domain[self.of]))
        part = float(high - low) * (PERCENT if self.function == "sum" else 1 / PERCENT)
        return f"{Decimal(f'{part:.1g}'):f}"


def call_of(draft: QueryDraft, domain: Domain) -> tuple[str, list[Any], list[Axis]]:
    """The method of a table that asks a question, its arguments, and what its aggregates are grouped by."""
    axes = draft.axes(domain)
    match draft.template:
        case "cdf" | "marginals":
            return draft.template, [*axes], []
        case "heat":
            return "histogram2d", [*axes], []
        case "ranges":
            spans = draft.ranges(domain)
            return "ranges", [axes[0], *([spans] if spans else [])], []
        case "top":
            return "top", [draft.top(), *axes], []
        case "quantiles" if not axes:
            return "quantiles", [draft.of, list(draft.shares())], []
        case "number" if not axes and draft.function in ("mean", "sum"):
            return draft.function, [draft.of], []
        case "number" if not axes and draft.function == "count":
            return "count", [], []
        case "sql":
            raise QueryError("this is asked of the dataset itself")
    if draft.template == "shares" or draft.measures:
        return "aggregate", draft.aggregates(), axes
    return "histogram", [*axes], []


def build_query(draft: QueryDraft, table: Questions[Result]) -> Result:
    """The question of a table, or the answer of a synopsis."""
    method, arguments, by = call_of(draft, table.domain)
    for condition in draft.conditions(table.domain):
        table = table.where(condition)
    if not hasattr(table, method):
        raise QueryError("this is asked of the dataset itself")
    ask: Callable[..., Result] = getattr(table, method)
    return ask(*arguments, by=by) if by or method == "aggregate" else ask(*arguments)


def statement_of(draft: QueryDraft, table: Table) -> str | None:
    """The SELECT that asks what the controls ask; None where SQL has no words for it, or something is missing."""
    try:
        statement = write_statement(table.name, build_query(draft, table).query, table.domain)
        if statement is not None and draft.template == "top":
            statement += f" ORDER BY COUNT(*) DESC LIMIT {draft.top()}"
    except BlowfishError:
        return None
    return statement


def usable_attributes(template: Template, domain: Domain) -> list[str]:
    """The attributes that a template groups by."""
    return [name for name in domain if domain[name].ordered or not FORMS[template].is_ordered]


def usual_axis(domain: Domain, name: str) -> AxisDraft:
    """The attribute, grouped so that it is easy to read."""
    return AxisDraft(name, usual_step(domain[name]))


def with_template(draft: QueryDraft, template: Template, domain: Domain) -> QueryDraft:
    """The same question in another form: what was chosen stays where it fits, and what is missing is filled in."""
    form, usable = FORMS[template], usable_attributes(template, domain)
    if template == "compare":
        # Groups are seldom compared by a number, so categories come first.
        usable.sort(key=lambda name: not isinstance(domain[name], Categorical))
    axes = [axis for axis in draft.chosen if axis.attribute in usable]
    if template == "compare" and axes and not isinstance(domain[axes[0].attribute], Categorical):
        axes = []
    free = [name for name in usable if name not in [axis.attribute for axis in axes]]
    axes += [usual_axis(domain, name) for name in free[: max(form.least - len(axes), 0)]]
    numeric = [name for name in domain if is_numeric(domain[name])]
    of = draft.of if draft.of in numeric else next(iter(numeric), "")
    most = form.most if template == draft.template or template == "marginals" else form.least
    return with_sides(replace(draft, template=template, chosen=tuple(axes[:most]), of=of), domain)


def with_sides(draft: QueryDraft, domain: Domain) -> QueryDraft:
    """The draft with two groups to compare: the first two values of its attribute, or its lower and upper half."""
    if draft.template != "compare" or not draft.chosen:
        return draft
    attribute = domain[draft.chosen[0].attribute]
    if isinstance(attribute, Categorical):
        listed = listed_values(attribute)
        if draft.first and {*draft.first, *draft.second} <= set(listed):
            return draft
        return replace(draft, first=tuple(listed[:1]), second=tuple(listed[1:2]), cut="")
    return replace(draft, first=(), second=(), cut=cut_text(attribute))


def cut_text(attribute: Attribute) -> str:
    """The value in the middle of an ordered attribute, as somebody would type it."""
    match attribute:
        case Bins():
            return show(attribute.edge(attribute.size // 2))
        case Dates(start=start, end=end):
            return (start + (end - start) / 2).isoformat()
        case Timestamps(start=start, end=end):
            return (start + (end - start) / 2).date().isoformat()
    return str(attribute.value_at(attribute.size // 2))


def is_numeric(attribute: Attribute) -> bool:
    """Whether sums, means and quantiles are taken of it."""
    return isinstance(attribute, Integers | Bins)


def ends_of(attribute: Attribute) -> tuple[object, object]:
    """The low end of an ordered attribute, and the end after its last value."""
    match attribute:
        case Integers(low=low, high=high):
            return low, high + 1
        case Bins():
            return number(show(attribute.edge(0))), number(show(attribute.edge(attribute.size)))
        case Dates(start=start, end=end):
            return start, end + datetime.timedelta(days=1)
        case Timestamps(start=start, end=end):
            return start, end
    raise QueryError("only numbers and dates are cut in two")


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
            raise QueryError(f"{plain[:40]!r} is not a date; write for example 2025-03-31") from None
    return number(plain)


def number(text: str) -> int | float:
    """A number as a program would write it, so that page and program ask the very same; floats count as they print."""
    try:
        exact = Decimal(text.replace(" ", ""))
    except InvalidOperation:
        raise QueryError(f"{text[:40]!r} is no number") from None
    if not exact.is_finite() or (exact and not -LONGEST < exact.adjusted() < LONGEST):
        raise QueryError(f"{text[:40]!r} is not a number that can be used here")
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
    parameters: tuple[tuple[str, str], ...] = ()

    def keywords(self) -> tuple[str | None, str | None]:
        """Alpha and epsilon, one of them None."""
        return (self.alpha.strip(), None) if self.by == "accuracy" else (None, self.epsilon.strip())


WORDS: dict[ConditionForm, str] = {"among": "is one of", "not among": "is none of"}
MOST_LISTED = 2_000
MOST_FILTERS = 8
LONGEST_QUESTION = 6_000
"""A longer question is not kept in the address of its page: browsers and proxies limit those."""


@dataclass(frozen=True)
class QuestionDraft:
    """A query and its accuracy as the controls say them; the statement is that of the template SQL."""

    query: QueryDraft
    accuracy: AccuracyDraft = AccuracyDraft()
    sql: str = ""

    def text(self) -> str:
        """What is not the usual, for the address of the page; empty where it is too long."""
        usual = {field.name: field.default for one in (QueryDraft, AccuracyDraft) for field in fields(one)}
        changed, how = (
            {key: part for key, part in asdict(one).items() if part != usual[key]}
            for one in (self.query, self.accuracy)
        )
        content = changed | ({"sql": self.sql} if self.query.template == "sql" else {})
        content |= {"accuracy": how} if how else {}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return text if len(text) <= LONGEST_QUESTION else ""

    def link(self, **more: str) -> str:
        """The address of Explore with this question, and what `more` there is to show; without one that is too long."""
        parts = {"question": self.text(), **more}
        return f"/explore?{urlencode({key: part for key, part in parts.items() if part})}"


def read_question(text: str, domain_of: Callable[[str], Domain]) -> QuestionDraft | None:
    """The question whose `text` this is; None where it, or part of it, makes no sense now."""
    try:
        content = json.loads(text)
        accuracy = Field(vars(AccuracyDraft()) | content.pop("accuracy", {})).read(AccuracyDraft)
        sql = str(content.pop("sql", ""))
        for part, usual in (("chosen", AxisDraft("")), ("filters", FilterChoice("", "among"))):
            content[part] = [vars(usual) | one for one in content.get(part, ())]
        draft = Field(vars(QueryDraft("", "sql")) | content).read(QueryDraft)
        is_usable = _is_usable_draft(draft, domain_of(draft.dataset)) and _is_usable_accuracy(accuracy)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BlowfishError):
        return None
    return QuestionDraft(draft, accuracy, sql) if is_usable else None


def edit_link(answer: Answer, session: Session) -> str:
    """The address of Explore with the question of an answer, by its controls or in SQL; empty where neither asks it."""
    document = query_document(answer)
    if document is None:
        return ""
    try:
        table, query = session[answer.dataset], read_query(dict(document))
        draft, sql = draft_of(query, table)
    except BlowfishError:
        return ""
    confidence = show(1 - Fraction(str(answer.beta)))
    accuracy = AccuracyDraft(confidence=confidence if confidence in CONFIDENCES else AccuracyDraft.confidence)
    if answer.is_exact or answer.caveat or answer.columns:
        accuracy = replace(accuracy, by="budget", epsilon=show(answer.epsilon) if answer.epsilon else accuracy.epsilon)
    else:
        accuracy = replace(accuracy, alpha=readable(upper_end(answer.widths.simultaneous)).replace(",", ""))
    question = QuestionDraft(draft, accuracy, sql)
    return question.link() if question.text() else ""


def draft_of(query: Query, table: Table) -> tuple[QueryDraft, str]:
    """The controls that ask a query, or else the SQL template and its statement; QueryError where neither does."""
    for draft in _candidates(query, table.name):
        with suppress(BlowfishError):
            if _is_usable_draft(draft, table.domain) and build_query(draft, table).query == query:
                return draft, ""
    statement = write_statement(table.name, query, table.domain)
    if statement is None:
        raise QueryError("this was asked from Python, and the page has no controls for it")
    return QueryDraft(table.name, "sql"), statement


def _candidates(query: Query, dataset: str) -> Iterator[QueryDraft]:
    """Drafts that may ask the query."""
    filters = _filters_of(query.where)
    if filters is None or any(axis.edges or axis.groups for axis in query.axes):
        return
    chosen = tuple(
        AxisDraft(axis.attribute, axis.unit or ("" if axis.width is None else show(Fraction(str(axis.width)))))
        for axis in query.axes
    )
    templates: dict[str, tuple[Template, ...]] = {
        "histogram": ("histogram", "number"),
        "histogram2d": ("heat",),
        "count": ("number",),
        "cdf": ("cdf",),
        "ranges": ("ranges",),
        "marginals": ("marginals",),
    }
    for template in templates.get(query.kind, ()):
        yield QueryDraft(dataset, template, chosen, filters, function="count")
    if query.kind in ("mean", "sum", "quantiles") and not chosen[0].step:
        measured: Template = "quantiles" if query.kind == "quantiles" else "number"
        levels = ", ".join(show(PERCENT * level) for level in query.levels)
        function: Statistic = "sum" if query.kind == "sum" else "mean"
        yield QueryDraft(dataset, measured, (), filters, of=chosen[0].attribute, function=function, levels=levels)


def _filters_of(where: Predicate | None) -> tuple[FilterChoice, ...] | None:
    """The condition as filters of the page; None where it has another form."""
    match where:
        case None:
            return ()
        case Both(Comparison(one, ">=", low), Comparison(two, "<=", high)) if one == two:
            return (FilterChoice(one, "between", _typed(low), _typed(high)),)
        case Both(first, second):
            before, after = _filters_of(first), _filters_of(second)
            return None if before is None or after is None else (*before, *after)
        case Comparison(attribute, ">=", value):
            return (FilterChoice(attribute, "between", low=_typed(value)),)
        case Comparison(attribute, "<=", value):
            return (FilterChoice(attribute, "between", high=_typed(value)),)
        case Comparison(attribute, "==", value):
            return (FilterChoice(attribute, "among", values=(_typed(value),)),)
        case Member(attribute, values):
            return (FilterChoice(attribute, "among", values=tuple(map(_typed, values))),)
        case Negation(Comparison(attribute, "==", value)):
            return (FilterChoice(attribute, "not among", values=(_typed(value),)),)
        case Negation(Member(attribute, values)):
            return (FilterChoice(attribute, "not among", values=tuple(map(_typed, values))),)
    return None


def _typed(value: object) -> str:
    """A value as somebody would type it."""
    if isinstance(value, Fraction):
        return show(value)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _is_usable_draft(draft: QueryDraft, domain: Domain) -> bool:
    form, names = FORMS[draft.template], [axis.attribute for axis in draft.chosen]
    return (
        form.least <= len(names) == len(set(names)) <= form.most
        and all(axis.step in steps_of(domain[axis.attribute]) for axis in draft.chosen)
        and all(domain[name].ordered or not form.is_ordered for name in names)
        and (not draft.of or is_numeric(domain[draft.of]))
        and (draft.template != "compare" or {*draft.first, *draft.second} <= set(listed_values(domain[names[0]])))
        and len(draft.filters) <= MOST_FILTERS
        and all(_is_usable_filter(one, domain[one.attribute]) for one in draft.filters)
    )


def _is_usable_filter(one: FilterChoice, attribute: Attribute) -> bool:
    if one.condition == "between":
        return not isinstance(attribute, Categorical)
    return isinstance(attribute, Categorical) and set(listed_values(attribute)).issuperset(one.values)


def _is_usable_accuracy(accuracy: AccuracyDraft) -> bool:
    mechanisms = (*MECHANISMS, *CHOICES, *(DATA_AWARE if accuracy.by == "budget" else ()))
    taken = {one.name for one in PARAMETERS.get(accuracy.mechanism or "", ())}
    return (
        accuracy.confidence in CONFIDENCES
        and accuracy.mechanism in (None, *mechanisms)
        and taken.issuperset(name for name, _ in accuracy.parameters)
    )


def listed_values(attribute: Attribute) -> list[str]:
    """The values of a category to choose from; of anything else none."""
    return [str(value) for value in attribute.values[:MOST_LISTED]] if isinstance(attribute, Categorical) else []


NUMBER = re.compile(r"\d+(\.\d+)?")


def snippet(draft: QueryDraft, accuracy: AccuracyDraft, domain: Domain, url: str) -> str:
    """Python that asks a dataset the same question with the same accuracy."""
    terms, question = _accuracy(accuracy), f"question = db[{draft.dataset!r}]{_call(draft, domain)}"
    lines = [question, f"print(question.preview({terms}))  # free", f"answer = question.release({terms})"]
    return _whole(url, [*lines, "print(bf.compare(answer))"] if draft.template == "compare" else lines)


def sql_snippet(text: str, accuracy: AccuracyDraft, url: str) -> str:
    """Python that runs the same statement."""
    return _whole(url, [f'answer = db.sql("""{text.strip()}""", {_accuracy(accuracy)})'])


def reopening(dataset: str, number: int, url: str) -> str:
    """Python that opens an answer of the past again."""
    return _whole(url, [f"answer = db.reopen({dataset!r}, {number})  # free"])


def synopsis_snippet(draft: QueryDraft, domain: Domain, number: int, url: str) -> str:
    """Python that asks a published synopsis the same."""
    synopsis = f"synopsis = db.synopsis({draft.dataset!r}, {number})"
    return _whole(url, [synopsis, f"answer = synopsis{_call(draft, domain)}  # free"])


def _whole(url: str, lines: list[str]) -> str:
    needed = {"datetime.": "import datetime", "Fraction(": "from fractions import Fraction"}
    imports = [line for part, line in needed.items() if any(part in line for line in lines)]
    head = [*imports, *([""] if imports else []), "import blowfishdb as bf", ""]
    return "\n".join(
        [*head, f'db = bf.connect({url!r}, token="...")  # a token of yours', *lines, "answer.to_pandas()"]
    )


def _call(draft: QueryDraft, domain: Domain) -> str:
    filters = "".join(f".where({condition_code(one)})" for one in draft.conditions(domain))
    method, arguments, by = call_of(draft, domain)
    listed = [*map(_code, arguments), *([f"by={_code(by)}"] if by else [])]
    return f"{filters}.{method}({', '.join(listed)})"


def _code(value: object) -> str:
    """A value as Python."""
    match value:
        case list():
            return f"[{', '.join(map(_code, value))}]"
        case Fraction() if Fraction(repr(float(value))) == value:
            return repr(float(value))
        case Aggregate():
            changed = [one.name for one in fields(value)[1:] if getattr(value, one.name) != one.default]
            parts = [f"{name}={getattr(value, name)!r}" for name in changed]
            return f"bf.Aggregate({', '.join([repr(value.function), *parts])})"
        case Axis(width=width) if width is not None:
            return f"bf.col({value.attribute!r}).bins({width!r})"
        case Axis(edges=edges) if edges:
            return f"bf.col({value.attribute!r}).bins(edges={list(edges)!r})"
        case Axis(groups=groups) if groups:
            return f"bf.col({value.attribute!r}).groups({ {name: list(values) for name, values in groups}!r})"
        case Axis(unit=unit) if unit is not None:
            return f"bf.col({value.attribute!r}).by({unit!r})"
        case Axis():
            return repr(value.attribute)
    return repr(value)


def _accuracy(accuracy: AccuracyDraft) -> str:
    alpha, epsilon = accuracy.keywords()
    # A share such as "5 %" is no number.
    within = alpha if alpha is None or NUMBER.fullmatch(alpha) else repr(alpha)
    main = f"alpha={within}" if epsilon is None else f'epsilon="{epsilon}"'
    chosen = "" if accuracy.mechanism is None else f", mechanism={accuracy.mechanism!r}"
    chosen += f", parameters={dict(accuracy.parameters)!r}" if accuracy.parameters else ""
    fresh = ", fresh=True" if accuracy.fresh else ""
    return f"{main}, confidence={accuracy.confidence}{chosen}{fresh}"
