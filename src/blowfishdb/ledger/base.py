"""What a store must offer so that the one ledger logic runs on it: exclusive writes, consistent reads, one charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from blowfishdb.ledger.values import Charge, Receipt

PATIENCE = 30.0
"""Seconds that a write waits for its turn before it gives up."""
Value = str | int | bytes | None
StepHook = Callable[[str], None]
"""Called with the name of each step of a write as it is reached; tests kill the process there."""

BEGUN = "begun"
DEBITED = "debited"
APPENDED = "appended"
COMMITTED = "committed"
MARKED = "marked"
STEPS = (BEGUN, DEBITED, APPENDED, COMMITTED, MARKED)


class Cursor(Protocol):
    """Runs SQL written with `?` for values; names and types are common to all stores."""

    def rows(self, sql: str, *values: Value) -> list[tuple[Value, ...]]:
        """The rows of a statement, none for a change."""
        ...

    def stream(self, sql: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """The rows of a query, a few at a time."""
        ...


class Store(Protocol):
    """One database that holds one ledger."""

    def write(self) -> AbstractContextManager[Cursor]:
        """A transaction with every other writer kept out; commits durably at the end, or leaves no trace."""
        ...

    def read(self) -> AbstractContextManager[Cursor]:
        """One consistent view of everything committed."""
        ...

    def quick_charge(self, charge: Charge, body: str) -> Receipt | None:
        """A durable charge in one round trip, or None: then a charge inside `write` decides and explains."""
        ...

    def close(self) -> None:
        """Release connections and locks."""
        ...
