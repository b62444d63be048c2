"""The audit log, who did what and when, chained by hashes; and datasets that a curator has paused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from blowfishdb.errors import DatasetPaused
from blowfishdb.ledger.records import digest
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import AuthCursor, Database

START = "blowfish actions"
NOTHING: Mapping[str, str | int | None] = MappingProxyType({})


@dataclass(frozen=True)
class AuditEntry:
    """One line of the audit log."""

    number: int
    at: str
    who: str
    action: str
    target: str
    detail: Mapping[str, object]


Shows: TypeAlias = Callable[[AuditEntry], bool]
PIECE = 1000
"""Lines that are read at once."""


@dataclass(frozen=True, eq=False)
class AuditLog:
    """All lines, each chained to the one before it."""

    database: Database

    def note(
        self,
        who: str,
        action: str,
        target: str = "",
        detail: Mapping[str, str | int | None] = NOTHING,
        *,
        durable: bool = True,
    ) -> None:
        """Writes a line, which is on disk when this returns unless it need not be `durable`.

        Details hold what the user sent or what is public, never a count.
        """
        at = self.database.clock.text()
        body = {"at": at, "who": who, "action": action, "target": target, "detail": dict(detail)}
        text = json.dumps(body, sort_keys=True, ensure_ascii=False)
        with self.database.write(durable=durable) as cursor:
            number, previous = _end(cursor)
            line_hash = digest(f"{previous}:{number + 1}:{text}")
            cursor.insert("audit_log", {"number": number + 1, "body": text, "hash": line_hash})

    def lines(self, *, after: int = 0, most: int = 200, shows: Shows = lambda _: True) -> list[AuditEntry]:
        """The lines after a number that somebody is shown, newest last."""
        select = "SELECT number, body FROM audit_log WHERE number > ? ORDER BY number LIMIT ?"
        return self._shown(select, after, most, shows)

    def last(self, most: int = 200, shows: Shows = lambda _: True) -> list[AuditEntry]:
        """The newest lines that somebody is shown, newest last."""
        select = "SELECT number, body FROM audit_log WHERE number < ? ORDER BY number DESC LIMIT ?"
        return self._shown(select, 2**63 - 1, most, shows)[::-1]

    def _shown(self, select: str, start: int, most: int, shows: Shows) -> list[AuditEntry]:
        """Lines from a number on, read in pieces until there are enough of them."""
        wanted, lines = min(most, 1000), list[AuditEntry]()
        while len(lines) < wanted:
            rows = self.database.rows(select, start, PIECE)
            lines += filter(shows, (AuditEntry(number=row["number"], **json.loads(row["body"])) for row in rows))
            if len(rows) < PIECE:
                break
            start = rows[-1]["number"]
        return lines[:wanted]

    def first_fault(self) -> int | None:
        """The number of the first line that is missing or was changed; None when all is well."""
        previous, lines = START, self.database.rows("SELECT number, body, hash FROM audit_log ORDER BY number")
        for expected, row in enumerate(lines, 1):
            if row["number"] != expected or row["hash"] != digest(f"{previous}:{expected}:{row['body']}"):
                return expected
            previous = row["hash"]
        return None


def _end(cursor: AuthCursor) -> tuple[int, str]:
    row = cursor.row("SELECT number, hash FROM audit_log ORDER BY number DESC LIMIT 1")
    return (row["number"], row["hash"]) if row else (0, START)


@dataclass(frozen=True)
class Pause:
    """A pause: of what, by whom, since when and why. Analysts read the reason."""

    dataset: str
    by: str
    at: str
    reason: str


@dataclass(frozen=True, eq=False)
class Pauses:
    """All pauses; every server that shares the database of users keeps them."""

    database: Database

    def pause(self, dataset: str, *, by: str, reason: str) -> None:
        """Pauses a dataset, or gives its pause another reason."""
        check_text(reason, "the reason")
        at = self.database.clock.text()
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM pause WHERE dataset = ?", dataset)
            cursor.insert("pause", {"dataset": dataset, "who": by, "at": at, "reason": reason})

    def resume(self, dataset: str) -> None:
        """Resumes a paused dataset."""
        self.database.change("DELETE FROM pause WHERE dataset = ?", dataset)

    def of(self, dataset: str) -> Pause | None:
        """The pause of a dataset, if it has one."""
        row = self.database.row('SELECT dataset, who AS "by", at, reason FROM pause WHERE dataset = ?', dataset)
        return Pause(**row) if row else None

    def check(self, dataset: str) -> None:
        """DatasetPaused for a dataset that is paused."""
        pause = self.of(dataset)
        if pause is not None:
            raise DatasetPaused(dataset, pause.reason)
