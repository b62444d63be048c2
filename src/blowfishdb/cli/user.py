"""blowfish user: the people of a server, from the console of the machine that it runs on."""

from __future__ import annotations

from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Person = Annotated[str, typer.Argument(metavar="PERSON", help="The name that they sign in with.")]
CONSOLE = "console"


@app.command()
def add(
    person: Person,
    role: Annotated[str, typer.Option(metavar="ROLE", help="curator, analyst or auditor.")] = "analyst",
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="They sign in with the OpenID provider and get no password.")
    ] = False,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Adds a person and prints a one-time password. They change it when they first sign in.

    \b
    Examples
      blowfish user add ana
      blowfish user add cora --role curator
      blowfish user add ana@example.org --elsewhere
    """
    from blowfishdb.cli.serve import opened
    from blowfishdb.server.auth.users import new_password

    app_state, password = opened(config, None, None), None if elsewhere else new_password()
    try:
        made = app_state.users.add(person, role, password)
        app_state.audit_log.note(CONSOLE, "added a person", person, {"role": made.role})
    finally:
        app_state.close()
    _show_password(person, password, as_json=as_json)


@app.command("list")
def list_people(config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists everybody with their role.

    \b
    Example
      blowfish user list
    """
    from dataclasses import asdict

    from blowfishdb.cli.output import console, print_json, table
    from blowfishdb.cli.serve import opened

    app_state = opened(config, None, None)
    try:
        people = app_state.users.all()
    finally:
        app_state.close()
    if as_json:
        print_json([asdict(one) for one in people])
        return
    rows = [(one.name, one.role, "shut out" if one.is_disabled else "", one.created) for one in people]
    console().print(table("People", ("name", "role", "state", "since"), rows))


@app.command()
def disable(
    person: Person,
    enable: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shuts a person out at once, visits and tokens included.

    \b
    Examples
      blowfish user disable ana
      blowfish user disable ana --undo
    """
    from blowfishdb.cli.output import console, print_json
    from blowfishdb.cli.serve import opened

    app_state = opened(config, None, None)
    try:
        found = app_state.users.disable(person, disabled=not enable)
        app_state.audit_log.note(CONSOLE, "enabled a person" if enable else "disabled a person", person)
    finally:
        app_state.close()
    if as_json:
        print_json({"name": found.name, "disabled": found.is_disabled})
    else:
        console().print(f"{found.name} {'may sign in again' if enable else 'is shut out'}.", markup=False)


@app.command()
def password(person: Person, config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Gives a person a new one-time password; their visits end.

    \b
    Example
      blowfish user password ana
    """
    from blowfishdb.cli.serve import opened
    from blowfishdb.server.auth.users import new_password

    app_state, new = opened(config, None, None), new_password()
    try:
        app_state.users.set_password(person, new, must_change=True)
        app_state.audit_log.note(CONSOLE, "gave a new password", person)
    finally:
        app_state.close()
    _show_password(person, new, as_json=as_json)


def _show_password(person: str, new: str | None, *, as_json: bool) -> None:
    from blowfishdb.cli.output import console, print_json

    if as_json:
        print_json({"name": person, "password": new})
    elif new is None:
        console().print(f"{person} signs in with the OpenID provider.", markup=False)
    else:
        console().print(f"{person} signs in with {new}, shown this once, and changes it then.", markup=False)
