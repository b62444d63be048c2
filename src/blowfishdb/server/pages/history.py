"""History: every answer of the past, free to open again; any two of them side by side."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import TableSelectionEventArguments

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.points import PointWeights
from blowfishdb.engine.postprocess import compare as comparison_of
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import read_query
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import BlowfishError, InvalidInput, sentence
from blowfishdb.present.answer_values import query_document
from blowfishdb.present.chart import chart_of, shared_top
from blowfishdb.present.chart_echarts import DETAIL
from blowfishdb.present.words import accuracy_words, minute_words, readable
from blowfishdb.server.auth.approvals import Approval
from blowfishdb.server.dashboards import DashboardTile
from blowfishdb.server.pages.controls import (
    Heading,
    TableCell,
    called,
    card,
    empty,
    figure,
    heading,
    in_row,
    link_button,
    paragraph,
    pill,
    plain_table,
    small,
    spread,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.pages.query_draft import reopening
from blowfishdb.server.pages.result import (
    answer_pills,
    code_block,
    confirmed,
    show_answer,
    show_chart,
    show_comparison,
    with_progress,
)
from blowfishdb.session.backend import Past
from blowfishdb.session.session import Session
from blowfishdb.session.table import Question

BOTH = 2
PER_PAGE = 20
LISTED = 200
"""Answers that are looked up at once; a link leads to older ones."""
LONGEST_NUMBER = 18
"""Digits: no ledger is as long."""
HEADINGS = {
    "question": "Question",
    "dataset": "Dataset",
    "at": "When (UTC)",
    "mechanism": "Mechanism",
    "epsilon": "Epsilon",
}
LINKED = (
    '<q-td :props="props"><a :href="props.row.link">{{ props.value }}</a>'
    '<span v-if="!props.row.current" class="bf-pill" style="margin-left:8px">older version</span>'
    '<div v-if="props.row.family" class="bf-small">{{ props.row.family }}</div></q-td>'
)
STATES = {"waiting": "is-accent", "approved": "is-good", "refused": "is-bad", "used": ""}
TICKED = """<q-checkbox v-model="props.selected" :aria-label="'Compare ' + props.row.named" />"""


@page("/history", "History", "ask", lead="Everything you asked. Opening an answer again, or comparing two, is free.")
async def history(context: PageContext) -> None:
    """The list."""
    session, before = context.session(), before_of(context)
    newest = await context.run(lambda: all_past(session, before))
    rows = [_row(past) for past in newest]
    _approvals(await context.run(lambda: _asked_first(context, session)))
    with card():
        if not rows and before is not None:
            empty("history", "Nothing older", "These are all your answers.")
            link_button("Newest answers", "/history")
            return
        if not rows:
            text = "Your answers will be listed here, to open, compare and download again."
            empty("history", "Nothing asked yet", text)
            with in_row().style("justify-content:center;margin-bottom:20px"):
                link_button("Ask something", "/explore")
            return
        with spread():
            label = small("Tick two answers to compare them.").props("role=status")
            button = ui.button("Compare", icon="compare", on_click=lambda: compare_ticked())
            button.props("unelevated").set_enabled(False)

        def choose(event: TableSelectionEventArguments) -> None:
            table.selected = event.selection[-BOTH:]
            button.set_enabled(len(table.selected) == BOTH)
            words = ("Tick two answers to compare them.", "Tick one more.", "Ready to compare.")
            label.text = words[len(table.selected)]

        def compare_ticked() -> None:
            one, two = (row["id"] for row in table.selected)
            ui.navigate.to(f"/history/compare?{urlencode({'one': one, 'two': two})}")

        columns = [
            {"name": name, "label": words, "field": name, "align": "right" if name == "epsilon" else "left"}
            | {"sortable": name not in ("question", "epsilon")}
            for name, words in HEADINGS.items()
        ]
        table = ui.table(columns=columns, rows=rows, row_key="id", selection="multiple", pagination=PER_PAGE)
        table.on_select(choose)
        table.props('flat hide-selected-banner aria-label="Answers of the past"').classes("w-full bf-wraps")
        table.add_slot("body-cell-question", LINKED)
        table.add_slot("header-selection", '<span class="bf-unseen">To compare</span>')
        table.add_slot("body-selection", TICKED)
        if len(rows) <= PER_PAGE:
            table.props("hide-bottom")
        with spread().style("margin-top:12px"):
            if before is not None:
                ui.link("← Newest answers", "/history").classes("bf-small")
            if len(rows) == LISTED:
                ui.link("Older answers →", f"/history?before={newest[-1].number}").classes("bf-small")


def _asked_first(context: PageContext, session: Session) -> list[Approval]:
    """What of this analyst waits for a yes, got one, or was refused, and is still to be acted upon."""
    store, name = context.app_state.approvals, context.identity.name
    return [one for dataset in session.datasets() for one in store.of(dataset, name) if one.state != "used"]


def _approvals(approvals: list[Approval]) -> None:
    if not approvals:
        return
    with card():
        heading("Asked of a curator first")
        small("Nothing was charged for these. After a yes, ask the same again.", "margin:2px 0 10px")
        columns = [Heading("Dataset"), Heading("No.", "is-number is-spare"), Heading("Question")]
        columns += [Heading("Epsilon", "is-number"), Heading("State")]
        rows: list[list[TableCell]] = [
            [one.dataset, str(one.number), one.question, figure(one.epsilon), partial(approval_state, one)]
            for one in approvals
        ]
        plain_table(columns, rows, "Asked of a curator first")


def approval_state(approval: Approval) -> None:
    """Whether a question waits, or who decided what and why."""
    pill(approval.state, STATES[approval.state])
    if approval.decided_by:
        small(f"by {approval.decided_by}{f': {approval.reason}' if approval.reason else ''}")


def before_of(context: PageContext) -> int | None:
    """The number of the entry before which a list continues; None for its beginning."""
    number = context.request.query_params.get("before", "")
    return int(number) if number.isdecimal() and len(number) <= LONGEST_NUMBER and int(number) else None


def all_past(session: Session, before: int | None = None) -> list[Past]:
    """The newest charges of all datasets, or the newest before a number, newest first."""
    charges = [past for name in session.datasets() for past in session.history(name, most=LISTED, before=before)]
    # Entries of all datasets are numbered together.
    return sorted(charges, key=lambda past: past.number, reverse=True)[:LISTED]


def entry_of(session: Session, answer: Answer) -> Past | None:
    """The analyst's entry under which an answer is stored."""
    for past in session.history(answer.dataset):
        reopened = session.reopen(past.dataset, past.number) if past.question == answer.title else None
        if isinstance(reopened, Answer) and reopened.released == answer.released:
            return past
    return None


