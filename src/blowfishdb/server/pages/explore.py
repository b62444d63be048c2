"""Explore: a query on the left; its price, then its answer, on the right. Only Run, confirmed, spends anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from nicegui import background_tasks, ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.preview import Preview
from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.pages.controls import card, empty
from blowfishdb.server.pages.history import all_past
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import AccuracyForm, Asking, QueryForm, Wanted
from blowfishdb.server.pages.quote import (
    Priced,
    Ready,
    confirmed,
    progress_bar,
    ready,
    show_failure,
    show_quote,
    show_refusal,
)
from blowfishdb.server.pages.result import show_answer
from blowfishdb.session.backend import Past
from blowfishdb.session.session import Session

PAUSE = 0.15
"""Seconds without a change before a price is computed."""


@page("/explore", "Explore", "ask", lead="Ask a question and see its price before anything is spent or read.")
async def explore(context: PageContext) -> None:
    """The page."""
    session = context.session()
    names = await context.run(session.datasets)
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be asked here.")
        return
    wanted = context.request.query_params.get("dataset", names[0])
    Explorer(context, names, wanted if wanted in names else names[0], session)


class Explorer:
    """The state of one open page."""

    def __init__(self, context: PageContext, names: list[str], dataset: str, session: Session) -> None:
        self._context, self._turn = context, 0
        self._quoted: tuple[Ready, Preview] | None = None
        self._past: list[Past] | None = None
        self._is_running = self._is_pricing = False
        with ui.element("div").classes("bf-explore") as self._root:
            with card().props('aria-label="Question"'):
                data = ui.select(names, value=dataset, label="Dataset").props("outlined dense options-dense")
                data.classes("w-full").style("margin-bottom:14px")
                data.on_value_change(lambda e: self._choose_dataset(e.value))
                self._form_box = ui.element("div")
                ui.separator().style("margin:16px 0 14px")
                self._accuracy = AccuracyForm(self._changed)
            with ui.element("div").style("min-width:0"):
                self._quote_card = card().classes("bf-quote").props('aria-label="Price" aria-live="polite"')
                with self._quote_card:
                    self._quote_box = ui.element("div").classes("bf-quote-body")
                with ui.element("section").classes("bf-card bf-result").props('aria-label="Answer"'):
                    self._result_box = ui.element("div").props("id=answer")
        with self._quote_box:
            empty("hourglass_empty", "Working out the price", "Nothing is read or charged for that.")
        with self._result_box:
            empty(
                "bar_chart",
                "No answer yet",
                "Run the question, and it appears here. What you ran before is in the history, free.",
            )
        self._build_form(session, dataset)

    def _build_form(self, session: Session, dataset: str) -> None:
        self._form_box.clear()
        with self._form_box:
            self._form = QueryForm(dataset, session[dataset].domain, self._changed)
        self._changed()

    def _choose_dataset(self, name: str) -> None:
        self._build_form(self._context.session(), name)

    def _changed(self) -> None:
        """Asks for a new price soon; a later change makes an earlier one void."""
        self._turn += 1
        self._quoted = None
        self._quote_card.classes(add="is-stale")
        if not self._is_pricing:
            self._is_pricing = True
            background_tasks.create(self._keep_pricing(), name="quote")

    async def _keep_pricing(self) -> None:
        """Prices what the controls say until it is what they still say; one page has one price under way at most."""
        turn = -1
        while turn != self._turn and not self._root.is_deleted:
            turn = self._turn
            await asyncio.sleep(PAUSE)
            if turn == self._turn:
                await self._requote(turn)
        self._is_pricing = False

    async def _requote(self, turn: int) -> None:
        asking, wanted, sql = self._form.asking, self._accuracy.wanted, self._form.sql
        try:
            found = await self._context.run(partial(self._price, asking, wanted, sql))
        except BlowfishError as error:
            self._show(turn, error, partial(show_refusal, error))
            return
        if turn == self._turn:
            self._quoted = found.asked, found.preview
        self._show(turn, None, partial(show_quote, found, self._confirm))

    def _price(self, asking: Asking, wanted: Wanted, sql: str) -> Priced:
        session = self._context.session()
        asked = ready(session, asking, wanted, sql, self._context.app_state.settings.url)
        preview = asked.preview()
        if self._past is None:
            self._past = all_past(session)
        alike = (preview.dataset, preview.title, preview.mechanism, preview.epsilon, True)
        before = (
            past
            for past in self._past
            if (past.dataset, past.question, past.mechanism, past.epsilon, past.is_current) == alike
        )
        is_over = preview.left is not None and preview.epsilon > preview.left
        instead = asked.within(preview.left) if is_over and preview.left is not None else None
        return Priced(asked, preview, session.budget(preview.dataset), next(before, None), instead)

    def _show(self, turn: int, error: BlowfishError | None, draw: Callable[[], None]) -> None:
        if turn != self._turn or self._root.is_deleted:
            return
        self._quote_card.classes(remove="is-stale")
        if isinstance(error, NotSignedIn):
            with self._root:
                self._context.tell(error)
            return
        self._quote_box.clear()
        with self._quote_box:
            draw()

    async def _confirm(self) -> None:
        if self._quoted is None or self._is_running:
            return
        asked, preview = self._quoted
        with self._root:
            agreed = await confirmed(f"{preview.title}, of {preview.dataset}.", preview.epsilon, preview.left)
        if agreed:
            await self._run(asked)

    async def _run(self, asked: Ready) -> None:
        self._is_running = True
        self._result_box.clear()
        with self._result_box:
            hear, stop = progress_bar()
        try:
            answer = await self._context.run(partial(self._released, asked, hear))
            self._finish(stop, partial(self._answer, answer, asked.code))
        except NotSignedIn as error:
            self._finish(stop, partial(self._context.tell, error))
        except BlowfishError as error:
            self._finish(stop, partial(show_failure, error))
        self._is_running = False
        self._past = None
        if not self._root.is_deleted:
            self._changed()

    def _released(self, asked: Ready, hear: Progress) -> Answer:
        self._context.note_question("asked for an answer", asked.question.dataset)
        return asked.release(hear)

    def _answer(self, answer: Answer, code: str) -> None:
        show_answer(self._context, answer, code)
        ui.run_javascript("document.getElementById('answer').scrollIntoView({behavior: 'smooth', block: 'nearest'})")

    def _finish(self, stop: Callable[[], None], draw: Callable[[], None]) -> None:
        if self._root.is_deleted:
            return
        stop()
        self._result_box.clear()
        with self._result_box:
            draw()
