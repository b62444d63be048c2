"""Effort: how much arithmetic a query takes, known before it starts, and who does it; no data takes part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from blowfishdb.engine.compile import compile_query
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import PUBLISHED, Query, query

Result = TypeVar("Result")
SEVERAL_AXES = 4
"""Cells of several attributes take about this many times the work of those of one: more strategies, no short cuts."""


class Compute(Protocol):
    """Does a piece of arithmetic, given a function of the package and values that are no data.

    `effort` is asked for before it starts. A server does heavy pieces elsewhere, one after another.
    """

    def __call__(self, effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result: ...


def compute_here(effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result:
    """The result, computed in this thread whatever it takes."""
    del effort
    return function(*arguments)


def query_effort(domain: Domain, policy: Policy, asked: Query) -> int:
    """About the number of cells and answers that planning goes through, as if they were those of one attribute.

    1 for a query that is refused: its refusal takes no time.
    """
    if asked.parts:
        # Each is quoted alone, and again with others.
        return len(asked.parts) * sum(query_effort(domain, policy, part.query) for part in asked.parts)
    histogram = query("histogram", asked.axes, asked.where) if asked.kind in PUBLISHED else asked
    try:
        problem = compile_query(domain, policy, histogram).problem
    except BlowfishError:
        return 1
    # The number of ranges grows with the square of the cells, the work only with the cells and a little.
    rows = min(problem.workload.shape[0], problem.graph.cells * math.ceil(math.log2(problem.graph.cells + 1)))
    return max(problem.graph.cells, rows) * (1 if len(asked.axes) <= 1 else SEVERAL_AXES)
