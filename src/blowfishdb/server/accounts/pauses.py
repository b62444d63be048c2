"""Datasets that a curator has paused: no previews and no releases until they go on again."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.errors import DatasetPaused
from blowfishdb.ledger.values import check_text
from blowfishdb.server.accounts.clock import Clock
from blowfishdb.server.accounts.database import Database


@dataclass(frozen=True)
class Pause:
    """A pause: of what, by whom, since when and why. Analysts read the reason."""

    dataset: str
    by: str
    at: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pauses:
    """All pauses; every server that shares the database of people keeps them."""

    database: Database
    clock: Clock

    def pause(self, dataset: str, *, by: str, reason: str) -> Pause:
        """Pauses a dataset, or gives its pause another reason."""
        check_text(reason, "the reason")
        made = Pause(dataset, by, self.clock.text(), reason)
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM pause WHERE dataset = ?", dataset)
            cursor.rows(
                "INSERT INTO pause (dataset, who, at, reason) VALUES (?, ?, ?, ?)", dataset, by, made.at, reason
            )
        return made

    def resume(self, dataset: str) -> None:
        """Lets a dataset go on."""
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM pause WHERE dataset = ?", dataset)

    def of(self, dataset: str) -> Pause | None:
        """The pause of a dataset, if it has one."""
        with self.database.read() as cursor:
            rows = cursor.rows("SELECT dataset, who, at, reason FROM pause WHERE dataset = ?", dataset)
        return Pause(*(str(value) for value in rows[0])) if rows else None

    def check(self, dataset: str) -> None:
        """DatasetPaused for a dataset that is paused."""
        found = self.of(dataset)
        if found is not None:
            raise DatasetPaused(dataset, found.reason)
