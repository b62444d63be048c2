"""The answer as named columns, which every table, frame and page is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from blowfishdb.engine.present.extras import needed
from blowfishdb.engine.released import Released
from blowfishdb.model.arrays import Floats

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Labels: TypeAlias = list[str | None]


def axis_columns(answer: Released) -> dict[str, Labels]:
    """The labels of each attribute; None where a marginal does not have that attribute."""
    found: dict[str, Labels] = {name: [] for table in answer.tables for name in table.names}
    for table in answer.tables:
        own = dict(zip(table.names, zip(*table.rows(), strict=True), strict=True)) if table.size else {}
        for name, labels in found.items():
            labels.extend(own.get(name, (None,) * table.size))
    return found


def number_columns(answer: Released) -> dict[str, Floats]:
    """The value, its interval that holds together with all others, the raw answer, and its interval on its own."""
    taken = {name for table in answer.tables for name in table.names}
    numbers = {
        answer.value_name: answer.values,
        "low": answer.bounds.low,
        "high": answer.bounds.high,
        "raw": answer.raw,
        "own_low": answer.own_bounds.low,
        "own_high": answer.own_bounds.high,
    }
    return {free_name(name, taken): column for name, column in numbers.items()}


def free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores behind it while an attribute is called the same."""
    while name in taken:
        name += "_"
    return name


def rows(answer: Released) -> list[dict[str, str | float | None]]:
    """One dictionary per answer."""
    labels = axis_columns(answer)
    numbers = {name: column.tolist() for name, column in number_columns(answer).items()}
    names = [*labels, *numbers]
    return [dict(zip(names, row, strict=True)) for row in zip(*labels.values(), *numbers.values(), strict=True)]


def to_arrow(answer: Released) -> pyarrow.Table:
    """A pyarrow table."""
    import pyarrow as pa

    labels = {name: pa.array(column, pa.string()) for name, column in axis_columns(answer).items()}
    numbers = {name: pa.array(column, pa.float64()) for name, column in number_columns(answer).items()}
    return pa.table({**labels, **numbers})


def to_polars(answer: Released) -> polars.DataFrame:
    """A polars frame."""
    library = needed("polars", "frames")
    labels = [library.Series(name, column, library.String) for name, column in axis_columns(answer).items()]
    numbers = [library.Series(name, column, library.Float64) for name, column in number_columns(answer).items()]
    frame: polars.DataFrame = library.DataFrame([*labels, *numbers])
    return frame


def to_pandas(answer: Released) -> pandas.DataFrame:
    """A pandas frame."""
    library = needed("pandas", "frames")
    labels = {name: library.Series(column, dtype=object) for name, column in axis_columns(answer).items()}
    return library.DataFrame({**labels, **number_columns(answer)})
