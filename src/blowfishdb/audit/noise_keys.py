"""Where random bits come from: every call of the sampler must take a whole new key from the operating system."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from blowfishdb.audit.tape import REAL

KEY = 32
"""Bytes of randomness that each call takes at least: keys that can be guessed make noise that can be taken away."""
ENTROPY = "urandom"


@contextmanager
def _system_says(given: Callable[[int], bytes]) -> Iterator[None]:
    """The operating system's randomness replaced, for this thread alone."""
    usual, owner = os.urandom, threading.get_ident()
    setattr(os, ENTROPY, lambda size: given(size) if threading.get_ident() == owner else usual(size))
    try:
        yield
    finally:
        setattr(os, ENTROPY, usual)


def _drawn(function: str, bit: int | None) -> tuple[bytes, list[int]]:
    """What a call draws when the system gives zeros, but for one bit; and how many bytes it asks for each time."""
    asked: list[int] = []

    def given(size: int) -> bytes:
        asked.append(size)
        found = bytearray(size)
        if bit is not None and bit // 8 < size:
            found[bit // 8] = 1 << (bit % 8)
        return bytes(found)

    with _system_says(given):
        size_or_scale = (64, 62) if function == "sample_words" else (Fraction(10**8), 1, 64)
        drawn = REAL[function](*size_or_scale)
    return drawn.tobytes(), asked


def key_troubles(function: str) -> Iterator[str]:
    """A key that is too short, taken too seldom, or of which some bits do not matter."""
    usual, asked = _drawn(function, None)
    if sum(asked) < KEY:
        yield f"a call takes {sum(asked)} bytes from the operating system, not {KEY}"
        return
    if _drawn(function, None) != (usual, asked):
        yield "a call depends on more than what it takes from the operating system"
    seen = {usual, *(_drawn(function, bit)[0] for bit in range(8 * KEY))}
    if len(seen) <= 8 * KEY:
        yield f"of {8 * KEY} bits of the key {8 * KEY + 1 - len(seen)} do not matter"
