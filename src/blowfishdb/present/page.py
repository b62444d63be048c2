"""Answers and previews as HTML: tables for notebooks, and a page of its own to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike

from blowfishdb.errors import plural
from blowfishdb.model.arguments import checked
from blowfishdb.present.answer_values import AnswerValues
from blowfishdb.present.chart import GRID, INK, PAPER, QUIET
from blowfishdb.present.chart_svg import element, escaped, picture
from blowfishdb.present.export import ROWS, cells, column_names, headings, shown_rows, written
from blowfishdb.present.words import caption_words, note

BOX = f"font:13px system-ui,sans-serif;color:{INK};background:{PAPER};padding:10px 12px;max-width:744px"
"""The style of what a notebook shows."""
ON_PAPER = f"background:{PAPER}"
"""Notebooks in the dark would put stripes of their own behind dark text."""
FIGURES = "font-variant-numeric:tabular-nums"
HEARD = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
"""The style of words for those who hear a page."""


def headline(title: str, below: str, tag: str) -> str:
    """A title and a quiet line below it."""
    named = element(tag, {"style": "font-size:16px;font-weight:600;margin:0"}, escaped(title))
    return named + element("div", {"style": f"color:{QUIET};font-size:12px;margin:2px 0 8px"}, escaped(below))


def html_table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str] | str], lefts: Sequence[int]) -> str:
    """The table; `lefts` are the columns that begin at the left. A row that is one text goes across all columns."""
    head = _row(names, "th", lefts, {"scope": "col"})
    body = [_across(row, len(names)) if isinstance(row, str) else _row(row, "td", lefts, {}) for row in rows]
    style = f"border-collapse:collapse;margin-top:8px;font:inherit;color:inherit;{ON_PAPER};{FIGURES}"
    heard = element("caption", {"style": HEARD}, escaped(caption))
    return element("table", {"style": style}, heard, element("thead", {}, head), element("tbody", {}, *body))


def _row(parts: Sequence[str], tag: str, lefts: Sequence[int], extra: dict[str, str]) -> str:
    row = []
    for place, part in enumerate(parts):
        side = "left" if place in lefts else "right"
        style = {"style": f"text-align:{side};padding:2px 10px;border-bottom:1px solid {GRID}"}
        # A heading without words would be read out as one.
        row.append(element(tag, {**extra, **style}, escaped(part)) if part else element("td", style))
    return element("tr", {"style": ON_PAPER}, *row)


def _across(text: str, columns: int) -> str:
    gap = {"colspan": columns, "style": f"text-align:center;color:{QUIET};padding:2px 10px"}
    return element("tr", {"style": ON_PAPER}, element("td", gap, escaped(text)))


PAGE_ROWS = 2_000
"""A saved page lists up to this many rows, then the first and last ones."""


def answer_fragment(answer: AnswerValues) -> str:
    """The answer in a notebook: its title, the picture, and the first and last rows."""
    if answer.parts:
        return "".join(map(answer_fragment, answer.parts))
    return element("div", {"style": BOX}, _heading(answer, "div"), picture(answer), table(answer, 10))


def whole_page(answer: AnswerValues, svg: str) -> str:
    """A page that stands alone: the picture, the note, and the values."""
    style = (
        f"body{{font:15px/1.5 system-ui,sans-serif;color:{INK};background:{PAPER};max-width:760px;margin:2rem auto;"
        "padding:0 1rem}"
    )
    head = f'<meta charset="utf-8"><title>{escaped(answer.title)}</title><style>{style}</style>'
    body = [_heading(answer, "h1"), svg, element("p", {}, escaped(note(answer))), table(answer, PAGE_ROWS)]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _heading(answer: AnswerValues, tag: str) -> str:
    remark = answer.consistent.note
    below = element("div", {"style": "font-size:12px"}, escaped(remark)) if remark else ""
    return headline(answer.title, caption_words(answer), tag) + below


def table(answer: AnswerValues, most: int) -> str:
    """The values with their intervals as an HTML table; of many rows the first and the last."""
    lefts = len(column_names(answer))
    return rows_table(answer.title, headings(answer), partial(cells, answer), answer.row_count, lefts, most)


def rows_table(
    caption: str,
    head: Sequence[str],
    cells: Callable[[range], list[list[str]]],
    size: int,
    lefts: int,
    most: int = ROWS,
) -> str:
    """The first and the last rows as an HTML table, whose first columns, `lefts` of them, begin at the left."""
    first, last = shown_rows(size, most)
    rows: list[list[str] | str] = [*cells(first)]
    if last:
        rows += [f"… {plural(size - len(first) - len(last), 'more row')} …", *cells(last)]
    return html_table(caption, head, rows, range(lefts))


COLUMNS = ("mechanism", "epsilon", "within", "usual error", "")
LEFTS = (0, 4)


def preview_fragment(title: str, price: str, offers: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """A preview in a notebook; an offer has a text for each of the columns."""
    return fragment(title, price, html_table("What each mechanism offers", COLUMNS, offers, LEFTS), notes)


def fragment(title: str, below: str, table: str, notes: Sequence[str]) -> str:
    """What a notebook shows of something: its title, a quiet line, a table, and sentences."""
    paragraphs = [element("p", {"style": "margin:6px 0 0"}, escaped(line)) for line in notes]
    return element("div", {"style": BOX}, headline(title, below, "div"), table, *paragraphs)


@checked()
@dataclass(frozen=True)
class Interactive:
    """A picture that notebooks show and that can be saved as a page of its own."""

    svg: str
    page: str

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a page with the picture, the note and all values as a table."""
        with written(path) as place:
            place.write_text(self.page, encoding="utf-8")


def interactive(answer: AnswerValues) -> Interactive:
    """The picture of an answer, and a page around it."""
    svg = picture(answer)
    return Interactive(svg, whole_page(answer, svg))
