"""Passwords: hashed with argon2, checked in constant time for people who exist and people who do not."""

from __future__ import annotations

import secrets
import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from blowfishdb.errors import InvalidInput

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
