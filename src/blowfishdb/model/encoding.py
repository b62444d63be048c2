"""The one encoding behind every digest: typed and length-prefixed, so that different values never share bytes.

A value becomes a tag, the length of its body in eight bytes, and the body. Tag and length tell where a value ends, so
bytes can be read back in one way only (proof: docs/proofs/certificate.md, Digests).
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

VERSION = 2
"""The version of this encoding; digests carry it. Those without a version are in the first one, see plan/plan.py."""
MARK = f"{VERSION}:"
LENGTH = 8

Encodable: TypeAlias = "bool | int | str | bytes | Fraction | tuple[Any, ...] | list[Any] | np.ndarray[Any, Any] | None"


def encode(value: Encodable) -> bytes:
    """Bytes that determine the value and its type; TypeError for what is no plain exact value, floats among them."""
    tag, body = _tagged(value)
    return b"".join([tag, len(body).to_bytes(LENGTH, "big"), body])


def digest(value: Encodable) -> str:
    """A hash of the encoded value, after the version of the encoding."""
    return MARK + hashlib.sha256(encode(value)).hexdigest()


def version_of(digest_text: str) -> int:
    """The version of the encoding that a digest was made with."""
    return VERSION if digest_text.startswith(MARK) else 1


def _tagged(value: Encodable) -> tuple[bytes, bytes]:
    if value is None:
        return b"N", b""
    if isinstance(value, bool | np.bool_):
        return b"B", b"\1" if value else b"\0"
    if isinstance(value, int | np.integer):
        return b"I", _whole(int(value))
    if isinstance(value, str):
        return b"S", value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"Y", value
    if isinstance(value, Fraction):
        return b"F", encode(value.numerator) + encode(value.denominator)
    if isinstance(value, tuple):
        return b"T", b"".join(map(encode, value))
    if isinstance(value, list):
        return b"L", b"".join(map(encode, value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub":
        return b"A", _array(value)
    raise TypeError(f"a digest is made of whole numbers, fractions, texts and arrays of them, not {type(value)}")


def _whole(number: int) -> bytes:
    """The shortest two's complement that holds the number and its sign."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _array(array: np.ndarray[Any, Any]) -> bytes:
    """Type, shape and entries, in the same order of bytes on every machine."""
    kind = array.dtype.newbyteorder("<")
    return encode(kind.str) + encode(array.shape) + array.astype(kind, copy=False).tobytes()
