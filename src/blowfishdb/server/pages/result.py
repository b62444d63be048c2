"""An answer on a page: its picture, its table, what it means, the code that asks the same, and files to keep."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Floats
from blowfishdb.model.predicate import Axis, condition_code
from blowfishdb.present.chart import chart_of
from blowfishdb.present.chart_echarts import DETAIL, draw, height_of
from blowfishdb.present.files import TABLES, is_map, map_file
from blowfishdb.present.page import note_parts
from blowfishdb.present.table import cells, column_names, headings, row_labels
from blowfishdb.present.words import accuracy_words, digits_of, epsilon_words
from blowfishdb.server.pages.controls import Column, called, choice, heading, in_row, notice, paged_table, pill, small
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import AccuracyDraft, QueryDraft


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
CONSISTENT, RAW = "Consistent", "As measured"


def show_answer(context: PageContext, answer: Answer, code: str, *, free: bool = False) -> None:
    """Fills the card around it with the answer."""
    with ui.element("div").classes("bf-top"):
        heading(answer.title)
        _downloads(context, answer)
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
    with in_row().style("gap:6px;margin-top:6px"):
        pill(accuracy_words(answer), "is-accent")
        if answer.counted:
            pill(answer.counted, "is-accent")
        pill(cost, "is-brand")
        pill(answer.mechanism)
        if answer.policy_version:
            pill(f"policy v{answer.policy_version}")


def _picture(answer: Answer) -> None:
    words = ", ".join(filter(None, (accuracy_words(answer), answer.counted)))
    label = f"Chart of {answer.title}: {words}. The tab Table has the numbers."
    with called(ui.element("div").props("role=img").classes("w-full"), label):
        consistent = chart_of(answer, DETAIL)
        chart = ui.echart(draw(consistent)).classes("bf-chart").style(f"height:{height_of(consistent)}px")

    def choose(which: str) -> None:
        chart.options.clear()
        chart.options.update(draw(chart_of(answer, DETAIL, raw=which == RAW)))
        chart.update()

    if (answer.raw != answer.values).any():
        with ui.element("div").classes("bf-row bf-small bf-quiet").style("margin-top:12px"):
            ui.label("Values:")
            with ui.element("div").style("width:250px"):
                choice({CONSISTENT: CONSISTENT, RAW: RAW}, CONSISTENT, choose, "Which values to show")
            ui.label("Consistent values add up and are never negative; both lie inside the intervals.")


def _table(answer: Answer) -> None:
    digits, size = digits_of(answer), min(answer.row_count, MOST_ROWS)
    if answer.columns:
        _aggregates(answer, size)
        return
    labels = row_labels(answer, range(size))
    bounds, pointwise = answer.bounds, answer.pointwise_bounds
    numbers: dict[str, tuple[str, Callable[[float], str], Floats]] = {
        "value": (answer.value_name, digits.value, answer.values),
        "low": ("low", digits.low, bounds.low),
        "high": ("high", digits.high, bounds.high),
        "raw": ("as measured", digits.value, answer.raw),
        "pointwise_low": ("low, on its own", digits.low, pointwise.low),
        "pointwise_high": ("high, on its own", digits.high, pointwise.high),
    }
    columns = {f"l{n}": Column(name) for n, name in enumerate(column_names(answer))}
    columns |= {key: Column(name, "is-number") for key, (name, _, _) in numbers.items()}
    rows = [
        {"id": place}
        | {f"l{n}": part for n, part in enumerate(label)}
        | {key: words(float(values[place])) for key, (_, words, values) in numbers.items()}
        for place, label in enumerate(labels)
    ]
    paged_table(columns, rows, "The numbers")
    if answer.raw.size > size:
        small(f"The first {size:,} of {answer.raw.size:,} rows; a file holds them all.")


def _aggregates(answer: Answer, size: int) -> None:
    """A row for each group, and in it each aggregate with its interval."""
    labels = len(column_names(answer))
    columns = {
        f"c{n}": Column(name) if n < labels else Column(name, "is-number") for n, name in enumerate(headings(answer))
    }
    rows = [
        {"id": place} | {f"c{n}": part for n, part in enumerate(parts)}
        for place, parts in enumerate(cells(answer, range(size)))
    ]
    paged_table(columns, rows, "The numbers")
    if answer.row_count > size:
        small(f"The first {size:,} of {answer.row_count:,} rows; a file holds them all.")


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


def snippet(draft: QueryDraft, accuracy: AccuracyDraft, domain: Domain, url: str) -> str:
    """Python that asks a dataset the same question with the same accuracy."""
    terms, question = _accuracy(accuracy), f"question = db[{draft.dataset!r}]{_call(draft, domain)}"
    return _whole(url, [question, f"print(question.preview({terms}))  # free", f"answer = question.release({terms})"])


def sql_snippet(text: str, accuracy: AccuracyDraft, url: str) -> str:
    """Python that runs the same statement."""
    return _whole(url, [f'answer = db.sql("""{text.strip()}""", {_accuracy(accuracy)})'])


def reopening(dataset: str, number: int, url: str) -> str:
    """Python that opens an answer of the past again."""
    return _whole(url, [f"answer = db.reopen({dataset!r}, {number})  # free"])


def synopsis_snippet(draft: QueryDraft, domain: Domain, number: int, url: str) -> str:
    """Python that asks a published synopsis the same."""
    synopsis = f"synopsis = db.synopsis({draft.dataset!r}, {number})"
    return _whole(url, [synopsis, f"answer = synopsis{_call(draft, domain)}  # free"])


def _whole(url: str, lines: list[str]) -> str:
    dates = ["import datetime", ""] if any("datetime." in line for line in lines) else []
    head = [*dates, "import blowfishdb as bf", "", f'db = bf.connect({url!r}, token="...")  # a token of yours']
    return "\n".join([*head, *lines, "answer.to_pandas()"])


def _call(draft: QueryDraft, domain: Domain) -> str:
    filters = "".join(f".where({condition_code(one)})" for one in draft.conditions(domain))
    axes = ", ".join(_axis(axis) for axis in draft.axes())
    spans = draft.ranges(domain) if draft.template == "ranges" else None
    listed = "" if spans is None else f", [{', '.join(f'({low!r}, {high!r})' for low, high in spans)}]"
    name = "histogram2d" if draft.template == "heat" else draft.template
    return f"{filters}.{name}({axes}{listed})"


def _axis(axis: Axis) -> str:
    if axis.width is not None:
        return f"bf.col({axis.attribute!r}).bins({axis.width!r})"
    return f"bf.col({axis.attribute!r}).by({axis.unit!r})" if axis.unit is not None else repr(axis.attribute)


def _accuracy(accuracy: AccuracyDraft) -> str:
    alpha, epsilon = accuracy.keywords()
    main = f"alpha={alpha}" if epsilon is None else f'epsilon="{epsilon}"'
    chosen = "" if accuracy.mechanism is None else f", mechanism={accuracy.mechanism!r}"
    fresh = ", fresh=True" if accuracy.fresh else ""
    return f"{main}, confidence={accuracy.confidence}{chosen}{fresh}"
