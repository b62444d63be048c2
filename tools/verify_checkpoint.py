"""Checks an exported ledger against a signed checkpoint, with nothing but Python: for outsiders, offline.

    python verify_checkpoint.py ledger.jsonl visits.checkpoint PUBLIC_KEY

`blowfish ledger export ledger.jsonl` writes the first file and `blowfish ledger checkpoint` the second; the public key
is what the curator published when the key was made. Who keeps a checkpoint can tell later whether an entry up to it was
changed, left out or put in. The file stands alone: copy it, read it, run it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction

PURPOSE = b"blowfishdb checkpoint 1\n"
# Ed25519 (RFC 8032): points are (X, Y, Z, T) with x = X/Z, y = Y/Z, x y = T/Z.
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, PRIME) % PRIME
ROOT = pow(2, (PRIME - 1) // 4, PRIME)
Point = tuple[int, int, int, int]


class Wrong(Exception):
    """What does not fit."""


def add(one: Point, two: Point) -> Point:
    """The sum of two points."""
    a, b = (one[1] - one[0]) * (two[1] - two[0]) % PRIME, (one[1] + one[0]) * (two[1] + two[0]) % PRIME
    c, d = 2 * one[3] * two[3] * CURVE % PRIME, 2 * one[2] * two[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def times(number: int, point: Point) -> Point:
    """A multiple of a point."""
    total = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = add(total, point)
        point, number = add(point, point), number >> 1
    return total


def point_of(text: bytes) -> Point:
    """The point that 32 bytes stand for."""
    number = int.from_bytes(text, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(CURVE * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * ROOT % PRIME
    if len(text) != 32 or y >= PRIME or (x * x - square) % PRIME or (x == 0 and sign):
        raise Wrong("the key or the signature is no point of the curve")
    x = PRIME - x if x & 1 != sign else x
    return x, y, 1, x * y % PRIME


BASE = point_of((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the key signed the message."""
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= ORDER:
        return False
    drawn, owner = point_of(signature[:32]), point_of(key)
    digest = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    left, right = times(int.from_bytes(signature[32:], "little"), BASE), add(drawn, times(digest, owner))
    return not any((left[i] * right[2] - right[i] * left[2]) % PRIME for i in (0, 1))


def canonical(fields: Mapping[str, object]) -> bytes:
    """One way only to write fields: sorted keys, no spaces, ASCII."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sha256(content: bytes) -> str:
    """The digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def check(lines: Iterable[str], checkpoint: str, public_key: str) -> str:
    """What was found right; Wrong names the first thing that is not."""
    signed = json.loads(checkpoint)
    signature = bytes.fromhex(signed.pop("signature"))
    if not is_signed(bytes.fromhex(public_key), PURPOSE + canonical(signed), signature):
        raise Wrong("the checkpoint is not signed by this key")
    chained, count, paid = sha256(f"blowfishdb ledger {signed['ledger']}".encode()), 0, Fraction(0)
    is_reached = signed["sequence"] == 0
    for line in lines:
        entry = json.loads(line)
        fields, count = entry["fields"] if "fields" in entry else entry["body"], count + 1
        if entry["sequence"] != count or entry["previous_hash"] != chained:
            raise Wrong(f"entry {count} is missing, or does not follow the one before it")
        chained = sha256(f"{chained}:{count}:{sha256(canonical(fields))}".encode())
        if entry["hash"] != chained or (entry["kind"], entry["account"]) != (fields["kind"], fields["account"]):
            raise Wrong(f"entry {count} was changed after it was written")
        if count == signed["sequence"]:
            is_reached = chained == signed["hash"]
        paid += Fraction(fields["epsilon"]) if entry["kind"] == "charge" else 0
    if not is_reached:
        raise Wrong(f"the ledger does not have entry {signed['sequence']} as it was signed on {signed['at']}")
    report = f"{count} entries follow each other, and entry {signed['sequence']} is the one signed on {signed['at']}"
    return f"{report}. Charges: {paid}"


def main(arguments: list[str]) -> int:
    """Prints the outcome; 0 where everything fits, 1 where something does not."""
    if len(arguments) != 3:
        print(__doc__)
        return 2
    ledger, checkpoint, public_key = arguments
    try:
        with open(ledger, encoding="utf-8") as lines, open(checkpoint, encoding="ascii") as signed:
            print(f"Sound: {check(lines, signed.read(), public_key)}")
    except (Wrong, OSError, ValueError, KeyError, TypeError) as fault:
        print(f"NOT SOUND: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
