"""Random tables and random questions: DuckDB and SQLite count what Python counts."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import QueryError
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import ROW, Person, Policy
from blowfishdb.model.predicate import Axis, Predicate, col
from blowfishdb.sources import open_source
from tests.effort import effort
from tests.sources import stores
from tests.sources.reference import expected_counts
from tests.sources.tables import Sample

COLUMNS = {
    "key": "integer",
    "person": "text",
    "i": "integer",
    "x": "real",
    "s": "text",
    "d": "date",
    "t": "timestamp",
}
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
MOMENTS = st.datetimes(datetime.datetime(2019, 12, 1), datetime.datetime(2021, 2, 1))
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 5),
        st.none() | st.sampled_from(["p", "P", "q", "p "]),
        st.none() | st.integers(-20, 130) | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats() | st.integers(-30, 130).map(lambda n: n / 10),
        st.none()
        | st.sampled_from(["a", "A", "b", "a ", "'"])
        | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3),
        st.none() | st.dates(datetime.date(2019, 12, 1), datetime.date(2021, 2, 1)),
        st.none() | MOMENTS,
    ),
    max_size=25,
)
OUTSIDE = st.sampled_from(["cell", "clamp"])


@st.composite
def questions(draw: st.DrawFn) -> tuple[object, list[Axis], Predicate | None]:
    outside = draw(OUTSIDE)
    width = draw(st.sampled_from(["0.1", "0.5", "1", "1/3"]))
    unit = draw(st.sampled_from(["hour", "day", "minute"]))
    attributes = {
        "i": integers(draw(st.integers(-5, 5)), draw(st.integers(6, 5000)), outside=outside),
        "x": draw(
            st.sampled_from(
                [bins(-1, 9, width=width, outside=outside), bins(edges=[-2, 0, "0.3", 1, 7, 10**9], outside=outside)]
            )
        ),
        "s": categorical(["a", "b", "'"]),
        "d": dates("2020-01-01", "2020-12-31", outside=outside),
        "t": timestamps("2020-01-01", "2021-01-01", by=unit, outside=outside),
    }
    axes = [
        draw(st.sampled_from([col("i").bins(7), col("i").bins(1000)])),
        Axis("x"),
        Axis("s"),
        draw(st.sampled_from([col("d").by("month"), col("d").by("week")])),
        draw(st.sampled_from([col("t").by("month"), col("t").by("day")])),
    ]
    conditions = [
        col("i") < 6,
        col("i").isin([6]),
        col("s") == "a",
        col("s").is_null(),
        col("d") >= "2020-03-01",
        col("t") < "2020-06-01",
        col("i").between(6, 7),
        col("x") >= 1,
        col("s").isin(["b", "'"]),
    ]
    first, second, third = (draw(st.sampled_from(conditions)) for _ in range(3))
    mixed = [first | second, ~(first | second), (first | ~second) & third, ~(first & second) | third]
    where = draw(st.sampled_from([None, first, ~first, first & ~second, *mixed]))
    chosen = draw(st.lists(st.sampled_from(axes), max_size=2, unique_by=lambda axis: axis.attribute))
    return domain(attributes), chosen, where


@effort(20)
@given(rows=ROWS, question=questions(), bound=st.none() | st.integers(1, 4))
def test_embedded_engines_count_what_python_counts(
    rows: list[tuple[object, ...]], question: tuple[object, list[Axis], Predicate | None], bound: int | None
) -> None:
    declared, axes, where = question
    try:
        cells = compile_cells(declared, Policy(), axes, where)
    except QueryError:
        return
    unit = ROW if bound is None else Person("person", bound, "key")
    sample = Sample("rows", COLUMNS, tuple(rows))
    wanted = expected_counts(sample, cells, unit)
    with tempfile.TemporaryDirectory() as folder:
        for url in (
            stores.load_duckdb(Path(folder) / "a.duckdb", (sample,)),
            stores.load_sqlite(Path(folder) / "a.sqlite", (sample,)),
        ):
            np.testing.assert_array_equal(open_source(f"{url}#rows").prepare(cells, unit).run(), wanted)
