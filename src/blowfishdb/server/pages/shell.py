"""The frame of every page: who may see it, the navigation, the theme, and how errors are told.

A page is a function that gets a `Here`; `@page` registers it, and checks the visit before anything is built.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from nicegui import ui

from blowfishdb.errors import BlowfishError, NotSignedIn
from blowfishdb.server.access import office_of, secret_of, visitor_of
from blowfishdb.server.accounts.roles import Scope, Visitor
from blowfishdb.server.pages.here import Here, sentence
from blowfishdb.server.pages.theme import MARK, add_theme, refusal_page, remember_theme
from blowfishdb.server.problems import status_of

Builder: TypeAlias = Callable[[Here], None] | Callable[[Here], Awaitable[None]]
SIGN_IN = "/sign-in"
PASSWORD = "/password"  # a path
LONGEST_BUILD = 60.0
"""Seconds after which a page that is not built yet is a fault: a busy machine is none."""


@dataclass(frozen=True)
class Place:
    """One entry of the navigation, for those with one of the scopes."""

    path: str
    label: str
    icon: str
    scopes: frozenset[Scope]


def _place(path: str, label: str, icon: str, *scopes: Scope) -> Place:
    return Place(path, label, icon, frozenset(scopes))


NAVIGATION = (
    _place("/explore", "Explore", "insights", "ask"),
    _place("/history", "History", "history", "ask"),
    _place("/budget", "Budget", "account_balance_wallet", "ask"),
    _place("/synopses", "Synopses", "auto_awesome_mosaic", "ask"),
    _place("/datasets", "Datasets", "storage", "curate"),
    _place("/policies", "Policies", "hub", "curate", "audit"),
    _place("/trade-off", "Trade-off", "balance", "curate"),
    _place("/books", "Budget and log", "receipt_long", "curate", "audit"),
    _place("/people", "People", "group", "curate"),
)
"""What each role finds at the side."""
HOMES = {"analyst": "/explore", "curator": "/datasets", "auditor": "/books"}
"""Where each role lands."""


def places_of(visitor: Visitor) -> list[Place]:
    """The navigation of one visitor."""
    return [place for place in NAVIGATION if place.scopes & visitor.scopes]


def home_of(visitor: Visitor) -> str:
    """Where somebody lands after signing in."""
    if visitor.must_change:
        return PASSWORD
    return HOMES[visitor.role]


def page(path: str, title: str, *scopes: Scope, lead: str = "") -> Callable[[Builder], Builder]:
    """Registers a page for visitors with one of the scopes: others are sent to sign in, or refused."""

    def register(build: Builder) -> Builder:
        @ui.page(path, title=f"{title} · BlowfishDB", language="en-US", response_timeout=LONGEST_BUILD)
        async def built(request: Request) -> Response | None:
            found = _entered(request, scopes)
            if isinstance(found, Response):
                return found
            try:
                with _frame(found, title, lead):
                    working = build(found)
                    if inspect.isawaitable(working):
                        await working
            except NotSignedIn:
                return _to_sign_in(request)
            except BlowfishError as error:
                return refusal_page("That did not work", sentence(error.message), status_of(error))
            return None

        del built
        return build

    return register


def _entered(request: Request, scopes: tuple[Scope, ...]) -> Here | Response:
    """The visitor's place, or what they see instead."""
    visitor, secret = visitor_of(request), secret_of(request)
    if visitor is None or secret is None:
        return _to_sign_in(request)
    if visitor.must_change:
        return RedirectResponse(PASSWORD)
    if not visitor.scopes & set(scopes):
        return refusal_page("Not for you", f"This page is not for the role {visitor.role}; ask a curator.", 403)
    request.scope["state"]["who"] = visitor.name
    return Here(request, office_of(request), visitor, secret)


def _to_sign_in(request: Request) -> Response:
    """To the form, and from there back to where they wanted to go."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{SIGN_IN}?then={quote(wanted)}")


@contextmanager
def _frame(here: Here, title: str, lead: str) -> Iterator[None]:
    """The navigation, the heading, and room for the page."""
    dark = add_theme(here.request)
    ui.on_exception(here.tell)
    # The framework wraps every page in a main of its own; ours is the one to announce.
    ui.query("main.q-page").props("role=presentation")
    with ui.element("div").classes("bf-shell w-full"):
        ui.link("Skip to the page", "#page").classes("bf-skip")
        with ui.element("nav").classes("bf-side").props('aria-label="Pages"'):
            with ui.link(target="/").classes("bf-brand").props('aria-label="BlowfishDB, first page"'):
                ui.html(MARK, sanitize=False, tag="i")
                ui.html("BlowfishDB", sanitize=False, tag="span")
            for place in places_of(here.visitor):
                _entry(place, is_current=here.request.url.path.startswith(place.path))
            ui.element("div").classes("bf-grow")
            _person(here, dark)
        with ui.element("main").classes("bf-main").props('id=page tabindex="-1"'):
            with ui.element("header").classes("bf-head"), ui.element("div"):
                heading(title, 1)
                if lead:
                    paragraph(lead).classes("bf-lead")
            yield


def _entry(place: Place, *, is_current: bool) -> None:
    with ui.link(target=place.path).classes("bf-nav") as link:
        ui.icon(place.icon).props("aria-hidden=true")
        ui.html(place.label, sanitize=False, tag="span")
    if is_current:
        link.props('aria-current="page"')


def _person(here: Here, dark: ui.dark_mode) -> None:
    """Who is signed in, the theme, and the way out."""

    async def change_theme() -> None:
        now = await ui.run_javascript("document.body.classList.contains('body--dark')")
        dark.set_value(not now)
        remember_theme(dark=not now)

    def leave() -> None:
        here.office.visits.sign_out(here.secret)
        here.office.actions.note(here.visitor.name, "signed out")
        ui.navigate.to(SIGN_IN)

    with ui.element("div").classes("bf-who"):
        with ui.link(target="/account").classes("bf-who-name"):
            ui.label(here.visitor.name).props('data-testid="who"').classes("bf-who-own")
            ui.html(here.visitor.role, sanitize=False, tag="span")
            ui.label("Your account").classes("bf-unseen")
        icon_button("contrast", "Light or dark", change_theme)
        icon_button("logout", "Sign out", leave)


def icon_button(icon: str, label: str, on_click: Callable[[], object]) -> ui.button:
    """A small round button whose label is read out and shown under the pointer."""
    button = ui.button(icon=icon, on_click=on_click).props(f'flat round dense size=sm aria-label="{label}"')
    button.classes("bf-quiet")
    with button:
        ui.tooltip(label)
    return button


def heading(text: str, level: int = 2) -> ui.element:
    """A heading; its text is never read as markup."""
    element = ui.element(f"h{level}")
    with element:
        ui.label(text).style("display:inline")
    return element


def paragraph(text: str) -> ui.element:
    """A paragraph; its text is never read as markup."""
    return ui.label(text).classes("bf-p")


def empty(icon: str, title: str, said: str) -> ui.element:
    """What is shown where there is nothing yet, and what to do about it."""
    with ui.element("div").classes("bf-empty") as box:
        ui.icon(icon).props("aria-hidden=true")
        heading(title)
        paragraph(said)
    return box


def notice(said: str, kind: str = "", icon: str = "info") -> ui.element:
    """A sentence that should not be missed; `kind` is "", "is-bad" or "is-accent"."""
    with ui.element("div").classes(f"bf-notice {kind}").props('role="status"') as box:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(said)
    return box
