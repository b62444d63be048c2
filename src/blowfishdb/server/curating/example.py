"""What an answer would look like: on made-up counts that are no secret, or beside the truth for a curator's eyes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.engine.release import release
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

ROWS = 20_000
"""So many made-up rows."""


@dataclass(frozen=True, eq=False)
class Example:
    """An answer as an analyst would get it, and what it would be without noise."""

    answer: Answer
    exact: Floats


def made_up_counts(cells: Cells) -> Ints:
    """Counts of a table that nobody has: two hills and a long tail, the same for every question of this shape."""
    shape = cells.graph.shape
    weights = np.ones(1)
    for size, whole in zip(cells.plain, shape, strict=True):
        place = (np.arange(size) + 0.5) / max(size, 1)
        hills = np.exp(-(((place - 0.28) / 0.11) ** 2)) + 0.55 * np.exp(-(((place - 0.62) / 0.09) ** 2))
        along = np.zeros(whole)
        along[:size] = hills + 0.25 * np.exp(-3.0 * place)
        weights = np.multiply.outer(weights, along).ravel()
    total = max(float(weights.sum()), 1e-12)
    return np.asarray(np.round(ROWS * weights / total), dtype=np.int64)


def example(domain: Domain, policy: Policy, asked: Query, demanded: Demand, counts: Ints | None = None) -> Example:
    """One answer under the policy, drawn on the counts given, else on made-up ones. Nothing is charged or stored."""
    compiled = compile_query(domain, policy, asked)
    best = quotes_for(compiled, demanded).best
    known = made_up_counts(compiled.cells) if counts is None else counts
    return Example(
        release(compiled, best, known), compiled.problem.workload.dot(known).astype(np.float64) / compiled.scale
    )
