"""An answer on a page: its picture, its table, what it means, the code that asks the same, and files to keep."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.present.note import note_parts
from blowfishdb.engine.present.numbers import accuracy_words, digits_of, epsilon_words
from blowfishdb.engine.present.text import column_names, row_labels
from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.charts import chart_of, height_of
from blowfishdb.server.pages.controls import choice
from blowfishdb.server.pages.files import FORMATS, file_of, name_of
from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.shell import heading, notice

MOST_ROWS = 2_000
"""A longer table is shown up to here; files hold all of it."""
PER_PAGE = 25
CONSISTENT, RAW = "Consistent", "As measured"


def show_answer(here: Here, answer: Answer, code: str, *, free: bool = False) -> None:
    """Fills the card around it with the answer."""
    with ui.element("div").classes("bf-top"):
        heading(answer.title)
        _downloads(here, answer)
    _pills(answer, free=free)
    if answer.caveat:
        notice(answer.caveat, "" if free else "is-accent").style("margin-top:12px")
    with ui.tabs().props("dense align=left no-caps inline-label").style("margin-top:10px") as tabs:
        picture, table = ui.tab("Chart"), ui.tab("Table")
        meaning, python = ui.tab("What it means"), ui.tab("Python")
    with ui.tab_panels(tabs, value=picture, animated=False).classes("w-full"):
        with ui.tab_panel(picture):
            _picture(answer)
        with ui.tab_panel(table):
            _table(answer)
        with ui.tab_panel(meaning):
            _meaning(answer)
        with ui.tab_panel(python):
            code_block(code)


def _pills(answer: Answer, *, free: bool) -> None:
    cost = "free: read off a synopsis" if free else f"epsilon {epsilon_words(answer.epsilon)}"
    with ui.element("div").classes("bf-row").style("gap:6px;margin-top:6px"):
        for text, kind in (
            (accuracy_words(answer), "is-accent"),
            (cost, "is-brand"),
            (answer.mechanism, ""),
            (f"policy v{answer.policy_version}" if answer.policy_version else "", ""),
        ):
            if text:
                ui.label(text).classes(f"bf-pill {kind}")


def _picture(answer: Answer) -> None:
    label = f"Chart of {answer.title}: {accuracy_words(answer)}. The tab Table has the numbers."
    with ui.element("div").props(f'role="img" aria-label="{_quoted(label)}"').classes("w-full"):
        chart = ui.echart(chart_of(answer)).classes("bf-chart").style(f"height:{height_of(answer)}px")

    def choose(which: str) -> None:
        chart.options.clear()
        chart.options.update(chart_of(answer, raw=which == RAW))
        chart.update()

    if (answer.raw != answer.values).any():
        with ui.element("div").classes("bf-row bf-small bf-quiet").style("margin-top:12px"):
            ui.label("Values:")
            with ui.element("div").style("width:250px"):
                choice({CONSISTENT: CONSISTENT, RAW: RAW}, CONSISTENT, choose, "Which values to show")
            ui.label("Consistent values add up and are never negative; both lie inside the intervals.")


def _quoted(text: str) -> str:
    return text.replace('"', "'")


def _table(answer: Answer) -> None:
    names, digits = column_names(answer), digits_of(answer)
    size = min(answer.raw.size, MOST_ROWS)
    labels = row_labels(answer, range(size))
    columns = [{"name": f"l{n}", "label": name, "field": f"l{n}", "align": "left"} for n, name in enumerate(names)]
    for field, label in (
        ("value", answer.value_name),
        ("low", "low"),
        ("high", "high"),
        ("raw", "as measured"),
        ("own_low", "low, on its own"),
        ("own_high", "high, on its own"),
    ):
        columns.append({"name": field, "label": label, "field": field, "align": "right"})
    bounds, own = answer.bounds, answer.own_bounds
    rows = [
        {f"l{n}": part for n, part in enumerate(labels[place])}
        | {
            "id": place,
            "value": digits.value(float(answer.values[place])),
            "low": digits.low(float(bounds.low[place])),
            "high": digits.high(float(bounds.high[place])),
            "raw": digits.value(float(answer.raw[place])),
            "own_low": digits.low(float(own.low[place])),
            "own_high": digits.high(float(own.high[place])),
        }
        for place in range(size)
    ]
    table = ui.table(columns=columns, rows=rows, row_key="id", pagination=PER_PAGE).props("flat dense")
    table.classes("w-full").props("" if size > PER_PAGE else "hide-bottom").props('aria-label="The numbers"')
    if answer.raw.size > size:
        ui.label(f"The first {size:,} of {answer.raw.size:,} rows; a file holds them all.").classes("bf-quiet bf-small")


def _meaning(answer: Answer) -> None:
    with ui.element("div").classes("bf-stack").style("max-width:78ch"):
        for part in note_parts(answer):
            ui.label(part)
        copy_button(answer.note(), "Copy as a note")
        certificate = answer.certificate
        heading("Certificate", 3).classes("bf-title")
        facts = {
            "Privacy loss": f"{certificate.epsilon} (exact)",
            "Plan": certificate.plan_digest,
            "Released": answer.released,
            "Made with": f"BlowfishDB {answer.version}",
        }
        with ui.element("dl").style("display:grid;grid-template-columns:120px 1fr;gap:4px 12px;margin:0"):
            for name, value in facts.items():
                with ui.element("dt").classes("bf-quiet bf-small"):
                    ui.label(name)
                with ui.element("dd").style("margin:0;overflow-wrap:anywhere").classes("bf-mono"):
                    ui.label(value)
        said = "The JSON file holds the whole certificate; anybody can check it offline with bf.Answer.from_json."
        ui.label(said).classes("bf-quiet bf-small")


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


def _downloads(here: Here, answer: Answer) -> None:
    with ui.button("Download", icon="download").props("outline dense padding='6px 12px'"), ui.menu():
        for ending, words in FORMATS.items():
            ui.menu_item(words, on_click=_saving(here, answer, ending)).props("role=menuitem")


def _saving(here: Here, answer: Answer, ending: str) -> Callable[[], object]:
    async def save() -> None:
        try:
            content = await here.run(lambda: file_of(answer, ending))
        except BlowfishError as error:
            here.tell(error)
            return
        ui.download(content, name_of(answer, ending))

    return save
