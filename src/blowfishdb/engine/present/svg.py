"""SVG as text: elements whose attributes and words are always escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from blowfishdb.engine.present.numbers import printable


def element(name: str, attributes: Mapping[str, object], *children: str) -> str:
    """One element; the children are markup already, the values of attributes are escaped here."""
    written = "".join(f' {key}="{words(_short(value))}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>"


def words(text: str) -> str:
    """Text as markup: nothing in it can open an element, close an attribute or steer the reader's screen."""
    return escape(printable(text), quote=True)


def _short(value: object) -> str:
    """Positions to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between low and high, about so many."""
    span = high - low
    if not (math.isfinite(span) and span > 0.0):
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= rough)
    return [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
