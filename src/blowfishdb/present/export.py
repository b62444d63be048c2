"""An answer as named columns, rows, data frames, lines of text, and files: CSV, Parquet, Excel, GeoJSON."""

from __future__ import annotations

import csv
import datetime
import importlib
import io
import itertools
import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from blowfishdb.errors import ExtraMissing, FileRefused, InvalidInput, QueryError, plural
from blowfishdb.model.numbers import Floats
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, AnswerValues
from blowfishdb.present.words import (
    Digits,
    accuracy_words,
    digits_of,
    epsilon_words,
    mechanism_words,
    note,
    price_words,
    printable,
    shortened,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


LabelColumn: TypeAlias = list[str | None]

ROWS = 12
"""An answer with more rows shows its first and last ones."""


@contextmanager
def written(path: str | PathLike[str]) -> Iterator[Path]:
    """The place of a file that is being written; FileRefused where that cannot be."""
    where = Path(path)
    try:
        yield where
    except OSError as error:
        raise FileRefused(where.name[-100:], error.strerror or "the system refuses it") from None
    except ValueError as error:
        if "\0" in str(where) or isinstance(error, UnicodeError):
            raise FileRefused(where.name[-100:], "no file can have that name") from None
        raise


def needed(module: str, extra: str) -> Any:
    """The module; ExtraMissing names what to install when it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ExtraMissing(module.partition(".")[0], extra) from None


def column_names(answer: AnswerValues) -> list[str]:
    """The attributes of the answer, in order."""
    return list(dict.fromkeys(name for table in answer.tables for name in table.names))


def axis_columns(answer: AnswerValues) -> dict[str, LabelColumn]:
    """The labels of each attribute; None where a marginal does not have that attribute."""
    columns: dict[str, LabelColumn] = {name: [] for name in column_names(answer)}
    for table in answer.tables[:1] if answer.columns else answer.tables:
        labels = dict(zip(table.names, zip(*table.rows(), strict=True), strict=True)) if table.size else {}
        for name, column in columns.items():
            column.extend(labels.get(name, (None,) * table.size))
    return columns


def number_columns(answer: AnswerValues) -> dict[str, Floats]:
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


def _aggregate_columns(answer: AnswerValues, taken: set[str]) -> dict[str, Floats]:
    """For each aggregate its values and the ends of their intervals, which hold together for the whole table."""
    numbers: dict[str, Floats] = {}
    for place, named in enumerate(answer.columns):
        column = answer.column(place)
        ends = {"": column.values, "_low": column.bounds.low, "_high": column.bounds.high}
        numbers |= {free_name(named.name + end, {*taken, *numbers}): values for end, values in ends.items()}
    return numbers


def headings(answer: AnswerValues) -> list[str]:
    """The headings of the columns that `cells` fills."""
    numbers = [column.name for column in answer.columns] or [answer.value_name, "low", "high"]
    return [*map(shortened, column_names(answer)), *map(shortened, numbers)]


def text_columns(answer: AnswerValues) -> dict[str, LabelColumn]:
    """The words that go with every number in a file: which rows are counted where not all are."""
    taken = {*column_names(answer), *number_columns(answer)}
    return {free_name("counted", taken): [answer.counted] * answer.row_count} if answer.counted else {}


def free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores appended while an attribute is called the same."""
    while name in taken:
        name += "_"
    return name


def rows(answer: AnswerValues) -> list[dict[str, str | float | None]]:
    """One dictionary per answer."""
    numbers = {name: column.tolist() for name, column in number_columns(answer).items()}
    columns = axis_columns(answer) | numbers | text_columns(answer)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def to_arrow(answer: AnswerValues) -> pyarrow.Table:
    """A pyarrow table."""
    import pyarrow as pa

    labels = {name: pa.array(column, pa.string()) for name, column in axis_columns(answer).items()}
    numbers = {name: pa.array(column, pa.float64()) for name, column in number_columns(answer).items()}
    words = {name: pa.array(column, pa.string()) for name, column in text_columns(answer).items()}
    return pa.table({**labels, **numbers, **words})


def to_polars(answer: AnswerValues) -> polars.DataFrame:
    """A polars frame."""
    library = needed("polars", "frames")
    frame: polars.DataFrame = library.from_arrow(to_arrow(answer))
    return frame


def to_pandas(answer: AnswerValues) -> pandas.DataFrame:
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


def aligned(lines: Sequence[Sequence[str]], gap: str = "  ", lefts: Container[int] = ()) -> list[str]:
    """The lines with their columns below each other; those in `lefts` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        (part.ljust(width) if place in lefts else part.rjust(width) for place, (part, width) in enumerate(columns))
        for columns in (zip(line, widths, strict=True) for line in lines)
    )
    return [f"  {gap.join(parts)}".rstrip() for parts in padded]


def text_table(head: Sequence[str], cells: Callable[[range], list[list[str]]], size: int) -> list[str]:
    """The first and the last rows of a table below its headings, as lines of text."""
    first, last = shown_rows(size)
    between = [["...", *[""] * (len(head) - 1)]] if last else []
    return aligned([head, *cells(first), *between, *cells(last)])


def row_labels(answer: AnswerValues, places: Sequence[int]) -> list[list[str]]:
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


def cells(answer: AnswerValues, places: Sequence[int]) -> list[list[str]]:
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


def with_interval(answer: AnswerValues, digits: Digits, place: int) -> str:
    """A value and its interval: "34,438 (34,197 to 34,680)"; alone where it is exact."""
    value, low, high = float(answer.values[place]), float(answer.bounds.low[place]), float(answer.bounds.high[place])
    shown = digits.value(value)
    return shown if low == high else f"{shown} ({digits.low(low)} to {digits.high(high)})"


def as_text(answer: AnswerValues) -> str:
    """Title, price and accuracy in one line, and a small table below it, like a data frame's."""
    if answer.parts:
        return "\n\n".join(map(as_text, answer.parts))
    parts = (answer.title, price_words(answer), accuracy_words(answer), answer.counted)
    heading = "   ".join(map(printable, filter(None, parts)))
    body = text_table(headings(answer), partial(cells, answer), answer.row_count)
    tail = [f"  {plural(answer.row_count, 'row')}"] if answer.row_count > ROWS else []
    remarks = [f"  {printable(remark)}" for remark in (answer.consistent.note, answer.caveat) if remark]
    return "\n".join([heading, *body, *tail, *remarks])


End: TypeAlias = float | datetime.date | None

EAST, NORTH = ("lon", "lng", "long", "longitude", "x", "east"), ("lat", "latitude", "y", "north")
"""What a coordinate is usually called."""
WIDEST = 40
"""Characters of the widest column of a sheet."""
MOST_BARS = 400
"""A chart of more bars than these says nothing."""


def table_of(answer: AnswerValues) -> pyarrow.Table:
    """The columns of a file: those of a data frame and, for groups along a number line, their ends as numbers.

    `age_from` and `age_to` are the ends of the group in `age`, the second one not included; those of dates are dates.
    """
    table, ends = to_arrow(answer), _ends(answer)
    for place, (name, column) in enumerate(ends.items(), len(column_names(answer))):
        table = table.add_column(place, free_name(name, set(table.column_names)), [column])
    return table


def _ends(answer: AnswerValues) -> dict[str, list[End]]:
    """The ends of each group, None where a group has none: NULL, values outside the domain, texts."""
    tables = answer.tables[:1] if answer.columns else answer.tables
    measured = [axis.name for table in tables for axis in table.axes if axis.edges]
    ends: dict[str, list[End]] = {}
    for name, side in itertools.product(dict.fromkeys(measured), (0, 1)):
        column = ends.setdefault(f"{name}_{('from', 'to')[side]}", [])
        for table in tables:
            axis = next((axis for axis in table.axes if axis.name == name), None)
            if axis is None or not axis.edges:
                column += [None] * table.size
                continue
            along = np.unravel_index(np.arange(table.size), table.shape)[table.axes.index(axis) if table.crossed else 0]
            shown = _shown_edges(axis)
            column += [shown[place + side] if place < axis.plain else None for place in along.tolist()]
    return ends


def _shown_edges(axis: AnswerAxis) -> list[End]:
    edges = list(axis.edges)
    if not axis.in_days:
        # Whole numbers are drawn half a unit around themselves, and only ends of bins are written with a bracket.
        is_whole = not axis.labels[0].startswith("[") and all(edge % 1 == 0.5 for edge in edges)
        return [edge + 0.5 if is_whole else edge for edge in edges]
    is_dates = all(edge % 1 == 0 for edge in edges)
    return [_moment(edge, is_date=is_dates) for edge in edges]


def _moment(days: float, *, is_date: bool) -> End:
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=round(86_400 * days))
    except OverflowError:
        # The end of the last day that a calendar has.
        return None
    return moment.date() if is_date else moment


