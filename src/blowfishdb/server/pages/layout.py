"""The frame of every page: its user, checked at every step, the navigation, the theme, and how errors are told."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from nicegui import Client, app, background_tasks, ui

from blowfishdb.catalog.curator import Curator
from blowfishdb.errors import BlowfishError, NotAllowed, NotSignedIn, sentence
from blowfishdb.incidents import public_error, redact_errors
from blowfishdb.present.answer_values import software_version
from blowfishdb.server.auth.audit_log import NOTHING
from blowfishdb.server.auth.grants import Principal, Scope
from blowfishdb.server.authentication import Caller, app_state_of, identity_of, secret_of
from blowfishdb.server.pages.controls import card, empty, heading, icon_button, link_button, paragraph
from blowfishdb.server.problems import status_of
from blowfishdb.server.state import AppState
from blowfishdb.session.session import Session
from blowfishdb.sources.calls import is_cancelled

Result = TypeVar("Result")
IsWanted: TypeAlias = Callable[[], bool]
PAUSE = 0.15
"""Seconds without a change after which the newest one is worked out."""
# Questions of one analyst take turns and wait here for heavy work; others must not wait for a free thread meanwhile.
WORKERS = ThreadPoolExecutor(128, thread_name_prefix="page")


class Alert:
    """The place of a page where an error is told that belongs to no field; a new one replaces the last."""

    def __init__(self) -> None:
        self._box: ui.element | None = None
        self._has_ended = False

    def build(self) -> None:
        """Makes the place, empty."""
        self._box = ui.element("div").classes("bf-alert").props('role=alert data-testid="alert"')

    def show(self, text: str) -> None:
        """Tells an error."""
        if self._box is None or self._box.is_deleted:
            return
        self._box.clear()
        with self._box, ui.element("div").classes("bf-notice is-bad"):
            ui.icon("error").props("aria-hidden=true")
            ui.label(text)
            icon_button("close", "Close this message", self.clear)

    def clear(self) -> None:
        """Takes the error back, once something has worked."""
        if self._box is not None and not self._box.is_deleted:
            self._box.clear()

    def end(self, path: str) -> None:
        """Says, once, that the login session is over; the page stays readable until they move on."""
        if self._has_ended:
            return
        self._has_ended = True
        title = "Your session has ended"
        with ui.dialog().props(f'persistent aria-label="{title}"') as dialog, ui.card():
            ui.label(title).classes("bf-title")
            text = "Nothing was charged. Sign in again to continue; your answers are kept in the history."
            ui.label(text).classes("bf-quiet")
            button = ui.button("Sign in", on_click=lambda: ui.navigate.to(f"{SIGN_IN}?then={quote(path)}"))
            button.props("unelevated").style("margin-top:16px")
        dialog.open()


@dataclass(frozen=True, eq=False)
class PageContext:
    """One open page of one user. A page stays open for hours, so every step checks that the session has not ended."""

    request: Request = field(repr=False)
    app_state: AppState = field(repr=False)
    identity: Principal
    secret: str = field(repr=False)
    alert: Alert = field(default_factory=Alert, repr=False)

    def check(self, *scopes: Scope) -> Principal:
        """The user as they are now; NotSignedIn when the session has ended, NotAllowed without one of the rights."""
        now = self.app_state.logins.resume(self.secret)
        if now is None:
            raise NotSignedIn
        if not now.may(*scopes):
            raise NotAllowed(" or to ".join(scopes))
        return now

    def caller(self, *scopes: Scope) -> Caller:
        """The user as the routes of REST know them, with one of the rights."""
        return Caller(self.check(*scopes), self.app_state)

    def session(self) -> Session:
        """The analyst's session, over the datasets that they may ask."""
        return self.caller("ask").session("ask")

    def curator(self) -> Curator:
        """The curator's side, of the datasets that they curate."""
        return self.caller("curate").curator()

    def auditor(self) -> Curator:
        """The ledger, of the datasets that they audit; pages of auditors only read."""
        return self.caller("audit").auditor()

    def curates(self, dataset: str) -> bool:
        """Whether they may change what holds for a dataset."""
        return self.app_state.grants.may(self.identity, dataset, "curate")

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work done beside the event loop; whatever fails is a BlowfishError that may be shown."""
        inside = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(WORKERS, inside.run, redact_errors, work)

    def compute(self, effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result:
        """The result of arithmetic; what is heavy is done in a process, and ends when the page starts another."""
        return self.app_state.heavy_work.compute(self.identity.name, effort, function, *arguments)

    async def change(self, work: Callable[[Caller], Result]) -> Result:
        """The result of a curator's change, made and noted as by its route of REST."""
        result = await self.run(partial(work, self.caller("curate")))
        self.alert.clear()
        return result

    async def change_here(self, work: Callable[[Caller], object]) -> None:
        """Makes a curator's change, and shows the page anew."""
        await self.change(work)
        ui.navigate.reload()

    def note(self, action: str, target: str = "", detail: Mapping[str, str | int | None] = NOTHING) -> None:
        """Writes a line into the audit log."""
        self.app_state.audit_log.note(self.identity.name, action, target, detail)

    def tell(self, error: Exception) -> None:
        """Shows an error to the user; of the unexpected, only an incident number."""
        shown = public_error(error)
        if isinstance(shown, NotSignedIn):
            self.alert.end(self.request.url.path)
        else:
            self.alert.show(sentence(shown.message))


