"""The loss of changing several records together, as public facts demand (proof: docs/proofs/constraints.md)."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import TooLarge
from blowfishdb.model.arrays import Ints, check_sum
from blowfishdb.model.changed_together import ChangedTogether
from blowfishdb.plan.columns import listed_losses
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.worst_edge import WorstEdge, larger, worst_of, worst_to_zero

LISTED_PAIRS = 1_000_000
"""Up to this many pairs of cells are compared one by one; beyond, a group's two largest column norms bound its loss."""


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


def worst_change(
    together: ChangedTogether, single: WorstEdge, plan: Plan | None = None, norms: Ints | None = None
) -> WorstEdge:
    """The greatest loss of moves made together, `single` being the worst of them.

    With the vertex plan and its column norms each group is priced by its own worst pair; without, by `single`.
    """
    worst, losses, times = single, np.array([single.loss]), [together.moves]
    if plan is not None and norms is not None and not together.is_everything(norms.size):
        worst, losses = _group_losses(together, single, plan, norms)
        times = together.times.tolist()
    total, left = 0, together.moves
    for group in np.argsort(-losses, kind="stable").tolist():
        taken = min(left, times[group])
        total += taken * int(losses[group])
        left -= taken
    check_sum("loss of records that change together", total)
    is_one_move = together.case == "atoms" and total == worst.loss
    return WorstEdge(total, worst.edge, tight=worst.tight and is_one_move)


def _group_losses(together: ChangedTogether, single: WorstEdge, plan: Plan, norms: Ints) -> tuple[WorstEdge, Ints]:
    """For each group at least the largest loss between two of its vertices, and the worst pair of all."""
    sizes = np.diff(together.starts)
    if int((sizes * (sizes - 1) // 2).sum()) <= LISTED_PAIRS:
        try:
            return _listed(together, plan, norms)
        except TooLarge:
            pass
    group = np.repeat(np.arange(together.groups), sizes)
    order = np.lexsort((-norms[together.members], group))
    largest = norms[together.members][order]
    starts = together.starts[:-1]
    # A move between two cells loses at most what it takes to leave the one and to enter the other.
    second = np.where(sizes > 1, largest[np.minimum(starts + 1, largest.size - 1)], 0)
    losses = np.minimum(largest[starts] + second, single.loss)
    return WorstEdge(int(losses.max()), single.edge, tight=False), losses


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
