"""Synopses: noisy tables that somebody paid for once, and publishing one; everybody asks them for ever, free."""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.synopsis_answers import COLUMNS, Synopsis, SynopsisPreview
from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.pages.controls import Column, Tile, card, empty, heading, in_row, paragraph, plain_table
from blowfishdb.server.pages.history import named
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import TILES, Asking, QueryForm, asked
from blowfishdb.server.pages.quote import confirmed, figure, progress_bar, show_failure, show_refusal
from blowfishdb.server.pages.result import show_answer, synopsis_snippet
from blowfishdb.session.backend import Published
from blowfishdb.session.session import Session
from blowfishdb.session.table import Question

PAUSE = 0.15
ASKED = [tile for tile in TILES if tile.value != "sql"]


@page("/synopses", "Synopses", "ask", lead="Noisy tables that were paid for once. Asking them costs nothing.")
async def synopses(context: PageContext) -> None:
    """The list."""
    session = context.session()
    found = await context.run(lambda: all_published(session))
    with ui.element("div").classes("bf-row bf-ends bf-beside-head"):
        ui.button("Publish one", icon="add", on_click=lambda: ui.navigate.to("/synopses/publish")).props("outline")
    if not found:
        with card():
            empty(
                "auto_awesome_mosaic",
                "No synopsis is published yet",
                "A synopsis is charged once. From then on everybody may ask it anything over its attributes, free.",
            )
    with ui.element("div").classes("bf-two"):
        for one in found:
            _card(one)


def all_published(session: Session) -> list[Published]:
    """The synopses of all datasets, newest first."""
    found = [one for name in session.datasets() for one in session.synopses(name)]
    return sorted(found, key=lambda one: one.at, reverse=True)


def _card(one: Published) -> None:
    where = f"/synopses/ask?{urlencode({'of': f'{one.number} {one.dataset}'})}"
    with card():
        heading(one.title)
        with in_row().style("gap:6px;margin:8px 0 14px"):
            for text, kind in (
                (one.dataset, "is-brand"),
                (f"epsilon {figure(one.epsilon)}, paid", ""),
                (one.mechanism, ""),
                (one.at[:10], ""),
            ):
                ui.label(text).classes(f"bf-pill {kind}")
        ui.button("Ask it, free", icon="insights", on_click=lambda: ui.navigate.to(where)).props("unelevated")


@page(
    "/synopses/ask",
    "Ask a synopsis",
    "ask",
    lead="Every answer is computed from the published table alone: no charge, no data read.",
)
async def ask_synopsis(context: PageContext) -> None:
    """One synopsis, to ask."""
    session = context.session()
    dataset, number = named(context.request.query_params.get("of", ""))
    found = await context.run(lambda: session.synopsis(dataset, number))
    ui.link("← All synopses", "/synopses").classes("bf-small")
    Reader(context, dataset, number, found)


class Reader:
    """The state of one open page: the controls, and the answer that follows them."""

    def __init__(self, context: PageContext, dataset: str, number: int, synopsis: Synopsis) -> None:
        self._context, self._number, self._synopsis, self._turn = context, number, synopsis, 0
        with ui.element("div").classes("bf-explore").style("margin-top:10px") as self._root:
            with card().props('aria-label="Question"'):
                self._form = QueryForm(dataset, synopsis.domain, self._changed, ASKED)
            with ui.element("section").classes("bf-card bf-result").props('aria-label="Answer" aria-live="polite"'):
                self._box = ui.element("div")
        self._changed()

    def _changed(self) -> None:
        self._turn += 1
        background_tasks.create(self._answer(self._turn), name="synopsis")

    async def _answer(self, turn: int) -> None:
        await asyncio.sleep(PAUSE)
        if turn != self._turn:
            return
        try:
            answer, code = await self._context.run(partial(self._read, self._form.asking))
        except NotSignedIn as error:
            with self._root:
                self._context.tell(error)
            return
        except BlowfishError as error:
            self._box.clear()
            with self._box:
                show_refusal(error)
            return
        if turn == self._turn and not self._root.is_deleted:
            self._box.clear()
            with self._box:
                show_answer(self._context, answer, code, free=True)

    def _read(self, asking: Asking) -> tuple[Answer, str]:
        self._context.check("ask")
        url = self._context.app_state.settings.url
        return asked(asking, self._synopsis), synopsis_snippet(asking, self._synopsis.domain, self._number, url)


