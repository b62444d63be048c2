"""Cells and projected graphs against the policy graph written out record by record."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.audit import definitions as oracle
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model import cells as cells_module
from blowfishdb.model import policy as families
from blowfishdb.model import projection
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain, bins, domain, integers
from blowfishdb.model.graphs import ZERO, AxisGraph
from blowfishdb.model.groups import AxisCells
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Grid, ListedWindow, Policy, custom, joint, line, partition, threshold
from blowfishdb.model.predicate import Axis, Member, Predicate, atoms, col
from blowfishdb.model.workload import Sparse
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.effort import effort
from tests.model import cases

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Truth:
    """The projection as the definitions give it."""

    cell_of: dict[tuple[int, ...], Cell | None]
    edges: set[frozenset[Cell]]
    leaving: set[Cell]


def project(
    domain: Domain,
    policy: Policy,
    axes: list[Axis],
    where: Predicate | None,
) -> Truth:
    """The cells, the edges between them and the cells that a record can leave, by going through all pairs."""
    everyone = list(oracle.records(domain))
    placed: dict[tuple[int, ...], Cell | None] = {}
    for record in everyone:
        groups = [oracle.group_of(axis, domain[axis.attribute], record[axis.attribute]) for axis in axes]
        counts = oracle.holds(where, domain, record) is True and None not in groups
        placed[tuple(record.values())] = tuple(g for g in groups if g is not None) if counts else None
    edges, leaving = set(), set()
    for one, two in itertools.combinations(everyone, 2):
        if oracle.moves(domain, policy, one, two):
            a, b = placed[tuple(one.values())], placed[tuple(two.values())]
            if a is not None and b is not None and a != b:
                edges.add(frozenset((a, b)))
            leaving |= {cell for cell in (a, b) if cell is not None and None in (a, b)}
    return Truth(placed, edges, leaving)


def compiled(domain: Domain, policy: Policy, axes: list[Axis], where: Predicate | None) -> Cells | None:
    try:
        return compile_cells(domain, policy, axes, where)
    except QueryError as error:
        message = str(error)
        assert "rejects every declared record" in message or "runs of values in order" in message, message
        return None


def axis_order(axes: list[Axis], cells: Cells) -> list[Axis]:
    return [next(axis for axis in axes if axis.attribute == name) for name in cells.axes]


def compare(domain: Domain, policy: Policy, axes: list[Axis], where: Predicate | None, exact: bool) -> None:
    cells = compiled(domain, policy, axes, where)
    if cells is None:
        return
    truth = project(domain, policy, axis_order(axes, cells), where)
    if cells.attributes:
        table = np.array(list(truth.cell_of), dtype=np.int64).reshape(len(truth.cell_of), -1)
        placed = cells.cell_of({name: table[:, i] for i, name in enumerate(domain.names)})
    else:
        placed = np.zeros(len(truth.cell_of), dtype=np.int64)
    number: dict[Cell | None, int] = {}
    for cell, found in zip(truth.cell_of.values(), placed.tolist(), strict=True):
        assert number.setdefault(cell, found) == found
    assert number.get(None, ZERO) == ZERO
    counted = [cell for cell in number if cell is not None]
    assert len({number[cell] for cell in counted}) == len(counted) <= cells.graph.cells
    sizes = [domain[name].size for name in domain.names]
    declared = [all(np.less(record, sizes)) for record in truth.cell_of]
    ordinary = {cell for cell, is_plain in zip(truth.cell_of.values(), declared, strict=True) if is_plain and cell}
    assert sorted(ordinary) == sorted(ordinary, key=lambda cell: number[cell])

    wanted = {tuple(sorted(number[cell] for cell in edge)) for edge in truth.edges}
    found_edges = {(int(u), int(v)) for u, v in cells.graph.value_edges()}
    possible = set(number.values())
    assert wanted <= found_edges
    if exact and policy.presence != "only":
        assert len(counted) == cells.graph.cells
        assert wanted == found_edges
    if policy.presence != "only":
        outside = {int(cell) for cell in np.flatnonzero(cells.graph.outside)}
        leaving = {number[cell] for cell in truth.leaving}
        assert leaving <= outside
        assert outside & possible == leaving


@effort(60)
@given(st.data())
def test_conjunctions_are_projected_exactly(data: st.DataObject) -> None:
    domain, policy = data.draw(cases.settings_of())
    axes = data.draw(cases.axes_of(domain, in_order=True))
    where = data.draw(cases.conjunctions(domain))
    # A filter may punch holes into a cell; joint thresholds then take the cell's hull, which may join more.
    holes = any(isinstance(atom, Member) or getattr(atom, "op", "") == "==" for atom in atoms(where))
    compare(domain, policy, axes, where, exact=not (holes and any(isinstance(graph, Grid) for graph in policy.joint)))


@effort(60)
@given(st.data())
def test_any_filter_and_any_groups_keep_every_edge(data: st.DataObject) -> None:
    domain, policy = data.draw(cases.settings_of())
    axes = data.draw(cases.axes_of(domain, in_order=False))
    compare(domain, policy, axes, data.draw(cases.predicates(domain)), exact=False)


def too_many_edges(pairs: Ints, axis: AxisCells) -> AxisGraph:
    raise TooLarge("edges", len(pairs), axis.cells, "This stands for a graph of millions of edges.")


@effort(20)
@given(st.data())
def test_short_cuts_for_large_graphs_only_join_more(data: st.DataObject) -> None:
    domain, policy = data.draw(cases.settings_of())
    axes = data.draw(cases.axes_of(domain, in_order=False))
    where = data.draw(cases.predicates(domain))
    fine = compiled(domain, policy, axes, where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "LISTED_LIMIT", 0)
        patch.setattr(projection, "COVER_LIMIT", 0)
        patch.setattr(projection, "_listed", too_many_edges)
        rough = compiled(domain, policy, axes, where)
    if fine is not None and rough is not None:
        assert np.all(fine.graph.outside <= rough.graph.outside)
        edges = {tuple(edge) for edge in fine.graph.value_edges().tolist()}
        assert edges <= {tuple(edge) for edge in rough.graph.value_edges().tolist()}


@effort(20)
@given(st.data())
def test_named_groups_without_a_filter_are_projected_exactly(data: st.DataObject) -> None:
    domain, policy = data.draw(cases.settings_of())
    compare(domain, policy, data.draw(cases.axes_of(domain, in_order=False)), None, exact=True)


JOINT_BLOCKS = joint("xy", partition([[(1, 0), (1, 1)], [(0, 0), (2, 1)], [(0, 1), (3, 0)], [(2, 0)], [(3, 1)]]))
WITH_NULL = {
    "everything": Policy(),
    "neighbours": Policy({"x": line()}),
    "blocks": Policy({"x": partition(cuts=[2])}),
    "pairs": Policy({"x": custom([(1, 2)])}),
    "joint blocks": Policy(joint=[JOINT_BLOCKS]),
    "joint pairs": Policy(joint=[joint("xy", custom([((1, 0), (1, 1)), ((2, 0), (3, 1))]))]),
}


@pytest.mark.parametrize("groups", [("NULL", "outside"), ("NULL", None), (None, "outside"), ("outside", "NULL")])
@pytest.mark.parametrize("is_public", [False, True])
@pytest.mark.parametrize("policy", WITH_NULL.values(), ids=WITH_NULL.keys())
def test_groups_that_hold_null_move_as_null_does(
    policy: Policy, is_public: bool, groups: tuple[str | None, str | None]
) -> None:
    """NULL beside declared values hides among all values where it is hidden; alone in a group it has another name."""
    column = integers(0, 3, outside="cell", null_public=is_public, outside_public=is_public)
    table = domain({"x": column, "y": integers(0, 1, null=0)})
    beside, alone = ([] if name is None else [name] for name in groups)
    named = {"missing": alone, "ends": [0, 3, *beside], "one": [1], "two": [2]}
    axis = col("x").groups({name: values for name, values in named.items() if values})
    for axes in ([axis], [axis, Axis("y")]):
        compare(table, policy, axes, None, exact=True)
        compare(table, policy, axes, col("x").is_null() | (col("x") < 2), exact=False)
    labels = list(compile_cells(table, policy, axis).labels[0])
    assert labels[:3] == ["ends", "one", "two"]
    assert sorted(labels[3:]) == sorted({"NULL", "outside"} - {*beside, *alone} | ({"missing"} if alone else set()))


def test_a_cell_that_the_filter_empties_makes_no_certificate_tight() -> None:
    """The graph on the cells moves z in every cell of x and y, also in (1, 1), which has no record that counts."""
    table = domain({name: integers(0, 1, null=0) for name in "xyz"})
    policy = Policy(composition="attribute", joint=[joint("xy", partition([[(0, 0), (0, 1)], [(1, 0), (1, 1)]]))])
    axes, where = [Axis(name) for name in "xyz"], ~((col("x") == 1) & (col("y") == 1))
    compare(table, policy, axes, where, exact=False)
    assert compile_cells(table, policy, axes).graph.is_exact
    cells = compile_cells(table, policy, axes, where)
    empty = cells.cell_of({"x": np.array([1]), "y": np.array([0]), "z": np.array([1])}) + 2
    row = np.zeros(cells.graph.cells, dtype=np.int64)
    row[empty] = 1
    proof = certify(
        Plan(Fraction(1), (Measurement(Sparse(row.reshape(1, -1)), np.ones(1, dtype=np.int64)),)), cells.graph
    )
    assert proof.epsilon == 1
    assert not proof.is_tight


def test_a_filter_cuts_the_moves_of_a_listed_joint_graph() -> None:
    """Records move along x and y at once, so none that keeps x == 0 moves along y, and only those of y < 2 leave."""
    table = domain({"x": integers(0, 1, null=0), "y": integers(0, 3, null=0)})
    policy = Policy({}, joint=[joint(["x", "y"], custom([((0, 0), (1, 1)), ((0, 1), (1, 0))]))])
    counted = compile_cells(table, policy, "y", col("x") == 0).graph
    assert counted.value_edges().size == 0 and counted.is_exact
    assert counted.outside.tolist() == [True, True, False, False]
    assert compile_cells(table, policy, "y").graph.value_edges().tolist() == [[0, 1]]
    either = compile_cells(table, policy, ["x", "y"], (col("x") == 0) | (col("y") == 1)).graph
    assert either.value_edges().tolist() == [[0, 5]] and np.flatnonzero(either.outside).tolist() == [1]


def test_the_comparison_sees_bins_joined_by_their_centres(monkeypatch: pytest.MonkeyPatch) -> None:
    table = domain({"x": bins(edges=[0, 1, 2, 10, 11], null=0)})
    compare(table, Policy({"x": threshold(1)}), [Axis("x")], None, exact=True)
    # Centres 0.5, 1.5, 6 and 10.5: only the first two would be joined.
    by_centres = ListedWindow(4, np.arange(4), np.array([1, 1, 2, 3]))
    monkeypatch.setattr(families, "_bins_within", lambda theta, attribute: by_centres)
    with pytest.raises(AssertionError):
        compare(table, Policy({"x": threshold(1)}), [Axis("x")], None, exact=False)


def test_the_comparison_sees_a_forgotten_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    table = domain({"x": integers(0, 3, null=0), "y": integers(0, 1, null=0)})
    where = col("y") == 1
    compare(table, Policy(), [Axis("x")], where, exact=True)
    monkeypatch.setattr(cells_module, "leaving_cells", lambda *known: np.zeros(4, dtype=np.bool_))
    with pytest.raises(AssertionError):
        compare(table, Policy(), [Axis("x")], where, exact=True)
