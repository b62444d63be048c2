"""Synopses: noisy tables that somebody paid for once; everybody asks them for ever, free."""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.pages.asking import Asking, asked
from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.history import named
from blowfishdb.server.pages.question_form import TILES, QuestionForm
from blowfishdb.server.pages.quote import figure, show_refusal
from blowfishdb.server.pages.result import show_answer
from blowfishdb.server.pages.shell import empty, heading, page
from blowfishdb.server.pages.snippet import synopsis_snippet
from blowfishdb.session.desk import Published
from blowfishdb.session.session import Session

PAUSE = 0.15
ASKED = [tile for tile in TILES if tile.value != "sql"]


@page("/synopses", "Synopses", "ask", lead="Noisy tables that were paid for once. Asking them costs nothing.")
async def synopses(here: Here) -> None:
    """The list."""
    session = here.session()
    found = await here.run(lambda: all_published(session))
    with ui.element("div").classes("bf-row bf-ends bf-beside-head"):
        ui.button("Publish one", icon="add", on_click=lambda: ui.navigate.to("/synopses/publish")).props("outline")
    if not found:
        with ui.element("section").classes("bf-card"):
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
    with ui.element("section").classes("bf-card"):
        heading(one.title)
        with ui.element("div").classes("bf-row").style("gap:6px;margin:8px 0 14px"):
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
async def ask_synopsis(here: Here) -> None:
    """One synopsis, to ask."""
    session = here.session()
    dataset, number = named(here.request.query_params.get("of", ""))
    found = await here.run(lambda: session.synopsis(dataset, number))
    ui.link("← All synopses", "/synopses").classes("bf-small")
    Reader(here, dataset, number, found)


class Reader:
    """The state of one open page: the controls, and the answer that follows them."""

    def __init__(self, here: Here, dataset: str, number: int, synopsis: Synopsis) -> None:
        self._here, self._number, self._synopsis, self._turn = here, number, synopsis, 0
        with ui.element("div").classes("bf-explore").style("margin-top:10px") as self._root:
            with ui.element("section").classes("bf-card").props('aria-label="Question"'):
                self._form = QuestionForm(dataset, synopsis.domain, self._changed, ASKED)
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
            answer, code = await self._here.run(partial(self._read, self._form.asking))
        except NotSignedIn as error:
            with self._root:
                self._here.tell(error)
            return
        except BlowfishError as error:
            self._box.clear()
            with self._box:
                show_refusal(error)
            return
        if turn == self._turn and not self._root.is_deleted:
            self._box.clear()
            with self._box:
                show_answer(self._here, answer, code, free=True)

    def _read(self, asking: Asking) -> tuple[Answer, str]:
        self._here.check("ask")
        url = self._here.office.settings.url
        return asked(asking, self._synopsis), synopsis_snippet(asking, self._synopsis.domain, self._number, url)
