"""Post-processing of released answers, free: two compared; columns worked out of others; rows chosen and sorted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.infer import Estimate, Interval
from blowfishdb.errors import QueryError, sentence
from blowfishdb.model.arguments import checked
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.present.answer_values import (
    AnswerAxis,
    AnswerColumn,
    AnswerTable,
    Bounds,
    chosen_numbers,
    query_document,
)
from blowfishdb.present.export import axis_columns, column_names, needed, row_labels, text_table
from blowfishdb.present.page import fragment, rows_table
from blowfishdb.present.words import Digits, digits_of, percent, printable, readable

if TYPE_CHECKING:
    import pandas


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class AnswerComparison:
    """Two answers side by side, with intervals that all hold together except with probability `beta`.

    The same question of the same rows has one truth: `pooled` is where both intervals have it, NaN where they disagree,
    and there is no difference to speak of. Otherwise the answers are about two groups: `difference` is the second less
    the first, `ratio` the second over the first, NaN where the first may be 0 or less. `caveat` says what the intervals
    leave out.
    """

    first: Answer
    second: Answer
    beta: float
    pooled: Estimate | None
    difference: Estimate | None
    ratio: Estimate | None
    caveat: str

    @property
    def is_one_truth(self) -> bool:
        """Whether both answers are to the same question of the same rows."""
        return self.pooled is not None

    def words(self) -> tuple[str, ...]:
        """What the numbers of the comparison say, in sentences."""
        sure = percent(self.beta)
        if self.is_one_truth:
            holds = f"Each true value lies in both intervals, with {sure} confidence for all of them at once"
            sentences = [f"The same question of the same rows. {holds}, unless the rows were changed in between."]
        else:
            what = f"Two groups: {self.first.title}, and {self.second.title}."
            if self.first.title == self.second.title:
                what = f"{self.first.title}, twice, of rows that may have changed in between."
            holds = f"With {sure} confidence all true differences and ratios lie in the intervals shown."
            sentences = [f"{what} {holds} Differences are the second less the first, ratios the second over the first."]
        if self.difference is not None and self.first.raw.size == 1:
            sentences.append(self._verdict(self.difference.bounds))
        if self.ratio is not None and self.first.raw.size > 1 and np.isnan(self.ratio.bounds.low).any():
            sentences.append("A ratio is not known where the first may be 0.")
        sentences += [sentence(self.first.counted)] if self.first.counted else []
        return (*sentences, self.caveat) if self.caveat else tuple(sentences)

    def _verdict(self, difference: Bounds) -> str:
        """Which of two numbers is the larger one, where their intervals tell."""
        low, high = float(difference.low[0]), float(difference.high[0])
        if low <= 0.0 <= high:
            return "Which of the two is larger is not known: the interval of the difference holds 0."
        return f"The {'second' if low > 0.0 else 'first'} is larger, with that confidence."

    def columns(self) -> dict[str, Floats]:
        """The numbers by name: both values, and the estimates with the ends of their intervals."""
        named = {"difference": self.difference, "ratio": self.ratio, "both": self.pooled}
        columns = {"first": self.first.values, "second": self.second.values}
        for name, estimate in named.items():
            if estimate is not None:
                ends = estimate.bounds
                columns |= {name: estimate.values, f"{name}_low": ends.low, f"{name}_high": ends.high}
        return columns

    def to_pandas(self) -> pandas.DataFrame:
        """The labels and the numbers as a pandas frame."""
        library = needed("pandas", "frames")
        labels = {name: library.Series(column, dtype=object) for name, column in axis_columns(self.first).items()}
        return library.DataFrame({**labels, **self.columns()})

    def head(self) -> list[str]:
        """The names of the columns of `cells`."""
        estimates = ["both intervals"] if self.is_one_truth else ["difference", "between", "ratio", "between"]
        return [*column_names(self.first), "first", "second", *estimates]

    def cells(self, places: range) -> list[list[str]]:
        """Labels, values and estimates with their intervals, as text."""
        digits = max(digits_of(self.first), digits_of(self.second), key=lambda one: one.places)
        rows = []
        for place, labels in zip(places, row_labels(self.first, places), strict=True):
            values = [digits.value(float(answer.values[place])) for answer in (self.first, self.second)]
            rows.append([*labels, *values, *self._estimates(place, digits)])
        return rows

    def _estimates(self, place: int, digits: Digits) -> list[str]:
        if self.pooled is not None:
            return [_between(self.pooled, place, digits) or "they disagree"]
        cells = []
        for estimate, how in ((self.difference, digits), (self.ratio, RATIO_DIGITS)):
            between = None if estimate is None else _between(estimate, place, how)
            value = "" if estimate is None or between is None else how.value(float(estimate.values[place]))
            cells += [value, between or "not known"]
        return cells

    def __repr__(self) -> str:
        body = text_table(self.head(), self.cells, self.first.raw.size)
        return "\n".join([*map(printable, self.words()), *body])

    def _repr_html_(self) -> str:
        lefts = len(column_names(self.first))
        table = rows_table("Both answers", self.head(), self.cells, self.first.raw.size, lefts)
        return fragment("Two answers compared", self.first.dataset, table, self.words())


RATIO_DIGITS = Digits(3)


def _between(estimate: Estimate, place: int, digits: Digits) -> str | None:
    low, high = float(estimate.bounds.low[place]), float(estimate.bounds.high[place])
    return None if np.isnan(low) else f"{digits.low(low)} to {digits.high(high)}"


def has_two_groups(answer: Answer) -> bool:
    """Whether the first attribute of an answer has two groups, beside NULL and outside, that can be compared."""
    if len(answer.tables) != 1 or answer.kind not in ("histogram", "histogram2d", "table"):
        return False
    (table,) = answer.tables
    return table.crossed and table.axes[0].plain == PAIR


def _groups(answer: Answer) -> list[Answer]:
    """The answers about each of the two groups of the first attribute: parts of one release."""
    if not has_two_groups(answer):
        raise QueryError(
            "one answer is compared where its first attribute has two groups, such as "
            "histogram(col('ward').groups({'Ash': ['Ash'], 'others': [...]})); otherwise give two answers"
        )
    (table,) = answer.tables
    axis, *others = table.axes
    everything = AnswerAxis("records", ("all",), 1)
    tables = (AnswerTable(tuple(others) or (everything,)),)
    size = tables[0].size
    is_scalar = not others and answer.kind == "histogram"
    parts = []
    for place in range(PAIR):
        part = np.arange(place * size, (place + 1) * size)
        parts.append(
            replace(
                chosen_numbers(answer, part, tables, answer.columns),
                kind="count" if is_scalar else answer.kind if answer.kind == "table" else "histogram",
                title=f"{axis.name} {axis.labels[place]}",
                simultaneous=answer.bounds.at(part),
                pointwise=answer.pointwise_bounds.at(part),
                measured=None,
                subject="",
            )
        )
    return parts


PAIR = 2


@checked(QueryError)
def compare(first: Answer, second: Answer | None = None) -> AnswerComparison:
    """The comparison of two answers, or of the two groups of the first attribute of one answer.

    QueryError with the reason where one with the other means nothing. Two simultaneous guarantees fail together with
    at most the sum of their probabilities (union bound); an exact answer never fails, and one answer has one guarantee.
    """
    if second is None:
        _check_answers(first)
        one, two = _groups(first)
        caveat = first.caveat if first.leaves_out else ""
        beta = 0.0 if first.is_exact else first.beta
        return AnswerComparison(one, two, beta, None, _difference(one, two), _ratio(one, two), caveat)
    _check_answers(first, second)
    _check_comparable(first, second)
    betas = [Decimal(repr(answer.beta)) for answer in (first, second) if not answer.is_exact]
    beta = min(float(sum(betas)), 1.0)
    caveat = " ".join(dict.fromkeys(answer.caveat for answer in (first, second) if answer.leaves_out))
    if first.subject and first.subject == second.subject:
        if caveat:
            raise QueryError(f"these answers are not put together, since their intervals may miss the truth: {caveat}")
        return AnswerComparison(first, second, beta, _pooled(first, second), None, None, "")
    return AnswerComparison(first, second, beta, None, _difference(first, second), _ratio(first, second), caveat)


def _check_answers(*answers: Answer) -> None:
    if any(len(answer.columns) > 1 for answer in answers):
        raise QueryError("aggregates are compared one by one: answer.column(0) is the first of them")


def _check_comparable(first: Answer, second: Answer) -> None:
    questions = [_without_filter(answer) for answer in (first, second)]
    if None in questions:
        raise QueryError("one of these answers does not say what was asked, so they are not compared; ask it again")
    if first.counted != second.counted:
        counted = [answer.counted or "all rows are counted" for answer in (first, second)]
        raise QueryError(f"in one {counted[0]} and in the other {counted[1]}, so they are not compared")
    if questions[0] != questions[1] or (first.tables, first.columns) != (second.tables, second.columns):
        raise QueryError(
            f"'{first.title}' and '{second.title}' ask for different things: two answers are compared that differ in "
            "their filter or in their rows, not in their kind, attributes or bins"
        )


def _without_filter(answer: Answer) -> Mapping[str, Any] | None:
    """The question but for its filter; None where the answer does not carry it."""
    question = query_document(answer)
    return None if question is None else {key: part for key, part in question.items() if key != "where"}


def _pooled(first: Answer, second: Answer) -> Estimate:
    low = np.maximum(first.bounds.low, second.bounds.low)
    high = np.minimum(first.bounds.high, second.bounds.high)
    apart = low > high
    middle = (first.raw + second.raw) / 2.0
    nothing = np.full(low.size, np.nan)
    low, high = np.where(apart, nothing, low), np.where(apart, nothing, high)
    return Estimate(np.where(apart, nothing, np.clip(middle, low, high)), Bounds(low, high))


def _difference(first: Answer, second: Answer) -> Estimate:
    bounds = Bounds(second.bounds.low - first.bounds.high, second.bounds.high - first.bounds.low)
    return Estimate(second.values - first.values, bounds)


def _ratio(first: Answer, second: Answer) -> Estimate:
    """The second over the first, where the first is above 0 for certain."""
    ones, twos = (first.bounds.low, first.bounds.high), (second.bounds.low, second.bounds.high)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [two / one for two in twos for one in ones]
        columns = second.values / first.values, np.minimum.reduce(ends), np.maximum.reduce(ends)
    values, low, high = (np.where(first.bounds.low > 0.0, column, np.nan) for column in columns)
    return Estimate(values, Bounds(low, high))


ColumnOp = Literal["==", "<>", "<", "<=", ">", ">="]
COMPARED = {
    "==": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True)
class SortKey:
    """One attribute or column by which rows are sorted."""

    name: str
    is_descending: bool = False
    nulls_first: bool | None = None
    """Where NULL stands among the values of an attribute; None where it is the largest of them."""


@dataclass(frozen=True)
class ColumnThreshold:
    """Rows whose column compares so with a number."""

    column: str
    op: ColumnOp
    value: float


@dataclass(frozen=True)
class AllOf:
    """Rows that meet all of the conditions, or with `any_of` at least one of them."""

    parts: tuple[ColumnThreshold | AllOf, ...]
    any_of: bool = False


@dataclass(frozen=True)
class Total:
    """The sum of a column over all groups that agree in the attributes `of`."""

    column: str
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arithmetic:
    """Two formulas added, subtracted, multiplied or divided.

    What is divided by is 0 or at least `grain` in size, where it is not known to be above or below 0 anyway.
    """

    sign: Literal["+", "-", "*", "/"]
    left: Formula
    right: Formula
    grain: float = 1.0


Formula: TypeAlias = "float | str | Total | Arithmetic"
"""A number, a column by its name, a total of one, or arithmetic with such."""


@dataclass(frozen=True)
class Computed:
    """A column that is worked out of others of the same answer, and its place among the columns."""

    name: str
    formula: Formula
    place: int


@dataclass(frozen=True)
class Selection:
    """What is done to a released answer before it is shown: it reads no data and costs nothing."""

    having: ColumnThreshold | AllOf | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    computed: tuple[Computed, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether all rows stay as they are."""
        return self == EVERYTHING

    @property
    def words(self) -> str:
        """The rows that are shown, and their order: "where count > 50, by count (largest first), the first 10"."""
        order = ", ".join(f"{key.name}{' (largest first)' if key.is_descending else ''}" for key in self.order)
        rows = "" if self.limit is None else f"{'the first' if not self.offset else 'the next'} {self.limit:,}"
        having = "" if self.having is None else f"where {_condition_words(self.having)}"
        after = f"after {self.offset:,}" if self.offset else ""
        computed = " and ".join(
            words if one.name == (words := formula_words(one.formula)) else f"{one.name} = {words}"
            for one in self.computed
        )
        parts = (
            computed and f"with {computed}",
            having,
            order and f"by {order}",
            " ".join(filter(None, (rows, after))),
        )
        return ", ".join(filter(None, parts))