def _row(past: Past) -> dict[str, object]:
    return {
        "id": answer_name(past.dataset, past.number),
        "link": answer_link(past.dataset, past.number),
        "question": f"Synopsis: {past.question}" if past.is_synopsis else past.question,
        # Answers to one question at several levels are told apart by their entries.
        "named": f"{past.question}, entry {past.number}",
        "dataset": past.dataset,
        "at": minute_words(past.at),
        "mechanism": past.mechanism,
        "epsilon": figure(past.epsilon),
        "current": past.is_current,
        "family": _family_words(past),
    }


def _family_words(past: Past) -> str:
    """What an answer rests on, and which other ones measure the same rows."""
    if past.rests_on:
        return f"Entry {past.number}; rests on entry {', '.join(map(str, past.rests_on))}."
    return f"Entry {past.number}; others rest on it." if past.family == past.number else ""


def answer_link(dataset: str, number: int) -> str:
    """Where an answer of the past is opened again."""
    return f"/history/answer?{urlencode({'of': answer_name(dataset, number)})}"


def answer_name(dataset: str, number: int) -> str:
    """The name of an answer in links."""
    return f"{number} {dataset}"


def synopsis_link(dataset: str, number: int) -> str:
    """Where a synopsis is asked."""
    return f"/synopses/ask?{urlencode({'of': answer_name(dataset, number)})}"


def named(name: str) -> tuple[str, int]:
    """The dataset and the number of an answer, from its name in a link."""
    number, _, dataset = name.partition(" ")
    if not number.isdecimal() or len(number) > LONGEST_NUMBER or not dataset:
        raise InvalidInput("this link leads to no answer; open it from the history")
    return dataset, int(number)


@page("/history/answer", "An answer of the past", "ask")
async def one_answer(context: PageContext) -> None:
    """One answer, opened again."""
    session = context.session()
    dataset, number = named(context.request.query_params.get("of", ""))
    released = await context.run(lambda: session.reopen(dataset, number))
    ui.link("← All answers", "/history").classes("bf-small")
    with card().style("margin-top:10px"):
        code = reopening(dataset, number, context.app_state.settings.url)
        if isinstance(released, Answer):
            show_answer(context, released, code)
            keep_on_dashboard(context, dataset, number)
            if _may_be_sharper(released):
                MorePrecise(context, released)
        elif isinstance(released, Synopsis):
            paragraph(f"A synopsis of {', '.join(released.artefact.names)}. Anybody may ask it, free.")
            link_button("Ask it", synopsis_link(dataset, number)).style("margin-top:12px")
        elif isinstance(released, PointWeights):
            paragraph("Weights for k-means. They are used from Python:")
            code_block(code)


def keep_on_dashboard(context: PageContext, dataset: str, number: int) -> None:
    """A choice of one's dashboards, or of a new one, for an answer to be put on."""
    store, owner = context.app_state.dashboards, context.check("ask").name
    boards = {one.id: one.title for one in store.of(owner)}
    with in_row().style("margin-top:14px;align-items:flex-start"):
        chosen = ui.select({**boards, "": "A new dashboard"}, value=next(iter(boards), ""), label="Dashboard")
        chosen.style("min-width:min(240px,100%)").props('data-testid="board"')

        async def keep() -> None:
            identity = context.check("ask")

            def work() -> str:
                made = store.create(owner, dataset) if not chosen.value else store.open(str(chosen.value), identity)
                return store.save(made.with_tile(DashboardTile(dataset, number))).id

            ui.navigate.to(f"/dashboards/view?{urlencode({'of': await context.run(work)})}")

        ui.button("Put it on a dashboard", icon="dashboard", on_click=keep).props('outline data-testid="keep"')


