"""Dashboards: an analyst's answers on one page, shared by its link; what a curator published needs no account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from urllib.parse import urlencode

from fastapi import Request, Response
from nicegui import app, ui

from blowfishdb.engine.answer import Answer
from blowfishdb.errors import BlowfishError, UnknownAnswer, plural, sentence
from blowfishdb.present import chart
from blowfishdb.present.page import table
from blowfishdb.present.words import accuracy_words, minute_words, note
from blowfishdb.server.authentication import Caller, app_state_of
from blowfishdb.server.dashboards import (
    LONGEST_CAPTION,
    LONGEST_TITLE,
    Dashboard,
    DashboardTile,
    Edition,
    Visibility,
    nowhere,
)
from blowfishdb.server.pages.controls import (
    Heading,
    TableCell,
    ask_after_warning,
    blaming,
    called,
    card,
    empty,
    heading,
    icon_button,
    in_row,
    notice,
    pill,
    plain_table,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.history import all_past, answer_link, answer_name, named
from blowfishdb.server.pages.layout import PageContext, page, plain_page, refusal_page
from blowfishdb.server.pages.query_draft import edit_link
from blowfishdb.server.pages.result import AnswerChart, answer_pills, copy_button
from blowfishdb.server.state import AppState

ACCESS: dict[Visibility, str] = {
    "private": "Only you",
    "shared": "Analysts who have the link",
    "offered": "Analysts who have the link; offered to the curator to publish",
}
PUBLISHED = "/published"
PAPER = f"background:{chart.PAPER};color:{chart.INK};border-radius:8px;padding:6px"
"""Pictures and tables are drawn for light paper."""
TABLE_ROWS = 200
"""Rows of an answer that a published page lists."""


def dashboard_link(dashboard: Dashboard) -> str:
    """Where a dashboard is opened by those who have an account."""
    return f"/dashboards/view?{urlencode({'of': dashboard.id})}"


def published_link(dashboard: Dashboard) -> str:
    """Where everybody reads what was published."""
    return f"{PUBLISHED}/{dashboard.id}"


def answer_on(app_state: AppState, owner: str, tile: DashboardTile) -> Answer:
    """The answer of a tile, as its owner got it; costs nothing and reads no data."""
    released = app_state.session(owner).reopen(tile.dataset, tile.number)
    if not isinstance(released, Answer):
        raise UnknownAnswer(tile.number)
    return released


@page(
    "/dashboards",
    "Dashboards",
    "ask",
    "curate",
    lead="Answers side by side on a page. Opening one is free, for everybody.",
)
async def dashboards(context: PageContext) -> None:
    """One's own, or for curators those that are offered."""
    store, identity = context.app_state.dashboards, context.check("ask", "curate")
    if identity.may("ask"):
        listed = await context.run(lambda: store.of(identity.name))
        _form(context)
        with card():
            if listed:
                columns = [Heading("Dashboard"), Heading("Answers", "is-number"), Heading("Who may open it")]
                columns.append(Heading("Changed (UTC)", "is-time is-spare"))
                plain_table(columns, [_row(one) for one in listed], "Your dashboards")
            else:
                empty("dashboard", "No dashboard yet", "Name one above, then add answers from your history.")
    if identity.may("curate"):
        offered = await context.run(store.offered)
        _offered([one for one in offered if all(context.curates(tile.dataset) for tile in one.tiles)])


def _offered(offered: list[Dashboard]) -> None:
    """What a curator of all that is on it may publish."""
    with card():
        if not offered:
            empty("dashboard", "Nothing is offered", "Analysts offer dashboards here for you to publish.")
            return
        columns = [Heading("Dashboard"), Heading("By"), Heading("State"), Heading("Changed (UTC)", "is-time is-spare")]
        rows: list[list[TableCell]] = [
            [partial(_link, one), one.owner, partial(_state, one), minute_words(one.changed)] for one in offered
        ]
        plain_table(columns, rows, "Offered dashboards")