def csv_file(answer: AnswerValues) -> bytes:
    """One line an answer."""
    table, text = table_of(answer), io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table.column_names)
    writer.writerows(zip(*table.to_pydict().values(), strict=True))
    return text.getvalue().encode()


def parquet_file(answer: AnswerValues) -> bytes:
    """The same columns, typed."""
    from pyarrow import BufferOutputStream
    from pyarrow.parquet import write_table

    target = BufferOutputStream()
    write_table(table_of(answer), target)
    content: bytes = target.getvalue().to_pybytes()
    return content


def excel_file(answer: AnswerValues) -> bytes:
    """A workbook: the numbers with their intervals and a chart, and a sheet that says what they mean."""
    library, target = needed("xlsxwriter", "frames"), io.BytesIO()
    # Labels are what a curator declared: never formulas, links or numbers, whatever they look like.
    options = {
        "in_memory": True,
        "nan_inf_to_errors": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    with library.Workbook(target, options) as book:
        sheet, columns = book.add_worksheet("Numbers"), table_of(answer).to_pydict()
        names = list(columns)
        heading = book.add_format({"bold": True, "bottom": 1})
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        for place, (name, column) in enumerate(columns.items()):
            sheet.write_string(0, place, printable(name), heading)
            style = day if any(isinstance(cell, datetime.date) for cell in column) else None
            sheet.write_column(1, place, [printable(cell) if isinstance(cell, str) else cell for cell in column], style)
            longest = max(len(printable(str(cell))) for cell in (name, *column[:1000]) if cell is not None)
            sheet.set_column(place, place, min(WIDEST, longest + 2))
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, max(1, answer.row_count), len(names) - 1)
        _bars(book, sheet, answer, names)
        about = book.add_worksheet("What it means")
        about.set_column(0, 0, 22)
        about.set_column(1, 1, 100, book.add_format({"text_wrap": True, "valign": "top"}))
        for place, (what, words) in enumerate(_about(answer)):
            about.write_string(place, 0, what, book.add_format({"bold": True, "valign": "top"}))
            about.write_string(place, 1, printable(words))
    return target.getvalue()


