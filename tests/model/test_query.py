"""Queries and the linear queries they compile to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Policy, grid
from blowfishdb.model.predicate import col
from blowfishdb.model.query import Query, cell_range, query, workload
from blowfishdb.model.workload import AllRanges, Identity, Prefix

TABLE = domain(
    {
        "age": integers(0, 9, null=0),
        "note": integers(0, 3, outside="cell"),
        "sex": categorical(["F", "M"], null="F", outside="M"),
        "lat": bins(0, 3, width=1, null=0),
        "lon": bins(0, 2, width=1, null=0),
        "wide": integers(0, 5000),
    }
)
POLICY = Policy(joint=[grid(["lat", "lon"], 1, "l1")])


def compiled(asked: Query) -> Cells:
    return compile_cells(TABLE, POLICY, asked.axes, asked.where)


def dense(asked: Query) -> list[list[int]]:
    return workload(asked, compiled(asked)).dense().tolist()


def test_counts_and_histograms_are_identities() -> None:
    for asked in [query("count", (), col("age") > 3), query("histogram", "age"), query("histogram2d", ["age", "sex"])]:
        rows = workload(asked, compiled(asked))
        assert isinstance(rows, Identity) and rows.shape[0] == compiled(asked).graph.cells


def test_running_counts_leave_special_cells_beside_the_order() -> None:
    asked = query("cdf", col("age").bins(5))
    assert isinstance(workload(asked, compiled(asked)), Prefix)
    assert dense(query("cdf", "note")) == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


def test_ranges() -> None:
    asked = query("ranges", "age")
    assert isinstance(workload(asked, compiled(asked)), AllRanges)
    assert dense(query("ranges", col("note").bins(2))) == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]]
    assert dense(query("ranges", "note", boxes=[((1, 3),)])) == [[0, 1, 1, 0, 0, 0]]
    # Axes of a joint threshold are put together; boxes follow the order that was asked for.
    asked = query("ranges", ["lon", "age", "lat"], boxes=[((0, 1), (2, 3), (1, 3))])
    cells = compiled(asked)
    assert cells.axes == ("lon", "lat", "age")
    hit = np.flatnonzero(workload(asked, cells).dense()[0])
    assert hit.tolist() == [0 * 30 + 1 * 10 + 2, 0 * 30 + 2 * 10 + 2]
    with pytest.raises(TooLarge):
        workload(query("ranges", "wide"), compiled(query("ranges", "wide")))


def test_marginals() -> None:
    asked = query("marginals", ["sex", "lat"], subsets=[["lat"], ["lat", "sex"]])
    assert workload(asked, compiled(asked)).shape == (3 + 6, 6)
    asked = query("marginals", ["sex", "lat", "lon"], ways=2)
    assert workload(asked, compiled(asked)).shape == (6 + 4 + 6, 12)


def test_ranges_by_value() -> None:
    cells = compiled(query("ranges", col("age").bins(5)))
    assert cell_range(cells, "age", 0, 10) == (0, 2)
    assert cell_range(cells, "age", 5, 99) == (1, 2)
    for low, high, says in [
        (0, 7, "cut the cell 5-9"),
        (7, 10, "cut the cell 5-9"),
        (10, 20, "no cell"),
        ("a", 3, "number"),
    ]:
        with pytest.raises(QueryError, match=says):
            cell_range(cells, "age", low, high)
    with pytest.raises(QueryError, match="not grouped"):
        cell_range(cells, "sex", 0, 1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: query("median", "age"), "kind"),  # type: ignore[arg-type]
        (lambda: query("count", "age"), "0 attributes"),
        (lambda: query("histogram"), "1 to 16"),
        (lambda: query("cdf", ["age", "sex"]), "over 1 attribute, not 2"),
        (lambda: query("histogram2d", ["age"]), "over 2 attributes"),
        (lambda: query("histogram", ["age", "age"]), "twice"),
        (lambda: query("histogram", "age", True), "where of query is a condition"),  # type: ignore[arg-type]
        (lambda: query("histogram", "age", boxes=[((0, 1),)]), "only ranges"),
        (lambda: query("ranges", ["age", "sex"]), "need the boxes"),
        (lambda: query("marginals", ["age", "sex"]), "either subsets"),
        (lambda: query("histogram", "age", ways=1), "only marginals"),
        (lambda: dense(query("cdf", "sex")), "no order"),
        (lambda: dense(query("cdf", col("age").groups({"a": [1, 3], "b": [2]}))), "no order"),
        (lambda: dense(query("ranges", "sex")), "no order"),
        (lambda: dense(query("ranges", "age", boxes=[((0, 11),)])), "within the 10 cells"),
        (lambda: dense(query("ranges", "age", boxes=[((3, 3),)])), "within the 10 cells"),
        (lambda: dense(query("ranges", "age", boxes=[((0, 1), (0, 1))])), "one range per attribute"),
        (lambda: dense(query("marginals", ["age", "sex"], ways=3)), "between 1 and"),
        (lambda: dense(query("marginals", ["age", "sex"], subsets=[["lat"]])), "not grouped"),
    ],
)
def test_questions_that_make_no_sense_are_refused(make: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        make()


def test_all_ranges_of_nothing_are_refused_with_what_to_ask() -> None:
    declared = domain({"age": integers(0, 9)})
    asked = query("ranges", "age", col("age").is_null())
    with pytest.raises(QueryError, match="ask for a count"):
        workload(asked, compile_cells(declared, Policy(), asked.axes, asked.where))
