"""Login sessions: one secret each, kept as a hash, that ends by itself; failures make the next try wait."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from blowfishdb.errors import SignInRefused
from blowfishdb.server.auth.database import Cursor, Database
from blowfishdb.server.auth.users import SCOPES_OF, Identity, Users, hash_secret, is_password, role_of

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

    def sign_in(self, name: str, password: str, address: str) -> LoginSession:
        """A new login session; SignInRefused, which never says whether the name or the password was wrong."""
        self.check_password(name, password, address)
        return self.begin(name)

    def check_password(self, name: str, password: str, address: str) -> None:
        """SignInRefused unless the password is that of this user; failures count, wherever it is asked."""
        parties = (f"name {name[:100]}", f"address {address[:100]}")
        with self.database.write() as cursor:
            self._check_waiting(cursor, parties)
            row = cursor.row("SELECT password FROM users WHERE name = ? AND disabled = 0", name)
        if not is_password(password, row["password"] if row else None):
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
        now = self.database.clock.now()
        ends = now + LONGEST_LOGIN
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM login_session WHERE ends < ? OR seen < ?", now, now - IDLE)
            cursor.insert(
                "login_session",
                {"secret_hash": hash_secret(secret), "name": name, "csrf_token": csrf_token, "seen": now, "ends": ends},
            )
        identity = Identity(name, user.role, SCOPES_OF[user.role], csrf_token, user.must_change)
        return LoginSession(secret, identity, ends)

    def resume(self, secret: str) -> Identity | None:
        """Whose login session this is; None when it ended."""
        now = self.database.clock.now()
        with self.database.read() as cursor:
            row = cursor.row(
                "SELECT v.name, v.csrf_token, v.seen, v.ends, p.must_change, p.role FROM login_session v"
                " JOIN users p ON p.name = v.name WHERE v.secret_hash = ? AND p.disabled = 0",
                hash_secret(secret),
            )
        if row is None or row["ends"] <= now or row["seen"] <= now - IDLE:
            return None
        if row["seen"] < now - STALE:
            with self.database.write() as cursor:
                cursor.rows("UPDATE login_session SET seen = ? WHERE secret_hash = ?", now, hash_secret(secret))
        role = role_of(row["role"])
        return Identity(row["name"], role, SCOPES_OF[role], row["csrf_token"], bool(row["must_change"]))

    def sign_out(self, secret: str) -> None:
        """Ends a login session."""
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM login_session WHERE secret_hash = ?", hash_secret(secret))

    def _check_waiting(self, cursor: Cursor, parties: tuple[str, ...]) -> None:
        now = self.database.clock.now()
        for party in parties:
            row = cursor.row("SELECT until FROM failure WHERE who = ?", party)
            if row and row["until"] > now:
                raise SignInRefused(row["until"] - now)

    def _note_failure(self, cursor: Cursor, party: str) -> None:
        row = cursor.row("SELECT times FROM failure WHERE who = ?", party)
        times = (row["times"] if row else 0) + 1
        free = FREE_TRIES_OF_AN_ADDRESS if party.startswith("address ") else FREE_TRIES
        wait = 0 if times < free else min(LONGEST_WAIT, 2 ** min(times - free + 1, 20))
        cursor.rows("DELETE FROM failure WHERE who = ?", party)
        cursor.insert("failure", {"who": party, "times": times, "until": self.database.clock.now() + wait})
