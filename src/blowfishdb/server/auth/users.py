"""Users, each with one role and a password hashed with argon2; API tokens, by HTTP or by SCRAM; what they had typed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from blowfishdb.errors import InvalidInput, ProtocolViolation, SignInRefused, TokenCapReached
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import AuthCursor, AuthRow, Database
from blowfishdb.server.auth.grants import GROUP, SCOPES, Grants, Principal, Role, Scope, role_of

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


def is_password(password: str, password_hash: str | None) -> bool:
    """Whether the password belongs to the hash; takes as long when there is none."""
    with _turns:
        try:
            return _hasher.verify(password_hash or _nobody, password[:LONGEST]) and password_hash is not None
        except (VerificationError, InvalidHashError):
            return False


def new_password() -> str:
    """A password that nobody guesses."""
    return secrets.token_urlsafe(15)


def hash_secret(secret: str) -> str:
    """What is kept of the secret of a session or a token: it is long and random, so a plain hash serves."""
    return hashlib.sha256(secret.encode()).hexdigest()


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
    """All who have an account, and what they were granted."""

    database: Database
    grants: Grants

    def add(self, name: str, role: str, password: str | None, *, must_change: bool = True) -> User:
        """A new user; without a password they sign in elsewhere (OIDC)."""
        check_text(name, "a name", 100)
        if name != name.strip() or "/" in name or name.startswith(GROUP):
            raise InvalidInput(
                f"a name begins and ends with no space, holds no / and does not begin with {GROUP}, as groups do"
            )
        row = {
            "name": name,
            "role": role_of(role),
            "password": None if password is None else hash_password(password),
            "must_change": int(must_change and password is not None),
            "created": self.database.clock.text(),
        }
        with self.database.write() as cursor:
            if cursor.rows("SELECT 1 FROM users WHERE name = ?", name):
                raise InvalidInput(f"there is a user {name!r} already")
            cursor.insert("users", row)
            return _find(cursor, name)

    def all(self) -> list[User]:
        """Everybody, by name."""
        return [_user(row) for row in self.database.rows("SELECT * FROM users ORDER BY name")]

    def find(self, name: str) -> User:
        """One user; InvalidInput when there is none."""
        return _find(self.database, name)

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        """A new password; every login session of the user ends."""
        password_hash = hash_password(password)
        with self.database.write() as cursor:
            _find(cursor, name)
            change = "UPDATE users SET password = ?, must_change = ? WHERE name = ?"
            cursor.rows(change, password_hash, int(must_change), name)
            cursor.rows("DELETE FROM login_session WHERE name = ?", name)

    def disable(self, name: str, *, disabled: bool = True) -> User:
        """Shuts somebody out at once, login sessions and tokens included, or lets them in again."""
        with self.database.write() as cursor:
            _find(cursor, name)
            cursor.rows("UPDATE users SET disabled = ? WHERE name = ?", int(disabled), name)
            if disabled:
                cursor.rows("DELETE FROM token_cap WHERE id IN (SELECT id FROM token WHERE name = ?)", name)
                for table in ("login_session", "token", "token_verifier", "draft"):
                    cursor.rows(f"DELETE FROM {table} WHERE name = ?", name)
            return _find(cursor, name)


def _find(database: Database | AuthCursor, name: str) -> User:
    row = database.row("SELECT * FROM users WHERE name = ?", name)
    if row is None:
        raise InvalidInput("there is no user of that name")
    return _user(row)


def _user(row: AuthRow) -> User:
    return User(row["name"], role_of(row["role"]), bool(row["disabled"]), bool(row["must_change"]), row["created"])


PREFIX = "bfdb_"
LONGEST_DAYS = 366
SCRAM_ROUNDS = 4096


@dataclass(frozen=True)
class Verifier:
    """The keys with which SCRAM checks one token; the token does not follow from them."""

    token: str
    stored_key: bytes
    server_key: bytes


def scram_salt(name: str) -> bytes:
    """The salt of all of somebody's tokens, and of people who do not exist. Tokens are random, so it need not be."""
    return hashlib.sha256(f"blowfishdb {name}".encode()).digest()[:16]


def scram_keys(name: str, secret: str) -> dict[str, str]:
    """The keys of a token's verifier, as they are stored."""
    salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), scram_salt(name), SCRAM_ROUNDS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return {
        "stored_key": hashlib.sha256(client_key).hexdigest(),
        "server_key": hmac.digest(salted, b"Server Key", "sha256").hex(),
    }


@dataclass(frozen=True)
class Token:
    """A token as its owner sees it later; the secret itself is gone."""

    id: str
    name: str
    label: str
    scopes: tuple[Scope, ...]
    created: str
    ends: int
    cap: Fraction | None = None
    """The most epsilon that may be spent with it in all, where a curator set one."""
    spent: Fraction = Fraction(0)
    """What was spent with it since it has had a cap."""

    @property
    def until(self) -> str:
        """The day on which it ends."""
        return datetime.fromtimestamp(self.ends, UTC).date().isoformat()