class Latest:
    """Work that follows the controls of a page: one run at a time, a moment after the newest change.

    The work gets a function that tells whether it is still wanted: a later change makes an earlier run void. It draws
    inside `root`, where errors are told as well.
    """

    def __init__(self, context: PageContext, root: ui.element, work: Callable[[IsWanted], Awaitable[None]]) -> None:
        self._context, self._root, self._work = context, root, work
        self._turn, self._is_running = 0, False

    def changed(self) -> None:
        """Asks for a new run soon."""
        self._turn += 1
        if not self._is_running:
            self._is_running = True
            background_tasks.create(self._follow(), name="latest")

    async def _follow(self) -> None:
        turn = -1
        while turn != self._turn and not self._root.is_deleted:
            turn = self._turn
            await asyncio.sleep(PAUSE)
            if turn == self._turn:
                await self._run(turn)
        self._is_running = False

    async def _run(self, turn: int) -> None:
        def is_wanted() -> bool:
            return turn == self._turn and not self._root.is_deleted

        is_cancelled.set(lambda: not is_wanted())
        with self._root:
            try:
                await self._work(is_wanted)
                self._context.alert.clear()
            except Exception as error:  # noqa: BLE001  # told as an incident
                if is_wanted():
                    self._context.tell(error)


ASSETS = Path(__file__).parent / "assets"
HOME = "/assets"
THEME_COOKIE = "blowfish_theme"
YEAR = 365 * 24 * 60 * 60
MARK = (ASSETS / "mark.svg").read_text(encoding="utf-8").replace('style="color:#0c6a8c"', 'aria-hidden="true"')
"""A blowfish; the colour is that of the text around it."""

app.add_static_files(HOME, ASSETS, max_cache_age=3600)


def address(asset: str) -> str:
    """Where browsers find an asset; a new version of the software has a new address."""
    return f"{HOME}/{asset}?{software_version()}"


