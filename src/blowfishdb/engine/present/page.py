"""The answer as HTML: a small table with the picture for notebooks, and a page of its own to save."""

from __future__ import annotations

from blowfishdb.engine.present.colours import INK, PAPER
from blowfishdb.engine.present.html_table import BOX, headline, html_table
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
    return element("div", {"style": BOX}, _heading(answer, "div"), picture(answer), table(answer, 10))


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
    remark = answer.consistent.note
    below = element("div", {"style": "font-size:12px"}, words(remark)) if remark else ""
    return headline(answer.title, said, tag) + below


def table(answer: Released, most: int) -> str:
    """The values with their intervals as an HTML table; of many rows the first and the last."""
    first, last = shown_rows(answer.raw.size, most)
    names = column_names(answer)
    rows: list[list[str] | str] = [*cells(answer, first)]
    if last:
        rows += [f"… {answer.raw.size - len(first) - len(last):,} more rows …", *cells(answer, last)]
    return html_table(answer.title, [*names, answer.value_name, "low", "high"], rows, range(len(names)))
