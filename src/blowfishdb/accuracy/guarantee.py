"""What a promise of accuracy covers: all answers together, or each on its own."""

from __future__ import annotations

from typing import Literal

from blowfishdb.errors import AccuracyError

Guarantee = Literal["simultaneous", "per-query"]


def check_guarantee(guarantee: Guarantee) -> None:
    """AccuracyError for anything else."""
    if guarantee not in ("simultaneous", "per-query"):
        raise AccuracyError(f"a guarantee is 'simultaneous' or 'per-query', not {guarantee!r}")
