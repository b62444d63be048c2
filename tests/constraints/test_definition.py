"""The paper's own neighbours (Definition 4.1, repaired) never lose more than is certified, whatever the constraints."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.errors import CannotCertify
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraints import RowsConstraint
from blowfishdb.model.workload import Identity
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from papers.blowfish.sensitivities import histogram_sensitivity
from tests.constraints import brute
from tests.constraints.cases import Case, Drawn

RECORDS = 3
CASES = 40


def paper_sensitivity(case: Case) -> int:
    """S(h, P) of the histogram over every value, from the definition."""
    applied, constraints = case.policy.applied(case.domain), case.policy.constraints
    told = brute.signatures(applied, case.policy, constraints)
    joined = {frozenset(edge) for edge in brute.edges(applied, case.policy)}
    counts = [column.astype(bool).tolist().__getitem__ for column in told.T]
    return histogram_sensitivity(told.shape[0], RECORDS, counts, lambda one, two: frozenset((one, two)) in joined)


def test_neighbours_of_the_papers_definition_are_covered() -> None:
    drawn, checked, bound = Drawn(4041), 0, 0
    while checked < CASES:
        case = drawn.case()
        few = any(
            isinstance(constraint, RowsConstraint) and (constraint.value or RECORDS) < RECORDS
            for constraint in case.policy.constraints
        )
        if few or case.policy.presence != "public" or case.domain.size > 4:
            continue
        try:
            graph = compile_cells(case.domain, case.policy, case.domain.names).graph
        except CannotCertify:
            continue
        certificate = certify(Plan(Fraction(1), (Measurement(Identity(graph.cells), np.array(1)),)), graph)
        assert paper_sensitivity(case) <= certificate.epsilon, case
        checked += 1
        bound += graph.constraint_moves is not None
    assert bound >= CASES // 4
