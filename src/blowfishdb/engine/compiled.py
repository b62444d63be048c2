"""A question made ready: the cells it needs, the policy on them, and what is asked of them. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query, workload
from blowfishdb.plan.problem import Problem


@dataclass(frozen=True, eq=False)
class Compiled:
    """A query over a domain under a policy, as cells and as the problem that mechanisms solve."""

    query: Query
    cells: Cells
    problem: Problem


def compile_query(domain: Domain, policy: Policy, asked: Query) -> Compiled:
    """The cells and the problem of a question."""
    cells = compile_cells(domain, policy, asked.axes, asked.where)
    return Compiled(asked, cells, Problem(cells.graph, workload(asked, cells)))
