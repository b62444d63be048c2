"""What a promise of accuracy covers: all answers together, or each on its own."""

from __future__ import annotations

from typing import Literal

Guarantee = Literal["simultaneous", "per-query"]
