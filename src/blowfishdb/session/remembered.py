"""Quotes that are remembered, so that a release after its preview does not quote again: few each, and few in all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.request import Prepared

Quoted = Prepared | PreparedProgram
MOST_EACH = 16
MOST_CELLS = 2**21
"""A remembered cell takes about a quarter of a kilobyte."""
LEAST = 700
"""What the smallest question takes counts as so many cells."""


@dataclass(frozen=True, eq=False)
class Remembered:
    """The newest quotes of all analysts that share a server. Each finds only their own: no wait tells who asked."""

    most_each: int = MOST_EACH
    most_cells: int = MOST_CELLS
    _quotes: OrderedDict[tuple[str, str], Quoted] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(self, analyst: str, digest: str, make: Callable[[], Quoted]) -> Quoted:
        """The remembered quote of this analyst's request, or the one that is made now."""
        with self._turn:
            found = self._quotes.get((analyst, digest))
            if found is not None:
                self._quotes.move_to_end((analyst, digest))
                return found
        made = make()
        with self._turn:
            self._quotes[analyst, digest] = made
            self._trim(analyst)
        return made

    def forget(self, analyst: str) -> None:
        """Lets go of everything of one analyst."""
        with self._turn:
            for key in self._of(analyst):
                del self._quotes[key]

    @property
    def cells(self) -> int:
        """How many cells all remembered quotes have together."""
        return sum(LEAST + quoted.compiled.problem.graph.cells for quoted in self._quotes.values())

    def _of(self, analyst: str) -> list[tuple[str, str]]:
        return [key for key in self._quotes if key[0] == analyst]

    def _trim(self, analyst: str) -> None:
        """Forgets the oldest; the newest stays however large it is."""
        for key in self._of(analyst)[: -self.most_each]:
            del self._quotes[key]
        left = self.cells
        while left > self.most_cells and len(self._quotes) > 1:
            _, oldest = self._quotes.popitem(last=False)
            left -= LEAST + oldest.compiled.problem.graph.cells