EVERYTHING = Selection()


def select_rows(answer: Answer, selection: Selection) -> Answer:
    """The chosen rows of an answer, in the chosen order, with a note on what the choice promises."""
    if selection.is_everything:
        return answer
    table = _as_table(answer)
    for one in selection.computed:
        table = _with_column(table, one)
    places = np.arange(table.row_count)
    if selection.having is not None:
        places = places[_held(table, selection.having)]
    for key in reversed(selection.order):
        places = places[_order(table, key, places)]
    stop = None if selection.limit is None else selection.offset + selection.limit
    chosen = places[selection.offset : stop]
    meaning = _meaning(table, selection, is_cut=chosen.size < places.size)
    if selection.computed:
        meaning.insert(0, _computed_words(selection.computed))
    note = " ".join(part for part in (table.consistent.note, *meaning) if part)
    return _with_rows(table, chosen, note)


def _as_table(answer: Answer) -> Answer:
    """The answer as a table of one column, where it is not a table already."""
    if answer.columns:
        return answer
    names = (AnswerColumn(answer.value_name, "count" if answer.is_counts else answer.kind),)
    return replace(answer, kind="table", columns=names, simultaneous=answer.bounds, pointwise=answer.pointwise_bounds)


COMPUTED = "computed"


def formula_words(formula: Formula) -> str:
    """A formula as it is read: "sum_cost / count"."""
    if isinstance(formula, Arithmetic):
        left, right = (
            f"({formula_words(side)})" if isinstance(side, Arithmetic) else formula_words(side)
            for side in (formula.left, formula.right)
        )
        return f"{left} {formula.sign} {right}"
    if isinstance(formula, Total):
        return " by ".join(filter(None, (f"the total of {formula.column}", ", ".join(formula.of))))
    return formula if isinstance(formula, str) else readable(formula)


