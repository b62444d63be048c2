"""An answer on a page: its picture, its table, what it means, the code that asks the same, and files to keep."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compare import compare, has_two_groups
from blowfishdb.model.numbers import Floats
from blowfishdb.present.files import TABLES, is_map, map_file
from blowfishdb.present.page import note_parts
from blowfishdb.present.table import cells, column_names, headings, row_labels
from blowfishdb.present.words import digits_of
from blowfishdb.server.pages.answer_chart import AnswerChart, answer_pills, show_comparison
from blowfishdb.server.pages.controls import heading, listed_table, notice, small
from blowfishdb.server.pages.page_context import PageContext


def name_of(answer: Answer, ending: str) -> str:
    """A name that tells what is in the file."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{answer.dataset} {answer.title}".lower()).strip("-")
    return f"{words[:80] or 'answer'}.{ending}"


def _png(answer: Answer) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.png"
        answer.save_plot(path)
        return path.read_bytes()


FORMATS: dict[str, tuple[str, Callable[[Answer], bytes]]] = {
    **{ending.lstrip("."): file for ending, file in TABLES.items()},
    "geojson": ("GeoJSON map", map_file),
    "png": ("PNG picture", _png),
    "svg": ("SVG picture", lambda answer: answer.interactive().svg.encode()),
    "json": ("JSON with certificate", lambda answer: answer.to_json(indent=2).encode()),
}
"""The files of an answer by their ending: their name in the menu, and what writes them."""
MOST_ROWS = 2_000
"""A longer table is shown up to here; files hold all of it."""
MANY = 2
"""Aggregates from which on they are compared one by one, in Python."""


def show_answer(
    context: PageContext, answer: Answer, code: str, *, free: bool = False, is_comparison: bool = False
) -> None:
    """Fills the card around it with the answer; several answers follow each other."""
    for place, part in enumerate(answer.parts):
        if place:
            ui.separator().style("margin:22px 0")
        show_answer(context, part, code, free=free)
    if answer.parts:
        return
    with ui.element("div").classes("bf-top"):
        heading(answer.title)
        _downloads(context, answer)
    version = [f"policy v{answer.policy_version}"] if answer.policy_version else []
    answer_pills(answer, answer.mechanism, *version, cost="free: read off a synopsis" if free else "")
    if answer.caveat:
        notice(answer.caveat, "" if free else "is-accent").style("margin-top:12px")
    with ui.tabs().props("dense align=left no-caps inline-label").style("margin-top:10px") as tabs:
        picture = ui.tab("Number" if answer.row_count == 1 else "Chart")
        difference = ui.tab("Difference") if has_two_groups(answer) and len(answer.columns) < MANY else None
        table, meaning, python = ui.tab("Table"), ui.tab("What it means"), ui.tab("Python")
    first = difference if is_comparison and difference is not None else picture
    with ui.tab_panels(tabs, value=first, animated=False).classes("w-full"):
        with ui.tab_panel(picture):
            AnswerChart(answer, free=free)
        if difference is not None:
            with ui.tab_panel(difference):
                show_comparison(compare(answer))
        with ui.tab_panel(table):
            _table(answer)
        with ui.tab_panel(meaning):
            _meaning(answer)
        with ui.tab_panel(python):
            code_block(code)


def _table(answer: Answer) -> None:
    """The numbers of an answer; of a table of aggregates a row for each group, each aggregate with its interval."""
    shown = range(min(answer.row_count, MOST_ROWS))
    names = column_names(answer)
    if answer.columns:
        listed_table(headings(answer), len(names), cells(answer, shown), "The numbers")
    else:
        digits, bounds, pointwise = digits_of(answer), answer.bounds, answer.pointwise_bounds
        numbers: dict[str, tuple[Callable[[float], str], Floats]] = {
            answer.value_name: (digits.value, answer.values),
            "low": (digits.low, bounds.low),
            "high": (digits.high, bounds.high),
            "as measured": (digits.value, answer.raw),
            "low, on its own": (digits.low, pointwise.low),
            "high, on its own": (digits.high, pointwise.high),
        }
        rows = (
            [*labels, *(words(float(values[place])) for words, values in numbers.values())]
            for place, labels in zip(shown, row_labels(answer, shown), strict=True)
        )
        listed_table([*names, *numbers], len(names), rows, "The numbers")
    if answer.row_count > len(shown):
        small(f"The first {len(shown):,} of {answer.row_count:,} rows; a file holds them all.")


def _meaning(answer: Answer) -> None:
    with ui.element("div").classes("bf-stack").style("max-width:78ch"):
        for part in note_parts(answer):
            ui.label(part)
        copy_button(answer.note(), "Copy as a note")
        certificate = answer.certificate
        heading("Certificate", 3).classes("bf-title")
        terms = {
            "Privacy loss": f"{certificate.epsilon} (exact)",
            "Plan": certificate.plan_digest,
            "Released": answer.released,
            "Made with": f"BlowfishDB {answer.version}",
        }
        with ui.element("dl").style("display:grid;grid-template-columns:120px 1fr;gap:4px 12px;margin:0"):
            for name, value in terms.items():
                with ui.element("dt").classes("bf-quiet bf-small"):
                    ui.label(name)
                with ui.element("dd").style("margin:0;overflow-wrap:anywhere").classes("bf-mono"):
                    ui.label(value)
        small("The JSON file holds the whole certificate; anybody can check it offline with bf.Answer.from_json.")


def code_block(code: str) -> None:
    """Code to copy."""
    with ui.element("pre").classes("bf-code").props('tabindex=0 role=region aria-label="Code"'):
        ui.label(code).style("white-space:pre")

    copy_button(code, "Copy").style("margin-top:8px")


def copy_button(text: str, label: str) -> ui.button:
    """Copies the text."""

    def copy() -> None:
        ui.clipboard.write(text)
        ui.notify("Copied", position="top")

    return ui.button(label, icon="content_copy", on_click=copy).props("flat dense").style("align-self:flex-start")


def _downloads(context: PageContext, answer: Answer) -> None:
    async def save(ending: str) -> None:
        ui.download(await context.run(partial(FORMATS[ending][1], answer)), name_of(answer, ending))

    with ui.button("Download", icon="download").props("outline dense padding='6px 12px'"), ui.menu():
        for ending, (words, _) in FORMATS.items():
            if ending == "geojson" and not is_map(answer):
                continue
            ui.menu_item(words, on_click=partial(save, ending)).props("role=menuitem")
