"""Which cells records move between when public facts make several of them change together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from blowfishdb.errors import PolicyError
from blowfishdb.model.arrays import Bools, Ints, as_ints
from blowfishdb.model.encoding import encode

Case = Literal["atoms", "general"]


@dataclass(frozen=True, eq=False)
class ChangedTogether:
    """The moves that make up the difference of two neighbouring tables under public facts.

    Neighbours differ by at most `moves` moves, each inside one group. Group g is the cells
    `members[starts[g]:starts[g + 1]]`, and the vertex that no row counts if `with_zero[g]`; at most `times[g]` moves
    are inside it. Case "atoms": the groups are atoms of the facts, alike ones together. Case "general": one group
    holds everything.
    """

    case: Case
    starts: Ints
    members: Ints
    with_zero: Bools
    times: Ints
    moves: int

    def __post_init__(self) -> None:
        for name in ("starts", "members", "times"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        groups = self.times.size
        if self.starts.size != groups + 1 or self.with_zero.size != groups or int(self.starts[-1]) != self.members.size:
            raise PolicyError("groups of cells need their starts, their times and their members")
        if self.moves < 1 or (groups and int(self.times.min()) < 1):
            raise PolicyError("a change makes at least one move, and so may each group of cells")

    @property
    def groups(self) -> int:
        return int(self.times.size)

    def is_everything(self, cells: int) -> bool:
        """Whether one group holds all cells, so that its worst pair is the worst edge of the graph."""
        return self.groups == 1 and self.members.size == cells

    def merged(self, buckets: Ints) -> ChangedTogether:
        """The same groups over buckets of cells; groups that shrink to one vertex can no longer change anything."""
        group = np.repeat(np.arange(self.groups), np.diff(self.starts))
        width = int(buckets.max()) + 1
        keys = np.unique(group * width + buckets[self.members])
        return collected(self, keys // width, keys % width)

    def fingerprint(self) -> bytes:
        """Bytes that determine all of this, for digests."""
        with_zero = np.asarray(self.with_zero, dtype=np.bool_)
        return encode(("together", self.case, self.moves, self.starts, self.members, with_zero, self.times))


def collected(like: ChangedTogether, group: Ints, member: Ints) -> ChangedTogether:
    """Groups from pairs (group, member) in order, with the other properties of `like`; single vertices are left out."""
    sizes = np.bincount(group, minlength=like.groups)
    kept = sizes + like.with_zero >= 2
    return ChangedTogether(
        like.case,
        np.concatenate([[0], np.cumsum(sizes[kept])]),
        member[kept[group]],
        np.asarray(like.with_zero[kept], dtype=np.bool_),
        like.times[kept],
        like.moves,
    )