def plain_page(title: str, body: str, status: int = 200, *, is_wide: bool = False) -> HTMLResponse:
    """A whole page of trusted markup, without the navigation."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · BlowfishDB</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{address("mark.svg")}"><link rel="stylesheet" href="{address("theme.css")}"></head>'
        f'<body class="bf-plain{" is-wide" if is_wide else ""}"><main>'
        f'<div class="bf-mark">{MARK}BlowfishDB</div>{body}</main>'
        f'<script src="{address("plain.js")}"></script></body></html>',
        status,
    )


def refusal_page(title: str, text: str, status: int) -> HTMLResponse:
    """A whole page that says why there is nothing to see, and leads back."""
    body = f'<section class="bf-card"><h1>{escape(title)}</h1><p class="bf-quiet">{escape(text)}</p>'
    return plain_page(
        title, body + '<p style="margin-top:18px"><a href="/">Back to the first page</a></p></section>', status
    )


Builder: TypeAlias = Callable[[PageContext], None] | Callable[[PageContext], Awaitable[None]]
SIGN_IN = "/sign-in"
PASSWORD = "/password"  # a path
PATIENCE = 0.25
"""Seconds after which the frame is sent without its content, which follows."""
LONGEST_BUILD = 60.0
"""Seconds after which a page that is not built yet is a fault; a busy machine alone is not."""


@dataclass(frozen=True)
class Place:
    """One entry of the navigation, for those with one of the scopes."""

    path: str
    label: str
    icon: str
    scopes: tuple[Scope, ...]
    is_everywhere: bool = False
    """Whether the account itself must have the right, not only on some dataset."""

    def is_for(self, identity: Principal) -> bool:
        """Whether somebody finds it at the side."""
        return (identity.may_everywhere if self.is_everywhere else identity.may)(*self.scopes)


NAVIGATION = (
    Place("/explore", "Explore", "insights", ("ask",)),
    Place("/dictionary", "Dictionary", "menu_book", ("ask",)),
    Place("/questions", "My questions", "playlist_add_check", ("ask",)),
    Place("/history", "History", "history", ("ask",)),
    Place("/dashboards", "Dashboards", "dashboard", ("ask",)),
    Place("/budget", "Budget", "account_balance_wallet", ("ask",)),
    Place("/synopses", "Synopses", "auto_awesome_mosaic", ("ask",)),
    Place("/datasets", "Datasets", "storage", ("curate",)),
    Place("/policies", "Policies", "hub", ("curate", "audit")),
    Place("/trade-off", "Trade-off", "balance", ("curate",)),
    Place("/ledger", "Budget and log", "receipt_long", ("curate", "audit")),
    Place("/dashboards", "Dashboards", "dashboard", ("curate",)),
    Place("/access", "Access", "key", ("curate",)),
    Place("/users", "Users", "group", ("curate",), is_everywhere=True),
)
"""What each role finds at the side."""
HOMES = {"analyst": "/explore", "curator": "/datasets", "auditor": "/ledger"}
"""Where each role lands."""


def home_of(identity: Principal) -> str:
    """Where somebody lands after signing in."""
    return PASSWORD if identity.must_change else HOMES[identity.role]


MOST_PAGES = 32
"""Pages that one user may have open: the server's memory holds what is on each of them."""
SWEPT = 16
"""After so many pages that are gone, what they leave in memory is looked for."""
SOON = 1.0


def forget_page(client: Client) -> None:
    """Lets go of a page, unless that happened already."""
    if not client.is_deleted:
        client.delete()


@dataclass(frozen=True, eq=False)
class OpenPages:
    """The open pages of each user. Those to which no browser is connected make room for new ones, the oldest first."""

    most: int = MOST_PAGES
    _of: dict[str, list[Client]] = field(default_factory=dict)
    _gone: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def admits(self, name: str, client: Client) -> bool:
        """Whether somebody may have one more page, which is noted."""
        pages = [one for one in self._of.get(name, []) if not one.is_deleted]
        while len(pages) >= self.most:
            idle = next((one for one in pages if not one.has_socket_connection), None)
            if idle is None:
                return False
            pages.remove(idle)
            forget_page(idle)
        self._of[name] = [*pages, client]
        client.on_delete(partial(self._leave, name, client))
        return True

    def _leave(self, name: str, client: Client) -> None:
        """Forgets a page that is gone: whatever still names it would keep all that was on it in memory."""
        rest = [one for one in self._of.pop(name, []) if one is not client]
        if rest:
            self._of[name] = rest
        if next(self._gone) % SWEPT == 0:
            # Parts of a page name each other, and the server looks for such garbage seldom.
            gc.collect()


