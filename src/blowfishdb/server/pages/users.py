"""Users: who has an account, in which role, and the ways to let somebody in or to shut them out."""

from __future__ import annotations

from nicegui import ui

from blowfishdb.errors import InvalidInput
from blowfishdb.server.auth.users import ROLES, Person, new_password
from blowfishdb.server.pages.controls import Cell, Column, called, dress, pill, plain_table
from blowfishdb.server.pages.layout import heading, page
from blowfishdb.server.pages.page_context import Here

DUTIES = {
    "curator": "declares datasets and policies, keeps budgets and people; sees no answers of analysts",
    "analyst": "asks questions and spends budget; sees no data and no books",
    "auditor": "reads policies, the ledger and the log of actions; changes nothing",
}


@page("/people", "People", "curate", lead="Who may do what. Passwords are made for one use and shown once.")
async def people(here: Here) -> None:
    """Everybody, and the form for one more."""
    dress()
    here.check("curate")
    everybody = await here.run(here.app_state.people.all)
    with ui.element("section").classes("bf-card"):
        heading("Let somebody in")
        _form(here)
    with ui.element("section").classes("bf-card"):
        heading(f"{len(everybody)} people")
        since = Column("Since (UTC)", is_time=True, is_spare=True)
        columns = [Column("Name"), Column("Role"), Column("State"), since, Column("")]
        plain_table(columns, [_row(here, person) for person in everybody], "People")


def _form(here: Here) -> None:
    row = ui.element("div").classes("bf-row").style("margin-top:12px;align-items:flex-start")
    said = ui.label(DUTIES["analyst"]).classes("bf-small bf-quiet").style("margin-top:8px")
    with row:
        name = ui.input("Name").props('outlined dense maxlength=100 data-testid="new-name"').style("width:220px")
        role = ui.select(
            list(ROLES),
            value="analyst",
            label="Role",
            on_change=lambda event: said.set_text(DUTIES[str(event.value)]),
        ).props('outlined dense options-dense data-testid="new-role"')
        role.style("width:150px")

        async def add() -> None:
            who, password = here.check("curate").name, new_password()
            wanted, duty = name.value.strip(), str(role.value)
            made = await here.run(lambda: here.app_state.people.add(wanted, duty, password))
            here.app_state.actions.note(who, "added a person", made.name, {"role": made.role})
            _show_password(made.name, password)

        ui.button("Add", icon="person_add", on_click=add).props('unelevated data-testid="add-person"')


def _row(here: Here, person: Person) -> list[Cell]:
    def state() -> None:
        if person.is_disabled:
            pill("shut out", "is-bad")
        elif person.must_change:
            pill("first password", "is-accent")
        else:
            pill("active", "is-good")

    return [person.name, person.role, state, person.created[:16].replace("T", " "), lambda: _buttons(here, person)]


def _buttons(here: Here, person: Person) -> None:
    async def disable() -> None:
        who = here.check("curate").name
        if who == person.name:
            raise InvalidInput("nobody shuts themselves out: ask another curator")
        await here.run(lambda: here.app_state.people.disable(person.name, disabled=not person.is_disabled))
        here.app_state.actions.note(who, "enabled a person" if person.is_disabled else "disabled a person", person.name)
        ui.navigate.reload()

    async def renew() -> None:
        who, password = here.check("curate").name, new_password()
        await here.run(lambda: here.app_state.people.set_password(person.name, password, must_change=True))
        here.app_state.actions.note(who, "gave a new password", person.name)
        _show_password(person.name, password)

    with ui.element("div").classes("bf-row").style("gap:2px;justify-content:flex-end"):
        if person.name != here.visitor.name:
            ui.button("New password", on_click=renew).props("flat dense")
            word, colour = ("Let in again", "primary") if person.is_disabled else ("Shut out", "negative")
            button = ui.button(word, on_click=disable).props(f"flat dense color={colour}")
            called(button, test_id=f"disable-{person.name}")
        else:
            ui.label("you").classes("bf-quiet bf-small").style("padding:6px 8px")


def _show_password(name: str, password: str) -> None:
    """The one time that a password is shown."""
    title = f"The first password of {name}"
    with called(ui.dialog().props("persistent"), title) as dialog, ui.card().style("width:440px"):
        ui.label(title).classes("bf-title")
        ui.label("It is shown this once and must be changed at the first visit. Pass it on in person.").classes(
            "bf-small bf-quiet"
        ).style("margin:4px 0 12px")
        ui.label(password).classes("bf-code").props('data-testid="password"')
        with ui.element("div").classes("bf-row").style("justify-content:flex-end;margin-top:18px"):
            ui.button("Done", on_click=lambda: ui.navigate.to("/people")).props('unelevated data-testid="done"')
    dialog.open()
