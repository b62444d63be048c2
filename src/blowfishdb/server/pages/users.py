"""Users: who has an account, in which role, and the ways to let somebody in or to shut them out."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from blowfishdb.errors import InvalidInput, plural
from blowfishdb.server.auth.users import ROLES, User, new_password
from blowfishdb.server.pages.controls import (
    Cell,
    Column,
    blaming,
    called,
    card,
    heading,
    in_row,
    opened_dialog,
    pill,
    plain_table,
    small,
)
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext

DUTIES = {
    "curator": "declares datasets and policies, keeps budgets and users; sees no answers of analysts",
    "analyst": "asks questions and spends budget; sees no data and no ledger",
    "auditor": "reads policies, the ledger and the audit log; changes nothing",
}


@page("/users", "Users", "curate", lead="Who may do what. Passwords are made for one use and shown once.")
async def users(context: PageContext) -> None:
    """Everybody, and the form for one more."""
    context.check("curate")
    everybody = await context.run(context.app_state.users.all)
    with card():
        heading("Let somebody in")
        _form(context)
    with card():
        heading(plural(len(everybody), "user"))
        since = Column("Since (UTC)", "is-time is-spare")
        columns = [Column("Name"), Column("Role"), Column("State"), since, Column("")]
        plain_table(columns, [_row(context, user) for user in everybody], "Users")


def _form(context: PageContext) -> None:
    row = in_row().style("margin-top:12px;align-items:flex-start")
    text = small(DUTIES["analyst"], "margin-top:8px")
    with row:
        name = ui.input("Name").props('maxlength=100 data-testid="new-name"').style("width:220px")
        role = ui.select(list(ROLES), value="analyst", label="Role", on_change=lambda e: text.set_text(DUTIES[e.value]))
        role.props('data-testid="new-role"').style("width:150px")

        async def add() -> None:
            password, wanted, duty = new_password(), name.value.strip(), str(role.value)
            work = partial(context.app_state.users.add, wanted, duty, password)
            with blaming(name):
                user = await context.change("added a user", wanted, lambda _: work(), {"role": duty})
                _show_password(user.name, password)

        ui.button("Add", icon="person_add", on_click=add).props('unelevated data-testid="add-user"')


def _row(context: PageContext, user: User) -> list[Cell]:
    def state() -> None:
        if user.is_disabled:
            pill("shut out", "is-bad")
        elif user.must_change:
            pill("first password", "is-accent")
        else:
            pill("active", "is-good")

    return [user.name, user.role, state, user.created[:16].replace("T", " "), lambda: _buttons(context, user)]


def _buttons(context: PageContext, user: User) -> None:
    users = context.app_state.users

    async def disable() -> None:
        if context.check("curate").name == user.name:
            raise InvalidInput("nobody shuts themselves out: ask another curator")
        action = "enabled a user" if user.is_disabled else "disabled a user"
        await context.change(action, user.name, lambda _: users.disable(user.name, disabled=not user.is_disabled))
        ui.navigate.reload()

    async def renew() -> None:
        password = new_password()
        work = partial(users.set_password, user.name, password, must_change=True)
        await context.change("gave a new password", user.name, lambda _: work())
        _show_password(user.name, password)

    with in_row().style("gap:2px;justify-content:flex-end"):
        if user.name != context.identity.name:
            ui.button("New password", on_click=renew).props("flat dense")
            word, colour = ("Let in again", "primary") if user.is_disabled else ("Shut out", "negative")
            button = ui.button(word, on_click=disable).props(f"flat dense color={colour}")
            called(button, test_id=f"disable-{user.name}")
        else:
            small("you", "padding:6px 8px")


def _show_password(name: str, password: str) -> None:
    """The one time that a password is shown."""
    text = "It is shown this once and must be changed at the first sign-in. Pass it on in person."
    with opened_dialog(f"The first password of {name}", text, width=440) as dialog:
        dialog.props("persistent")
        ui.label(password).classes("bf-code").style("margin-top:12px").props('data-testid="password"')
        with in_row().style("justify-content:flex-end;margin-top:18px"):
            ui.button("Done", on_click=lambda: ui.navigate.to("/users")).props('unelevated data-testid="done"')