def _bars(book: Any, sheet: Any, answer: AnswerValues, names: Sequence[str]) -> None:
    """A bar for each answer of one table along one attribute, with its interval."""
    size = answer.row_count
    if answer.columns or len(answer.tables) != 1 or len(answer.tables[0].axes) != 1 or not 1 < size <= MOST_BARS:
        return
    value = names.index(next(iter(number_columns(answer))))
    with np.errstate(over="ignore"):
        above, below = answer.bounds.high - answer.values, answer.values - answer.bounds.low
    chart = book.add_chart({"type": "column"})
    chart.add_series(
        {
            "name": answer.value_name,
            "categories": ["Numbers", 1, 0, size, 0],
            "values": ["Numbers", 1, value, size, value],
            "gap": 30,
            "y_error_bars": {"type": "custom", "plus_values": above.tolist(), "minus_values": below.tolist()},
        }
    )
    chart.set_title({"name": printable(answer.title), "overlay": False, "name_font": {"size": 12}})
    chart.set_legend({"none": True})
    chart.set_size({"width": 760, "height": 400})
    sheet.insert_chart(1, len(names) + 1, chart)


def _about(answer: AnswerValues) -> Iterator[tuple[str, str]]:
    yield "Answer", answer.title
    yield "Dataset", answer.dataset
    yield "Accuracy", accuracy_words(answer)
    if answer.counted:
        yield "Counted", answer.counted
    yield "Epsilon", epsilon_words(answer.epsilon)
    yield "Mechanism", mechanism_words(answer)
    yield "Released", answer.released
    yield "Note", note(answer)
    if answer.caveat:
        yield "Mind", answer.caveat


