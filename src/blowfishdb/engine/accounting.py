"""Edge accounting: the loss of a release on each class of edges, side by side where no edge joins parts of the data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.engine.compile import Compiled, DatasetHandle, query_cells
from blowfishdb.errors import BlowfishError, PolicyError
from blowfishdb.ledger.values import SUM, class_start, parallel_attribute
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, public
from blowfishdb.model.projection import factor_graph

if TYPE_CHECKING:
    from blowfishdb.engine.release import Release

PRESENCE = "presence"
RECORD = "record"


def edge_losses(handle: DatasetHandle, release: Release) -> dict[str, Fraction] | None:
    """What each class of edges loses by this release; None where all of them are to be charged its epsilon."""
    compiled = release.compiled
    if handle.accounting == SUM or handle.policy.constraints or compiled is None:
        return None
    if compiled.table is not None and compiled.table.counts_people:
        # What one person changes is bounded over all rows together, not move by move.
        return None
    groups = _group_losses(handle, release, compiled)
    parallel = parallel_attribute(handle.accounting)
    if parallel is None:
        return groups
    parts = _counted_components(handle.domain, handle.policy, parallel, compiled.cells)
    start = class_start(handle.accounting)
    return {f"{start}{part}: {group}": loss for part in parts for group, loss in groups.items()}


def _group_losses(handle: DatasetHandle, release: Release, compiled: Compiled) -> dict[str, Fraction]:
    """The loss on the edges that move each attribute the release looks at, and on those to absence."""
    policy, cells, epsilon = handle.policy, compiled.cells, release.epsilon

    def loss(edges: Policy) -> Fraction:
        """The loss on the edges of a policy; all of epsilon where that cannot be told."""
        try:
            graph = query_cells(handle.domain, edges, compiled.query).graph
            return min(epsilon, release.loss_on(graph)) if graph.shape == cells.graph.shape else epsilon
        except BlowfishError:
            return epsilon

    losses = {} if policy.presence == "public" else {PRESENCE: loss(replace(policy, presence="only"))}
    if policy.presence == "only":
        return losses
    values = replace(policy, presence="public")
    if policy.composition == "record":
        return {**losses, RECORD: loss(values)}
    for group in policy.factors(cells.attributes):
        others = {name: public() for name in cells.attributes if name not in group}
        # One class for all attributes of a joint threshold, asked for or not. Without its joint thresholds the axes
        # could stand in another order than in the plan.
        grid = policy.grid_of(group[0])
        alone = None if policy.joint else replace(values, attributes={**values.attributes, **others})
        losses[f"moves {group[0] if grid is None else grid.attributes[0]}"] = epsilon if alone is None else loss(alone)
    return losses


MOST_VALUES = 4096


def check_parallel(domain: Domain, policy: Policy, name: str) -> None:
    """Refuses an attribute whose values are not told apart by any edge, so that nothing runs side by side."""
    attribute = domain.find(name, PolicyError)
    if policy.grid_of(name) is not None and policy.presence != "only":
        raise PolicyError(f"{name} is in a joint threshold; only an attribute of its own can be accounted side by side")
    if policy.constraints:
        raise PolicyError("public constraints tie records together, so nothing can be accounted side by side")
    if attribute.size > MOST_VALUES:
        raise PolicyError(f"{name} has {attribute.size:,} values; side by side at most {MOST_VALUES:,} are accounted")
    if attribute.total_size == 1:
        raise PolicyError(f"{name} has one value, so no two parts of the data are separate")
    if int(_components(domain, policy, name)[0].max()) == 0:
        raise PolicyError(
            f"the policy hides every value of {name} among the others (NULL and outside included), so no two parts of "
            "the data are separate. Declare it public, or a partition, with public NULL and outside"
        )


def _components(domain: Domain, policy: Policy, name: str) -> tuple[Ints, Ints]:
    """For each value of the attribute, special cells last: the component it is in, and its code."""
    declared = policy.applied(domain)
    attribute = declared[name]
    values = np.arange(attribute.size)
    codes = np.concatenate([values, np.array([slot.code for slot in attribute.slots], dtype=np.int64)])
    if policy.presence == "only":
        # Every edge leads from one record to absence, so that records with different values share none.
        return np.arange(codes.size), codes
    axis = AxisCells.finest_of(Segments(attribute, values))
    return factor_graph(declared, policy, (name,), {name: axis}).components(), codes


def _counted_components(domain: Domain, policy: Policy, name: str, cells: Cells) -> list[int]:
    """The components with a value that some counted record may have."""
    labels, codes = _components(domain, policy, name)
    if name in cells.attributes:
        along = cells if name in cells.layout else compile_cells(domain, policy, (name,), cells.where)
        axis = along.layout[name]
        labels = labels[axis.cell_of[axis.segments.of(codes)] >= 0]
    return [int(label) for label in np.unique(labels)]
