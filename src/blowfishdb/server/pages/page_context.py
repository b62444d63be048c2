"""Where a page stands: its user, checked again at every step, and how it works and tells of errors."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from fastapi import Request
from nicegui import background_tasks, ui

from blowfishdb.catalog.curator import Curator
from blowfishdb.errors import NotAllowed, NotSignedIn
from blowfishdb.incidents import public_error, redact_errors
from blowfishdb.server.auth.audit_log import NOTHING
from blowfishdb.server.auth.users import Identity, Scope
from blowfishdb.server.state import AppState
from blowfishdb.server.worker_pools import is_cancelled
from blowfishdb.session.session import Session

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
            close = ui.button(icon="close", on_click=self.clear).props("flat round dense size=sm")
            close.props["aria-label"] = "Close this message"

    def clear(self) -> None:
        """Takes the error back, once something has worked."""
        if self._box is not None and not self._box.is_deleted:
            self._box.clear()

    def end(self, path: str) -> None:
        """Says, once, that the login session is over; what is on the page stays readable until they go on."""
        if self._has_ended:
            return
        self._has_ended = True
        title = "Your session has ended"
        with ui.dialog().props(f'persistent aria-label="{title}"') as dialog, ui.card():
            ui.label(title).classes("bf-title")
            text = "Nothing was charged. Sign in again to go on; your answers are kept in the history."
            ui.label(text).classes("bf-quiet")
            button = ui.button("Sign in", on_click=lambda: ui.navigate.to(f"/sign-in?then={quote(path)}"))
            button.props("unelevated").style("margin-top:16px")
        dialog.open()


@dataclass(frozen=True, eq=False)
class PageContext:
    """One open page of one user. A page stays open for hours, so every step checks that the session has not ended."""

    request: Request = field(repr=False)
    app_state: AppState = field(repr=False)
    identity: Identity
    secret: str = field(repr=False)
    alert: Alert = field(default_factory=Alert, repr=False)

    def check(self, *scopes: Scope) -> Identity:
        """The user as they are now; NotSignedIn when the session has ended, NotAllowed without one of the rights."""
        now = self.app_state.logins.resume(self.secret)
        if now is None:
            raise NotSignedIn
        if not now.may(*scopes):
            raise NotAllowed(" or to ".join(scopes))
        return now

    def session(self) -> Session:
        """The analyst's session."""
        return self.app_state.session(self.check("ask").name)

    def curator(self) -> Curator:
        """The curator's side, for those who curate."""
        return self.app_state.curator(self.check("curate").name)

    def auditor(self) -> Curator:
        """The ledger, for those who may read it; pages of auditors only read."""
        return self.app_state.curator(self.check("audit").name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work done beside the event loop; whatever fails is a BlowfishError that may be shown."""
        inside = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(WORKERS, inside.run, redact_errors, work)

    def compute(self, effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result:
        """The result of arithmetic; what is heavy is done in a process, and ends when the page goes on to another."""
        return self.app_state.heavy_work.compute(self.identity.name, effort, function, *arguments)

    async def change(
        self,
        action: str,
        target: str,
        work: Callable[[Curator], Result],
        detail: Mapping[str, str | int | None] = NOTHING,
    ) -> Result:
        """The result of a curator's change; the audit log has it once it is made."""
        curator = self.curator()
        result = await self.run(partial(work, curator))
        self.note(action, target, detail)
        self.alert.clear()
        return result

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


def sentence(text: str) -> str:
    """The text with a capital letter in front and a stop behind."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "?", "!")) else f"{whole}."


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
