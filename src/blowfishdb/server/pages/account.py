"""One's own account: the password, and tokens for programs."""

from __future__ import annotations

from datetime import UTC, datetime

from nicegui import ui

from blowfishdb.server.auth.users import SCOPES, Token
from blowfishdb.server.pages.controls import (
    blaming,
    card,
    heading,
    icon_button,
    in_row,
    link_button,
    notice,
    small,
    spread,
)
from blowfishdb.server.pages.layout import PASSWORD, page
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.result import code_block

DAYS = {7: "a week", 30: "30 days", 90: "90 days", 365: "a year"}


@page("/account", "Your account", *SCOPES, lead="Your password, and tokens with which programs act in your name.")
async def account(context: PageContext) -> None:
    """The page."""
    with card(), spread():
        with ui.element("div"):
            heading(context.identity.name)
            small(f"Role: {context.identity.role}")
        link_button("Change password", PASSWORD, "key", "outline")
    with card():
        heading("Tokens")
        does = "ask as you, with your budget" if "ask" in context.identity.scopes else "do what you may do"
        text = f"A token lets a script or a notebook {does}. Its secret is shown once."
        small(text, "margin:2px 0 12px")
        TokenList(context)


class TokenList:
    """The tokens, and the form for one more."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        with in_row().style("align-items:flex-start"):
            self._label = ui.input("What for?", placeholder="my notebook").props("maxlength=100")
            self._days = ui.select(DAYS, value=30, label="For").style("width:130px")
            ui.button("Make a token", icon="add", on_click=self._make).props("unelevated")
        self._secret, self._list = ui.element("div"), ui.element("div").style("margin-top:14px")
        self._show()

    def _make(self) -> None:
        app_state, user, days = self._context.app_state, self._context.check(*SCOPES), self._days.value
        self._secret.clear()
        with blaming(self._label):
            secret, token = app_state.tokens.issue(user.name, (self._label.value or "").strip(), user.scopes, days)
            self._show_secret(secret, token)

    def _show_secret(self, secret: str, token: Token) -> None:
        app_state, days = self._context.app_state, self._days.value
        self._context.note("made a token", token.id, {"scopes": " ".join(token.scopes), "days": days})
        with self._secret:
            notice("Copy it now: it is not shown again.", "is-accent", "key").style("margin:14px 0 10px")
            code_block(f'import blowfishdb as bf\n\ndb = bf.connect({app_state.settings.url!r}, token="{secret}")')
        self._label.value = ""
        self._show()

    def _end(self, token: Token) -> None:
        self._context.app_state.tokens.revoke(self._context.check(*SCOPES).name, token.id)
        self._context.note("ended a token", token.id)
        self._show()

    def _show(self) -> None:
        tokens = self._context.app_state.tokens.of(self._context.identity.name)
        self._list.clear()
        with self._list:
            if not tokens:
                small("You have no tokens.")
            for token in tokens:
                self._row(token)

    def _row(self, token: Token) -> None:
        with in_row().style("padding:6px 0;border-top:1px solid var(--bf-line)"):
            ui.label(token.label).style("flex:1;font-weight:560")
            ends = datetime.fromtimestamp(token.ends, UTC).date().isoformat()
            small(f"may {' and '.join(token.scopes)}, until {ends}")
            icon_button("delete", f"End the token {token.id}", lambda: self._end(token))
