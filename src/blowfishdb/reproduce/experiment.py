"""An experiment: which paper and figure it repeats, and the three functions that do it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blowfishdb.reproduce.result import Result, Row, Value
from blowfishdb.reproduce.settings import Settings

Case = tuple[Value, ...]
"""What one piece of work is called: plain values, because it is kept in a file and sent to another process."""


@dataclass(frozen=True)
class Procedure:
    """`cases` names the pieces of work, `measure` does one of them, `conclude` judges the rows of all.

    `measure` may run in any process, in any order, and its rows are kept: an interrupted run goes on behind them.
    `conclude` gets the rows in the order of the cases and nothing else, so that a test can feed it others.
    """

    cases: Callable[[Settings], Sequence[Case]]
    measure: Callable[[Settings, Case], Sequence[Row]]
    conclude: Callable[[Settings, Sequence[Row]], Result]


@dataclass(frozen=True)
class Experiment:
    """One line of the table: `place` is the module and the name of its Procedure, imported when it runs."""

    name: str
    paper: str
    figure: str
    what: str
    place: str

    def procedure(self) -> Procedure:
        """The functions, from their module."""
        module, _, attribute = self.place.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, Procedure):
            raise TypeError(f"{self.place} is no Procedure")
        return found
