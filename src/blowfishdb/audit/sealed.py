"""Counts that nobody can look into: only what adds noise may open them, and what no hidden move can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from blowfishdb.model.arrays import Ints


@dataclass(frozen=True, eq=False, repr=False)
class SealedCounts:
    """Counts with their size and type; whatever else is asked of them fails, and so does the release."""

    inside: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inside.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inside.dtype


def sealed(counts: Ints) -> Ints:
    """The counts, sealed."""
    return counts if isinstance(counts, SealedCounts) else cast("Ints", SealedCounts(counts))


def opened(counts: Ints) -> Ints:
    """The counts themselves."""
    return counts.inside if isinstance(counts, SealedCounts) else counts
