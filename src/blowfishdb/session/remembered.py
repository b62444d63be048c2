"""Quotes that are remembered, so that a release after its preview does not quote again: few each, and few in all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.request import Prepared
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy

Quoted = Prepared | PreparedProgram
MOST_EACH = 16
MOST_CELLS = 2**19
"""A remembered cell takes about a quarter of a kilobyte."""
LEAST = 700
"""What the smallest question takes counts as so many cells."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """A quote, and what was declared of the data when it was made."""

    domain: Domain
    policy: Policy
    quoted: Quoted


@dataclass(eq=False)
class Remembered:
    """The newest quotes of all analysts that share a server; each finds only their own."""

    most_each: int = MOST_EACH
    most_cells: int = MOST_CELLS
    cells: int = field(default=0, init=False)
    """How many cells all remembered quotes have together."""
    _quotes: OrderedDict[tuple[str, str], _Kept] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(self, analyst: str, text: str, domain: Domain, policy: Policy, make: Callable[[], Quoted]) -> Quoted:
        """The remembered quote of this analyst's request under these declarations, or the one that is made now.

        The text of the request and the declarations are compared themselves, not their hashes.
        """
        key = analyst, text
        with self._turn:
            found = self._quotes.get(key)
            if found is not None and (found.domain, found.policy) == (domain, policy):
                self._quotes.move_to_end(key)
                return found.quoted
        made = make()
        with self._turn:
            self._drop(key)
            self._quotes[key] = _Kept(domain, policy, made)
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
            self.cells -= _weight(dropped.quoted)

    def _trim(self, analyst: str) -> None:
        """Forgets the oldest; the newest stays however large it is."""
        for key in self._of(analyst)[: -self.most_each]:
            self._drop(key)
        while self.cells > self.most_cells and len(self._quotes) > 1:
            self._drop(next(iter(self._quotes)))


def _weight(quoted: Quoted) -> int:
    return LEAST + quoted.compiled.problem.graph.cells
