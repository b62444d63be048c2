"""Secret random bits in bulk: AES-256 in counter mode under a key that lives for one call."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray


class BitStream(Protocol):
    """What the sampler needs: independent uniform lanes, and single integers of any width."""

    def fill(self, lanes: NDArray[np.uint16]) -> None: ...

    def integer(self, bits: int) -> int: ...


class Keystream:
    """A stream keyed by 32 fresh bytes of the operating system.

    Nothing outlives the object and the sampler makes one per call, so a process that forks between calls
    never repeats a stream. A fresh key makes the fixed initial counter safe. The key has 256 bits because
    published answers can be attacked for as long as somebody keeps them.
    """

    def __init__(self) -> None:
        self._cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        self._zeros = b""

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        """Overwrite a contiguous array with uniform bits."""
        if len(self._zeros) != lanes.nbytes:
            self._zeros = bytes(lanes.nbytes)
        self._cipher.update_into(self._zeros, lanes.data.cast("B"))

    def integer(self, bits: int) -> int:
        """A uniform integer in [0, 2^bits)."""
        size = -(-bits // 8)
        return int.from_bytes(self._cipher.update(bytes(size)), "big") >> (8 * size - bits)
