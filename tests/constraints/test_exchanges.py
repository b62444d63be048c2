"""The exact loss under overlapping constraints: what it is, where it is given up, and how certificates name it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.errors import DigestMismatch, PolicyError
from blowfishdb.model import constraint_graph
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.graphs import CellGraph, ConstraintMoves, Exchanges
from blowfishdb.model.policy import Policy
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.plan import loss
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.program import merge_graph

ONE = np.ones(1, dtype=np.int64)
SQUARE = domain({"x": integers(0, 1, null=0), "y": integers(0, 1, null=0)})
OVERLAPPING = ["marginal(x)", "marginal(y)"]


def graph_of(*axes: str, constraints: list[str] = OVERLAPPING) -> CellGraph:
    return compile_cells(SQUARE, Policy(constraints=constraints), axes, None).graph


def plan_of(rows: Rows) -> Plan:
    return Plan(Fraction(1), (Measurement(rows, ONE),))


def moves_of(graph: CellGraph) -> ConstraintMoves:
    assert graph.constraint_moves is not None
    return graph.constraint_moves


TABLE, HISTOGRAM = graph_of("x", "y"), plan_of(Identity(4))


def test_two_marginals_of_two_values_are_kept_by_two_records_that_swap() -> None:
    """Both corners of one diagonal become those of the other: 4 counts change by 1, where g times the worst is 8."""
    assert moves_of(TABLE).case == "general"
    assert moves_of(TABLE).most * 2 == 8
    assert certify(HISTOGRAM, TABLE).epsilon == 4
    product = Plan(Fraction(1), (KroneckerMeasurement((Measurement(Identity(2), ONE),) * 2),))
    assert certify(product, TABLE).epsilon == 4
    # One cell alone: all cells of the table follow from it, and it changes by 1.
    assert certify(plan_of(Intervals(4, np.array([0]), np.array([1]))), TABLE).epsilon == 1


def test_two_records_that_go_there_and_back_count_where_no_other_change_does() -> None:
    """The marginal of a column with one value overlaps another and adds nothing: two records swap x inside y."""
    narrow = domain({"x": integers(0, 1, null=0), "y": integers(0, 1, null=0), "z": integers(0, 0, null=0)})
    graph = compile_cells(narrow, Policy(constraints=["marginal(y)", "marginal(z)"]), ("x", "y"), None).graph
    exchanges = moves_of(graph).exchanges
    assert exchanges is not None
    assert exchanges.elements.shape[0] == 0
    assert certify(HISTOGRAM, graph).epsilon == 4


SIGNATURES = list(itertools.product((0, 1), repeat=2))


@pytest.mark.parametrize("signatures", [*itertools.combinations(SIGNATURES, 3), SIGNATURES])
def test_elements_cover_there_and_back_where_there_are_three_signatures(signatures: Sequence[tuple[int, int]]) -> None:
    """All changes of two cells for each signature, under rows of any kind (proof: docs/proofs/constraints.md)."""
    cells = np.repeat(np.array(signatures), 2, axis=0)
    moves: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for one, two in itertools.product(range(len(cells)), repeat=2):
        moves.setdefault(tuple((cells[two] - cells[one]).tolist()), []).append((one, two))
    kinds = [kind for kind in moves if kind > (0, 0)]
    elements = constraint_graph.graver_basis(tuple(kinds))
    assert elements is not None
    random = np.random.default_rng(1)
    for rows in (1, 2, 3):
        columns = random.integers(-3, 4, size=(len(cells), rows))
        differences = [np.unique(np.array([columns[v] - columns[u] for u, v in moves[kind]]), axis=0) for kind in kinds]
        pairs = max(np.abs(d[:, None] - d[None, :]).sum(axis=2).max() for d in differences)
        sums = [
            np.abs(sum(times * d for times, d in zip(element, chosen, strict=True))).sum()
            for element in elements.tolist()
            for chosen in itertools.product(*(d if n else d[:1] for n, d in zip(element, differences, strict=True)))
        ]
        assert pairs <= max(sums)


def test_what_constraints_settle_costs_one_move() -> None:
    along = graph_of("x", constraints=["marginal(x)", "marginal(y)", "count(x = 0 and y = 0)", "count(x = 1 or y = 1)"])
    if along.constraint_moves is not None and along.constraint_moves.case == "general":
        assert certify(plan_of(Identity(2)), along).epsilon == 2
    assert certify(plan_of(Identity(2)), graph_of("x")).epsilon == 2


@pytest.mark.parametrize("limit", [0, 41])
def test_too_many_sums_leave_the_bound(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "EXCHANGED", limit)
    assert certify(HISTOGRAM, TABLE).epsilon == 8


def test_too_many_moves_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_graph, "MOST_EXCHANGED", 3)
    graph = graph_of("x", "y")
    assert moves_of(graph).exchanges is None
    assert certify(HISTOGRAM, graph).epsilon == 8


def test_buckets_keep_the_exchanges() -> None:
    merged = merge_graph(TABLE, np.array([0, 1, 1, 0]))
    assert certify(plan_of(Identity(2)), merged).epsilon == 4
    assert certify(plan_of(Identity(1)), merge_graph(TABLE, np.zeros(4, dtype=np.int64))).epsilon == 0


def test_exchanges_are_part_of_the_digest_and_earlier_certificates_hold() -> None:
    moves = moves_of(TABLE)
    former = replace(TABLE, constraint_moves=replace(moves, exchanges=None))
    assert TABLE.former_digest() == former.digest() != TABLE.digest()
    assert former.former_digest() == ""
    earlier, now = certify(HISTOGRAM, former), certify(HISTOGRAM, TABLE)
    assert (earlier.epsilon, now.epsilon) == (8, 4)
    earlier.verify(HISTOGRAM, TABLE)
    now.verify(HISTOGRAM, TABLE)
    with pytest.raises(DigestMismatch):
        replace(earlier, epsilon=Fraction(3)).verify(HISTOGRAM, TABLE)
    with pytest.raises(DigestMismatch):
        now.verify(HISTOGRAM, former)
    exchanges = moves.exchanges
    assert exchanges is not None
    other = replace(exchanges, elements=2 * exchanges.elements)
    assert replace(TABLE, constraint_moves=replace(moves, exchanges=other)).digest() != TABLE.digest()


def test_kinds_of_moves_are_checked_when_made() -> None:
    nothing, pair = np.empty((0, 1), dtype=np.int64), np.array([[0, 1]])
    assert Exchanges(np.array([0, 0, 1]), pair, nothing).pairs.shape == (1, 2)
    for starts, pairs, elements in (
        (np.array([0, 0, 2]), pair, nothing),
        (np.array([0, 1]), pair, nothing),
        (np.array([0, 0, 1]), pair, np.empty(0, dtype=np.int64)),
    ):
        with pytest.raises(PolicyError):
            Exchanges(starts, pairs, elements)
