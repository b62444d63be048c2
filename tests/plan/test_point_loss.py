"""Weights on nodes against brute force over every hidden move of every record of small domains."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.audit.definitions import holds, moves, records
from blowfishdb.errors import BlowfishError, InfiniteLoss, PlanError, PolicyError, QueryError, TooLarge
from blowfishdb.model.cells import PointGraph, Points, compile_points
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import GridGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.plan.points import PointAxis, PointPlan, calibrate_points, certify_points, components_of, point_loss
from tests.effort import effort
from tests.model.cases import attributes, families, predicates, settings_of


def contributions(
    points: Points, plan: PointPlan, domain: Domain, where: Predicate | None
) -> dict[tuple[int, ...], Ints]:
    """What each record adds to the nodes and then to the blocks, from the definitions."""
    found = {}
    for record in records(domain):
        row = np.zeros(plan.grid_points + int(np.prod(plan.block_shape)) * bool(plan.blocks), dtype=np.int64)
        values = [record[name] for name in points.axes]
        is_point = all(value < domain[name].size for value, name in zip(values, points.axes, strict=True))
        if is_point and holds(where, domain, record) is True:
            for node in itertools.product(*(range(size) for size in plan.shape)):
                weight = 1
                for place, axis, value in zip(node, plan.axes, values, strict=True):
                    weight *= max(0, axis.steps - abs(int(axis.places[value]) - place * axis.steps))
                nearest = int(np.floor(Fraction(weight, plan.rounding) + Fraction(1, 2)))
                row[np.ravel_multi_index(node, plan.shape)] = nearest
            if plan.blocks:
                block = [int(labels[value]) for labels, value in zip(plan.blocks, values, strict=True)]
                row[plan.grid_points + np.ravel_multi_index(block, plan.block_shape)] = 1
        found[tuple(record.values())] = row
    return found


def worst_moves(domain: Domain, policy: Policy, rows: dict[tuple[int, ...], Ints], grid_points: int) -> tuple[int, int]:
    """The largest change of the nodes and of the blocks over all hidden moves of one record."""
    listed = list(records(domain))
    worst = [0, 0]
    for one in listed:
        own = rows[tuple(one.values())]
        changes = [np.abs(own - rows[tuple(two.values())]) for two in listed if moves(domain, policy, one, two)]
        changes += [own] if policy.presence != "public" else []
        for change in changes:
            worst = [max(worst[0], int(change[:grid_points].sum())), max(worst[1], int(change[grid_points:].sum()))]
    return worst[0], worst[1]


@st.composite
def point_plans(draw: st.DrawFn, graph: PointGraph) -> PointPlan:
    axes = []
    for size in graph.plain:
        steps = draw(st.integers(1, 6))
        jumps = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
        axes.append(PointAxis(steps, np.cumsum(jumps)))
    whole = int(np.prod([axis.steps for axis in axes]))
    totals = [total for total in range(1, whole + 1) if whole % total == 0]
    blocks = components_of(graph) if draw(st.booleans()) else ()
    return PointPlan(Fraction(1), tuple(axes), draw(st.sampled_from(totals)), blocks)


def numeric(domain: Domain) -> list[str]:
    return [name for name in domain if not isinstance(domain[name], type(bf.categorical(["a"])))]


@effort(30)
@given(st.data())
def test_the_loss_is_never_below_the_truth(data: st.DataObject) -> None:
    domain, policy = data.draw(settings_of(most_records=36))
    names = numeric(domain)
    assume(names)
    columns = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    where = data.draw(st.none() | predicates(domain))
    try:
        points = compile_points(domain, policy, tuple(Axis(name) for name in columns), where)
    except QueryError:
        assume(False)
    plan = data.draw(point_plans(points.graph))
    applied = policy.applied(domain)
    rows = contributions(points, plan, applied, where)
    worst, changed = worst_moves(applied, policy, rows, plan.grid_points)
    loss = point_loss(plan, points.graph)
    assert worst <= loss
    whole = int(np.prod([axis.steps for axis in plan.axes]))
    assert loss <= 2 * whole // plan.rounding + 2 ** len(plan.axes) + 1
    if changed:
        with pytest.raises(InfiniteLoss):
            certify_points(plan, points.graph)
    elif not plan.blocks:
        assert certify_points(plan, points.graph).epsilon == loss
    if worst:
        with pytest.raises(InfiniteLoss):
            certify_points(plan.with_unit(None), points.graph)


@effort(40)
@given(st.data())
def test_without_rounding_one_moving_column_is_exact(data: st.DataObject) -> None:
    declared = [data.draw(attributes(numeric=True, most=4)) for _ in range(data.draw(st.integers(1, 2)))]
    domain = Domain(tuple(zip("xy", declared, strict=False)))
    policy = Policy({name: data.draw(families(domain[name])) for name in domain}, composition="attribute")
    points = compile_points(domain, policy, tuple(Axis(name) for name in domain))
    drawn = data.draw(point_plans(points.graph))
    plan = PointPlan(Fraction(1), drawn.axes, int(np.prod([axis.steps for axis in drawn.axes])))
    applied = policy.applied(domain)
    worst, _ = worst_moves(applied, policy, contributions(points, plan, applied, None), plan.grid_points)
    loss = point_loss(plan, points.graph)
    assert worst == loss or (points.graph.can_vanish and loss == plan.total)


@effort(15)
@given(st.data())
def test_rows_are_what_the_definition_says(data: st.DataObject) -> None:
    domain, policy = data.draw(settings_of(most_records=36))
    names = numeric(domain)
    assume(names)
    where = data.draw(st.none() | predicates(domain))
    try:
        points = compile_points(domain, policy, tuple(Axis(name) for name in names), where)
    except QueryError:
        assume(False)
    plan = data.draw(point_plans(points.graph))
    applied = policy.applied(domain)
    rows = contributions(points, plan, applied, where)
    codes = {name: np.array([record[name] for record in records(applied)]) for name in applied}
    placed, counts = points.place(codes)
    at, weights = plan.rows_at(placed[counts])
    for record, grid_points, own in zip(np.flatnonzero(counts), at, weights, strict=True):
        row = np.zeros(plan.grid_points, dtype=np.int64)
        np.add.at(row, grid_points, own)
        assert row.tolist() == list(rows.values())[record][: plan.grid_points].tolist()
    for record in np.flatnonzero(~counts):
        assert not list(rows.values())[record].any()
    if plan.blocks:
        flat = plan.blocks_at(placed[counts])
        wanted = [int(np.flatnonzero(list(rows.values())[r][plan.grid_points :])[0]) for r in np.flatnonzero(counts)]
        assert flat.tolist() == wanted


def line_of(size: int, theta: int, *columns: str, metric: str | None = None) -> tuple[Domain, Policy]:
    declared = bf.domain({name: bf.integers(0, size - 1, null=0) for name in columns})
    if metric is None:
        return declared, bf.Policy({name: bf.threshold(theta) for name in columns})
    return declared, bf.Policy(joint=[bf.grid(columns, theta, metric)])  # type: ignore[arg-type]


def hats(size: int, spacing: int, steps: int, columns: int) -> tuple[PointAxis, ...]:
    return tuple(PointAxis(steps, np.arange(size) * steps // spacing) for _ in range(columns))


def graph_of(domain: Domain, policy: Policy) -> PointGraph:
    return compile_points(domain, policy, tuple(Axis(name) for name in domain)).graph


def test_an_l1_ball_costs_two_theta_over_the_spacing_and_four_columns_cost_no_more() -> None:
    """A thousand values a column: 10^12 combinations, none of them written out."""
    domain, policy = line_of(1001, 100, "a", "b", "c", "d", metric="l1")
    plan = PointPlan(Fraction(1), hats(1001, 500, 2**12, 4), 2**20)
    loss = point_loss(plan, graph_of(domain, policy)) / 2**20
    assert 2 * 100 / 500 <= loss <= 2 * 100 / 500 + 0.01
    wide, linf = (point_loss(plan, graph_of(*line_of(1001, 100, "a", "b", "c", "d", metric=m))) for m in ("l2", "linf"))
    assert loss < wide / 2**20 < linf / 2**20 == pytest.approx(2 * (1 - 0.8**4), abs=0.01)


def test_counts_of_cells_cost_two_and_blocks_that_nobody_leaves_nothing() -> None:
    domain = bf.domain({"x": bf.integers(0, 99, null=0)})
    tens = PointPlan(Fraction(1), (PointAxis(1, np.arange(100) // 10),), 1)
    assert point_loss(tens, graph_of(domain, bf.Policy({"x": bf.threshold(1)}))) == 2
    held = graph_of(domain, bf.Policy({"x": bf.partition(cuts=[10, 50])}))
    blocks = (np.repeat([0, 1, 2], [10, 40, 50]),)
    exact = PointPlan(Fraction(1), (PointAxis(1, blocks[0]),), 1, blocks)
    plan, certificate = calibrate_points(exact, held, Fraction(1, 2))
    assert (plan.unit, certificate.epsilon) == (None, 0)
    with pytest.raises(InfiniteLoss):
        certify_points(PointPlan(Fraction(1), tens.axes, 1, (np.arange(100) // 5,)), held)
    for policy in (bf.Policy({"x": bf.partition(cuts=[10, 50])}, presence="secret"), bf.Policy()):
        with pytest.raises(InfiniteLoss):
            certify_points(exact, graph_of(domain, policy))


def test_a_person_with_several_rows_costs_as_many_times() -> None:
    domain = bf.domain({"x": bf.integers(0, 99, null=0)})
    plan = PointPlan(Fraction(1), (PointAxis(1, np.arange(100) // 10),), 1)
    many = graph_of(domain, bf.Policy(unit=bf.person("id", at_most=5, order_by="row")))
    scaled, certificate = calibrate_points(plan, many, Fraction(1, 2))
    assert (scaled.unit, certificate.epsilon) == (20, Fraction(1, 2))
    assert certify_points(scaled, many) == certificate


def test_a_hidden_null_or_a_filter_costs_the_whole_weight_of_a_record() -> None:
    domain = bf.domain({"x": bf.integers(0, 99), "sex": ["f", "m"]})
    policy = bf.Policy({"x": bf.threshold(1)})
    plan = PointPlan(Fraction(1), hats(100, 50, 64, 1), 64)
    near = compile_points(domain, policy, (Axis("x"),)).graph
    assert point_loss(plan, near) == 64
    clean = bf.domain({"x": bf.integers(0, 99, null_public=True), "sex": ["f", "m"]})
    assert point_loss(plan, compile_points(clean, policy, (Axis("x"),)).graph) == 4
    women = bf.col("sex") == "f"
    assert point_loss(plan, compile_points(clean, policy, (Axis("x"),), women).graph) == 64
    told = bf.Policy({"x": bf.threshold(1), "sex": bf.public()})
    assert point_loss(plan, compile_points(clean, told, (Axis("x"),), women).graph) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: PointAxis(0, np.zeros(2, dtype=np.int64)),
        lambda: PointAxis(1, np.array([1, 0])),
        lambda: PointPlan(Fraction(0), hats(4, 2, 2, 1), 2),
        lambda: PointPlan(Fraction(1), (), 1),
        lambda: PointPlan(Fraction(1), hats(4, 2, 4, 1), 3),
        lambda: PointPlan(Fraction(1), (PointAxis(1, np.array([0, 2**20])),), 1),
        lambda: PointPlan(Fraction(1), hats(4, 2, 2, 1), 2, (np.zeros(3, dtype=np.int64),)),
        lambda: PointPlan(Fraction(1), hats(4, 2, 2, 1), 2, (np.array([0, 0, 0, -1]),)),
        lambda: point_loss(PointPlan(Fraction(1), hats(4, 2, 2, 1), 2), graph_of(*line_of(5, 1, "x"))),
        lambda: calibrate_points(
            PointPlan(Fraction(1), hats(5, 2, 2, 1), 2), graph_of(*line_of(5, 1, "x")), Fraction(0)
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object) -> None:
    with pytest.raises((PlanError, TooLarge)):
        make()  # type: ignore[operator]


def test_a_joint_threshold_out_of_order_is_refused() -> None:
    places, none = (np.array([0, 5, 2]), np.array([0, 1, 2])), (np.empty(0, dtype=np.int64),) * 2
    for metric in ("l1", "l2", "linf"):
        wrong = PointGraph((GridGraph(places, places, 2, metric, none),), (3, 3), "record", False, "public")  # type: ignore[arg-type]
        with pytest.raises(PolicyError):
            point_loss(PointPlan(Fraction(1), hats(3, 2, 2, 2), 4), wrong)


def test_the_digest_tells_plans_and_policies_apart() -> None:
    plan = PointPlan(Fraction(1), hats(100, 50, 64, 1), 64)
    others = [
        plan.with_unit(Fraction(2)),
        PointPlan(Fraction(1), plan.axes, 32),
        PointPlan(Fraction(1), plan.axes, 64, (np.zeros(100, dtype=np.int64),)),
    ]
    assert len({each.digest() for each in [plan, *others]}) == 4
    graphs = [graph_of(*line_of(100, theta, "x")) for theta in (1, 2)]
    assert graphs[0].digest() != graphs[1].digest()


def test_points_take_numbers_only() -> None:
    domain = bf.domain({"x": bf.integers(0, 2**30, null=0), "sex": ["f", "m"]})
    for columns in ((Axis("sex"),), (Axis("x"),), (), (Axis("x", edges=(0, 5)),), (Axis("x", width=1),)):
        with pytest.raises(BlowfishError):
            compile_points(domain, bf.Policy(), columns)
    points = compile_points(domain, bf.Policy(), (Axis("x", width=2**20),))
    assert points.graph.plain == (1025,)
    assert points.positions(0)[:2].tolist() == [(2**20 - 1) / 2, 2**20 + (2**20 - 1) / 2]


MOVING = {
    "record": bf.Policy({"x": bf.threshold(1), "y": bf.threshold(2)}),
    "record full": bf.Policy({"x": bf.line(), "y": bf.full()}),
    "scattered blocks": bf.Policy({"x": bf.partition([[0, 3], [1, 4], [2]]), "y": bf.public()}),
    "listed": bf.Policy({"x": bf.custom([[0, 4], [1, 2]]), "y": bf.line()}),
    "l1": bf.Policy(joint=[bf.grid(["x", "y"], 3, "l1")]),
    "l2": bf.Policy(joint=[bf.grid(["x", "y"], 4, "l2")]),
    "linf": bf.Policy(joint=[bf.grid(["x", "y"], 2, "linf")]),
}
PLANS = [(4, (0, 2, 4, 6, 8)), (9, (0, 2, 4, 6, 8)), (5, (0, 1, 3, 7, 12)), (7, (0, 7, 7, 8, 20)), (1, (0, 0, 1, 1, 2))]


@pytest.mark.parametrize("shares", [256, 2, 1])
@pytest.mark.parametrize("name", MOVING)
def test_every_way_to_move_is_covered_however_theta_is_shared(
    name: str, shares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blowfishdb.plan.points.SHARES", shares)
    domain = bf.domain({each: bf.integers(0, 4, null=0) for each in ("x", "y")})
    policy, listed = MOVING[name], list(records(domain))
    points = compile_points(domain, policy, (Axis("x"), Axis("y")))
    pairs = [(i, j) for i, j in itertools.combinations(range(25), 2) if moves(domain, policy, listed[i], listed[j])]
    first, second = np.array(pairs).T
    values = np.array([[record["x"], record["y"]] for record in listed])
    for (steps, places), (others, between) in itertools.product(PLANS, PLANS):
        axes = (PointAxis(steps, np.array(places)), PointAxis(others, np.array(between)))
        plan = PointPlan(Fraction(1), axes, steps * others)
        rows = np.zeros((25, plan.grid_points), dtype=np.int64)
        np.add.at(rows, (np.arange(25)[:, None], plan.rows_at(values)[0]), plan.rows_at(values)[1])
        worst = int(np.abs(rows[first] - rows[second]).sum(axis=1).max())
        loss = point_loss(plan, points.graph)
        assert worst <= loss
        if name == "scattered blocks" or (steps == others == 1 and name not in ("l1", "l2")):
            assert worst == loss


@pytest.mark.parametrize(
    ("reach", "universal"), [([1, 2, 2, 3], [3]), ([0, 2, 3, 3], [0]), ([1, 1, 2, 3], [2, 3]), ([0, 1, 2, 3], [1])]
)
def test_a_universal_value_among_the_points_is_joined_to_all(reach: list[int], universal: list[int]) -> None:
    axis_graph = WindowGraph(np.array(reach), np.array(universal))
    graph = PointGraph((axis_graph,), (4,), "record", leaves=False, presence="public")
    places = (0, 2, 3, 6)
    plan = PointPlan(axes=(PointAxis(2, np.array(places)),), unit=Fraction(1), total=2)
    weights = np.zeros((4, 5), dtype=np.int64)
    for value, place in enumerate(places):
        weights[value, place // 2] += 2 - place % 2
        weights[value, place // 2 + 1] += place % 2
    worst = max(int(np.abs(weights[one] - weights[two]).sum()) for one, two in axis_graph.edges().tolist())
    assert point_loss(plan, graph) == worst
