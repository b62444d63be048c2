"""Publishing a synopsis: a histogram over some attributes, charged once, then free for everybody and for ever."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from blowfishdb.engine.synopsis.expected import COLUMNS, SynopsisPreview
from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.pages.asking import Asking
from blowfishdb.server.pages.confirm import confirmed, progress_bar
from blowfishdb.server.pages.controls import Tile
from blowfishdb.server.pages.curator_parts import Column, plain_table
from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.question_form import QuestionForm
from blowfishdb.server.pages.quote import show_failure
from blowfishdb.server.pages.shell import empty, heading, page, paragraph
from blowfishdb.session.question import Question
from blowfishdb.session.session import Session

KINDS = (
    Tile("histogram", "One", "bar_chart", "Counts of one attribute"),
    Tile("marginals", "Several", "view_module", "Counts of up to four attributes together"),
)
LEAD = "You pay once. From then on everybody may ask it anything over its attributes, free."


@page("/synopses/publish", "Publish a synopsis", "ask", lead=LEAD)
async def publish(here: Here) -> None:
    """The page."""
    session = here.session()
    names = await here.run(session.datasets)
    ui.link("← All synopses", "/synopses").classes("bf-small")
    if not names:
        empty("storage", "There is no dataset yet", "A curator declares one; then it can be published from.")
        return
    Publisher(here, names, session)


class Publisher:
    """The state of one open page."""

    def __init__(self, here: Here, names: list[str], session: Session) -> None:
        self._here = here
        with ui.element("div").classes("bf-explore").style("margin-top:10px") as self._root:
            with ui.element("section").classes("bf-card").props('aria-label="Synopsis"'):
                data = ui.select(names, value=names[0], label="Dataset").props("outlined dense options-dense")
                data.classes("w-full").style("margin-bottom:14px")
                data.on_value_change(lambda e: self._build(self._here.session(), e.value))
                self._form_box = ui.element("div")
                self._epsilon = ui.input("Spend epsilon", value="0.1").props("outlined dense").style("margin-top:16px")
                self._button = ui.button("Publish", icon="publish", on_click=self._publish).props("unelevated")
                self._button.style("margin-top:16px")
            with ui.element("section").classes("bf-card"):
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
            self._form = QuestionForm(dataset, session[dataset].domain, lambda: None, KINDS)

    def _asked(self, asking: Asking) -> Question:
        table = self._here.session()[asking.dataset]
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
            question, preview = await self._here.run(partial(self._price, asking, epsilon))
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
                self._here.tell(error)
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
            await self._here.run(partial(self._here.note_question, "asked for a synopsis", question.dataset))
            await self._here.run(lambda: question.publish(epsilon=epsilon, progress=hear))
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
