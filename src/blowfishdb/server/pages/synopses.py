"""Synopses: noisy tables that somebody paid for once, and publishing one; asking them is free for everybody."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.engine.synopsis_release import COLUMNS, SynopsisPreview
from blowfishdb.errors import AccuracyError, BlowfishError, NotSignedIn, plural, sentence
from blowfishdb.server.pages.controls import (
    Heading,
    Tile,
    blame,
    card,
    empty,
    figure,
    heading,
    in_row,
    link_button,
    paragraph,
    pill,
    plain_table,
    redraw,
)
from blowfishdb.server.pages.explore import show_refusal
from blowfishdb.server.pages.history import before_of, named, synopsis_link
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.pages.query_draft import QueryDraft, QuestionDraft, build_query, read_question, synopsis_snippet
from blowfishdb.server.pages.query_form import TILES, DatasetForm, QueryForm
from blowfishdb.server.pages.result import confirmed, show_answer, show_failure, with_progress
from blowfishdb.session.table import Question

LISTED = 50
"""Synopses on a page; a link leads to older ones."""
ASKED = [tile for tile in TILES if tile.value not in ("sql", "shares", "top", "compare")]


@page("/synopses", "Synopses", "ask", lead="Noisy tables that were paid for once. Asking them costs nothing.")
async def synopses(context: PageContext) -> None:
    """The list."""
    session, before = context.session(), before_of(context)
    published = await context.run(
        lambda: [one for name in session.datasets() for one in session.synopses(name, most=LISTED, before=before)]
    )
    with ui.element("div").classes("bf-row bf-ends bf-beside-head"):
        link_button("Publish one", "/synopses/publish", "add", "outline")
    if not published:
        with card():
            text = "A synopsis is charged once. From then on everybody may ask it anything over its attributes, free."
            empty("auto_awesome_mosaic", "No synopsis is published yet", text)
    with ui.element("div").classes("bf-two"):
        newest = sorted(published, key=lambda one: one.number, reverse=True)[:LISTED]
        for synopsis in newest:
            with card():
                heading(synopsis.title)
                with in_row().style("gap:6px;margin:8px 0 14px"):
                    pill(synopsis.dataset, "is-brand")
                    pill(f"epsilon {figure(synopsis.epsilon)}, paid")
                    pill(synopsis.mechanism)
                    pill(synopsis.at[:10])
                link_button("Ask it, free", synopsis_link(synopsis.dataset, synopsis.number), "insights")
    if len(newest) == LISTED:
        ui.link("Older synopses →", f"/synopses?before={newest[-1].number}").classes("bf-small")


ASK_LEAD = "Every answer is computed from the published table alone: no charge, no data read."


@page("/synopses/ask", "Ask a synopsis", "ask", lead=ASK_LEAD)
async def ask_synopsis(context: PageContext) -> None:
    """One synopsis, to ask."""
    session = context.session()
    dataset, number = named(context.request.query_params.get("of", ""))
    synopsis = await context.run(lambda: session.synopsis(dataset, number))
    ui.link("← All synopses", "/synopses").classes("bf-small")
    question = read_question(context.request.query_params.get("question", ""), lambda _: synopsis.domain)
    is_ours = question is not None and question.query.dataset == dataset
    is_asked = question is not None and question.query.template in [tile.value for tile in ASKED]
    SynopsisReader(context, dataset, number, synopsis, question if is_ours and is_asked else None)


class SynopsisReader:
    """The state of one open page: the controls, and the answer that follows them."""

    def __init__(
        self, context: PageContext, dataset: str, number: int, synopsis: Synopsis, question: QuestionDraft | None
    ) -> None:
        self._context, self._number, self._synopsis = context, number, synopsis
        with ui.element("div").classes("bf-explore").style("margin-top:10px") as root:
            latest = Latest(context, root, self._answer)
            with card().props('aria-label="Question"'):
                self._form = QueryForm(dataset, synopsis.domain, latest.changed, ASKED, question)
            with card().classes("bf-result").props('aria-label="Answer" aria-live="polite"'):
                self._box = ui.element("div")
        latest.changed()

    async def _answer(self, is_wanted: IsWanted) -> None:
        # A reload or a bookmark finds the question again.
        draft = self._form.draft
        question = urlencode({"question": QuestionDraft(draft).text()})
        ui.navigate.history.replace(f"{synopsis_link(draft.dataset, self._number)}&{question}")
        try:
            answer, code = await self._context.run(partial(self._read, self._form.draft))
            draw = partial(show_answer, self._context, answer, code, free=True)
        except NotSignedIn:
            raise
        except BlowfishError as error:
            draw = partial(show_refusal, error)
        if is_wanted():
            redraw(self._box, draw)

    def _read(self, draft: QueryDraft) -> tuple[Answer, str]:
        self._context.check("ask")
        url = self._context.app_state.settings.url
        return build_query(draft, self._synopsis), synopsis_snippet(draft, self._synopsis.domain, self._number, url)


KINDS = (
    Tile("histogram", "One", "bar_chart", "Counts of one attribute"),
    Tile("marginals", "Several", "view_module", "Counts of up to four attributes together"),
)
LEAD = "You pay once. From then on everybody may ask it anything over its attributes, free."


@page("/synopses/publish", "Publish a synopsis", "ask", lead=LEAD)
async def publish(context: PageContext) -> None:
    """The page."""
    names = await context.run(context.session().datasets)
    ui.link("← All synopses", "/synopses").classes("bf-small")
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be published from.")
        return
    Publisher(context, names)


class Publisher:
    """The state of one open page."""

    def __init__(self, context: PageContext, names: list[str]) -> None:
        self._context = context
        with ui.element("div").classes("bf-explore").style("margin-top:10px"):
            with card().props('aria-label="Synopsis"'):
                self._form = DatasetForm(context, names, names[0], lambda: None, KINDS)
                self._epsilon = ui.input("Spend epsilon", value="0.1").style("margin-top:16px")
                self._button = ui.button("Publish", icon="publish", on_click=self._publish).props("unelevated")
                self._button.style("margin-top:16px")
            with card(), ui.element("div") as self._box:
                heading("What a synopsis is good for")
                paragraph(
                    "A noisy table of all combinations. Histograms, ranges and marginals are read off it at once. "
                    "Few attributes in wide bins stay accurate; many fine ones drown in noise."
                ).style("margin-top:6px;max-width:64ch")

    def _quote(self, draft: QueryDraft, epsilon: str) -> tuple[Question, SynopsisPreview]:
        table = self._context.session()[draft.dataset]
        for condition in draft.conditions(table.domain):
            table = table.where(condition)
        question = table.histogram(*draft.axes(table.domain))
        return question, question.publish_preview(epsilon=epsilon)

    async def _publish(self) -> None:
        epsilon = (self._epsilon.value or "").strip()
        self._button.disable()
        try:
            question, preview = await self._context.run(partial(self._quote, self._form.query.draft, epsilon))
            what = f"{preview.title} of {preview.dataset}, {plural(preview.cells, 'cell')}."
            if await confirmed(what, preview.epsilon, preview.left, partial(show_errors, preview)):
                work = partial(self._release, question, epsilon)
                if await with_progress(self._context, self._box, work) is not None:
                    ui.navigate.to("/synopses")
        except NotSignedIn:
            raise
        except AccuracyError as error:
            blame(self._epsilon, sentence(error.message))
        except BlowfishError as error:
            redraw(self._box, partial(show_failure, error))
        finally:
            self._button.enable()

    def _release(self, question: Question, epsilon: str, progress: Progress) -> Synopsis:
        self._context.check("ask")
        self._context.note("asked for a synopsis", question.dataset)
        return question.publish(epsilon=epsilon, progress=progress)


def show_errors(preview: SynopsisPreview) -> None:
    """Draws what a synopsis will answer and how far off, or says why nobody knows."""
    if preview.errors:
        first, *numbers = COLUMNS
        columns = [Heading(first), *(Heading(name, "is-number") for name in numbers)]
        plain_table(columns, preview.rows(), "What it will answer")
    paragraph(preview.notes()[0]).classes("bf-small").style("margin-top:8px")
