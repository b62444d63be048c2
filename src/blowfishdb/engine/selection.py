"""ORDER BY, LIMIT and HAVING on a released answer: rows chosen and sorted by published numbers, and what that means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from blowfishdb.engine.answer import Answer
from blowfishdb.inference.consistency import Consistent
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.present.answer_values import AnswerAxis, AnswerColumn, AnswerTable, Bounds
from blowfishdb.present.table import column_names
from blowfishdb.present.words import digits_of, percent

Op = Literal["==", "<>", "<", "<=", ">", ">="]
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


@dataclass(frozen=True)
class Threshold:
    """Rows whose column compares so with a number."""

    column: str
    op: Op
    value: float


@dataclass(frozen=True)
class AllOf:
    """Rows that meet all of the conditions, or with `any_of` at least one of them."""

    parts: tuple[Threshold | AllOf, ...]
    any_of: bool = False


@dataclass(frozen=True)
class Selection:
    """What is done to a released answer before it is shown: it reads no data and costs nothing."""

    having: Threshold | AllOf | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def is_everything(self) -> bool:
        """Whether all rows stay as they are."""
        return self == EVERYTHING


EVERYTHING = Selection()


def select_rows(answer: Answer, selection: Selection) -> Answer:
    """The chosen rows of an answer, in the chosen order, with a note on what the choice promises."""
    if selection.is_everything:
        return answer
    table = _as_table(answer)
    places = np.arange(table.row_count)
    if selection.having is not None:
        places = places[_held(table, selection.having)]
    for key in reversed(selection.order):
        places = places[_order(table, key, places)]
    stop = None if selection.limit is None else selection.offset + selection.limit
    chosen = places[selection.offset : stop]
    meaning = _meaning(table, selection, is_cut=chosen.size < places.size)
    note = " ".join(part for part in (table.consistent.note, *meaning) if part)
    return _with_rows(table, chosen, note)


def _as_table(answer: Answer) -> Answer:
    """The answer as a table of one column, where it is not a table already."""
    if answer.columns:
        return answer
    names = (AnswerColumn(answer.value_name, "count" if answer.is_counts else answer.kind),)
    return replace(answer, kind="table", columns=names, simultaneous=answer.bounds, pointwise=answer.pointwise_bounds)


def _held(table: Answer, condition: Threshold | AllOf) -> Bools:
    if isinstance(condition, Threshold):
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
        labels = next(axis.labels for axis in table.tables[0].axes if axis.name == key.name)
        rank = {label: place for place, label in enumerate(labels)}
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


def _thresholds(condition: Threshold | AllOf) -> list[Threshold]:
    if isinstance(condition, Threshold):
        return [condition]
    return [one for part in condition.parts for one in _thresholds(part)]


def _half_width(column: Answer) -> float:
    """How far a published number may be from the true one."""
    away = np.maximum(column.bounds.high - column.values, column.values - column.bounds.low)
    return float(away.max(initial=0.0))


def _with_rows(table: Answer, places: Ints, note: str) -> Answer:
    starts = np.cumsum([0, *(one.size for one in table.tables[:-1])])
    flat = np.concatenate([start + places for start in starts]).astype(np.int64)

    def cut(bounds: Bounds | None) -> Bounds | None:
        return None if bounds is None else Bounds(bounds.low[flat], bounds.high[flat])

    rows = _listed(table, places)
    widths = replace(
        table.widths,
        per_answer=table.widths.per_answer[flat],
        exact=np.flatnonzero(np.isin(flat, table.widths.exact)),
    )
    return replace(
        table,
        tables=(rows,) * len(table.tables),
        raw=table.raw[flat],
        consistent=Consistent(table.values[flat], table.consistent.feasible, note),
        widths=widths,
        simultaneous=cut(table.simultaneous),
        pointwise=cut(table.pointwise),
    )


def _listed(table: Answer, places: Sequence[int] | Ints) -> AnswerTable:
    """The labels of the chosen rows, row by row."""
    first = table.tables[0]
    rows = [first.row(int(place)) for place in places]
    columns = list(zip(*rows, strict=True)) or [()] * len(first.axes)
    axes = tuple(
        AnswerAxis(axis.name, tuple(labels), len(labels)) for axis, labels in zip(first.axes, columns, strict=True)
    )
    return AnswerTable(axes, crossed=False)
