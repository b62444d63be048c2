"""QuoteCache: planned releases of the last previews, so that a release need not quote again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blowfishdb.engine.charge import Planned
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy

MOST_EACH = 16
MOST_CELLS = 2**19
"""A cached cell takes about a quarter of a kilobyte."""
LEAST = 700
"""The weight of the smallest query, in cells."""


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
    _quotes: OrderedDict[tuple[str, str], tuple[Domain, Policy, Planned]] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(
        self,
        analyst: str,
        text: str,
        domain: Domain,
        policy: Policy,
        make: Callable[[], Planned],
        *,
        wants_preview: bool = False,
    ) -> Planned:
        """The cached quote of this analyst's request under these declarations, or the one that is made now.

        The text of the request and the declarations are compared themselves, not their hashes.
        """
        key = analyst, text
        with self._turn:
            *declarations, planned = self._quotes.get(key, (None, None, None))
            is_whole = planned is not None and (planned.preview is not None or not wants_preview)
            if planned is not None and is_whole and declarations == [domain, policy]:
                self._quotes.move_to_end(key)
                return planned
        planned = make()
        with self._turn:
            self._drop(key)
            self._quotes[key] = domain, policy, planned
            self.cells += LEAST + planned.release.size
            # The newest stays however large it is.
            for oldest in self._of(analyst)[: -self.most_each]:
                self._drop(oldest)
            while self.cells > self.most_cells and len(self._quotes) > 1:
                self._drop(next(iter(self._quotes)))
        return planned

    def forget(self, analyst: str) -> None:
        """Lets go of everything of one analyst."""
        with self._turn:
            for key in self._of(analyst):
                self._drop(key)

    def _of(self, analyst: str) -> list[tuple[str, str]]:
        return [key for key in self._quotes if key[0] == analyst]

    def _drop(self, key: tuple[str, str]) -> None:
        if key in self._quotes:
            _, _, planned = self._quotes.pop(key)
            self.cells -= LEAST + planned.release.size
