"""SCRAM-SHA-256 on the side of the server (RFC 5802 and 7677), against the verifiers of all of somebody's tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from blowfishdb.errors import ProtocolViolation, SignInRefused
from blowfishdb.server.auth.users import SCRAM_ROUNDS, Verifier, scram_salt

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
