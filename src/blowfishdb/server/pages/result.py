"""An answer on a page: its picture, its table, what it means, the code that asks the same, and files to keep."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.infer import Estimate
from blowfishdb.engine.postprocess import AnswerComparison, compare, has_two_groups
from blowfishdb.errors import BlowfishError, NotSignedIn, WaitsForApproval, sentence
from blowfishdb.model.numbers import Floats
from blowfishdb.present.chart import (
    Chart,
    ChartAxis,
    Order,
    Series,
    can_be_percent,
    chart_kind,
    chart_of,
    is_categories,
    largest,
)
from blowfishdb.present.chart_echarts import DETAIL, draw, height_of
from blowfishdb.present.export import TABLES, cells, column_names, headings, is_map, map_file, row_labels
from blowfishdb.present.words import (
    Digits,
    accuracy_words,
    digits_of,
    epsilon_words,
    mechanism_words,
    note_parts,
    percent,
)
from blowfishdb.server.pages.controls import (
    called,
    choice,
    figure,
    heading,
    in_row,
    listed_table,
    notice,
    pill,
    redraw,
    scrolled,
    small,
)
from blowfishdb.server.pages.layout import PageContext, Result
from blowfishdb.server.pages.query_draft import edit_link
from blowfishdb.sources.calls import is_cancelled


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
        with in_row().style("gap:6px;flex:none"):
            link = "" if free else edit_link(answer, context.session())
            if link:
                ui.link("Edit this question", link).classes("bf-small").props('data-testid="edit"')
            _downloads(context, answer)
    version = [f"policy v{answer.policy_version}"] if answer.policy_version else []
    answer_pills(answer, mechanism_words(answer), *version, cost="free: read off a synopsis" if free else "")
    if answer.caveat:
        notice(answer.caveat, "" if free else "is-accent").style("margin-top:12px")
    with ui.tabs().props("dense align=left no-caps inline-label").style("margin-top:10px") as tabs:
        # A list of names has nothing to draw: its places are no measure.
        picture = None if answer.is_list else ui.tab("Number" if answer.row_count == 1 else "Chart")
        difference = ui.tab("Difference") if has_two_groups(answer) and len(answer.columns) < MANY else None
        table, meaning, python = ui.tab("Table"), ui.tab("What it means"), ui.tab("Python")
    first = difference if is_comparison and difference is not None else picture or table
    with ui.tab_panels(tabs, value=first, animated=False).classes("w-full"):
        if picture is not None:
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
    if answer.is_list:
        small(answer.consistent.note)


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


TALLEST = 620
"""Pixels beyond which a long list is scrolled."""
ORDERS: dict[str, str] = {"value": "By value", "name": "By name", "declared": "As declared"}
SEARCHED, SORTED = 12, 2
"""A list of more rows is worth a search, or an order of its own."""
MOST_COMPARED = 500


def show_chart(chart: Chart, label: str, top: float | None = None) -> None:
    """A chart with a label for those who do not see it; `top` fixes the end of its measure."""
    if chart.kind == "number":
        show_number(chart)
        return
    if not chart.values.size:
        small("No name holds that.", "padding:24px 0")
        return
    tall = height_of(chart)
    with scrolled(f"{label} A long list.") if tall > TALLEST else ui.element("div") as box:
        box.style(f"max-height:{TALLEST}px" if tall > TALLEST else "width:100%")
        with called(ui.element("div").props("role=img").classes("w-full"), label):
            ui.echart(draw(chart, top=top)).classes("bf-chart").style(f"height:{tall}px")
    noise: tuple[str, ...] = ()
    if chart.kind == "heat":
        length = ": the orange length beside the colours" if 0 < chart.interval_part < 1 else ""
        noise = chart.noise_words, f"{chart.interval_words}{length}"
    for words in filter(None, (*noise, chart.note)):
        small(sentence(words), "margin-top:6px;max-width:90ch").props('data-testid="remark"')


def show_number(chart: Chart, name: str = "", charge: str = "") -> None:
    """A number in large letters, its interval in words and as a bar, and what it cost."""
    low, value, high = (float(column[0]) for column in (chart.low, chart.values, chart.high))
    with ui.element("div").classes("bf-number").props('data-testid="number"'):
        if name:
            small(name)
        if low != low:
            ui.label("not known").classes("bf-big bf-quiet")
            small("The first may be 0.")
            return
        ui.label(chart.value(0)).classes("bf-big")
        small(chart.number_words)
        if low < high:
            share = min(max((value - low) / (high - low), 0.0), 1.0)
            with ui.element("div").classes("bf-interval").props("aria-hidden=true"):
                ui.element("div").style(f"left:{100 * share:.1f}%")
            with ui.element("div").classes("bf-spread bf-small bf-quiet").props("aria-hidden=true"):
                ui.label(chart.digits.low(low))
                ui.label(chart.digits.high(high))
        if charge:
            small(charge, "margin-top:8px")


@dataclass(frozen=True)
class View:
    """What somebody chose to see of an answer."""

    column: int = 0
    raw: bool = False
    order: Order = "declared"
    matching: str = ""
    percent: bool = False


class AnswerChart:
    """The picture of one answer, and controls for whatever can be chosen of it."""

    def __init__(self, answer: Answer, *, free: bool = False) -> None:
        self._answer, self._view = answer, View()
        if answer.row_count == 1:
            self._numbers("free" if free else f"for epsilon {epsilon_words(answer.epsilon)}")
            return
        if chart_kind(self._column()) == "rows":
            self._view = View(order="value")
        with in_row().classes("bf-chart-controls"):
            self._controls()
        self._box = ui.element("div").classes("w-full").props("aria-live=polite")
        redraw(self._box, self._draw)

    def _column(self) -> Answer:
        """The aggregate that is drawn, as an answer."""
        return self._answer.column(self._view.column) if len(self._answer.columns) > 1 else self._answer

    def _numbers(self, charge: str) -> None:
        columns = [self._answer.column(place) for place in range(len(self._answer.columns))] or [self._answer]
        is_one = len(columns) == 1
        with ui.element("div").classes("bf-numbers"):
            for column in columns:
                show_number(chart_of(column, DETAIL), "" if is_one else column.value_name, charge if is_one else "")
        if not is_one:
            small(f"All of them together {charge}.", "margin-top:10px")

    def _controls(self) -> None:
        answer = self._answer
        if len(answer.columns) > 1:
            names = {place: column.name for place, column in enumerate(answer.columns)}
            column = ui.select(names, value=0, label="Column").style("min-width:150px")
            column.on_value_change(lambda e: self._show(column=e.value))
        if is_categories(self._column()) and answer.row_count > SEARCHED:
            search = ui.input("Search").props('debounce=200 clearable type=search data-testid="search"')
            search.style("width:150px").on_value_change(lambda e: self._show(matching=e.value or ""))
        if is_categories(self._column()) and answer.row_count > SORTED and answer.kind != "quantiles":
            with ui.element("div"):
                choice(ORDERS, self._view.order, lambda order: self._show(order=order), "Order of the groups")
        if can_be_percent(answer):
            units = {"count": "Counts", "percent": "Percent"}
            with ui.element("div"):
                choice(units, "count", lambda unit: self._show(percent=unit == "percent"), "Counts or percent")
        if (answer.raw != answer.values).any():
            kinds = {"consistent": "Consistent", "raw": "As measured"}
            with ui.element("div"):
                choice(kinds, "consistent", lambda kind: self._show(raw=kind == "raw"), "Which values to show")
                ui.tooltip("Consistent values add up and are never negative; both lie inside the intervals.")

    def _show(self, **changes: Any) -> None:
        self._view = replace(self._view, **changes)
        redraw(self._box, self._draw)

    def _draw(self) -> None:
        answer, view = self._column(), self._view
        options = {"raw": view.raw, "percent": view.percent}
        chart = chart_of(answer, DETAIL, order=view.order, matching=view.matching, **options)
        parts = (accuracy_words(answer), answer.counted, chart.noise_words if chart.kind == "heat" else "")
        show_chart(chart, f"Chart of {answer.title}: {', '.join(filter(None, parts))}. The tab Table has the numbers.")


def show_comparison(comparison: AnswerComparison) -> None:
    """What two groups, or two answers, say together: single numbers in large letters, others side by side."""
    first, second = comparison.first, comparison.second
    small(" ".join(comparison.words()), "margin:4px 0 14px;max-width:84ch")
    if first.raw.size == 1 and comparison.difference is not None and comparison.ratio is not None:
        sure = percent(comparison.beta) if comparison.beta else ""
        charts = [chart_of(answer, DETAIL) for answer in (first, second)]
        with ui.element("div").classes("bf-numbers"):
            for answer, chart in zip((first, second), charts, strict=True):
                show_number(chart, answer.title)
            digits = max((chart.digits for chart in charts), key=lambda one: one.places)
            show_number(_estimate_chart(comparison.difference, digits, sure), "difference, second less first")
            show_number(_estimate_chart(comparison.ratio, Digits(3), sure), "ratio, second over first")
        return
    if comparison.difference is not None:
        show_chart(_differences(comparison, comparison.difference), "Chart of the differences. The numbers are below.")
    shown = range(min(first.raw.size, MOST_COMPARED))
    listed_table(comparison.head(), len(column_names(first)), comparison.cells(shown), "Both answers")


def answer_pills(answer: Answer, *others: str, cost: str = "") -> None:
    """What is promised of an answer, what it counts, what it cost, and whatever else is worth a word."""
    with in_row().style("gap:6px;margin:6px 0 8px"):
        for words in promises(answer):
            pill(words, "is-accent")
        pill(cost or f"epsilon {epsilon_words(answer.epsilon)}", "is-brand")
        for words in others:
            pill(words)


def promises(answer: Answer) -> list[str]:
    """What stands beside the numbers of an answer: how accurate they are, and which rows count where not all do."""
    return [words for words in (accuracy_words(answer), answer.counted) if words]


def _differences(comparison: AnswerComparison, difference: Estimate) -> Chart:
    """The differences of many pairs as dots in their intervals; of too many, the largest."""
    places = largest(np.abs(difference.values), DETAIL.dots)
    values, low, high = (
        column[places] for column in (difference.values, difference.bounds.low, difference.bounds.high)
    )
    digits = max((digits_of(answer) for answer in (comparison.first, comparison.second)), key=lambda one: one.places)
    return Chart(
        "dots",
        ChartAxis(""),
        ChartAxis("difference, second less first"),
        (Series("difference", values, low, high),),
        digits=digits,
        marks=tuple(" × ".join(filter(None, row)) for row in row_labels(comparison.first, places)),
        is_counts=False,
    )


def _estimate_chart(estimate: Estimate, digits: Digits, confidence: str) -> Chart:
    """A difference or a ratio of two numbers as a number with its interval."""
    series = Series("", estimate.values, estimate.bounds.low, estimate.bounds.high)
    return Chart("number", ChartAxis(""), ChartAxis(""), (series,), digits=digits, confidence=confidence)


STEPS = {
    "quote": (0.2, "Planning"),
    "charge": (0.45, "Writing the charge to the ledger"),
    "answer": (0.8, "Counting and adding noise"),
    "done": (1.0, "Done"),
}


async def confirmed(
    what: str, price: Fraction, left: Fraction | None, more: Callable[[], object] | None = None
) -> bool:
    """Whether they agree to the price; nothing is spent without this step. `more` draws what else they should see."""
    is_too_much = left is not None and price > left
    title, action = f"Spend epsilon {figure(price)}?", f"Spend {figure(price)} and run"
    if left is not None and is_too_much:
        text = f"That is more than you have, which is {figure(left)}. Choose less epsilon, or less accuracy."
    elif price:
        rest = "" if left is None else f" You have {figure(left)}; this leaves {figure(left - price)}."
        text = (
            f"It is charged before any data is read, and there is no refund.{rest} What you asked before in the same "
            "way is given again, free."
        )
    else:
        title, action, text = "Run it, free?", "Run it", "It costs nothing, and nothing is charged."
    named = 'aria-label="Confirm the price"'
    with ui.dialog().props(named) as dialog, ui.card().props(f'role="alertdialog" {named}'):
        ui.label(title).classes("bf-title").style("font-size:18px")
        ui.label(what).style("margin-top:6px")
        if more is not None:
            more()
        if is_too_much:
            notice(text, "is-bad", "error").style("margin-top:12px")
        else:
            small(text, "margin-top:8px")
        with ui.element("div").classes("bf-row bf-ends"):
            ui.button("Cancel", on_click=lambda: dialog.submit("no")).props("flat")
            spend = ui.button(action, on_click=lambda: dialog.submit("yes"))
            spend.props('unelevated autofocus data-testid="confirm"').set_enabled(not is_too_much)
    answer = await dialog
    if not dialog.is_deleted:  # A page that is left takes its dialogs along.
        dialog.delete()
    return bool(answer == "yes")


def show_failure(error: BlowfishError) -> None:
    """Why a question was not answered; one that waits for a yes has not failed."""
    waits = isinstance(error, WaitsForApproval)
    looks = ("is-accent", "hourglass_empty") if waits else ("is-bad", "error")
    with notice(sentence(error.message), *looks).props('data-testid="failure"'):
        if waits:
            ui.link("What you asked for", "/history").classes("bf-small").style("white-space:nowrap")


async def with_progress(context: PageContext, box: ui.element, work: Callable[[Progress], Result]) -> Result | None:
    """The result of work that is charged, its steps followed in the box; None when it failed, which the box says.

    It ends when its button is pressed or its page is left.
    """
    steps, gone = ["quote"], threading.Event()

    def follow() -> None:
        bar.value, label.text = STEPS[steps[-1]]

    box.clear()
    with box:
        bar = ui.linear_progress(0.1, show_value=False).props('aria-label="Progress"').style("margin-top:60px")
        label = ui.label(STEPS["quote"][1]).classes("bf-quiet").props('role="status"')
        label.style("text-align:center;margin-top:10px")
        ui.button("Cancel", on_click=gone.set).props("flat no-caps").style("display:block;margin:10px auto 0")
        timer = ui.timer(0.1, follow)
    token = is_cancelled.set(lambda: gone.is_set() or box.is_deleted)
    try:
        return await context.run(partial(work, steps.append))
    except BlowfishError as error:
        if box.is_deleted:
            return None
        redraw(box, partial(context.tell if isinstance(error, NotSignedIn) else show_failure, error))
        return None
    finally:
        is_cancelled.reset(token)
        timer.deactivate()
