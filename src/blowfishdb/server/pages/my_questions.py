"""My questions: questions that were collected with their accuracies, what they cost together, and their answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.errors import BlowfishError, NotSignedIn, plural, sentence
from blowfishdb.server.pages.controls import (
    budget_bar,
    called,
    card,
    empty,
    figure,
    heading,
    icon_button,
    in_row,
    link_button,
    listed_table,
    notice,
    pill,
    redraw,
    small,
)
from blowfishdb.server.pages.explore import MOST_COLLECTED, RunnableQuery, runnable_query, storage_key
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.pages.query_draft import CONFIDENCES, QueryDraft, QuestionDraft, read_question
from blowfishdb.server.pages.result import confirmed, show_answer, show_failure, with_progress
from blowfishdb.session.backend import Budget
from blowfishdb.session.plan import QuestionPlan
from blowfishdb.session.session import Session
from blowfishdb.session.table import Question
from blowfishdb.sql import parse, split


@dataclass(frozen=True, eq=False)
class Collected:
    """A question as it was collected, and the query that it is; or why it is none."""

    draft: QuestionDraft
    query: RunnableQuery | None
    refusal: str = ""


@page(
    "/questions",
    "My questions",
    "ask",
    lead="Collect questions, see what they cost together, and release them.",
)
async def my_questions(context: PageContext) -> None:
    """The page; what the browser keeps is read once it is there."""
    names = await context.run(context.session().datasets)
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be asked here.")
        return
    Collection(context, names)


class Collection:
    """The state of one open page."""

    def __init__(self, context: PageContext, names: Sequence[str]) -> None:
        self._context, self._names = context, names
        self._questions: list[Collected] = []
        self._is_running = False
        with ui.element("div").classes("bf-stack") as self._root:
            self._pricing = Latest(context, self._root, self._reprice)
            with card().props('aria-label="Questions"'):
                with ui.element("div") as self._list_box:
                    small("Reading what you collected.")
                self._statement_form()
            with (
                card().props('aria-label="Price" aria-live="polite" data-testid="plan"'),
                ui.element("div") as self._price_box,
            ):
                _draw_waiting(has_questions=False)
            with ui.element("div").props("id=answers") as self._result_box:
                pass
        ui.timer(0.05, self._load, once=True)

    def _statement_form(self) -> None:
        with ui.expansion("Add questions in SQL").props("dense").classes("w-full").style("margin-top:12px"):
            self._sql = ui.textarea("Statements, separated by semicolons").props('outlined autogrow data-testid="sql"')
            self._sql.classes("w-full")
            small("Each may end with OPTIONS (alpha = 50); the others are asked within ±100.", "margin:4px 0 8px")
            ui.button("Add them", icon="add", on_click=self._add_statements).props("outline data-testid=add")

    async def _load(self) -> None:
        key = json.dumps(storage_key(self._context))
        try:
            stored = await ui.run_javascript(f"return localStorage.getItem({key}) || '[]'", timeout=10)
            texts = json.loads(stored)
        except (TimeoutError, ValueError, TypeError):
            texts = []
        listed = [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []
        await self._read(listed[-MOST_COLLECTED:])

    async def _read(self, texts: Sequence[str]) -> None:
        session = self._context.session()
        read = await self._context.run(lambda: [self._collected(session, text) for text in texts])
        self._show([one for one in read if one is not None])

    def _collected(self, session: Session, text: str) -> Collected | None:
        draft = read_question(text, lambda name: session[name].domain)
        if draft is None:
            return None
        try:
            return Collected(draft, runnable_query(session, draft, self._context.app_state.settings.url))
        except BlowfishError as error:
            return Collected(draft, None, sentence(error.message))

    async def _add_statements(self) -> None:
        try:
            statements = split(self._sql.value or "")
            for one in statements:
                parse(one)
        except BlowfishError as error:
            self._context.tell(error)
            return
        draft = QueryDraft(self._names[0], "sql")
        self._sql.value = ""
        texts = [QuestionDraft(draft, sql=one.strip()).text() for one in statements]
        await self._read([*(one.draft.text() for one in self._questions), *texts][-MOST_COLLECTED:])

    def _show(self, questions: list[Collected]) -> None:
        self._questions = questions
        key = json.dumps(storage_key(self._context))
        texts = json.dumps(json.dumps([one.draft.text() for one in questions]))
        with self._root:
            ui.run_javascript(f"localStorage.setItem({key}, {texts})")
        redraw(self._list_box, self._draw_list)
        # The old price is void at once.
        redraw(self._price_box, partial(_draw_waiting, has_questions=bool(questions)))
        self._pricing.changed()

    def _draw_list(self) -> None:
        heading(f"{len(self._questions)} collected" if self._questions else "Nothing collected yet")
        if not self._questions:
            small("Ask something in Explore and choose Add to my questions, or write statements below.", "margin:4px 0")
            link_button("Explore", "/explore", looks="outline")
            return
        with ui.element("ol").classes("bf-stack").style("padding:0;margin:10px 0 0;list-style:none"):
            for place, one in enumerate(self._questions):
                with ui.element("li").classes("bf-row").style("gap:10px;align-items:center;flex-wrap:wrap"):
                    self._draw_question(place, one)

    def _draw_question(self, place: int, one: Collected) -> None:
        draft, accuracy = one.draft, one.draft.accuracy
        title = draft.sql or draft.query.template if one.query is None else repr(one.query.question).split(":")[0][1:]
        with ui.element("div").style("flex:1 1 260px;min-width:0;overflow-wrap:anywhere"):
            ui.label(title)
            if one.refusal:
                small(one.refusal)
        target = None if one.query is None else one.query.target
        says_it = target is not None and accuracy.alpha.strip() != str(target.relative or target.alpha)
        if draft.query.template == "sql" and says_it:
            pill("accuracy in its OPTIONS")
        elif accuracy.by == "budget":
            pill(f"for epsilon {accuracy.epsilon}")
        else:
            within = ui.input("within ±", value=accuracy.alpha).props("outlined dense").style("width:110px")
            called(within, f"Within, question {place + 1}")
            within.on("blur", lambda: self._sharpen(place, within.value or ""))
            within.on("keydown.enter", lambda: self._sharpen(place, within.value or ""))
        pill(CONFIDENCES[accuracy.confidence])
        others = [other.draft.text() for n, other in enumerate(self._questions) if n != place]
        icon_button("close", f"Remove question {place + 1}", lambda: self._read(others))

    async def _sharpen(self, place: int, alpha: str) -> None:
        drafts = [one.draft for one in self._questions]
        if place < len(drafts) and drafts[place].accuracy.alpha != alpha:
            drafts[place] = replace(drafts[place], accuracy=replace(drafts[place].accuracy, alpha=alpha))
            await self._read([draft.text() for draft in drafts])

    async def _reprice(self, is_wanted: IsWanted) -> None:
        queries = [one.query for one in self._questions if one.query is not None]
        try:
            priced = await self._context.run(lambda: _prices(self._context.session(), queries))
        except NotSignedIn:
            raise
        except BlowfishError as error:
            if is_wanted():
                redraw(self._price_box, partial(show_failure, error))
            return
        if is_wanted():
            redraw(self._price_box, lambda: self._draw_prices(priced))

    def _draw_prices(self, priced: Sequence[tuple[QuestionPlan | str, Budget]]) -> None:
        if not priced:
            _draw_waiting(has_questions=False)
        for plan, budget in priced:
            heading(f"Together: {budget.dataset}")
            if isinstance(plan, str):
                notice(plan, "is-accent", "lightbulb")
            else:
                self._draw_plan(plan, budget)

    def _draw_plan(self, plan: QuestionPlan, budget: Budget) -> None:
        with in_row().style("align-items:baseline;gap:10px;margin:8px 0 10px"):
            ui.label(figure(plan.total)).classes("bf-big").props('data-testid="total"')
            ui.label(f"epsilon together; one by one {figure(plan.one_by_one)}").classes("bf-quiet").props(
                'data-testid="sum"'
            )
            if not plan.is_affordable:
                pill("more than you have", "is-bad")
        budget_bar(budget, plan.total, plan.left)
        columns = ("Question", "Accuracy", "Alone", "Share")
        listed_table(columns, 2, plan.rows(), f"What the questions of {plan.dataset} cost")
        small(" ".join(plan.notes()), "margin:8px 0")
        run = ui.button("Release all of them", icon="play_arrow", on_click=lambda: self._confirm(plan))
        run.props('unelevated data-testid="release"').set_enabled(plan.is_affordable)

    async def _confirm(self, plan: QuestionPlan) -> None:
        if self._is_running:
            return
        with self._root:
            if await confirmed(f"{plural(len(plan.questions), 'question')} of {plan.dataset}.", plan.total, plan.left):
                await self._run(plan)

    async def _run(self, plan: QuestionPlan) -> None:
        self._is_running = True
        queries = [one.query for one in self._questions if one.query is not None]
        codes = [query.code for query in queries if query.question.dataset == plan.dataset]
        try:
            answers = await with_progress(self._context, self._result_box, partial(self._release, plan))
            if answers is not None and not self._root.is_deleted:
                redraw(self._result_box, partial(self._draw_answers, answers, codes))
        finally:
            self._is_running = False
        if not self._root.is_deleted:
            self._pricing.changed()

    def _release(self, plan: QuestionPlan, progress: Progress) -> list[Answer]:
        self._context.check("ask")
        self._context.note("asked for several answers", plan.dataset)
        return plan.release(progress=progress)

    def _draw_answers(self, answers: Sequence[Answer], codes: Sequence[str]) -> None:
        small(f"{plural(len(answers), 'answer')}, in the history too.")
        for place, (answer, code) in enumerate(zip(answers, codes, strict=True), start=1):
            with card().style("margin-top:12px").props(f'aria-label="Answer {place}"'):
                show_answer(self._context, answer, code)


def _draw_waiting(*, has_questions: bool) -> None:
    if has_questions:
        empty("hourglass_empty", "Working out the price", "Nothing is read or charged for that.")
    else:
        empty("hourglass_empty", "No price yet", "It follows once there are questions.")


def _prices(session: Session, queries: Sequence[RunnableQuery]) -> list[tuple[QuestionPlan | str, Budget]]:
    """The plan of each dataset's questions, or why there is none; and the budget that pays it."""
    by_dataset: dict[str, list[tuple[Question, AccuracyTarget]]] = {}
    for query in queries:
        by_dataset.setdefault(query.question.dataset, []).append((query.question, query.target))
    priced: list[tuple[QuestionPlan | str, Budget]] = []
    for dataset, items in by_dataset.items():
        budget = session.budget(dataset)
        try:
            priced.append((session.plan_at(items), budget))
        except NotSignedIn:
            raise
        except BlowfishError as error:
            priced.append((sentence(error.message), budget))
    return priced