open_pages = OpenPages()


def page(
    path: str, title: str, *scopes: Scope, lead: str = "", everywhere: bool = False
) -> Callable[[Builder], Builder]:
    """Registers a page for users with one of the scopes: others are sent to sign in, or refused.

    With `everywhere` their account itself has it, not only on some dataset.
    """

    def register(build: Builder) -> Builder:
        @ui.page(path, title=f"{title} · BlowfishDB", language="en-US", response_timeout=LONGEST_BUILD)
        async def built(request: Request) -> Response | None:
            entered, client = _entered(request, scopes, everywhere=everywhere), ui.context.client
            if isinstance(entered, Response):
                refusal: Response | None = entered
            elif not open_pages.admits(entered.identity.name, client):
                text = f"You have {MOST_PAGES} pages open. Close some to continue."
                refusal = refusal_page("Too many pages", text, 429)
            else:
                main = _frame(entered, title, lead, is_curators="ask" not in scopes)
                refusal = await _fill(main, entered, build)
            if refusal is not None:
                # Nobody will come back for it, and the framework would keep it for a minute.
                asyncio.get_running_loop().call_later(SOON, forget_page, client)
            return refusal

        del built
        return build

    return register


async def _fill(main: ui.element, context: PageContext, build: Builder) -> Response | None:
    """Builds the page into its frame, which is sent first where that takes long; else a response that says why not."""

    async def fill() -> None:
        with main:
            working = build(context)
            if inspect.isawaitable(working):
                await working

    building = background_tasks.create(fill(), name="page", handle_exceptions=False)
    is_sent = False
    if not (await asyncio.wait({building}, timeout=PATIENCE))[0]:
        with main:
            waiting = ui.label("Just a moment …").classes("bf-quiet").props("role=status")
        is_sent, client = True, ui.context.client
        await client.connected()
        if client.is_deleted:
            building.cancel()
            return None
        await asyncio.wait({building})
        if not waiting.is_deleted:
            waiting.delete()
    try:
        await building
    except NotSignedIn:
        if not is_sent:
            return RedirectResponse(_sign_in_link(context.request))
        ui.navigate.to(_sign_in_link(context.request))
    except BlowfishError as error:
        if not is_sent:
            return refusal_page("That did not work", sentence(error.message), status_of(error))
        context.tell(error)
    return None


def _entered(request: Request, scopes: tuple[Scope, ...], *, everywhere: bool) -> PageContext | Response:
    """The user's page, or what they see instead."""
    identity, secret = identity_of(request), secret_of(request)
    if identity is None or secret is None:
        return RedirectResponse(_sign_in_link(request))
    if identity.must_change:
        return RedirectResponse(PASSWORD)
    if not (identity.may_everywhere if everywhere else identity.may)(*scopes):
        return refusal_page("Not for you", f"This page is not for the role {identity.role}; ask a curator.", 403)
    return PageContext(request, app_state_of(request), identity, secret)


def _sign_in_link(request: Request) -> str:
    """To the form, and from there back to where they wanted to go."""
    place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"{SIGN_IN}?then={quote(place)}"


def _first_paint(context: PageContext, title: str, lead: str, theme: str) -> str:
    """The frame as markup that browsers draw before any script has run; the page itself replaces it."""
    dark = "true" if theme == "dark" else "false" if theme else "matchMedia('(prefers-color-scheme: dark)').matches"
    return (
        f"<script>document.body.classList.toggle('body--dark', {dark})</script>"
        f'<div class="bf-first bf-layout"><nav class="bf-side" aria-label="Pages">{_links(context)}</nav>'
        f'<main class="bf-main"><header class="bf-head"><div><h1>{escape(title)}</h1>'
        f'<p class="bf-lead">{escape(lead)}</p></div></header></main></div>'
    )