def _computed_words(computed: Sequence[Computed]) -> str:
    names, many = ", ".join(one.name for one in computed), len(computed) > 1
    return (
        f"{names} {'are' if many else 'is'} worked out of the columns that were measured: the accuracy is theirs, and "
        f"{'these intervals follow' if many else 'this interval follows'} from it."
    )


def _with_column(table: Answer, one: Computed) -> Answer:
    """The answer with one more column.

    All intervals of an answer hold together, so the range of a formula over them holds as well.
    """
    ends = _worked_out(table, one.formula)
    ends = Interval(*(np.broadcast_to(part, table.tables[0].size).astype(np.float64) for part in ends.parts))
    starts = np.cumsum([0, *(each.size for each in table.tables)])
    at = int(starts[one.place])
    columns, tables = list(table.columns), list(table.tables)
    columns.insert(one.place, AnswerColumn(one.name, COMPUTED))
    tables.insert(one.place, table.tables[0])
    values, low, high, away = (
        np.insert(before, at, more)
        for before, more in (
            (table.values, ends.value),
            (table.bounds.low, ends.low),
            (table.bounds.high, ends.high),
            (table.widths.per_answer, np.maximum(ends.high - ends.value, ends.value - ends.low)),
        )
    )
    return replace(
        table,
        tables=tuple(tables),
        raw=values,
        consistent=replace(table.consistent, values=values),
        widths=HalfWidths(away, float(away.max(initial=0.0))),
        simultaneous=Bounds(low, high),
        pointwise=Bounds(low, high),
        columns=tuple(columns),
    )