def _form(context: PageContext) -> None:
    with card(), in_row().style("align-items:flex-start"):
        title = ui.input("A new dashboard", placeholder="Wards in spring").props(f"maxlength={LONGEST_TITLE}")
        title.props('data-testid="new-title"').style("min-width:min(320px,100%)")

        async def create() -> None:
            with blaming(title):
                name, text = context.check("ask").name, (title.value or "").strip()
                made = await context.run(lambda: context.app_state.dashboards.create(name, text))
                ui.navigate.to(dashboard_link(made))

        ui.button("Make it", icon="add", on_click=create).props('unelevated data-testid="make"')


def _row(one: Dashboard) -> list[TableCell]:
    return [partial(_link, one), str(len(one.tiles)), partial(_state, one), minute_words(one.changed)]


def _link(one: Dashboard) -> None:
    ui.link(one.title, dashboard_link(one))


def _state(one: Dashboard) -> None:
    with in_row().style("gap:6px"):
        pill({"private": "only you", "shared": "by link", "offered": "offered"}[one.access])
        if one.published is not None:
            pill("published", "is-good")


@page("/dashboards/view", "Dashboard", "ask", "curate")
async def view(context: PageContext) -> None:
    """One dashboard, by its link."""
    identity = context.check("ask", "curate")
    wanted = context.request.query_params.get("of", "")
    dashboard = await context.run(lambda: context.app_state.dashboards.open(wanted, identity))
    board = DashboardPage(context, dashboard)
    await board.show()