def geojson(
    answer: AnswerValues, regions: Mapping[str, Any] | str | PathLike[str] | None = None, key: str = "name"
) -> dict[str, Any]:
    """The answers on a map, as a GeoJSON feature collection: the cells of a grid, or regions drawn elsewhere.

    A grid is a histogram over bins of a longitude and a latitude. `regions` is a feature collection, or a file of one,
    whose property `key` holds the values of the one attribute that is grouped.
    """
    if len(answer.tables) != 1 and not answer.columns:
        raise QueryError("a map shows one table; marginals are several")
    table = answer.tables[0]
    numbers = {name: column.tolist() for name, column in number_columns(answer).items()} | text_columns(answer)
    shapes = _cells(table) if regions is None else _regions(table, _collection(regions), key)
    features = [
        {
            "type": "Feature",
            "geometry": geometry,
            "properties": {**labels, **{name: column[place] for name, column in numbers.items()}},
        }
        for place, geometry, labels in shapes
    ]
    about = {"title": answer.title, "dataset": answer.dataset, "note": note(answer)}
    return {"type": "FeatureCollection", "features": features, **about}


def _cells(table: AnswerTable) -> Iterator[tuple[int, dict[str, Any], dict[str, str]]]:
    """The place of each answer on a grid, the rectangle it is about, and its labels."""
    grid = _grid(table)
    if grid is None:
        raise QueryError(
            "a map needs a histogram over bins of a longitude and a latitude (attributes called lon and lat, or x and "
            "y), or regions=..., the shapes of the values that are grouped"
        )
    east, north = grid
    for place, labels in enumerate(table.rows()):
        along = np.unravel_index(place, table.shape)
        west, south = (int(along[table.axes.index(axis)]) for axis in (east, north))
        # NULL and values outside the domain have no place on a map.
        if west < east.plain and south < north.plain:
            left, right = east.edges[west], east.edges[west + 1]
            low, high = north.edges[south], north.edges[south + 1]
            ring = [[left, low], [right, low], [right, high], [left, high], [left, low]]
            yield place, {"type": "Polygon", "coordinates": [ring]}, dict(zip(table.names, labels, strict=True))


def _grid(table: AnswerTable) -> tuple[AnswerAxis, AnswerAxis] | None:
    """The longitude and the latitude of a table that has just these two; None for any other."""
    measured = [axis for axis in table.axes if axis.edges and not axis.in_days]
    east, north = ([axis for axis in measured if axis.name.lower() in names] for names in (EAST, NORTH))
    return (east[0], north[0]) if len(table.axes) == 2 and table.crossed and east and north else None


def _collection(regions: Mapping[str, Any] | str | PathLike[str]) -> Mapping[str, Any]:
    try:
        content = regions if isinstance(regions, Mapping) else json.loads(Path(regions).read_text(encoding="utf-8"))
        shapes = content["features"] if content["type"] == "FeatureCollection" else []
        if shapes and all({"geometry", "properties"} <= set(shape) for shape in shapes):
            return dict(content)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InvalidInput("regions is a GeoJSON feature collection, or the path of a file that holds one")


def _regions(
    table: AnswerTable, regions: Mapping[str, Any], key: str
) -> Iterator[tuple[int, dict[str, Any], dict[str, str]]]:
    """The place of each answer whose label names a region, the region's shape, and its label."""
    if len(table.axes) != 1:
        raise QueryError("regions show the values of one attribute; group by it alone")
    shapes = {str((one["properties"] or {}).get(key)): one["geometry"] for one in regions["features"]}
    axis = table.axes[0]
    if not any(label in shapes for label in axis.labels[: axis.plain]):
        raise InvalidInput(
            f"no region has a property {key!r} that is a value of {axis.name}; name another with key=..."
        )
    for place, label in enumerate(axis.labels[: axis.plain]):
        if label in shapes:
            yield place, shapes[label], {axis.name: label}


def is_map(answer: AnswerValues) -> bool:
    """Whether the answer is a grid of longitudes and latitudes."""
    return len(answer.tables) == 1 and _grid(answer.tables[0]) is not None


def map_file(answer: AnswerValues) -> bytes:
    """The cells of a grid as GeoJSON."""
    return json.dumps(geojson(answer), allow_nan=False).encode()


TABLES: Mapping[str, tuple[str, Callable[[AnswerValues], bytes]]] = {
    ".csv": ("CSV table", csv_file),
    ".xlsx": ("Excel workbook", excel_file),
    ".parquet": ("Parquet table", parquet_file),
}
"""The files that any answer has, by their ending: what people call them, and what writes them."""
