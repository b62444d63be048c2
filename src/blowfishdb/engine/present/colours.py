"""Colours that people with any kind of colour vision can tell apart, the same in every picture."""

from __future__ import annotations

BAR = "#3b7ea1"
MARK = "#12394f"
BAND = "#a9cfe2"
INK = "#1f2933"
QUIET = "#5f6c7b"
GRID = "#e3e8ee"
PAPER = "#ffffff"

STOPS = ((253, 253, 244), (214, 233, 214), (147, 203, 194), (78, 160, 174), (38, 109, 146), (27, 58, 104), (17, 17, 58))
"""Light to dark at an even pace of lightness, so that it also reads in grey."""


def shade(part: float) -> str:
    """The colour for a part between 0 (light) and 1 (dark)."""
    place = min(max(part, 0.0), 1.0) * (len(STOPS) - 1)
    first = min(int(place), len(STOPS) - 2)
    rest = place - first
    mixed = (round(a + (b - a) * rest) for a, b in zip(STOPS[first], STOPS[first + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
