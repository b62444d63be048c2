"""Users: made by a curator, each with one role and a password hashed with argon2."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from typing import Literal, get_args

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import Clock, Cursor, Database, Row

SHORTEST, LONGEST = 12, 200
_hasher = PasswordHasher()
# A hash takes 64 MiB; more than this many at once would let strangers fill the memory.
_turns = threading.BoundedSemaphore(4)
_nobody = _hasher.hash(secrets.token_urlsafe(24))


def hash_password(password: str) -> str:
    """The hash to keep; InvalidInput for a password that is too short."""
    if not isinstance(password, str) or not SHORTEST <= len(password) <= LONGEST:
        raise InvalidInput(f"a password has {SHORTEST} to {LONGEST} characters")
    with _turns:
        return _hasher.hash(password)


def is_password(password: str, kept: str | None) -> bool:
    """Whether the password belongs to the hash; takes as long when there is none."""
    with _turns:
        try:
            return _hasher.verify(kept or _nobody, password[:LONGEST]) and kept is not None
        except (VerificationError, InvalidHashError):
            return False


def new_password() -> str:
    """A password that nobody guesses."""
    return secrets.token_urlsafe(15)


Role = Literal["curator", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
Scope = Literal["ask", "curate", "audit"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
SCOPES_OF: dict[Role, frozenset[Scope]] = {
    "curator": frozenset({"curate", "audit"}),
    "analyst": frozenset({"ask"}),
    "auditor": frozenset({"audit"}),
}
"""What each role may do; a token may do less, never more."""


@dataclass(frozen=True)
class Identity:
    """Somebody who has shown who they are. `csrf_token` must come with every change made from a browser."""

    name: str
    role: Role
    scopes: frozenset[Scope]
    csrf_token: str | None = None
    must_change: bool = False

    def may(self, *scopes: Scope) -> bool:
        """Whether this user has one of these rights; nobody has any whose first password is still in use."""
        return not self.must_change and not self.scopes.isdisjoint(scopes)


@dataclass(frozen=True)
class User:
    """Somebody with an account."""

    name: str
    role: Role
    is_disabled: bool
    must_change: bool
    created: str


@dataclass(frozen=True, eq=False)
class Users:
    """All who have an account."""

    database: Database
    clock: Clock

    def add(self, name: str, role: str, password: str | None, *, must_change: bool = True) -> User:
        """A new user; without a password they sign in elsewhere (OIDC)."""
        check_text(name, "a name", 100)
        if name != name.strip() or "/" in name:
            raise InvalidInput("a name begins and ends with no space and holds no /, so that addresses can name it")
        known = role_of(role)
        kept = None if password is None else hash_password(password)
        with self.database.write() as cursor:
            if cursor.rows("SELECT 1 FROM users WHERE name = ?", name):
                raise InvalidInput(f"there is a user {name!r} already")
            cursor.rows(
                "INSERT INTO users (name, role, password, must_change, created) VALUES (?, ?, ?, ?, ?)",
                name,
                known,
                kept,
                int(must_change and password is not None),
                self.clock.text(),
            )
            return _find(cursor, name)

    def all(self) -> list[User]:
        """Everybody, by name."""
        with self.database.read() as cursor:
            rows = cursor.rows("SELECT name, role, disabled, must_change, created FROM users ORDER BY name")
        return [_user(row) for row in rows]

    def find(self, name: str) -> User:
        """One user; InvalidInput when there is none."""
        with self.database.read() as cursor:
            return _find(cursor, name)

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        """A new password; every login session of the user ends."""
        kept = hash_password(password)
        with self.database.write() as cursor:
            _find(cursor, name)
            cursor.rows("UPDATE users SET password = ?, must_change = ? WHERE name = ?", kept, int(must_change), name)
            cursor.rows("DELETE FROM login_session WHERE name = ?", name)

    def disable(self, name: str, *, disabled: bool = True) -> User:
        """Shuts somebody out at once, login sessions and tokens included, or lets them in again."""
        with self.database.write() as cursor:
            _find(cursor, name)
            cursor.rows("UPDATE users SET disabled = ? WHERE name = ?", int(disabled), name)
            if disabled:
                cursor.rows("DELETE FROM login_session WHERE name = ?", name)
                cursor.rows("DELETE FROM token WHERE name = ?", name)
            return _find(cursor, name)


def role_of(role: str) -> Role:
    """The role of that name; InvalidInput when there is none."""
    for known in ROLES:
        if role == known:
            return known
    raise InvalidInput(f"a role is one of {', '.join(ROLES)}")


def _find(cursor: Cursor, name: str) -> User:
    rows = cursor.rows("SELECT name, role, disabled, must_change, created FROM users WHERE name = ?", name)
    if not rows:
        raise InvalidInput("there is no user of that name")
    return _user(rows[0])


def _user(row: Row) -> User:
    return User(str(row[0]), role_of(str(row[1])), bool(row[2]), bool(row[3]), str(row[4]))
