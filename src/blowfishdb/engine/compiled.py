"""A question made ready: the cells it needs, the policy on them, and what is asked of them. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.known_parts import KnownParts, known_parts
from blowfishdb.model.measures import Measure, measure_of
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query, workload
from blowfishdb.plan.problem import Problem


@dataclass(frozen=True, eq=False)
class Compiled:
    """A query over a domain under a policy, as cells and as the problem that mechanisms solve.

    For sums and means `measure` tells what each cell counts for; their rows are in units of one over `scale`. `known`
    are totals of cells that public facts tell.
    """

    query: Query
    cells: Cells
    problem: Problem
    measure: Measure | None = None
    known: KnownParts | None = None

    @property
    def answers(self) -> int:
        """How many numbers the answer will have."""
        if self.query.kind in ("sum", "mean"):
            return 1
        return len(self.query.levels) or self.problem.workload.shape[0]

    @property
    def scale(self) -> int:
        """So many units of the problem's answers make one of the question's."""
        return 1 if self.measure is None else self.measure.scale


def compile_query(domain: Domain, policy: Policy, asked: Query) -> Compiled:
    """The cells and the problem of a question."""
    cells = compile_cells(domain, policy, asked.axes, asked.where)
    measure = measure_of(cells) if asked.kind in ("sum", "mean") else None
    problem = Problem(cells.graph, workload(asked, cells))
    return Compiled(asked, cells, problem, measure, known_parts(domain, policy, cells))
