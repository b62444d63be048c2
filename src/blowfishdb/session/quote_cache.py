"""QuoteCache: quoted releases of the last previews, so that a release need not quote again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blowfishdb.engine.points import PointsRelease
from blowfishdb.engine.request import AnyRelease
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy

MOST_EACH = 16
MOST_CELLS = 2**19
"""A cached cell takes about a quarter of a kilobyte."""
LEAST = 700
"""The weight of the smallest query, in cells."""


@dataclass(frozen=True, eq=False)
class _Entry:
    """A quoted release, and what was declared of the data when it was made."""

    domain: Domain
    policy: Policy
    release: AnyRelease


@dataclass(eq=False)
class QuoteCache:
    """The newest quoted releases of all analysts that share a server; each finds only their own.

    It saves the release the work of its preview. The ranking cache (accuracy/ranking.py) is another one, below it: that
    keeps which mechanisms suit a problem, for every analyst, and is keyed by the problem's graph and workload.
    """

    most_each: int = MOST_EACH
    most_cells: int = MOST_CELLS
    cells: int = field(default=0, init=False)
    """How many cells all cached quotes have together."""
    _quotes: OrderedDict[tuple[str, str], _Entry] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(
        self, analyst: str, text: str, domain: Domain, policy: Policy, make: Callable[[], AnyRelease]
    ) -> AnyRelease:
        """The cached quote of this analyst's request under these declarations, or the one that is made now.

        The text of the request and the declarations are compared themselves, not their hashes.
        """
        key = analyst, text
        with self._turn:
            found = self._quotes.get(key)
            if found is not None and (found.domain, found.policy) == (domain, policy):
                self._quotes.move_to_end(key)
                return found.release
        made = make()
        with self._turn:
            self._drop(key)
            self._quotes[key] = _Entry(domain, policy, made)
            self.cells += _weight(made)
            self._trim(analyst)
        return made

    def forget(self, analyst: str) -> None:
        """Lets go of everything of one analyst."""
        with self._turn:
            for key in self._of(analyst):
                self._drop(key)

    def _of(self, analyst: str) -> list[tuple[str, str]]:
        return [key for key in self._quotes if key[0] == analyst]

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._quotes.pop(key, None)
        if dropped is not None:
            self.cells -= _weight(dropped.release)

    def _trim(self, analyst: str) -> None:
        """Forgets the oldest; the newest stays however large it is."""
        for key in self._of(analyst)[: -self.most_each]:
            self._drop(key)
        while self.cells > self.most_cells and len(self._quotes) > 1:
            self._drop(next(iter(self._quotes)))


def _weight(release: AnyRelease) -> int:
    """The size of a release in cells; points have one for each value of a column and each point of a grid."""
    if isinstance(release, PointsRelease):
        return LEAST + sum(release.points.graph.plain) + sum(offer.plan.grid_points for offer in release.offers)
    return LEAST + release.compiled.problem.graph.cells
