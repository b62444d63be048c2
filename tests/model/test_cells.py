"""Cells of particular queries: labels, groups, limits, and what a filter costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blowfishdb.errors import PolicyError, QueryError, TooLarge
from blowfishdb.model import projection
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain, bins, categorical, domain, integers
from blowfishdb.model.graphs import GridGraph, WindowGraph
from blowfishdb.model.policy import Policy, full, grid, line, partition, person, public, threshold
from blowfishdb.model.predicate import Axis, col

TABLE = domain(
    {
        "age": integers(0, 99, null=0),
        "state": categorical(["NC", "VA", "TX"], null="NC", outside="TX"),
        "income": bins(edges=[0, 1, 5, 20, 100], null=0),
        "day": dates("2020-01-15", "2021-02-10", null="2020-01-15"),
        "at": timestamps("2020-01-30T22:00", "2020-02-02", null="2020-01-31"),
        "lat": bins(0, 4, width="0.5", null=0),
        "lon": integers(0, 7, null=0),
        "note": integers(0, 9),
    }
)


def window(cells: Cells, place: int = 0) -> list[int]:
    graph = cells.graph.factors[place]
    assert isinstance(graph, WindowGraph)
    return graph.reach.tolist()


def test_a_plain_count_is_one_cell_that_nothing_leaves() -> None:
    cells = compile_cells(TABLE, Policy())
    assert cells.graph.shape == (1,) and not cells.graph.outside.any()
    assert list(cells.labels[0]) == ["all"] and cells.attributes == ()


def test_thresholds_are_set_distances() -> None:
    policy = Policy({"age": threshold(5), "income": threshold(4)})
    assert window(compile_cells(TABLE, policy, col("age").bins(5)))[:3] == [1, 2, 3]
    assert window(compile_cells(TABLE, policy, col("age").bins(4)))[:3] == [2, 3, 4]
    # Bins [0,1) and [5,20) are exactly 4 apart; by their centres they would be 12 apart and not be joined.
    assert window(compile_cells(TABLE, policy, ["income"])) == [2, 2, 3, 3]


def test_windows_do_not_jump_over_what_a_filter_takes_out() -> None:
    policy = Policy({"age": threshold(5)})
    cells = compile_cells(TABLE, policy, col("age").bins(10), (col("age") < 20) | (col("age") >= 43))
    assert list(cells.labels[0])[:4] == ["0-9", "10-19", "43-49", "50-59"]
    assert window(cells)[:4] == [1, 1, 3, 4]
    assert cells.graph.outside.tolist() == [False, True, True, False, False, False, False, False]
    near = compile_cells(TABLE, policy, col("age").bins(10), (col("age") < 20) | (col("age") >= 24))
    assert window(near)[:3] == [1, 2, 3]


def test_a_filter_on_a_hidden_attribute_joins_outside_to_every_cell_and_on_a_public_one_to_none() -> None:
    where = col("state") == "NC"
    hidden = compile_cells(TABLE, Policy({"age": line()}), ["age"], where)
    assert hidden.graph.outside.all() and hidden.attributes == ("age", "state")
    free = compile_cells(TABLE, Policy({"age": line(), "state": public()}), ["age"], where)
    assert not free.graph.outside.any()
    blocks = Policy({"age": line(), "state": partition([["NC", "VA"], ["TX"]])})
    assert not compile_cells(TABLE, blocks, ["age"], col("state") != "TX").graph.outside.any()


def test_null_is_hidden_among_all_values_unless_public() -> None:
    policy = Policy({"note": line()})
    cells = compile_cells(TABLE, policy, ["note"])
    assert list(cells.labels[0])[-1] == "NULL" and cells.plain == (10,)
    graph = cells.graph.factors[0]
    assert isinstance(graph, WindowGraph) and graph.universal.tolist() == [10]
    assert compile_cells(TABLE, policy, ["note"], ~col("note").is_null()).graph.outside.all()
    nothing = compile_cells(TABLE, Policy({"note": public()}), ["note"])
    assert len(set(nothing.graph.components().tolist())) == 11


def test_left_out_groups_are_outside() -> None:
    policy = Policy({"age": threshold(2)})
    cells = compile_cells(TABLE, policy, col("age").bins(edges=[18, 21, 65]))
    assert list(cells.labels[0]) == ["18-20", "21-64"]
    assert cells.graph.outside.tolist() == [True, True]
    assert cells.cell_of({"age": np.array([17, 18, 20, 21, 64, 65])}).tolist() == [-1, 0, 0, 1, 1, -1]
    narrow = compile_cells(TABLE, policy, col("age").bins(edges=[18, 21, 25, 65]))
    assert narrow.graph.outside.tolist() == [True, False, True]
    named = compile_cells(TABLE, Policy(), col("state").groups({"east": ["NC", "VA"]}))
    assert list(named.labels[0]) == ["east"] and named.graph.outside.all()


def test_interleaved_groups_keep_every_edge() -> None:
    groups = col("age").groups({"odd": [1, 3, 5], "even": [2, 4], "far": [50]})
    cells = compile_cells(TABLE, Policy({"age": threshold(1)}), groups)
    assert cells.graph.value_edges().tolist() == [[0, 1]]
    assert cells.graph.outside.tolist() == [True, False, True]


def test_calendar_groups() -> None:
    months = compile_cells(TABLE, Policy(), col("day").by("month"))
    assert list(months.labels[0])[1:3] == ["2020-02", "2020-03"]
    assert months.labels[0][0] == "2020-01-15 .. 2020-01-31" and len(months.labels[0]) == 14
    assert len(compile_cells(TABLE, Policy(), col("day").by("week")).labels[0]) == 57
    assert len(compile_cells(TABLE, Policy(), col("day").by("year")).labels[0]) == 2
    days = compile_cells(TABLE, Policy(), col("at").by("day"))
    assert days.cell_of({"at": np.array([0, 1, 2, 25, 26, 49])}).tolist() == [0, 0, 1, 1, 2, 2]
    assert len(compile_cells(TABLE, Policy(), col("at").by("month")).labels[0]) == 2
    seconds = domain({"at": timestamps("2020-01-01T00:00:30", "2020-01-01T02:10", "second", null="2020-01-01T01:00")})
    minutes = compile_cells(seconds, Policy(), col("at").by("minute"))
    assert minutes.cell_of({"at": np.array([0, 29, 30, 90, 7769])}).tolist() == [0, 0, 1, 2, 129]
    hours = compile_cells(seconds, Policy(), col("at").by("hour"))
    assert hours.cell_of({"at": np.array([0, 3569, 3570, 7769])}).tolist() == [0, 0, 1, 2]
    assert compile_cells(TABLE, Policy(), col("at").by("hour")).graph.cells == 50
    assert window(compile_cells(TABLE, Policy({"day": threshold("7 days")}), col("day").by("month")))[0] == 1


def test_joint_attributes_stand_together() -> None:
    policy = Policy(joint=[grid(["lat", "lon"], 1, "l1")])
    cells = compile_cells(TABLE, policy, ["lon", "age", "lat"])
    assert cells.axes == ("lon", "lat", "age") and cells.graph.shape == (8, 8, 100)
    assert isinstance(cells.graph.factors[0], GridGraph)
    # Half-degree bins: the next bin touches, two further on it is one whole unit away.
    assert window(compile_cells(TABLE, policy, ["lat"]))[:2] == [3, 4]
    row = {"lon": np.array([2]), "lat": np.array([3]), "age": np.array([7])}
    assert cells.cell_of(row).tolist() == [2 * 800 + 3 * 100 + 7]
    with pytest.raises(QueryError, match="runs of values in order"):
        compile_cells(TABLE, policy, ["lat", col("lon").groups({"a": [1, 3], "b": [2]})])


def test_a_box_on_a_fine_joint_grid_is_leaving_only_near_its_border() -> None:
    table = domain({name: integers(0, 199, null=0) for name in ("x", "y")})
    policy = Policy(joint=[grid(["x", "y"], 20, "l1")])
    box = (col("x") >= 50) & (col("x") < 150) & (col("y") < 100)
    outside = compile_cells(table, policy, ["x", "y"], box).graph.outside.reshape(100, 100)
    assert outside.sum() == 100 * 100 - 60 * 80
    assert not outside[20:80, :80].any()


def test_only_special_cells_may_be_left() -> None:
    table = domain({"x": categorical(["a", "b", "c"])})
    policy = Policy({"x": partition([["a", "c"], ["b"]])})
    cells = compile_cells(table, policy, ["x"], col("x").is_null())
    assert list(cells.labels[0]) == ["NULL"] and cells.graph.outside.all()


def test_rows_per_person_reach_the_graph() -> None:
    policy = Policy(unit=person("patient", at_most=5, order_by="visit"))
    assert compile_cells(TABLE, policy, ["age"]).graph.rows_per_person == 5


def test_above_the_limit_every_cell_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    where = (col("age") < 50) | (col("state") == "NC")
    policy = Policy({"age": threshold(3), "state": public()})
    exact = compile_cells(TABLE, policy, col("age").bins(10), where)
    monkeypatch.setattr(projection, "FILTER_LIMIT", 8)
    rough = compile_cells(TABLE, policy, col("age").bins(10), where)
    assert exact.graph.outside.sum() == 1 and rough.graph.outside.all()
    columns = {"age": np.arange(100), "state": np.arange(100) % 3}
    assert exact.cell_of(columns).tolist() == rough.cell_of(columns).tolist()


ADULT: Domain = domain(
    {
        "age": integers(17, 90),
        "workclass": [f"w{i}" for i in range(8)],
        "weight": bins(0, 1_500_000, width=100),
        "education": [f"e{i}" for i in range(16)],
        "education_num": integers(1, 16),
        "marital": [f"m{i}" for i in range(7)],
        "occupation": [f"o{i}" for i in range(14)],
        "relationship": [f"r{i}" for i in range(6)],
        "race": [f"c{i}" for i in range(5)],
        "sex": ["F", "M"],
        "capital_gain": bins(0, 100_000, width=1),
        "capital_loss": bins(0, 4400, width=1),
        "hours": integers(1, 99),
        "country": [f"n{i}" for i in range(41)],
        "income": ["low", "high"],
    }
)


def test_fifteen_attributes_and_more_than_a_million_million_million_records() -> None:
    assert ADULT.size > 10**18
    policy = Policy({"age": threshold(5), "capital_loss": threshold(100), "sex": public()})
    where = (col("sex") == "F") & (col("hours") >= 35) & ~col("country").isin(["n3", "n7"]) & (col("age") < 65)
    cells = compile_cells(ADULT, policy, [col("age").bins(5), "education", "income"], where)
    assert cells.graph.shape == (10, 18, 4)
    assert cells.attributes == ("age", "education", "income", "sex", "hours", "country")
    assert compile_cells(ADULT, policy, ["capital_loss"]).graph.shape == (4401,)


def test_a_million_cells_compile() -> None:
    table = domain({"x": integers(0, 10**6 - 1, null=0), "s": categorical(["a", "b"], null="a")})
    cells = compile_cells(table, Policy({"x": threshold(1000)}), ["x"], col("x") < 900_000)
    assert cells.graph.cells == 900_000 and int(cells.graph.outside.sum()) == 1000
    assert cells.labels[0][123_456] == "123456" and cells.labels[0][-2:] == ["899998", "899999"]


@pytest.mark.parametrize(
    ("group_by", "error", "says"),
    [
        (["wide"], TooLarge, "wider bins"),
        ([col("wide").bins(1000)], TooLarge, "limit"),
        (["age", "other", "income"], TooLarge, "fewer attributes"),
        (["age", "age"], QueryError, "twice"),
        (["agge"], QueryError, "did you mean 'age'"),
        ([col("age").bins(0)], QueryError, "positive"),
        ([col("age").bins("2.5")], QueryError, "whole number"),
        ([col("income").bins(15)], QueryError, "multiple"),
        ([col("uneven").bins(1)], QueryError, "unequal"),
        ([col("age").bins(edges=[5])], QueryError, "two or more"),
        ([col("age").bins(edges=[5, 5])], QueryError, "increase"),
        ([col("income").bins(edges=[0, 15, 30])], QueryError, "10 and 20"),
        ([col("state").bins(2)], QueryError, "groups"),
        ([col("state").bins(edges=["NC", "VA"])], QueryError, "groups"),
        ([col("state").groups({"a": ["NC"], "b": ["NC"]})], QueryError, "two groups"),
        ([col("state").groups({"a": []})], QueryError, "empty"),
        ([col("state").groups({"NULL": ["NC"]})], QueryError, "both called 'NULL'"),
        ([Axis("state", groups=(("a", ("NC",)), ("a", ("VA",))))], QueryError, "both called 'a'"),
        ([col("state").groups({"a": ["XX"]})], QueryError, "no value"),
        ([col("age").by("month")], QueryError, "not a date"),
        ([col("week").by("month")], QueryError, "whole months"),
        ([col("day").by("decade")], QueryError, "whole decades"),
    ],
)
def test_groups_that_do_not_fit_are_refused(group_by: Any, error: Any, says: str) -> None:
    table = domain(
        {
            "age": integers(0, 9999),
            "other": integers(0, 9999),
            "wide": integers(0, 10**12),
            "income": bins(0, 100, width=10),
            "uneven": bins(edges=[0, 1, 5]),
            "state": ["NC", "VA"],
            "week": dates("2020-01-01", "2020-12-31", "week"),
            "day": dates("2020-01-01", "2020-12-31"),
        }
    )
    with pytest.raises(error, match=says):
        compile_cells(table, Policy(), group_by)


def test_columns_that_are_missing_are_named() -> None:
    cells = compile_cells(TABLE, Policy(), ["age"], col("state") == "NC")
    with pytest.raises(QueryError, match="state"):
        cells.cell_of({"age": np.array([1])})
    with pytest.raises(QueryError, match="cell 0"):
        compile_cells(TABLE, Policy()).cell_of({})


def test_a_policy_that_does_not_fit_is_refused_before_anything_else() -> None:
    with pytest.raises(PolicyError, match="did you mean 'age'"):
        compile_cells(TABLE, Policy({"agee": full()}), ["age"])


def test_leaving_may_take_two_attributes_at_once() -> None:
    table = domain({"x": integers(0, 1, null=0), "y": integers(0, 1, null=0)})
    where = (col("x") == 0) | (col("y") == 0)
    together = compile_cells(table, Policy(), ["x", "y"], where).graph.outside.tolist()
    alone = compile_cells(table, Policy(composition="attribute"), ["x", "y"], where).graph.outside.tolist()
    # Cells (0,0), (0,1), (1,0), (1,1): from (0,0) only a move of both leads to the rejected (1,1).
    assert together == [True, True, True, False]
    assert alone == [False, True, True, False]
