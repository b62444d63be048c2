"""Explore: a query on the left; its price, then its answer, on the right. Only Run, confirmed, spends anything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from nicegui import ui

from blowfishdb.catalog.catalog import PEOPLE
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress, Run
from blowfishdb.engine.preview import Preview, list_words
from blowfishdb.engine.request import AccuracyTarget, TargetOptions, target_options
from blowfishdb.errors import (
    AccuracyError,
    BlowfishError,
    InvalidInput,
    NotSignedIn,
    QueryError,
    UnknownAnswer,
    plural,
    sentence,
)
from blowfishdb.model.query import Query
from blowfishdb.present.words import question_words, readable, upper_end
from blowfishdb.server.pages.controls import (
    blame,
    budget_bar,
    card,
    empty,
    figure,
    heading,
    in_row,
    notice,
    pill,
    redraw,
    small,
    why_nothing,
)
from blowfishdb.server.pages.history import answer_link, answer_name, entry_of, keep_on_dashboard, named
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.pages.query_draft import (
    QuestionDraft,
    build_query,
    read_question,
    reopening,
    snippet,
    sql_snippet,
)
from blowfishdb.server.pages.query_form import AccuracyForm, DatasetForm
from blowfishdb.server.pages.result import confirmed, show_answer, with_progress
from blowfishdb.session.backend import Budget, expect
from blowfishdb.session.session import Session, stated_question, target_for
from blowfishdb.session.table import Question
from blowfishdb.sql import split

SHORT = 1000
"""What is left is rounded down to a multiple of one over this: a price with few digits."""
SPARED = Fraction(99, 100)
"""Prices of an accuracy are rounded up, so a little is spared for the one that is named to be affordable."""


@dataclass(frozen=True, eq=False)
class RunnableQuery:
    """A question with its accuracy, quoted and released in the same terms; and the code that does the same."""

    question: Question
    target: AccuracyTarget
    code: str

    def preview(self) -> Preview:
        """The price; reads nothing secret."""
        return expect(self.question.preview_at(self.target), Preview)

    def within(self, left: Fraction) -> Preview | None:
        """The price list for what is left of a budget; None where nobody can promise an accuracy for that."""
        epsilon = Fraction(math.floor(left * SPARED * SHORT), SHORT)
        if epsilon <= 0:
            return None
        try:
            target = AccuracyTarget(None, epsilon, self.target.beta, self.target.guarantee)
            preview = expect(self.question.preview_at(target), Preview)
        except BlowfishError:
            return None
        return None if preview.alpha is None else preview


class SeveralStatements(QueryError):
    """More than one statement where one is priced."""


def runnable_query(session: Session, draft: QuestionDraft, url: str) -> RunnableQuery:
    """The query and the accuracy that the controls say; typed errors where they say nothing sensible."""
    stated, accuracy = TargetOptions(), draft.accuracy
    if draft.query.template == "sql":
        if len(split(draft.sql)) > 1:
            raise SeveralStatements("several statements are priced together on the page My questions")
        statement = session.statement(draft.sql)
        table, stated, code = session[statement.table], statement.options, sql_snippet(draft.sql, accuracy, url)
        question = stated_question(table, statement)
    else:
        table = session[draft.query.dataset]
        question, code = build_query(draft.query, table), snippet(draft.query, accuracy, table.domain, url)
    # What a statement says of its accuracy counts, and the controls only where it says nothing.
    alpha, epsilon = (None, None) if "alpha" in stated or "epsilon" in stated else accuracy.keywords()
    fresh, mechanism = accuracy.fresh or None, accuracy.mechanism
    # A mechanism that the statement names has parameters there, or none.
    settings = None if "mechanism" in stated else dict(accuracy.parameters)
    options = target_options(alpha, None, epsilon, None, accuracy.confidence, mechanism, None, fresh, settings)
    return RunnableQuery(question, target_for(question.query, {**options, **stated}), code)


SHOWN_OFFERS = 6


@dataclass(frozen=True, eq=False)
class QuotedQuery:
    """A query with its quote and the budget that pays it.

    `instead` promises the accuracy that what is left would buy, where the query costs more than that. `waits_above` is
    the price above which a curator is asked first, where the query costs more.
    """

    query: RunnableQuery
    preview: Preview
    budget: Budget
    instead: Preview | None
    waits_above: Fraction | None = None


def show_quote(
    priced: QuotedQuery,
    on_run: Callable[[], object],
    on_collect: Callable[[], object],
    on_instead: Callable[[str], object],
) -> None:
    """The quote of a question that could be run; `on_instead` asks for the accuracy that what is left pays for."""
    preview = priced.preview
    after = None if preview.left is None else preview.left - preview.epsilon
    with ui.element("div").classes("bf-top"):
        with ui.element("div"):
            ui.label(preview.title).classes("bf-title")
            small(promise_words(preview, priced.query.question.listing)).props('data-testid="promise"')
            if preview.counted:
                small(sentence(preview.counted)).props('data-testid="counted"')
            if preview.values:
                small(sentence(preview.values)).props('data-testid="values"')
        run = ui.button("Run", icon="play_arrow", on_click=on_run).props('unelevated data-testid="run"')
        run.set_enabled(after is None or after >= 0)
    collect = ui.button("Add to my questions", icon="playlist_add", on_click=on_collect)
    collect.props('flat dense data-testid="collect"').style("margin-top:6px")
    with in_row().style("align-items:baseline;gap:10px;margin:12px 0 10px"):
        ui.label(figure(preview.epsilon)).classes("bf-big").props('data-testid="price"')
        free = "epsilon: free and exact" if preview.is_exact else "epsilon: free"
        ui.label("epsilon" if preview.epsilon else free).classes("bf-quiet")
        if after is not None and after < 0:
            pill("more than you have" if preview.left else "nothing left to spend", "is-bad")
    budget_bar(priced.budget, preview.epsilon, preview.left)
    if preview.left == 0 and preview.epsilon:
        notice(f"{why_nothing(priced.budget)} The curator can renew it.", "is-accent").style("margin-top:12px")
    if priced.waits_above is not None and (after is None or after >= 0):
        text = f"Above epsilon {figure(priced.waits_above)} a curator is asked first. Run it to put it on their list."
        notice(text, "is-accent", "hourglass_empty").style("margin-top:12px").props('data-testid="waits"')
    if preview.shared is not None:
        with notice(preview.shared.words(), icon="link").style("margin-top:12px").props('data-testid="shared"'):
            if preview.shared.is_answered:
                earlier = answer_link(preview.dataset, preview.shared.entry)
                ui.link("Open it", earlier).classes("bf-small").style("white-space:nowrap")
    if priced.instead is not None:
        near = readable(upper_end(priced.instead.alpha or 0.0))
        # Columns are as near as their own units say: no one number asks for all of them.
        is_one = len(priced.instead.columns) <= 1
        words = f"bring it within ±{near}" if is_one else f"bring {priced.instead.column_words()}"
        with notice(f"What is left would {words}.", "is-accent", "lightbulb") as instead:
            if is_one and preview.accuracy_target.epsilon is None:
                ask = ui.button("Ask for that", on_click=lambda: on_instead(near.replace(",", "")))
                ask.props('flat dense no-wrap data-testid="ask-instead"')
        instead.style("margin-top:12px").props('data-testid="instead"')
    for expensive in preview.expensive_columns:
        saved = expensive.if_public if expensive.if_public is not None and expensive.if_public < expensive.now else None
        more = f" If {expensive.column} were public it would be {saved:.3g}." if saved is not None else ""
        text = f"The filter on {expensive.column} makes this expensive.{more}"
        notice(text, "is-accent", "lightbulb").style("margin-top:12px")
    _offers(preview)
    with ui.expansion("What is protected").props("dense").classes("w-full").style("margin-top:4px"):
        for text in preview.protected:
            ui.label(text).classes("bf-small").style("margin-bottom:4px")
        if preview.unprotected:
            small("Not protected: " + " ".join(preview.unprotected))
        if preview.worst_pair:
            small(f"Hardest pair to hide: {preview.worst_pair.replace('<->', '↔')}.", "margin-top:4px")


def promise_words(preview: Preview, listing: Query | None = None) -> str:
    """How good the answers would be, in words; `listing` is the list of groups that is asked for, if one is."""
    if listing is not None and preview.kind == "selection" and preview.alpha is not None:
        names = plural(preview.answers, "name") if listing.above is None else f"Up to {plural(preview.answers, 'name')}"
        reach = preview.alpha if listing.most is None else 2 * preview.alpha
        promise = list_words(listing.above, round(reach), preview.accuracy_target.confidence)
        return f"{names}, without counts. {promise}"
    many = plural(preview.answers, "answer")
    if preview.is_exact:
        return f"{many}, exact: the policy hides nothing that they depend on"
    if preview.columns:
        return f"{many} with {preview.accuracy_target.confidence} confidence: {preview.column_words()}"
    if preview.alpha is None:
        return f"{many}; how near the truth depends on the data"
    every = "each " if preview.accuracy_target.guarantee == "per-query" else "all of them "
    near = f"within ±{readable(upper_end(preview.alpha))} with {preview.accuracy_target.confidence} confidence"
    if preview.behind:
        return f"{many}; {preview.behind} {near}"
    read_off = "" if listing is None else "; the list is read off them"
    return f"{many}, {near}" if preview.answers == 1 else f"{many}, {every}{near}{read_off}"


def _offers(preview: Preview) -> None:
    """The mechanism that would run, and those that lose."""
    by_price = preview.accuracy_target.epsilon is None
    with ui.element("div").style("margin-top:16px"):
        with ui.element("div").classes("bf-offer-head"):
            ui.label("Mechanisms").style("font-weight:600")
            ui.element("div").classes("bf-offer-bar")
            ui.label("epsilon").classes("is-number")
            ui.label("error").classes("is-number")
        offers = preview.offers[:SHOWN_OFFERS]
        sizes = [float(offer.epsilon) if by_price else offer.alpha or 0.0 for offer in offers]
        top = max([*sizes, 1e-12])
        for offer, size in zip(offers, sizes, strict=True):
            with ui.element("div").classes(f"bf-offer {'is-first' if offer is offers[0] else ''}"):
                ui.label(offer.mechanism)
                with ui.element("div").classes("bf-offer-bar"):
                    ui.element("div").style(f"width:{max(100 * size / top, 1):.1f}%")
                ui.label(figure(offer.epsilon)).classes("is-number")
                error = "varies" if offer.alpha is None else f"±{readable(upper_end(offer.alpha, 3))}"
                error = "by column" if len(preview.columns) > 1 else error
                ui.label("no counts" if preview.kind == "selection" else error).classes("is-number bf-quiet")
        more = len(preview.offers) - SHOWN_OFFERS
        text = [sentence(preview.why)]
        if more > 0:
            text.append(f"{more} more would be {'more expensive' if by_price else 'less accurate'}.")
        small(" ".join(text), "margin-top:6px")


def show_refusal(error: BlowfishError, take_along: Callable[[], object] | None = None) -> None:
    """Why there is no quote, and what to do; `take_along` opens the page that has one."""
    heading("No price yet").classes("bf-title")
    notice(sentence(_named_as_here(error)), "is-accent", "lightbulb").style("margin-top:12px").props(
        'data-testid="refusal"'
    )
    if take_along is not None:
        take = ui.button("Price them together", icon="playlist_add", on_click=take_along)
        take.props('unelevated data-testid="take-along"').style("margin-top:12px")


def _named_as_here(error: BlowfishError) -> str:
    """What an error says; the page calls alpha by the name of its field."""
    return f"within ± {error.message[6:]}" if error.message.startswith("alpha ") else error.message


MOST_COLLECTED = 30
"""Questions that a browser keeps for the page My questions."""


def storage_key(context: PageContext) -> str:
    """Where the browser keeps the questions of whoever is signed in."""
    return f"blowfish-questions-{context.identity.name}"


def collect(context: PageContext, questions: Sequence[str], then: str = "") -> None:
    """Adds questions to those that the browser keeps, and then opens another page, if one is named."""
    key = json.dumps(storage_key(context))
    ui.run_javascript(
        f"const all = JSON.parse(localStorage.getItem({key}) || '[]'); all.push(...{json.dumps(questions)});"
        f"localStorage.setItem({key}, JSON.stringify(all.slice(-{MOST_COLLECTED})));"
        + (f"window.location.href = {json.dumps(then)}" if then else "")
    )
    ui.notify("Added to My questions", position="top")


@page("/explore", "Explore", "ask", lead="Ask a question and see its price before anything is spent or read.")
async def explore(context: PageContext) -> None:
    """The page."""
    names = await context.run(context.session().datasets)
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be asked here.")
        return
    wanted, session = context.request.query_params, context.session()
    question = read_question(wanted.get("question", ""), lambda name: session[name].domain)
    name = question.query.dataset if question is not None else wanted.get("dataset", names[0])
    explorer = Explorer(context, names, name if name in names else names[0], question)
    if wanted.get("answer"):
        await explorer.reopen(wanted["answer"])


class Explorer:
    """The state of one open page."""

    def __init__(
        self, context: PageContext, names: list[str], dataset: str, question: QuestionDraft | None = None
    ) -> None:
        self._context, self._answer = context, ""
        self._quoted: QuotedQuery | None = None
        self._is_running = False
        with ui.element("div").classes("bf-explore") as self._root:
            self._pricing = Latest(context, self._root, self._requote)
            with card().props('aria-label="Question"'):
                self._form = DatasetForm(context, names, dataset, self._changed, question=question)
                ui.separator().style("margin:16px 0 14px")
                self._accuracy = AccuracyForm(self._changed, None if question is None else question.accuracy)
            with ui.element("div").style("min-width:0"):
                self._quote_card = card().classes("bf-quote").props('aria-label="Price" aria-live="polite"')
                with self._quote_card, ui.element("div").classes("bf-quote-body") as self._quote_box:
                    empty("hourglass_empty", "Working out the price", "Nothing is read or charged for that.")
                answer_card = card().classes("bf-result").props('aria-label="Answer"')
                with answer_card, ui.element("div").props("id=answer") as self._result_box:
                    text = "Run the question, and it appears here. What you ran before is in the history, free."
                    empty("bar_chart", "No answer yet", text)
        self._changed()

    @property
    def _draft(self) -> QuestionDraft:
        """What the controls say now."""
        return QuestionDraft(self._form.query.draft, self._accuracy.draft, self._form.query.sql)

    def _changed(self) -> None:
        """Asks for a new price soon; the old one is void."""
        self._quoted = None
        self._quote_card.classes(add="is-stale")
        self._accuracy.follow(self._form.query.draft, self._form.query.domain)
        self._pricing.changed()

    async def reopen(self, name: str) -> None:
        """Shows an answer of the past, free, as it was shown when the page was left; nothing where there is none."""
        with suppress(InvalidInput, UnknownAnswer):
            dataset, number = named(name)
            session = self._context.session()
            answer = await self._context.run(partial(session.reopen, dataset, number))
            if isinstance(answer, Answer):
                self._answer = name
                code = reopening(dataset, number, self._context.app_state.settings.url)
                selected = await self._context.run(partial(self._selected, answer))
                self._show(selected, code)

    def _selected(self, answer: Answer) -> Answer:
        """The rows of an answer that the question beside it shows: what is kept is the whole answer."""
        with suppress(BlowfishError):
            question = runnable_query(self._context.session(), self._draft, "").question
            if question_words(question.query) == answer.title:
                return question.shown(answer)
        return answer

    def _show(self, answer: Answer, code: str) -> None:
        is_comparison = self._form.query.draft.template == "compare"

        def draw() -> None:
            show_answer(self._context, answer, code, is_comparison=is_comparison)
            if self._answer:
                keep_on_dashboard(self._context, *named(self._answer))

        redraw(self._result_box, draw)

    def _remember(self) -> None:
        """Puts question and answer into the address of the page, so that a reload or a bookmark finds them again."""
        ui.navigate.history.replace(self._draft.link(answer=self._answer))

    def _collect(self) -> None:
        """Adds the question to those that are priced together."""
        collect(self._context, [self._draft.text()])

    def _collect_statements(self) -> None:
        """Takes the statements that were typed to the page that prices them together."""
        draft = self._draft
        texts = [replace(draft, sql=one.strip()).text() for one in split(draft.sql)]
        collect(self._context, texts, "/questions")

    async def _requote(self, is_wanted: IsWanted) -> None:
        self._remember()
        try:
            quoted = await self._context.run(partial(self._quote, self._draft))
            draw = partial(show_quote, quoted, self._confirm, self._collect, self._accuracy.ask_for)
        except NotSignedIn:
            if is_wanted():
                self._quote_card.classes(remove="is-stale")
            raise
        except BlowfishError as error:
            take_along = self._collect_statements if isinstance(error, SeveralStatements) else None
            quoted, draw = None, partial(show_refusal, error, take_along)
            if is_wanted() and isinstance(error, AccuracyError):
                blame(self._accuracy.field_at_fault(), sentence(_named_as_here(error)), is_focused=False)
        if is_wanted():
            self._quoted = quoted
            self._quote_card.classes(remove="is-stale")
            redraw(self._quote_box, draw)

    def _quote(self, draft: QuestionDraft) -> QuotedQuery:
        session = self._context.session()
        query = runnable_query(session, draft, self._context.app_state.settings.url)
        preview = query.preview()
        left = preview.left
        instead = query.within(left) if left is not None and preview.epsilon > left else None
        above = self._context.app_state.approvals.above(preview.dataset.removesuffix(PEOPLE))
        waits = above if above is not None and preview.epsilon > above else None
        return QuotedQuery(query, preview, session.budget(preview.dataset), instead, waits)

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
            released = await with_progress(self._context, self._result_box, partial(self._release, query))
            if released is not None and not self._root.is_deleted:
                answer, self._answer = released
                self._show(answer, query.code)
                place = "document.getElementById('answer')"
                ui.run_javascript(f"{place}.scrollIntoView({{behavior: 'smooth', block: 'nearest'}})")
        finally:
            self._is_running = False
        if not self._root.is_deleted:
            self._changed()

    def _release(self, query: RunnableQuery, progress: Progress) -> tuple[Answer, str]:
        """The answer and its name in links."""
        self._context.check("ask")
        self._context.note("asked for an answer", query.question.dataset)
        answer = expect(query.question.release_at(query.target, Run(progress=progress)), Answer)
        entry = entry_of(self._context.session(), answer)
        return answer, "" if entry is None else answer_name(entry.dataset, entry.number)