SLID = ("count", "histogram", "histogram2d", "cdf", "ranges", "marginals", "sum")


def _may_be_sharper(answer: Answer) -> bool:
    """Whether the same question is known, and can be asked again with more accuracy."""
    is_slid = query_document(answer) is not None and answer.kind in SLID
    return is_slid and not answer.is_exact and not answer.caveat and answer.mechanism != "joint"


class MorePrecise:
    """A slider from the accuracy of an answer upward, what the difference costs, and a button that releases it."""

    def __init__(self, context: PageContext, answer: Answer) -> None:
        self._context, self._answer = context, answer
        self._quoted: tuple[str, Preview] | None = None
        with ui.element("div").style("margin-top:16px") as self._root:
            self._pricing = Latest(context, self._root, self._price)
            heading("More accuracy", 3).classes("bf-title")
            small("What the same question would cost within less. Nothing is read or charged before you release it.")
            slider = ui.slider(min=0, max=90, step=5, value=0, on_change=self._moved)
            self._slider = called(slider, "How much narrower the intervals should be, in percent", "narrower")
            self._words = ui.label().props('role="status" data-testid="marginal"')
            self._button = ui.button("Release at this accuracy", icon="play_arrow", on_click=self._confirm)
            self._button.props('unelevated data-testid="sharpen"').style("margin-top:10px").set_enabled(False)
            with ui.element("div").props('id=sharper aria-live="polite"') as self._result_box:
                pass
        self._pricing.changed()

    def _moved(self) -> None:
        """The old price is void at once."""
        self._quoted = None
        self._button.set_enabled(False)
        self._pricing.changed()

    @property
    def _question(self) -> Question:
        document = query_document(self._answer) or {}
        return self._context.session()[self._answer.dataset].question(read_query(dict(document)))

    async def _price(self, is_wanted: IsWanted) -> None:
        alpha = self._answer.widths.simultaneous * (1 - float(self._slider.value or 0) / 100)
        within, preview = readable(alpha).replace(",", ""), None
        try:
            preview = await self._context.run(lambda: self._question.preview(alpha=within, beta=self._answer.beta))
            told = preview.shared
            words = f"It costs {figure(preview.epsilon)}." if told is None else told.words()
        except BlowfishError as error:
            words = sentence(error.message)
        if is_wanted():
            self._quoted = None if preview is None else (within, preview)
            is_narrower = preview is not None and bool(self._slider.value)
            self._button.set_enabled(is_narrower and (preview is None or preview.is_affordable))
            self._words.text = f"Within ±{readable(alpha)}: {words}"

    async def _confirm(self) -> None:
        if self._quoted is None:
            return
        within, preview = self._quoted
        with self._root:
            what = f"{preview.title}, of {preview.dataset}, within ±{within}."
            if not await confirmed(what, preview.epsilon, preview.left):
                return
            released = await with_progress(
                self._context, self._result_box, partial(self._release, within, preview.epsilon)
            )
        if released is not None and not self._root.is_deleted:
            ui.navigate.to(released)

    def _release(self, within: str, most: Fraction, progress: Progress) -> str:
        """Releases it for what was shown and no more; gives the link to the answer."""
        self._context.check("ask")
        self._context.note("asked for more accuracy", self._answer.dataset)
        answer = self._question.release(alpha=within, beta=self._answer.beta, progress=progress, spend=most)
        entry = entry_of(self._context.session(), answer)
        return "/history" if entry is None else answer_link(entry.dataset, entry.number)


@page("/history/compare", "Two answers side by side", "ask", lead="On the same scale. Comparing is free.")
async def compare(context: PageContext) -> None:
    """The two that the link names."""
    session = context.session()
    names = [named(context.request.query_params.get(which, "")) for which in ("one", "two")]
    reopened = [await context.run(partial(session.reopen, dataset, number)) for dataset, number in names]
    answers = [one for one in reopened if isinstance(one, Answer)]
    ui.link("← All answers", "/history").classes("bf-small")
    if len(answers) != len(names):
        text = "One of the two is a synopsis or a set of weights. Choose others in the history."
        empty("compare", "Only answers can be compared", text)
        return
    first, second = answers
    top = shared_top(first, second) if first.is_counts and second.is_counts else None
    with ui.element("div").classes("bf-two").style("margin-top:10px"):
        for answer in answers:
            with card():
                heading(answer.title)
                answer_pills(answer, f"{answer.mechanism}, {answer.released[:10]}")
                show_chart(chart_of(answer, DETAIL), f"Chart of {answer.title}: {accuracy_words(answer)}.", top)
    with card().style("margin-top:16px"):
        heading("Taken together")
        try:
            show_comparison(comparison_of(first, second))
        except BlowfishError as refusal:
            small(f"Not compared: {refusal.message}.", "margin:4px 0 0")