class DashboardPage:
    """The state of one open page."""

    def __init__(self, context: PageContext, dashboard: Dashboard) -> None:
        self._datasets = context.app_state.backend_of(context.identity).names()
        self._is_owner = dashboard.owner == context.identity.name and context.identity.may("ask")
        if not self._is_owner:
            # Of a dataset that somebody may not see, not even a caption is shown.
            tiles = tuple(one for one in dashboard.tiles if one.dataset in self._datasets)
            if dashboard.tiles and not tiles:
                raise nowhere()
            dashboard = replace(dashboard, tiles=tiles)
        self._context, self._dashboard = context, dashboard
        self._is_editing = self._is_owner and not dashboard.tiles
        ui.link("← All dashboards", "/dashboards").classes("bf-small")
        self._root = ui.element("div").classes("bf-stack").style("gap:16px;margin-top:10px")

    async def show(self) -> None:
        """Draws the whole page; answers are opened beside the event loop."""
        answers = await self._context.run(self._answers)
        redraw(self._root, partial(self._draw, answers))

    def _answers(self) -> list[Answer | str]:
        """The answer of each tile, or why it is not there."""
        answers: list[Answer | str] = []
        for tile in self._dashboard.tiles:
            try:
                if tile.dataset not in self._datasets:
                    raise UnknownAnswer(tile.number)
                answers.append(answer_on(self._context.app_state, self._dashboard.owner, tile))
            except BlowfishError as error:
                answers.append(sentence(error.message))
        return answers

    def _draw(self, answers: Sequence[Answer | str]) -> None:
        dashboard = self._dashboard
        with card().style("margin-top:0"):
            with spread():
                with ui.element("div"):
                    heading(dashboard.title).props('data-testid="title"')
                    small(f"{plural(len(dashboard.tiles), 'answer')} of {dashboard.owner}; opening them is free")
                with in_row():
                    if self._is_owner:
                        word, icon = ("Done", "check") if self._is_editing else ("Arrange", "edit")
                        button = ui.button(word, icon=icon, on_click=self._toggle).props("outline")
                        button.props('data-testid="arrange"')
                    elif self._context.identity.may("curate"):
                        self._publishing()
            if dashboard.published is not None:
                self._published_words(dashboard.published)
            if self._is_editing:
                self._settings()
        if not dashboard.tiles:
            empty("dashboard", "Nothing on it yet", "Add answers from your history above.")
        with ui.element("div").classes("bf-two"):
            for place, (tile, answer) in enumerate(zip(dashboard.tiles, answers, strict=True)):
                label = f"Answer {place + 1}"
                with called(card(), label).style("grid-column:1/-1" if tile.is_wide else ""):
                    self._draw_tile(place, tile, answer)

    def _published_words(self, edition: Edition) -> None:
        link = f"{self._context.app_state.settings.url}{published_link(self._dashboard)}"
        with notice(f"Published by {edition.by}; everybody reads it at", icon="public").style("margin-top:12px"):
            ui.link(link, published_link(self._dashboard)).classes("bf-small").props('data-testid="published"')
        if not self._dashboard.is_published_as_is:
            small("What is published is older than what you see here.", "margin-top:6px")

    def _draw_tile(self, place: int, tile: DashboardTile, answer: Answer | str) -> None:
        if isinstance(answer, str):
            heading(tile.caption or "An answer", 3).classes("bf-title")
            notice(answer, "is-accent")
        else:
            with spread():
                heading(tile.caption or answer.title, 3).classes("bf-title")
                link = edit_link(answer, self._context.session()) if self._context.identity.may("ask") else ""
                if link:
                    ui.link("Edit this question", link).classes("bf-small").props('data-testid="edit"')
            if tile.caption:
                small(answer.title)
            for part in answer.parts or (answer,):
                answer_pills(part)
                AnswerChart(part)
            if self._is_owner:
                ui.link("Open it", answer_link(tile.dataset, tile.number)).classes("bf-small")
        if self._is_editing:
            self._tile_settings(place, tile)

    def _tile_settings(self, place: int, tile: DashboardTile) -> None:
        caption = ui.input("Caption", value=tile.caption).props(f"maxlength={LONGEST_CAPTION}").classes("w-full")
        called(caption, f"Caption of answer {place + 1}").style("margin-top:10px")
        caption.on(
            "blur", lambda: self._change(self._with(place, replace(tile, caption=(caption.value or "").strip())))
        )
        with in_row().style("gap:4px;margin-top:6px"):
            icon_button("arrow_upward", f"Move answer {place + 1} up", partial(self._move, place, -1))
            icon_button("arrow_downward", f"Move answer {place + 1} down", partial(self._move, place, 1))
            word = "narrower" if tile.is_wide else "wider"
            wide = self._with(place, replace(tile, is_wide=not tile.is_wide))
            icon_button(
                "width_normal" if tile.is_wide else "width_full",
                f"Make answer {place + 1} {word}",
                partial(self._change, wide),
            )
            rest = (*self._dashboard.tiles[:place], *self._dashboard.tiles[place + 1 :])
            off = replace(self._dashboard, tiles=rest)
            icon_button("close", f"Take answer {place + 1} off", partial(self._change, off))

    def _with(self, place: int, tile: DashboardTile) -> Dashboard:
        tiles = (*self._dashboard.tiles[:place], tile, *self._dashboard.tiles[place + 1 :])
        return replace(self._dashboard, tiles=tiles)

    def _settings(self) -> None:
        dashboard = self._dashboard
        with in_row().style("align-items:flex-start;margin-top:14px"):
            title = ui.input("Title", value=dashboard.title).props(f"maxlength={LONGEST_TITLE}")
            title.style("min-width:min(260px,100%)").props('data-testid="board-title"')

            async def rename() -> None:
                with blaming(title):
                    await self._change(replace(self._dashboard, title=(title.value or "").strip()))

            title.on("blur", rename)
            access = ui.select(ACCESS, value=dashboard.access, label="Who may open it").style("min-width:300px")
            access.props('data-testid="access"').on_value_change(lambda event: self._share(event.value))
            delete = ui.button("Delete", icon="delete", on_click=self._ask_delete).props("flat color=negative")
            delete.props('data-testid="delete"')
        if dashboard.access != "private":
            link = f"{self._context.app_state.settings.url}{dashboard_link(dashboard)}"
            with in_row().style("margin-top:8px"):
                small(link).props('data-testid="link"')
                copy_button(link, "Copy the link")
        self._adding()

    def _adding(self) -> None:
        session = self._context.session()
        options = {
            answer_name(past.dataset, past.number): f"{past.question} ({past.dataset}, {past.at[:10]})"
            for past in all_past(session)
            if not past.is_synopsis
        }
        if not options:
            small("Your history is empty: ask something in Explore first.", "margin-top:12px")
            return
        with in_row().style("align-items:flex-start;margin-top:14px"):
            chosen = ui.select(options, label="An answer from your history", with_input=True)
            chosen.style("min-width:min(420px,100%)").props('data-testid="past"')

            async def add() -> None:
                if chosen.value:
                    dataset, number = named(str(chosen.value))
                    await self._change(self._dashboard.with_tile(DashboardTile(dataset, number)))

            ui.button("Add it", icon="add", on_click=add).props('unelevated data-testid="add-tile"')

    async def _toggle(self) -> None:
        self._is_editing = not self._is_editing
        await self.show()

    async def _move(self, place: int, by: int) -> None:
        await self._change(self._dashboard.with_move(place, by))

    async def _change(self, changed: Dashboard) -> None:
        if changed != self._dashboard:
            self._context.check("ask")
            self._dashboard = await self._context.run(lambda: self._context.app_state.dashboards.save(changed))
            await self.show()

    async def _share(self, access: Visibility) -> None:
        await self._change(replace(self._dashboard, access=access))
        self._context.note("changed who opens a dashboard", self._dashboard.id, {"access": access})

    def _ask_delete(self) -> None:
        async def delete() -> None:
            self._context.check("ask")
            await self._context.run(lambda: self._context.app_state.dashboards.delete(self._dashboard))
            self._context.note("deleted a dashboard", self._dashboard.id)
            ui.navigate.to("/dashboards")

        text = (
            "Its link will lead nowhere, and what was published of it is taken down. The answers stay in your history."
        )
        with self._root:
            ask_after_warning("Delete this dashboard?", text, "Delete it", delete, "confirm-delete", is_grave=True)

    def _publishing(self) -> None:
        dashboards, dashboard = self._context.app_state.dashboards, self._dashboard

        def published(caller: Caller) -> None:
            for tile in dashboard.tiles:
                caller.check(tile.dataset, "curate")
            dashboards.publish(dashboard, caller.name)
            caller.note("published a dashboard", dashboard.id)

        def withdrawn(caller: Caller) -> None:
            dashboards.withdraw(dashboard.id)
            caller.note("withdrew a dashboard", dashboard.id)

        publish, withdraw = (partial(self._context.change_here, work) for work in (published, withdrawn))

        def ask() -> None:
            text = (
                "Whoever has the link reads these answers, without an account, for as long as you leave them there. "
                "They were paid for already; copies that readers keep cannot be taken back."
            )
            with self._root:
                ask_after_warning("Publish to everybody?", text, "Publish it", publish, "confirm-publish")

        if dashboard.access == "offered" and not dashboard.is_published_as_is:
            ui.button("Publish", icon="public", on_click=ask).props('unelevated data-testid="publish"')
        if dashboard.published is not None:
            ui.button("Withdraw", on_click=withdraw).props('flat color=negative data-testid="withdraw"')


