"""The audit log, who did what and when, chained by hashes; and datasets that a curator has paused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from blowfishdb.errors import DatasetPaused
from blowfishdb.ledger.records import digest
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import Clock, Cursor, Database

START = "blowfish actions"
NOTHING: Mapping[str, str | int | None] = MappingProxyType({})


@dataclass(frozen=True)
class AuditEntry:
    """One line of the log."""

    number: int
    at: str
    who: str
    action: str
    target: str
    detail: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class AuditLog:
    """The log."""

    database: Database
    clock: Clock

    def note(self, who: str, action: str, target: str = "", detail: Mapping[str, str | int | None] = NOTHING) -> None:
        """Writes a line. Details hold what the user sent or what is public, never a count."""
        body = {"at": self.clock.text(), "who": who, "action": action, "target": target, "detail": dict(detail)}
        text = json.dumps(body, sort_keys=True, ensure_ascii=False)
        with self.database.write() as cursor:
            number, previous = _end(cursor)
            cursor.rows(
                "INSERT INTO audit_log (number, body, hash) VALUES (?, ?, ?)",
                number + 1,
                text,
                digest(f"{previous}:{number + 1}:{text}"),
            )

    def lines(self, *, after: int = 0, most: int = 200) -> list[AuditEntry]:
        """The lines after a number, newest last."""
        with self.database.read() as cursor:
            rows = cursor.rows(
                "SELECT number, body FROM audit_log WHERE number > ? ORDER BY number LIMIT ?", after, min(most, 1000)
            )
        return [_action(int(row[0] or 0), str(row[1])) for row in rows]

    def last(self, most: int = 200) -> list[AuditEntry]:
        """The newest lines, newest last."""
        with self.database.read() as cursor:
            number, _ = _end(cursor)
        return self.lines(after=max(0, number - most), most=most)

    def first_fault(self) -> int | None:
        """The number of the first line that is missing or was changed; None when all is well."""
        with self.database.read() as cursor:
            rows = cursor.rows("SELECT number, body, hash FROM audit_log ORDER BY number")
        previous = START
        for expected, (number, body, kept) in enumerate(rows, 1):
            if number != expected or kept != digest(f"{previous}:{number}:{body}"):
                return expected
            previous = str(kept)
        return None


def _end(cursor: Cursor) -> tuple[int, str]:
    rows = cursor.rows("SELECT number, hash FROM audit_log ORDER BY number DESC LIMIT 1")
    return (int(rows[0][0] or 0), str(rows[0][1])) if rows else (0, START)


def _action(number: int, body: str) -> AuditEntry:
    fields = json.loads(body)
    return AuditEntry(number, fields["at"], fields["who"], fields["action"], fields["target"], fields["detail"])


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