def _worked_out(table: Answer, formula: Formula) -> Interval:
    """The range of a formula over the intervals of its columns, for every group."""
    match formula:
        case Total(name, of):
            axes = table.tables[0].axes
            beside = tuple(place for place, axis in enumerate(axes) if axis.name not in of)
            shape = table.tables[0].shape
            each = _worked_out(table, name)
            return Interval(
                *(
                    np.broadcast_to(part.reshape(shape).sum(axis=beside, keepdims=True), shape).reshape(-1)
                    for part in each.parts
                )
            )
        case Arithmetic(sign, left, right, grain):
            one, two = _worked_out(table, left), _worked_out(table, right)
            match sign:
                case "+":
                    return one + two
                case "-":
                    return one + two.times(-1.0)
                case "*":
                    return one.product(two)
            return one.product(two.inverse(grain))
        case str(name):
            column = _column(table, name)
            return Interval(column.values, column.bounds.low, column.bounds.high)
    return Interval(*(np.array([float(formula)]),) * 3)


def _held(table: Answer, condition: ColumnThreshold | AllOf) -> Bools:
    if isinstance(condition, ColumnThreshold):
        held = COMPARED[condition.op](_column(table, condition.column).values, condition.value)
        return np.asarray(held, dtype=np.bool_)
    parts = [_held(table, part) for part in condition.parts]
    return np.asarray(np.any(parts, axis=0) if condition.any_of else np.all(parts, axis=0), dtype=np.bool_)