@app.get(f"{PUBLISHED}/{{dashboard}}")
def published(dashboard: str, request: Request) -> Response:
    """What a curator published, for whoever has the link: pictures, intervals and notes, without a script."""
    app_state = app_state_of(request)
    try:
        owner, edition = app_state.dashboards.edition(dashboard)
        answers = [(tile, answer_on(app_state, owner, tile)) for tile in edition.tiles]
    except BlowfishError as error:
        return refusal_page("Nothing is here", sentence(error.message), 404)
    sections = [_section(tile, part) for tile, answer in answers for part in answer.parts or (answer,)]
    foot = f"Published {edition.at[:10]}. Each number has noise that protects the people in the data, and an interval."
    body = f'<h1 class="bf-board-title">{escape(edition.title)}</h1><div class="bf-board">{"".join(sections)}</div>'
    return plain_page(edition.title, f'{body}<p class="bf-foot">{escape(foot)}</p>', is_wide=True)


def _section(tile: DashboardTile, answer: Answer) -> str:
    wide = ' style="grid-column:1/-1"' if tile.is_wide else ""
    svg, region = answer.interactive().svg, f'tabindex="0" role="region" aria-label="{escape(answer.title)}"'
    below = f"{answer.title}; {accuracy_words(answer)}" if tile.caption else accuracy_words(answer)
    return (
        f'<section class="bf-card"{wide}><h2>{escape(tile.caption or answer.title)}</h2>'
        f'<p class="bf-quiet bf-small">{escape(below)}</p><div class="bf-scroll" {region} style="{PAPER}">{svg}</div>'
        f'<details><summary>Numbers and note</summary><p class="bf-small">{escape(note(answer))}</p>'
        f'<div class="bf-scroll" {region} style="{PAPER}">{table(answer, TABLE_ROWS)}</div></details></section>'
    )
