"""The loss of changing several records together, as public facts demand (proof: docs/proofs/constraints.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import TooLarge
from blowfishdb.model.arrays import Ints, check_sum
from blowfishdb.model.changed_together import ChangedTogether
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.plan.columns import listed_losses
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.worst_edge import WorstEdge, larger, worst_of, worst_to_zero

LISTED_PAIRS = 1_000_000
"""Up to this many pairs of cells are compared one by one; beyond, a group's two largest column norms bound its loss."""
SWEPT_GROUPS = 64
"""So many groups of a long axis are swept one after the other, where the plan is made of intervals."""


def reason(together: ChangedTogether | None) -> str:
    """Why several records count as one change, in words; empty where they do not."""
    if together is None:
        return ""
    moves = together.moves
    if not together.groups:
        return "these answers follow from what is public (atoms)"
    records = "one record changes" if moves == 1 else f"up to {moves:,} records change together"
    if together.case == "general":
        return f"{records}, because the facts overlap (Graver bound)"
    return f"{records}, one in each part into which the facts split the records (atoms)"


@dataclass(frozen=True, eq=False)
class Measured:
    """A vertex plan with its column norms; with `along`, the worst edge of any graph on its one axis, if it has one."""

    plan: Plan
    norms: Ints
    along: Callable[[AxisGraph], WorstEdge] | None


def worst_change(together: ChangedTogether, single: WorstEdge, measured: Measured | None = None) -> WorstEdge:
    """The greatest loss of moves made together, `single` being the worst of them.

    With the vertex plan each group is priced by its own worst pair; without, by `single`.
    """
    worst, losses, times = single, np.array([single.loss]), [together.moves]
    if measured is not None and not together.is_everything(measured.norms.size):
        worst, losses = _group_losses(together, single, measured)
        times = together.times.tolist()
    total, left = 0, together.moves
    for group in np.argsort(-losses, kind="stable").tolist():
        taken = min(left, times[group])
        total += taken * int(losses[group])
        left -= taken
    check_sum("loss of records that change together", total)
    is_one_move = together.case == "atoms" and total == worst.loss
    return WorstEdge(total, worst.edge, tight=worst.tight and is_one_move)


def _group_losses(together: ChangedTogether, single: WorstEdge, measured: Measured) -> tuple[WorstEdge, Ints]:
    """For each group at least the largest loss between two of its vertices, and the worst pair of all."""
    sizes, norms = np.diff(together.starts), measured.norms
    if int((sizes * (sizes - 1) // 2).sum()) <= LISTED_PAIRS:
        try:
            return _listed(together, measured.plan, norms)
        except TooLarge:
            pass
    if measured.along is not None and together.groups <= SWEPT_GROUPS and _are_runs(together):
        return _swept(together, measured.along, norms)
    group = np.repeat(np.arange(together.groups), sizes)
    order = np.lexsort((-norms[together.members], group))
    largest = norms[together.members][order]
    starts = together.starts[:-1]
    # A move between two cells loses at most what it takes to leave the one and to enter the other.
    second = np.where(sizes > 1, largest[np.minimum(starts + 1, largest.size - 1)], 0)
    losses = np.minimum(largest[starts] + second, single.loss)
    return WorstEdge(int(losses.max()), single.edge, tight=False), losses


def _are_runs(together: ChangedTogether) -> bool:
    """Whether the cells of every group follow each other."""
    steps = np.diff(together.members)
    inside = np.ones(steps.size, dtype=np.bool_)
    inside[together.starts[1:-1] - 1] = False
    return bool(np.all(steps[inside] == 1))


def _swept(together: ChangedTogether, along: Callable[[AxisGraph], WorstEdge], norms: Ints) -> tuple[WorstEdge, Ints]:
    """Each group as the only run of joined cells on the axis."""
    found = []
    for start, stop, with_zero in zip(together.starts[:-1], together.starts[1:], together.with_zero, strict=True):
        members = together.members[start:stop]
        reach = np.arange(norms.size)
        reach[members] = members[-1]
        leaving = worst_to_zero(norms, members if with_zero else members[:0])
        found.append(larger(along(WindowGraph(reach, np.empty(0, dtype=np.int64))), leaving))
    return max(found, key=lambda worst: worst.loss), np.array([worst.loss for worst in found])


def _listed(together: ChangedTogether, plan: Plan, norms: Ints) -> tuple[WorstEdge, Ints]:
    pairs, owner = _pairs(together)
    losses = np.zeros(pairs.shape[0], dtype=np.int64)
    for part in plan.parts:
        losses = losses + listed_losses(part, pairs)
    by_group = np.zeros(together.groups, dtype=np.int64)
    np.maximum.at(by_group, owner, losses)
    leaving = np.repeat(together.with_zero, np.diff(together.starts))
    group = np.repeat(np.arange(together.groups), np.diff(together.starts))
    np.maximum.at(by_group, group[leaving], norms[together.members[leaving]])
    return larger(worst_of(losses, pairs), worst_to_zero(norms, together.members[leaving])), by_group


def _pairs(together: ChangedTogether) -> tuple[Ints, Ints]:
    """All pairs of cells of one group, and their group."""
    sizes = np.diff(together.starts)
    place = np.arange(together.members.size)
    following = np.repeat(together.starts[1:], sizes) - place - 1
    first = np.repeat(place, following)
    second = first + 1 + np.arange(first.size) - np.repeat(np.cumsum(following) - following, following)
    pairs = np.stack([together.members[first], together.members[second]], axis=1)
    return pairs, np.repeat(np.repeat(np.arange(together.groups), sizes), following)
