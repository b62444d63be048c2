"""From records to certificate: a question under a policy costs what two neighbouring tables of records can show."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from blowfishdb.audit import definitions as oracle
from blowfishdb.errors import Declined, QueryError
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.workload import Identity, Kronecker
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import EdgePlan, Plan, Problem
from tests.effort import effort
from tests.model import cases
from tests.plan.cases import plans


def placed_records(domain: Domain, cells: Cells) -> tuple[list[oracle.Record], Ints]:
    """Every record of the domain and the cell it falls into."""
    everyone = list(oracle.records(domain))
    if not cells.attributes:
        return everyone, np.zeros(len(everyone), dtype=np.int64)
    columns = {name: np.array([record[name] for record in everyone]) for name in domain.names}
    return everyone, cells.cell_of(columns)


def loss_over_tables(domain: Domain, policy: Policy, cells: Cells, plan: Plan) -> int:
    """The largest loss between tables of one record each that differ by one move, from the definitions alone."""
    matrices = [Kronecker(tuple(f.rows for f in p.factors)) if hasattr(p, "factors") else p.rows for p in plan.parts]
    rows = np.vstack([matrix.dense() for matrix in matrices])
    shown = np.hstack([rows, np.zeros((rows.shape[0], 1), dtype=np.int64)])
    everyone, cell = placed_records(domain, cells)
    worst = 0
    for (one, a), (two, b) in itertools.combinations(zip(everyone, cell.tolist(), strict=True), 2):
        if oracle.moves(domain, policy, one, two):
            worst = max(worst, int(plan.weights @ np.abs(shown[:, a] - shown[:, b])))
    if policy.presence != "public":
        worst = max([worst, *(int(plan.weights @ np.abs(shown[:, a])) for a in cell.tolist())])
    return worst


def compile_or_skip(data: st.DataObject) -> tuple[Domain, Policy, Cells]:
    domain, policy = data.draw(cases.settings_of(most_records=30))
    axes = data.draw(cases.axes_of(domain, in_order=True))
    where = data.draw(cases.conjunctions(domain))
    try:
        return domain, policy, compile_cells(domain, policy, axes, where)
    except QueryError:
        assume(False)
        raise


@effort(100)
@given(st.data())
def test_the_certificate_is_what_tables_of_records_can_show(data: st.DataObject) -> None:
    domain, policy, cells = compile_or_skip(data)
    plan = data.draw(plans(cells.graph))
    assert certify(plan, cells.graph).epsilon * plan.unit == loss_over_tables(domain, policy, cells, plan)


@effort(20)
@given(st.data())
def test_every_mechanism_costs_what_tables_of_records_can_show(data: st.DataObject) -> None:
    """Whatever a mechanism proposes, its certificate is true of records, and neighbours share its exact rows."""
    domain, policy, cells = compile_or_skip(data)
    problem = Problem(cells.graph, Identity(cells.graph.cells))
    everyone, cell = placed_records(domain, cells)
    for propose in MECHANISMS.values():
        try:
            plan = propose(problem).plan(Fraction(1))
        except Declined:
            continue
        certificate = certify(plan, cells.graph)
        if isinstance(plan, EdgePlan):
            continue
        if plan.parts:
            assert certificate.epsilon == loss_over_tables(domain, policy, cells, plan)
        if plan.exact is not None:
            shown = np.hstack([plan.exact.dense(), np.zeros((plan.exact.shape[0], 1), dtype=np.int64)])
            for (one, a), (two, b) in itertools.combinations(zip(everyone, cell.tolist(), strict=True), 2):
                assert not oracle.moves(domain, policy, one, two) or np.array_equal(shown[:, a], shown[:, b])


def test_a_bin_joined_by_its_centre_would_be_seen() -> None:
    """The comparison has teeth: with one edge of the graph left out, the loss of prefixes is understated."""
    from blowfishdb.model.graphs import CellGraph, EdgeGraph
    from blowfishdb.model.workload import Prefix
    from blowfishdb.plan.plan import Measurement

    true = CellGraph((EdgeGraph(4, np.array([[0, 1], [1, 2], [2, 3], [0, 2]])),), "record", np.array(False), "public")
    less = CellGraph((EdgeGraph(4, np.array([[0, 1], [1, 2], [2, 3]])),), "record", np.array(False), "public")
    plan = Plan(Fraction(1), (Measurement(Prefix(4), np.array(1)),))
    assert (certify(plan, less).epsilon, certify(plan, true).epsilon) == (1, 2)
    assert ZERO not in true.components()
