"""Where a page stands: its user, checked again at every step, and how it works and tells of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from fastapi import Request
from nicegui import ui

from blowfishdb.catalog.curator import Curator
from blowfishdb.errors import BlowfishError, NotAllowed, NotSignedIn
from blowfishdb.incidents import public_error
from blowfishdb.server.auth.users import Identity, Scope
from blowfishdb.server.state import AppState
from blowfishdb.session.session import Session

Result = TypeVar("Result")
# Questions of one analyst take turns, and the others must not wait for a free thread meanwhile.
WORKERS = ThreadPoolExecutor(32, thread_name_prefix="page")


@dataclass(frozen=True, eq=False)
class PageContext:
    """One open page of one user. A page stays open for hours, so every step checks that the session has not ended."""

    request: Request = field(repr=False)
    app_state: AppState = field(repr=False)
    identity: Identity
    secret: str = field(repr=False)

    def check(self, *scopes: Scope) -> Identity:
        """The user as they are now; NotSignedIn when the session has ended, NotAllowed without one of the rights."""
        now = self.app_state.logins.resume(self.secret)
        if now is None:
            raise NotSignedIn
        if now.must_change or not now.scopes & set(scopes):
            raise NotAllowed(" or to ".join(scopes))
        return now

    def session(self) -> Session:
        """The analyst's session."""
        return self.app_state.session(self.check("ask").name)

    def curator(self) -> Curator:
        """The curator's side, for those who curate."""
        return self.app_state.curator(self.check("curate").name)

    def auditor(self) -> Curator:
        """The ledger, for those who may read them; pages of auditors only read."""
        return self.app_state.curator(self.check("audit").name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work done beside the event loop; whatever fails is a BlowfishError that may be shown."""
        result, error = await asyncio.get_running_loop().run_in_executor(WORKERS, partial(_outcome, work))
        if error is not None:
            raise error
        return result[0]

    def note_question(self, action: str, dataset: str) -> None:
        """Writes into the audit log that an answer was asked for, before it is; NotSignedIn when the session ended."""
        self.app_state.audit_log.note(self.check("ask").name, action, dataset)

    def tell(self, error: Exception) -> None:
        """Shows an error to the user; of the unexpected, only an incident number."""
        shown = public_error(error)
        if isinstance(shown, NotSignedIn):
            _ended(self.request.url.path)
            return
        ui.notify(
            sentence(shown.message),
            type="negative",
            position="top",
            timeout=9000,
            close_button="Close",
            multi_line=True,
        )


def sentence(text: str) -> str:
    """The text with a capital letter in front and a stop behind."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "?", "!")) else f"{whole}."


def _outcome(work: Callable[[], Result]) -> tuple[tuple[Result, ...], BlowfishError | None]:
    try:
        return (work(),), None
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
        return (), public_error(error)


def _ended(path: str) -> None:
    """Says that the session is over; what is on the page stays readable until they go on."""
    with ui.dialog().props('persistent aria-label="Your session has ended"') as dialog, ui.card():
        ui.label("Your session has ended").classes("bf-title")
        ui.label("Nothing was charged. Sign in again to go on; your answers are kept in the history.").classes(
            "bf-quiet"
        )
        ui.button("Sign in", on_click=lambda: ui.navigate.to(f"/sign-in?then={path}")).props("unelevated").style(
            "margin-top:16px"
        )
    dialog.open()
