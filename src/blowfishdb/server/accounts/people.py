"""People: made by a curator, each with one role; the first one is made at the console, never with a usual password."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.values import check_text
from blowfishdb.server.accounts.clock import Clock
from blowfishdb.server.accounts.database import Cursor, Database, Row
from blowfishdb.server.accounts.passwords import hash_password
from blowfishdb.server.accounts.roles import ROLES, Role


@dataclass(frozen=True)
class Person:
    """Somebody with an account."""

    name: str
    role: Role
    is_disabled: bool
    must_change: bool
    created: str


@dataclass(frozen=True, eq=False)
class People:
    """All who have an account."""

    database: Database
    clock: Clock

    def add(self, name: str, role: str, password: str | None, *, must_change: bool = True) -> Person:
        """A new person; without a password they sign in elsewhere (OIDC)."""
        check_text(name, "a name", 100)
        if name != name.strip() or "/" in name:
            raise InvalidInput("a name begins and ends with no space and holds no /, so that addresses can name it")
        known = role_of(role)
        kept = None if password is None else hash_password(password)
        with self.database.write() as cursor:
            if cursor.rows("SELECT 1 FROM person WHERE name = ?", name):
                raise InvalidInput(f"there is a person {name!r} already")
            cursor.rows(
                "INSERT INTO person (name, role, password, must_change, created) VALUES (?, ?, ?, ?, ?)",
                name,
                known,
                kept,
                int(must_change and password is not None),
                self.clock.text(),
            )
            return _find(cursor, name)

    def all(self) -> list[Person]:
        """Everybody, by name."""
        with self.database.read() as cursor:
            rows = cursor.rows("SELECT name, role, disabled, must_change, created FROM person ORDER BY name")
        return [_person(row) for row in rows]

    def find(self, name: str) -> Person:
        """One person; InvalidInput when there is none."""
        with self.database.read() as cursor:
            return _find(cursor, name)

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        """A new password; every visit of the person ends."""
        kept = hash_password(password)
        with self.database.write() as cursor:
            _find(cursor, name)
            cursor.rows("UPDATE person SET password = ?, must_change = ? WHERE name = ?", kept, int(must_change), name)
            cursor.rows("DELETE FROM visit WHERE name = ?", name)

    def disable(self, name: str, *, disabled: bool = True) -> Person:
        """Shuts somebody out at once, visits and tokens included, or lets them in again."""
        with self.database.write() as cursor:
            _find(cursor, name)
            cursor.rows("UPDATE person SET disabled = ? WHERE name = ?", int(disabled), name)
            if disabled:
                cursor.rows("DELETE FROM visit WHERE name = ?", name)
                cursor.rows("DELETE FROM token WHERE name = ?", name)
            return _find(cursor, name)


def role_of(role: str) -> Role:
    """The role of that name; InvalidInput when there is none."""
    for known in ROLES:
        if role == known:
            return known
    raise InvalidInput(f"a role is one of {', '.join(ROLES)}")


def _find(cursor: Cursor, name: str) -> Person:
    rows = cursor.rows("SELECT name, role, disabled, must_change, created FROM person WHERE name = ?", name)
    if not rows:
        raise InvalidInput("there is no person of that name")
    return _person(rows[0])


def _person(row: Row) -> Person:
    return Person(str(row[0]), role_of(str(row[1])), bool(row[2]), bool(row[3]), str(row[4]))
