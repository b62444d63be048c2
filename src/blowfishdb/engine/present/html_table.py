"""A small HTML table, the same look for answers and previews; styles are inline, because notebooks keep no sheet."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.engine.present.colours import GRID, INK, PAPER, QUIET
from blowfishdb.engine.present.svg import element, words

BOX = f"font:13px system-ui,sans-serif;color:{INK};background:{PAPER};padding:10px 12px;max-width:744px"
"""The style of what a notebook shows."""
ON_PAPER = f"background:{PAPER}"
"""Notebooks in the dark would put stripes of their own behind dark text."""
FIGURES = "font-variant-numeric:tabular-nums"
HEARD = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
"""The style of words for those who hear a page."""


def headline(title: str, below: str, tag: str) -> str:
    """A title and a quiet line below it."""
    named = element(tag, {"style": "font-size:16px;font-weight:600;margin:0"}, words(title))
    return named + element("div", {"style": f"color:{QUIET};font-size:12px;margin:2px 0 8px"}, words(below))


def html_table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str] | str], lefts: Sequence[int]) -> str:
    """The table; `lefts` are the columns that begin at the left. A row that is one text goes across all columns."""
    head = _row(names, "th", lefts, {"scope": "col"})
    body = [_across(row, len(names)) if isinstance(row, str) else _row(row, "td", lefts, {}) for row in rows]
    style = f"border-collapse:collapse;margin-top:8px;font:inherit;color:inherit;{ON_PAPER};{FIGURES}"
    heard = element("caption", {"style": HEARD}, words(caption))
    return element("table", {"style": style}, heard, element("thead", {}, head), element("tbody", {}, *body))


def _row(parts: Sequence[str], tag: str, lefts: Sequence[int], extra: dict[str, str]) -> str:
    made = []
    for place, part in enumerate(parts):
        side = "left" if place in lefts else "right"
        style = f"text-align:{side};padding:2px 10px;border-bottom:1px solid {GRID}"
        # A heading without words would be read out as one.
        named = {**extra, "style": style} if part else {"style": style}
        made.append(element(tag if part else "td", named, words(part)))
    return element("tr", {"style": ON_PAPER}, *made)


def _across(text: str, columns: int) -> str:
    gap = {"colspan": columns, "style": f"text-align:center;color:{QUIET};padding:2px 10px"}
    return element("tr", {"style": ON_PAPER}, element("td", gap, words(text)))
