"""Login sessions: one secret each, kept as a hash, that ends by itself; failures make the next try wait."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from blowfishdb.errors import SignInRefused
from blowfishdb.server.auth.database import Clock, Cursor, Database
from blowfishdb.server.auth.users import SCOPES_OF, Identity, Users, is_password, role_of

FREE_TRIES = 5
FREE_TRIES_OF_AN_ADDRESS = 50
"""Many people may share one address, so it waits much later than a name."""
LONGEST_WAIT = 15 * 60
IDLE = 60 * 60
LONGEST_LOGIN = 12 * 60 * 60
STALE = 60
"""A login session is noted as seen at most this often, so that reading a page writes little."""


@dataclass(frozen=True)
class LoginSession:
    """A login session that has just begun: the secret for the cookie, and whose it is."""

    secret: str
    identity: Identity
    ends: int


@dataclass(frozen=True, eq=False)
class LoginSessions:
    """All login sessions."""

    users: Users
    database: Database
    clock: Clock

    def sign_in(self, name: str, password: str, address: str) -> LoginSession:
        """A new login session; SignInRefused, which never says whether the name or the password was wrong."""
        self.check_password(name, password, address)
        return self.begin(name)

    def check_password(self, name: str, password: str, address: str) -> None:
        """SignInRefused unless the password is that of this user; failures count, wherever it is asked."""
        parties = (f"name {name[:100]}", f"address {address[:100]}")
        with self.database.write() as cursor:
            self._check_waiting(cursor, parties)
            rows = cursor.rows("SELECT password, disabled FROM users WHERE name = ?", name)
        kept = str(rows[0][0]) if rows and rows[0][0] is not None and not rows[0][1] else None
        if not is_password(password, kept):
            with self.database.write() as cursor:
                for party in parties:
                    self._note_failure(cursor, party)
            raise SignInRefused(0)
        with self.database.write() as cursor:
            for party in parties:
                cursor.rows("DELETE FROM failure WHERE who = ?", party)

    def begin(self, name: str) -> LoginSession:
        """A login session of somebody who has shown who they are."""
        user = self.users.find(name)
        if user.is_disabled:
            raise SignInRefused(0)
        secret, csrf_token = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        now = self.clock.now()
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM login_session WHERE ends < ? OR seen < ?", now, now - IDLE)
            cursor.rows(
                "INSERT INTO login_session (secret_hash, name, csrf_token, seen, ends) VALUES (?, ?, ?, ?, ?)",
                hash_secret(secret),
                name,
                csrf_token,
                now,
                now + LONGEST_LOGIN,
            )
        identity = Identity(name, user.role, SCOPES_OF[user.role], csrf_token, user.must_change)
        return LoginSession(secret, identity, now + LONGEST_LOGIN)

    def resume(self, secret: str) -> Identity | None:
        """Whose login session this is; None when it ended."""
        now = self.clock.now()
        with self.database.read() as cursor:
            rows = cursor.rows(
                "SELECT v.name, v.csrf_token, v.seen, v.ends, p.disabled, p.must_change, p.role FROM login_session v"
                " JOIN users p ON p.name = v.name WHERE v.secret_hash = ?",
                hash_secret(secret),
            )
        if not rows or int(rows[0][3] or 0) <= now or int(rows[0][2] or 0) <= now - IDLE or rows[0][4]:
            return None
        if int(rows[0][2] or 0) < now - STALE:
            with self.database.write() as cursor:
                cursor.rows("UPDATE login_session SET seen = ? WHERE secret_hash = ?", now, hash_secret(secret))
        role = role_of(str(rows[0][6]))
        return Identity(str(rows[0][0]), role, SCOPES_OF[role], str(rows[0][1]), bool(rows[0][5]))

    def sign_out(self, secret: str) -> None:
        """Ends a login session."""
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM login_session WHERE secret_hash = ?", hash_secret(secret))

    def _check_waiting(self, cursor: Cursor, parties: tuple[str, ...]) -> None:
        now = self.clock.now()
        for party in parties:
            rows = cursor.rows("SELECT until FROM failure WHERE who = ?", party)
            if rows and int(rows[0][0] or 0) > now:
                raise SignInRefused(int(rows[0][0] or 0) - now)

    def _note_failure(self, cursor: Cursor, party: str) -> None:
        rows = cursor.rows("SELECT times FROM failure WHERE who = ?", party)
        times = (int(rows[0][0] or 0) if rows else 0) + 1
        free = FREE_TRIES_OF_AN_ADDRESS if party.startswith("address ") else FREE_TRIES
        wait = 0 if times < free else min(LONGEST_WAIT, 2 ** min(times - free + 1, 20))
        cursor.rows("DELETE FROM failure WHERE who = ?", party)
        cursor.rows("INSERT INTO failure (who, times, until) VALUES (?, ?, ?)", party, times, self.clock.now() + wait)


def hash_secret(secret: str) -> str:
    """What is kept of a secret: it is long and random, so a plain hash serves."""
    return hashlib.sha256(secret.encode()).hexdigest()
