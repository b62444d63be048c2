"""The answer as HTML: a small table with the picture for notebooks, and a page of its own to save."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.engine.present.colours import GRID, INK, PAPER, QUIET
from blowfishdb.engine.present.note import note
from blowfishdb.engine.present.numbers import accuracy_words, epsilon_words
from blowfishdb.engine.present.picture import picture
from blowfishdb.engine.present.svg import element, words
from blowfishdb.engine.present.text import cells, column_names, shown_rows, whose
from blowfishdb.engine.released import Released

PAGE_ROWS = 2_000
"""A saved page lists up to this many rows, then the first and last ones."""


def fragment(answer: Released) -> str:
    """What a notebook shows: the question, the picture, and the first and last rows."""
    body = [_heading(answer, "div"), picture(answer), table(answer, 10)]
    style = f"font:13px system-ui,sans-serif;color:{INK};background:{PAPER};padding:10px 12px;max-width:744px"
    return element("div", {"style": style}, *body)


def whole_page(answer: Released, svg: str) -> str:
    """A page that stands alone: the picture, the note, and the values."""
    style = (
        f"body{{font:15px/1.5 system-ui,sans-serif;color:{INK};background:{PAPER};max-width:760px;margin:2rem auto;"
        "padding:0 1rem}"
    )
    head = f'<meta charset="utf-8"><title>{words(answer.title)}</title><style>{style}</style>'
    body = [_heading(answer, "h1"), svg, element("p", {}, words(note(answer))), table(answer, PAGE_ROWS)]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _heading(answer: Released, tag: str) -> str:
    said = f"epsilon {epsilon_words(answer.epsilon)}{whose(answer)} · {answer.mechanism} · {accuracy_words(answer)}"
    title = element(tag, {"style": "font-size:16px;font-weight:600;margin:0"}, words(answer.title))
    parts = [title, element("div", {"style": f"color:{QUIET};font-size:12px;margin:2px 0 8px"}, words(said))]
    if answer.consistent.note:
        parts.append(element("div", {"style": "font-size:12px"}, words(answer.consistent.note)))
    return "".join(parts)


def table(answer: Released, most: int) -> str:
    """The values with their intervals as an HTML table; of many rows the first and the last."""
    first, last = shown_rows(answer.raw.size, most)
    names = column_names(answer)
    head = _row([*names, answer.value_name, "low", "high"], "th", len(names), {"scope": "col"})
    rows = [_row(row, "td", len(names), {}) for row in cells(answer, first)]
    if last:
        left_out = answer.raw.size - len(first) - len(last)
        gap = {"colspan": len(names) + 3, "style": f"text-align:center;color:{QUIET};padding:2px 10px"}
        rows.append(element("tr", {}, element("td", gap, words(f"… {left_out:,} more rows …"))))
        rows += [_row(row, "td", len(names), {}) for row in cells(answer, last)]
    caption = element("caption", {"style": "display:none"}, words(answer.title))
    style = {"style": "border-collapse:collapse;margin-top:8px;font-variant-numeric:tabular-nums"}
    return element("table", style, caption, element("thead", {}, head), element("tbody", {}, *rows))


def _row(parts: Sequence[str], tag: str, names: int, extra: dict[str, str]) -> str:
    made = []
    for place, part in enumerate(parts):
        side = "left" if place < names else "right"
        style = f"text-align:{side};padding:2px 10px;border-bottom:1px solid {GRID}"
        made.append(element(tag, {**extra, "style": style}, words(part)))
    return element("tr", {}, *made)
