"""Explore: a query on the left; its price, then its answer, on the right. Only Run, confirmed, spends anything."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.pages.controls import card, empty, redraw
from blowfishdb.server.pages.history import all_past
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import IsWanted, Latest, PageContext
from blowfishdb.server.pages.query_form import AccuracyDraft, AccuracyForm, DatasetForm, QueryDraft
from blowfishdb.server.pages.quote import (
    QuotedQuery,
    RunnableQuery,
    confirmed,
    read_form,
    show_quote,
    show_refusal,
    with_progress,
)
from blowfishdb.server.pages.result import show_answer
from blowfishdb.session.backend import Past


@page("/explore", "Explore", "ask", lead="Ask a question and see its price before anything is spent or read.")
async def explore(context: PageContext) -> None:
    """The page."""
    names = await context.run(context.session().datasets)
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be asked here.")
        return
    wanted = context.request.query_params.get("dataset", names[0])
    Explorer(context, names, wanted if wanted in names else names[0])


class Explorer:
    """The state of one open page."""

    def __init__(self, context: PageContext, names: list[str], dataset: str) -> None:
        self._context = context
        self._quoted: QuotedQuery | None = None
        self._past: list[Past] | None = None
        self._is_running = False
        with ui.element("div").classes("bf-explore") as self._root:
            self._pricing = Latest(context, self._root, self._requote)
            with card().props('aria-label="Question"'):
                self._form = DatasetForm(context, names, dataset, self._changed)
                ui.separator().style("margin:16px 0 14px")
                self._accuracy = AccuracyForm(self._changed)
            with ui.element("div").style("min-width:0"):
                self._quote_card = card().classes("bf-quote").props('aria-label="Price" aria-live="polite"')
                with self._quote_card, ui.element("div").classes("bf-quote-body") as self._quote_box:
                    empty("hourglass_empty", "Working out the price", "Nothing is read or charged for that.")
                answer_card = card().classes("bf-result").props('aria-label="Answer"')
                with answer_card, ui.element("div").props("id=answer") as self._result_box:
                    said = "Run the question, and it appears here. What you ran before is in the history, free."
                    empty("bar_chart", "No answer yet", said)
        self._changed()

    def _changed(self) -> None:
        """Asks for a new price soon; the old one is void."""
        self._quoted = None
        self._quote_card.classes(add="is-stale")
        self._pricing.changed()

    async def _requote(self, is_wanted: IsWanted) -> None:
        draft, accuracy, sql = self._form.query.draft, self._accuracy.draft, self._form.query.sql
        try:
            quoted = await self._context.run(partial(self._quote, draft, accuracy, sql))
            draw = partial(show_quote, quoted, self._confirm)
        except NotSignedIn:
            if is_wanted():
                self._quote_card.classes(remove="is-stale")
            raise
        except BlowfishError as error:
            quoted, draw = None, partial(show_refusal, error)
        if is_wanted():
            self._quoted = quoted
            self._quote_card.classes(remove="is-stale")
            redraw(self._quote_box, draw)

    def _quote(self, draft: QueryDraft, accuracy: AccuracyDraft, sql: str) -> QuotedQuery:
        session = self._context.session()
        query = read_form(session, draft, accuracy, sql, self._context.app_state.settings.url)
        preview = query.preview()
        if self._past is None:
            self._past = all_past(session)
        alike = (preview.dataset, preview.title, preview.mechanism, preview.epsilon, True)
        before = (
            past
            for past in self._past
            if (past.dataset, past.question, past.mechanism, past.epsilon, past.is_current) == alike
        )
        left = preview.left
        instead = query.within(left) if left is not None and preview.epsilon > left else None
        return QuotedQuery(query, preview, session.budget(preview.dataset), next(before, None), instead)

    async def _confirm(self) -> None:
        if self._quoted is None or self._is_running:
            return
        query, preview = self._quoted.query, self._quoted.preview
        with self._root:
            if await confirmed(f"{preview.title}, of {preview.dataset}.", preview.epsilon, preview.left):
                await self._run(query)

    async def _run(self, query: RunnableQuery) -> None:
        self._is_running = True
        try:
            answer = await with_progress(self._context, self._result_box, partial(self._release, query))
            if answer is not None and not self._root.is_deleted:
                redraw(self._result_box, partial(show_answer, self._context, answer, query.code))
                place = "document.getElementById('answer')"
                ui.run_javascript(f"{place}.scrollIntoView({{behavior: 'smooth', block: 'nearest'}})")
        finally:
            self._is_running, self._past = False, None
        if not self._root.is_deleted:
            self._changed()

    def _release(self, query: RunnableQuery, progress: Progress) -> Answer:
        self._context.check("ask")
        self._context.note("asked for an answer", query.question.dataset)
        return query.release(progress)