def _column(table: Answer, name: str) -> Answer:
    return table.column([column.name for column in table.columns].index(name))


def _order(table: Answer, key: SortKey, places: Ints) -> Ints:
    """The places sorted by a column, or by the declared order of an attribute; equal ones stay as they were."""
    numbers: Floats
    if key.name in [column.name for column in table.columns]:
        numbers = _column(table, key.name).values[places]
    else:
        axis = next(axis for axis in table.tables[0].axes if axis.name == key.name)
        rank: dict[str, float] = {label: place for place, label in enumerate(axis.labels)}
        if key.nulls_first is not None:
            rank["NULL"] = -math.inf if key.nulls_first != key.is_descending else math.inf
        at = column_names(table).index(key.name)
        rows = [table.tables[0].row(int(place)) for place in places]
        numbers = np.array([rank[row[at]] for row in rows], dtype=np.float64)
    return np.argsort(-numbers if key.is_descending else numbers, kind="stable")


def _meaning(table: Answer, selection: Selection, *, is_cut: bool) -> list[str]:
    """What is promised of the chosen rows, with the confidence of the intervals."""
    sure = percent(table.beta)
    sentences = []
    if selection.having is not None:
        for part in _thresholds(selection.having):
            column = _column(table, part.column)
            wide, digits = _half_width(column), digits_of(column)
            if part.op in (">", ">=", "<", "<=") and math.isfinite(wide):
                low, high = digits.low(part.value - wide), digits.high(part.value + wide)
                listed, left_out = (high, low) if part.op in (">", ">=") else (low, high)
                side, other = ("above", "below") if part.op in (">", ">=") else ("below", "above")
                sentences.append(
                    f"HAVING looks at published numbers: every group whose true {part.column} is {side} {listed} is "
                    f"listed, and none whose is {other} {left_out} ({sure})."
                )
            else:
                sentences.append("HAVING looks at published numbers; what is true lies in the intervals.")
    numeric = [key for key in selection.order if key.name in [column.name for column in table.columns]]
    if numeric and (is_cut or not sentences):
        column = _column(table, numeric[0].name)
        wide = _half_width(column)
        if is_cut and math.isfinite(wide):
            sentences.append(
                "ORDER BY looks at published numbers: every listed group is within "
                f"{digits_of(column).high(2 * wide)} of the last that truly belongs in the list ({sure})."
            )
        else:
            sentences.append("ORDER BY looks at published numbers: groups whose intervals overlap may be swapped.")
    return sentences


def _condition_words(condition: ColumnThreshold | AllOf) -> str:
    if isinstance(condition, ColumnThreshold):
        return f"{condition.column} {condition.op} {readable(condition.value)}"
    parts = (
        f"({_condition_words(part)})" if isinstance(part, AllOf) else _condition_words(part) for part in condition.parts
    )
    return (" or " if condition.any_of else " and ").join(parts)


def _thresholds(condition: ColumnThreshold | AllOf) -> list[ColumnThreshold]:
    if isinstance(condition, ColumnThreshold):
        return [condition]
    return [one for part in condition.parts for one in _thresholds(part)]


def _half_width(column: Answer) -> float:
    """How far a published number may be from the true one."""
    away = np.maximum(column.bounds.high - column.values, column.values - column.bounds.low)
    return float(away.max(initial=0.0))


def _with_rows(table: Answer, places: Ints, note: str) -> Answer:
    starts = np.cumsum([0, *(one.size for one in table.tables[:-1])])
    flat = np.concatenate([start + places for start in starts]).astype(np.int64)
    chosen = chosen_numbers(table, flat, (listed_rows(table.tables[0], places),) * len(table.tables), table.columns)
    return replace(chosen, consistent=replace(chosen.consistent, note=note))


def listed_rows(first: AnswerTable, places: Sequence[int] | Ints) -> AnswerTable:
    """The labels of the chosen rows of a table, row by row."""
    rows = [first.row(int(place)) for place in places]
    columns = list(zip(*rows, strict=True)) or [()] * len(first.axes)
    axes = tuple(
        AnswerAxis(axis.name, tuple(labels), len(labels)) for axis, labels in zip(first.axes, columns, strict=True)
    )
    return AnswerTable(axes, crossed=False)