KINDS = (
    Tile("histogram", "One", "bar_chart", "Counts of one attribute"),
    Tile("marginals", "Several", "view_module", "Counts of up to four attributes together"),
)
LEAD = "You pay once. From then on everybody may ask it anything over its attributes, free."


@page("/synopses/publish", "Publish a synopsis", "ask", lead=LEAD)
async def publish(context: PageContext) -> None:
    """The page."""
    session = context.session()
    names = await context.run(session.datasets)
    ui.link("← All synopses", "/synopses").classes("bf-small")
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be published from.")
        return
    Publisher(context, names, session)


class Publisher:
    """The state of one open page."""

    def __init__(self, context: PageContext, names: list[str], session: Session) -> None:
        self._context = context
        with ui.element("div").classes("bf-explore").style("margin-top:10px") as self._root:
            with card().props('aria-label="Synopsis"'):
                data = ui.select(names, value=names[0], label="Dataset").props("outlined dense options-dense")
                data.classes("w-full").style("margin-bottom:14px")
                data.on_value_change(lambda e: self._build(self._context.session(), e.value))
                self._form_box = ui.element("div")
                self._epsilon = ui.input("Spend epsilon", value="0.1").props("outlined dense").style("margin-top:16px")
                self._button = ui.button("Publish", icon="publish", on_click=self._publish).props("unelevated")
                self._button.style("margin-top:16px")
            with card():
                self._box = ui.element("div")
        with self._box:
            heading("What a synopsis is good for")
            paragraph(
                "A noisy table of all combinations. Histograms, ranges and marginals are read off it at once. "
                "Few attributes in wide bins stay accurate; many fine ones drown in noise."
            ).style("margin-top:6px;max-width:64ch")
        self._build(session, names[0])

    def _build(self, session: Session, dataset: str) -> None:
        self._form_box.clear()
        with self._form_box:
            self._form = QueryForm(dataset, session[dataset].domain, lambda: None, KINDS)

    def _asked(self, asking: Asking) -> Question:
        table = self._context.session()[asking.dataset]
        for condition in asking.conditions(table.domain):
            table = table.where(condition)
        return table.histogram(*asking.axes())

    def _price(self, asking: Asking, epsilon: str) -> tuple[Question, SynopsisPreview]:
        question = self._asked(asking)
        return question, question.publish_preview(epsilon=epsilon)

    async def _publish(self) -> None:
        asking, epsilon = self._form.asking, (self._epsilon.value or "").strip()
        self._button.disable()
        try:
            question, preview = await self._context.run(partial(self._price, asking, epsilon))
            with self._root:
                agreed = await confirmed(
                    f"{preview.title} of {preview.dataset}, {preview.cells:,} cells.",
                    preview.epsilon,
                    preview.left,
                    partial(show_errors, preview),
                )
            if agreed:
                await self._run(question, epsilon)
        except NotSignedIn as error:
            with self._root:
                self._context.tell(error)
        except BlowfishError as error:
            self._box.clear()
            with self._box:
                show_failure(error)
        self._button.enable()

    async def _run(self, question: Question, epsilon: str) -> None:
        self._box.clear()
        with self._box:
            hear, stop = progress_bar()
        try:
            await self._context.run(partial(self._context.note_question, "asked for a synopsis", question.dataset))
            await self._context.run(lambda: question.publish(epsilon=epsilon, progress=hear))
        finally:
            stop()
        with self._root:
            ui.navigate.to("/synopses")


def show_errors(preview: SynopsisPreview) -> None:
    """Draws what a synopsis will answer and how far off, or says why nobody knows."""
    if preview.errors:
        first, *numbers = COLUMNS
        columns = [Column(first), *(Column(name, is_number=True) for name in numbers)]
        plain_table(columns, preview.rows(), "What it will answer")
    paragraph(preview.notes()[0]).classes("bf-small").style("margin-top:8px")
