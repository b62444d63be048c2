"""An answer as named columns, rows, data frames, and lines of text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from blowfishdb.errors import ExtraMissing, plural
from blowfishdb.model.numbers import Floats
from blowfishdb.present.answer_values import Released
from blowfishdb.present.words import Digits, accuracy_words, digits_of, price_words, printable, shortened

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Labels: TypeAlias = list[str | None]

ROWS = 12
"""An answer with more rows shows its first and last ones."""


def needed(module: str, extra: str) -> Any:
    """The module; ExtraMissing names what to install when it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ExtraMissing(module.partition(".")[0], extra) from None


def column_names(answer: Released) -> list[str]:
    """The attributes of the answer, in order."""
    return list(dict.fromkeys(name for table in answer.tables for name in table.names))


def axis_columns(answer: Released) -> dict[str, Labels]:
    """The labels of each attribute; None where a marginal does not have that attribute."""
    columns: dict[str, Labels] = {name: [] for name in column_names(answer)}
    for table in answer.tables[:1] if answer.columns else answer.tables:
        labels = dict(zip(table.names, zip(*table.rows(), strict=True), strict=True)) if table.size else {}
        for name, column in columns.items():
            column.extend(labels.get(name, (None,) * table.size))
    return columns


def number_columns(answer: Released) -> dict[str, Floats]:
    """The value, its interval that holds together with all others, the raw answer, and its interval alone."""
    taken = set(column_names(answer))
    if answer.columns:
        return _aggregate_columns(answer, taken)
    numbers = {
        answer.value_name: answer.values,
        "low": answer.bounds.low,
        "high": answer.bounds.high,
        "raw": answer.raw,
        "pointwise_low": answer.pointwise_bounds.low,
        "pointwise_high": answer.pointwise_bounds.high,
    }
    return {free_name(name, taken): column for name, column in numbers.items()}


def _aggregate_columns(answer: Released, taken: set[str]) -> dict[str, Floats]:
    """For each aggregate its values and the ends of their intervals, which hold together for the whole table."""
    numbers: dict[str, Floats] = {}
    for place, named in enumerate(answer.columns):
        column = answer.column(place)
        ends = {"": column.values, "_low": column.bounds.low, "_high": column.bounds.high}
        numbers |= {free_name(named.name + end, {*taken, *numbers}): values for end, values in ends.items()}
    return numbers


def headings(answer: Released) -> list[str]:
    """The headings of the columns that `cells` fills."""
    numbers = [column.name for column in answer.columns] or [answer.value_name, "low", "high"]
    return [*map(shortened, column_names(answer)), *map(shortened, numbers)]


def text_columns(answer: Released) -> dict[str, Labels]:
    """The words that go with every number in a file: which rows are counted where not all are."""
    taken = {*column_names(answer), *number_columns(answer)}
    return {free_name("counted", taken): [answer.counted] * answer.row_count} if answer.counted else {}


def free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores behind it while an attribute is called the same."""
    while name in taken:
        name += "_"
    return name


def rows(answer: Released) -> list[dict[str, str | float | None]]:
    """One dictionary per answer."""
    numbers = {name: column.tolist() for name, column in number_columns(answer).items()}
    columns = axis_columns(answer) | numbers | text_columns(answer)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def to_arrow(answer: Released) -> pyarrow.Table:
    """A pyarrow table."""
    import pyarrow as pa

    labels = {name: pa.array(column, pa.string()) for name, column in axis_columns(answer).items()}
    numbers = {name: pa.array(column, pa.float64()) for name, column in number_columns(answer).items()}
    words = {name: pa.array(column, pa.string()) for name, column in text_columns(answer).items()}
    return pa.table({**labels, **numbers, **words})


def to_polars(answer: Released) -> polars.DataFrame:
    """A polars frame."""
    library = needed("polars", "frames")
    labels = [library.Series(name, column, library.String) for name, column in axis_columns(answer).items()]
    numbers = [library.Series(name, column, library.Float64) for name, column in number_columns(answer).items()]
    words = [library.Series(name, column, library.String) for name, column in text_columns(answer).items()]
    frame: polars.DataFrame = library.DataFrame([*labels, *numbers, *words])
    return frame


def to_pandas(answer: Released) -> pandas.DataFrame:
    """A pandas frame."""
    library = needed("pandas", "frames")
    labels = {name: library.Series(column, dtype=object) for name, column in axis_columns(answer).items()}
    words = {name: library.Series(column, dtype=object) for name, column in text_columns(answer).items()}
    return library.DataFrame({**labels, **number_columns(answer), **words})


def shown_rows(size: int, most: int = ROWS) -> tuple[range, range]:
    """The first and the last rows to show; the second is empty when everything fits."""
    if size <= most:
        return range(size), range(0)
    return range(most // 2), range(size - most // 2, size)


def row_labels(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """The labels of the given answers, one per attribute, "" where a marginal does not have it."""
    names = column_names(answer)
    rows = []
    for place in places:
        for table in answer.tables:
            if place < table.size:
                labels = dict(zip(table.names, table.row(place), strict=True))
                rows.append([shortened(labels.get(name, "")) for name in names])
                break
            place -= table.size
    return rows


def cells(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """Labels, value, low and high of the given answers, as text; of a table each aggregate with its interval."""
    if answer.columns:
        parts = [(column := answer.column(place), digits_of(column)) for place in range(len(answer.columns))]
        return [
            [*labels, *(with_interval(column, digits, place) for column, digits in parts)]
            for labels, place in zip(row_labels(answer, places), places, strict=True)
        ]
    digits = digits_of(answer)
    return [
        [
            *labels,
            digits.value(float(answer.values[place])),
            digits.low(float(answer.bounds.low[place])),
            digits.high(float(answer.bounds.high[place])),
        ]
        for labels, place in zip(row_labels(answer, places), places, strict=True)
    ]


def with_interval(answer: Released, digits: Digits, place: int) -> str:
    """A value and its interval: "34,438 (34,197 to 34,680)"; alone where it is exact."""
    value, low, high = float(answer.values[place]), float(answer.bounds.low[place]), float(answer.bounds.high[place])
    shown = digits.value(value)
    return shown if low == high else f"{shown} ({digits.low(low)} to {digits.high(high)})"


def as_text(answer: Released) -> str:
    """Title, price and accuracy in one line, and a small table below it, like a data frame's."""
    if answer.parts:
        return "\n\n".join(map(as_text, answer.parts))
    parts = (answer.title, price_words(answer), accuracy_words(answer), answer.counted)
    heading = "   ".join(map(printable, filter(None, parts)))
    first, last = shown_rows(answer.row_count)
    lines = [headings(answer), *cells(answer, first)]
    if last:
        lines += [["..."] + [""] * (len(lines[0]) - 1), *cells(answer, last)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = ["  " + "  ".join(part.rjust(width) for part, width in zip(line, widths, strict=True)) for line in lines]
    tail = [f"  {plural(answer.row_count, 'row')}"] if last else []
    remarks = [f"  {printable(remark)}" for remark in (answer.consistent.note, answer.caveat) if remark]
    return "\n".join([heading, *(line.rstrip() for line in body), *tail, *remarks])
