"""What `mechanism="auto"` runs for a given epsilon: rules on the question, the policy and public numbers alone.

The rules are published (docs/data-aware.md). They read no data, so the choice costs nothing and tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.engine.compiled import Compiled
from blowfishdb.mechanisms.data_aware import adaptive_tree, dawa, dawa_transform
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.facts.values import MarginalFact, RowsFact
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.policy import Policy

FEWEST_CELLS = 256
FEWEST_CELLS_2D = 1024
CLEAR = 100
"""Where an average cell holds this many times 1 / epsilon records, every cell stands clear of its noise."""
MERGED = ("histogram", "histogram2d", "cdf", "ranges")


@dataclass(frozen=True)
class Choice:
    """A data-aware mechanism, or None for the best of the others; and why."""

    mechanism: str | None
    why: str


def choose(compiled: Compiled, policy: Policy, epsilon: Fraction) -> Choice:
    """The first rule that applies."""
    graph, kind, cells = compiled.problem.graph, compiled.query.kind, compiled.problem.graph.cells
    axes = len(compiled.cells.axes)
    if kind not in MERGED or axes > 2:
        return Choice(None, "data-aware mechanisms merge the cells of one or two attributes")
    fewest = FEWEST_CELLS if axes == 1 else FEWEST_CELLS_2D
    if cells < fewest:
        return Choice(None, f"{cells:,} cells are few; from {fewest:,} on, merging cells usually pays")
    rows = known_rows(policy)
    if rows is not None and rows * epsilon > CLEAR * cells:
        return Choice(None, f"{rows:,} rows stand clear of the noise in {cells:,} cells")
    if axes == 2:
        return Choice(adaptive_tree.NAME, f"{cells:,} cells, of which empty stretches can be counted together")
    if not _joins_all(graph):
        if kind == "histogram":
            return Choice(
                dawa_transform.NAME, "the policy hides moves to some values only, which running sums make use of"
            )
        return Choice(None, "ranges cost little under this policy, whatever the data is")
    return Choice(dawa.NAME, f"{cells:,} cells, of which even ones can be counted together")


def known_rows(policy: Policy) -> int | None:
    """The number of rows, where the policy gives it as a public fact."""
    for fact in policy.facts:
        if isinstance(fact, RowsFact) and fact.value is not None:
            return fact.value
        if isinstance(fact, MarginalFact) and fact.total is not None:
            return fact.total
    return None


def _joins_all(graph: CellGraph) -> bool:
    """Whether one hidden move leads from any cell to any other, or out of the count."""
    axis = graph.factors[0]
    complete = isinstance(axis, WindowGraph) and (axis.hubs.size > 0 or int(axis.reach[0]) == axis.size - 1)
    return complete or bool(graph.to_zero.all())
