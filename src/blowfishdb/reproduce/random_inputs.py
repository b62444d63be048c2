"""Seeded generators for what is public in an experiment: workloads, stand-in data and resampling; never for noise."""

from __future__ import annotations

import hashlib

import numpy as np

Generator = np.random.Generator


def generator(seed: int, *words: str | int) -> Generator:
    """A generator of its own for each purpose that the words name."""
    text = "\0".join([str(seed), *map(str, words)])
    return np.random.default_rng(np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint32))