@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens: shown once, kept as a hash, with scopes no wider than the user's role, an end, and perhaps a cap."""

    users: Users
    database: Database

    def issue(self, name: str, label: str, scopes: Iterable[str], days: int) -> tuple[str, Token]:
        """A new token and its secret, which is shown this once."""
        check_text(label, "a label", 100)
        role, clock = self.users.find(name).role, self.database.clock
        wanted, allowed = set(scopes), self.users.grants.scopes(name, role)
        if not wanted or not wanted <= allowed:
            raise InvalidInput(f"your roles give tokens some of the scopes {', '.join(sorted(allowed))}")
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= LONGEST_DAYS:
            raise InvalidInput(f"a token lasts 1 to {LONGEST_DAYS} days")
        secret, ends = PREFIX + secrets.token_urlsafe(32), clock.now() + days * 86_400
        listed = tuple(scope for scope in SCOPES if scope in wanted)
        token = Token(secrets.token_hex(6), name, label, listed, clock.text(), ends)
        with self.database.write() as cursor:
            row = {"id": token.id, "secret_hash": hash_secret(secret), "name": name, "label": label}
            cursor.insert("token", row | {"scopes": " ".join(listed), "created": token.created, "ends": ends})
            cursor.insert("token_verifier", {"id": token.id, "name": name, **scram_keys(name, secret)})
        return secret, token

    def resume(self, secret: str) -> Principal | None:
        """Whose token this is; None when it ended or never was."""
        return self._identity("t.secret_hash = ?", hash_secret(secret))

    def holder(self, token: str) -> Principal | None:
        """Who has the token of this id; None when it ended or was withdrawn."""
        return self._identity("t.id = ?", token)

    def verifiers(self, name: str) -> list[Verifier]:
        """What SCRAM checks somebody's tokens with; none for those that were made before there were any."""
        rows = self.database.rows("SELECT id, stored_key, server_key FROM token_verifier WHERE name = ?", name)
        return [Verifier(row["id"], bytes.fromhex(row["stored_key"]), bytes.fromhex(row["server_key"])) for row in rows]

    def _identity(self, condition: str, value: str) -> Principal | None:
        row = self.database.row(
            "SELECT t.id, t.name, t.scopes, t.ends, p.role FROM token t JOIN users p ON p.name = t.name"
            f" WHERE {condition} AND p.disabled = 0",
            value,
        )
        if row is None or row["ends"] <= self.database.clock.now():
            return None
        role = role_of(row["role"])
        scopes = self.users.grants.scopes(row["name"], role).intersection(row["scopes"].split())
        return Principal(row["name"], role, scopes, token=row["id"])

    def of(self, name: str) -> list[Token]:
        """Somebody's tokens."""
        return [_token(row) for row in self.database.rows(f"{TOKENS} WHERE t.name = ? ORDER BY t.created", name)]

    def all(self) -> list[Token]:
        """Everybody's tokens, by name."""
        return [_token(row) for row in self.database.rows(f"{TOKENS} ORDER BY t.name, t.created")]

    def find(self, token: str) -> Token:
        """The token of this id; InvalidInput when there is none."""
        return _find_token(self.database, token)

    def set_cap(self, token: str, epsilon: Fraction | None) -> Token:
        """Sets the most that may be spent with a token in all, what was spent before included; None takes it away."""
        if epsilon is not None and epsilon < 0:
            raise InvalidInput("a cap is an epsilon of 0 or more")
        with self.database.write() as cursor:
            known = _find_token(cursor, token)
            if "ask" not in known.scopes:
                raise InvalidInput("a cap is for tokens that may ask")
            cursor.rows("DELETE FROM token_cap WHERE id = ?", token)
            if epsilon is not None:
                cursor.insert("token_cap", {"id": token, "epsilon": str(epsilon), "spent": str(known.spent)})
            return _find_token(cursor, token)

    def spend(self, token: str, epsilon: Fraction) -> None:
        """Takes a price off the cap of a token, before it is charged; TokenCapReached where less is left.

        A negative one is given back: nothing was charged after all. Without a cap there is nothing to take.
        """
        # Most have none: nobody takes turns for those. One that is set a moment later counts from then on.
        if self.database.row("SELECT 1 FROM token_cap WHERE id = ?", token) is None:
            return
        with self.database.write() as cursor:
            row = cursor.row("SELECT epsilon, spent FROM token_cap WHERE id = ?", token)
            if row is None:
                return
            cap, spent = Fraction(row["epsilon"]), Fraction(row["spent"])
            if epsilon > 0 and spent + epsilon > cap:
                raise TokenCapReached(epsilon, max(Fraction(0), cap - spent))
            cursor.rows("UPDATE token_cap SET spent = ? WHERE id = ?", str(spent + epsilon), token)

    def revoke(self, name: str, token: str) -> None:
        """Ends one of somebody's tokens; InvalidInput when they have none such."""
        with self.database.write() as cursor:
            if not cursor.rows("SELECT 1 FROM token WHERE id = ? AND name = ?", token, name):
                raise InvalidInput("there is no such token")
            for table in ("token", "token_verifier", "token_cap"):
                cursor.rows(f"DELETE FROM {table} WHERE id = ?", token)


