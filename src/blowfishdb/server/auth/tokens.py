"""API tokens: shown once, kept as a hash, with scopes no wider than the user's role, and an end."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import Clock, Database, Row
from blowfishdb.server.auth.session import hash_secret
from blowfishdb.server.auth.users import SCOPES, SCOPES_OF, Identity, Scope, Users, role_of

PREFIX = "bfdb_"
LONGEST_DAYS = 366


@dataclass(frozen=True)
class Token:
    """A token as its owner sees it later; the secret itself is gone."""

    id: str
    name: str
    label: str
    scopes: tuple[Scope, ...]
    created: str
    ends: int


@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens."""

    users: Users
    database: Database
    clock: Clock

    def issue(self, name: str, label: str, scopes: Iterable[str], days: int) -> tuple[str, Token]:
        """A new token and its secret, which is shown this once."""
        check_text(label, "a label", 100)
        user = self.users.find(name)
        allowed = SCOPES_OF[user.role]
        wanted = tuple(scope for scope in SCOPES if scope in set(scopes))
        if not wanted or not set(scopes) <= allowed:
            raise InvalidInput(f"the role {user.role} gives tokens some of the scopes {', '.join(sorted(allowed))}")
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= LONGEST_DAYS:
            raise InvalidInput(f"a token lasts 1 to {LONGEST_DAYS} days")
        secret = PREFIX + secrets.token_urlsafe(32)
        ends = self.clock.now() + days * 86_400
        made = Token(secrets.token_hex(6), name, label, wanted, self.clock.text(), ends)
        with self.database.write() as cursor:
            cursor.rows(
                "INSERT INTO token (id, secret_hash, name, label, scopes, created, ends) VALUES (?, ?, ?, ?, ?, ?, ?)",
                made.id,
                hash_secret(secret),
                name,
                label,
                " ".join(wanted),
                made.created,
                ends,
            )
        return secret, made

    def resume(self, secret: str) -> Identity | None:
        """Whose token this is; None when it ended or never was."""
        with self.database.read() as cursor:
            rows = cursor.rows(
                "SELECT t.name, t.scopes, t.ends, p.role FROM token t JOIN users p ON p.name = t.name"
                " WHERE t.secret_hash = ? AND p.disabled = 0",
                hash_secret(secret),
            )
        if not rows or int(rows[0][2] or 0) <= self.clock.now():
            return None
        role = role_of(str(rows[0][3]))
        scopes = frozenset(scope for scope in SCOPES if scope in str(rows[0][1]).split()) & SCOPES_OF[role]
        return Identity(str(rows[0][0]), role, scopes)

    def of(self, name: str) -> list[Token]:
        """Somebody's tokens."""
        with self.database.read() as cursor:
            rows = cursor.rows(
                "SELECT id, name, label, scopes, created, ends FROM token WHERE name = ? ORDER BY created", name
            )
        return [_token(row) for row in rows]

    def revoke(self, name: str, token: str) -> None:
        """Ends one of somebody's tokens; InvalidInput when they have none such."""
        with self.database.write() as cursor:
            if not cursor.rows("SELECT 1 FROM token WHERE id = ? AND name = ?", token, name):
                raise InvalidInput("there is no such token")
            cursor.rows("DELETE FROM token WHERE id = ? AND name = ?", token, name)


def _token(row: Row) -> Token:
    scopes = tuple(scope for scope in SCOPES if scope in str(row[3]).split())
    return Token(str(row[0]), str(row[1]), str(row[2]), scopes, str(row[4]), int(row[5] or 0))