def _links(context: PageContext) -> str:
    """The navigation of this user as markup."""
    here, brand = context.request.url.path, f"<i>{MARK}</i><span>BlowfishDB</span>"
    links = [
        f'<a class="bf-nav" href="{place.path}"{" aria-current=page" if here.startswith(place.path) else ""}>'
        f'<i class="q-icon material-icons" aria-hidden="true">{place.icon}</i><span>{place.label}</span></a>'
        for at, place in enumerate(NAVIGATION)
        if place.is_for(context.identity)
        and not any(other.path == place.path and other.is_for(context.identity) for other in NAVIGATION[:at])
    ]
    return "".join([f'<a class="bf-brand" href="/" aria-label="BlowfishDB, first page">{brand}</a>', *links])


def _frame(context: PageContext, title: str, lead: str, *, is_curators: bool) -> ui.element:
    """The navigation and the heading; the element returned has room for the page."""
    theme = context.request.cookies.get(THEME_COOKIE, "")
    ui.add_body_html(_first_paint(context, title, lead, theme))
    ui.add_head_html(f'<link rel="stylesheet" href="{address("theme.css")}">')
    if is_curators:
        ui.add_head_html(f'<link rel="stylesheet" href="{address("curator.css")}">')
    # Until somebody chooses, the theme follows the system.
    dark = ui.dark_mode({"dark": True, "light": False}.get(theme))
    ui.on_exception(context.tell)
    # The framework wraps every page in a main of its own; ours is the one to announce.
    ui.query("main.q-page").props("role=presentation")
    with ui.element("div").classes("bf-layout w-full"):
        ui.link("Skip to the page", "#page").classes("bf-skip")
        with ui.element("nav").classes("bf-side").props('aria-label="Pages"'):
            ui.html(_links(context), sanitize=False).style("display:contents")
            ui.element("div").classes("bf-grow")
            _user(context, dark)
        with ui.element("main").classes("bf-main").props('id=page tabindex="-1"') as main:
            with ui.element("header").classes("bf-head"), ui.element("div"):
                heading(title, 1)
                if lead:
                    paragraph(lead).classes("bf-lead")
            context.alert.build()
    return main


def _user(context: PageContext, dark: ui.dark_mode) -> None:
    """Who is signed in, the theme, and the way out."""

    async def change_theme() -> None:
        now = await ui.run_javascript("document.body.classList.contains('body--dark')")
        dark.set_value(not now)
        theme = f"{THEME_COOKIE}={'light' if now else 'dark'}; path=/; max-age={YEAR}; SameSite=Lax"
        ui.run_javascript(f'document.cookie = "{theme}"')

    def leave() -> None:
        context.app_state.logins.sign_out(context.secret)
        context.note("signed out")
        ui.navigate.to(SIGN_IN)

    with ui.element("div").classes("bf-who"):
        with ui.link(target="/account").classes("bf-who-name"):
            ui.label(context.identity.name).props('data-testid="who"').classes("bf-who-own")
            ui.html(context.identity.role, sanitize=False, tag="span")
            ui.label("Your account").classes("bf-unseen")
        icon_button("contrast", "Light or dark", change_theme)
        icon_button("logout", "Sign out", leave)


NOT_GRANTED = "A dataset appears here once its curator grants it to you."


def wanted_dataset(context: PageContext, names: Sequence[str]) -> str | None:
    """The dataset that the address names, else the first one; None, with a page that teaches, when there is none."""
    if not names:
        may_add = context.identity.may_everywhere("curate")
        text = "Connect a table first: its domain, its policy and its budget." if may_add else NOT_GRANTED
        with card(), empty("storage", "No dataset yet", text):
            if may_add:
                link_button("Add a dataset", "/datasets/add", "add").style("margin-top:14px")
        return None
    wanted = context.request.query_params.get("dataset", "")
    return wanted if wanted in names else names[0]


def dataset_choice(path: str, names: Sequence[str], current: str) -> None:
    """Leads to the same page of another dataset."""
    ui.select(
        list(names),
        value=current,
        label="Dataset",
        on_change=lambda event: ui.navigate.to(f"{path}?dataset={quote(str(event.value))}"),
    ).style("min-width:190px").mark("dataset")