TOKENS = (
    "SELECT t.id, t.name, t.label, t.scopes, t.created, t.ends, c.epsilon AS cap, c.spent FROM token t"
    " LEFT JOIN token_cap c ON c.id = t.id"
)


def _find_token(database: Database | AuthCursor, token: str) -> Token:
    row = database.row(f"{TOKENS} WHERE t.id = ?", token)
    if row is None:
        raise InvalidInput("there is no such token")
    return _token(row)


def _token(row: AuthRow) -> Token:
    cap, spent = (None if row[name] is None else Fraction(row[name]) for name in ("cap", "spent"))
    return Token(**row | {"scopes": tuple(row["scopes"].split()), "cap": cap, "spent": spent or Fraction(0)})


MECHANISM = "SCRAM-SHA-256"


class Exchange:
    """One try to sign in. Nothing in it tells whether there is a user of that name, or whether they have tokens."""

    def __init__(self, name: str, verifiers: Sequence[Verifier], first: bytes) -> None:
        self._verifiers = verifiers
        header, bare = _ascii(first).partition(",,")[::2]
        # y: the client could bind the channel and thinks that the server could not, which is so.
        if header not in ("n", "y"):
            raise ProtocolViolation("the first SCRAM message begins with n,, or y,, without a channel binding")
        fields = _fields(bare)
        if list(fields)[:2] != ["n", "r"] or not fields["r"]:
            raise ProtocolViolation("the first SCRAM message has a name and a nonce")
        self._header = base64.b64encode(f"{header},,".encode()).decode()
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(scram_salt(name)).decode()
        self.challenge = f"r={self._nonce},s={salt},i={SCRAM_ROUNDS}".encode()
        self._begin = f"{bare},{self.challenge.decode()}"

    def finish(self, last: bytes) -> tuple[Verifier, bytes]:
        """The verifier of the token that the client has, and the server's last message; SignInRefused for none."""
        without_proof, separator, proof_text = _ascii(last).rpartition(",p=")
        fields = _fields(without_proof)
        if not separator or fields.get("c") != self._header or fields.get("r") != self._nonce:
            raise ProtocolViolation("the last SCRAM message does not belong to the first")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise ProtocolViolation("the proof of a SCRAM message is written in base64") from None
        signed = f"{self._begin},{without_proof}".encode()
        for verifier in self._verifiers:
            signature = hmac.digest(verifier.stored_key, signed, "sha256")
            if len(proof) == len(signature):
                client_key = bytes(one ^ two for one, two in zip(proof, signature, strict=True))
                if hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key):
                    told = hmac.digest(verifier.server_key, signed, "sha256")
                    return verifier, b"v=" + base64.b64encode(told)
        raise SignInRefused(0)


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ProtocolViolation("SCRAM messages are written in ASCII") from None


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


LONGEST_DRAFT = 2**18
DRAFT_DAYS = 30


@dataclass(frozen=True, eq=False)
class Drafts:
    """What users have typed into a form and not yet sent, one for each form; pages leave secrets out of it."""

    database: Database

    def keep(self, name: str, page: str, content: Mapping[str, Any]) -> None:
        """Keeps the newest state of a form, for a month; what is far too long is not kept."""
        body, now = json.dumps(content), self.database.clock.now()
        if len(body) > LONGEST_DRAFT:
            return
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM draft WHERE at < ?", now - DRAFT_DAYS * 86_400)
            cursor.rows("DELETE FROM draft WHERE name = ? AND page = ?", name, page)
            cursor.insert("draft", {"name": name, "page": page, "body": body, "at": now})

    def of(self, name: str, page: str) -> dict[str, Any] | None:
        """What somebody had typed last; None when there is nothing."""
        row = self.database.row("SELECT body FROM draft WHERE name = ? AND page = ?", name, page)
        content = None if row is None else json.loads(row["body"])
        return content if isinstance(content, dict) else None

    def drop(self, name: str, page: str) -> None:
        """Forgets it, once it was sent or is not wanted any more."""
        self.database.change("DELETE FROM draft WHERE name = ? AND page = ?", name, page)
