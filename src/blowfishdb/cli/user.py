"""blowfish user: the people of a server, from the console of the machine that it runs on."""

from __future__ import annotations

from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption
from blowfishdb.cli.output import print_result, table
from blowfishdb.cli.serve import server_console, server_state
from blowfishdb.errors import InvalidInput, amount

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

PersonArgument = Annotated[str, typer.Argument(metavar="PERSON", help="The name that they sign in with.")]


@app.command()
def add(
    person: PersonArgument,
    role: Annotated[str, typer.Option(metavar="ROLE", help="curator, analyst or auditor.")] = "analyst",
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="They sign in with the OpenID provider and get no password.")
    ] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Adds a person and prints a one-time password. They change it when they first sign in.

    \b
    Examples
      blowfish user add ana
      blowfish user add cora --role curator
      blowfish user add ana@example.org --elsewhere
    """
    from blowfishdb.server.rest.users import NewUser, add

    with server_console(config) as caller:
        made = add(NewUser(name=person, role=role, elsewhere=elsewhere), caller)
    _show_password(person, made["password"], as_json=as_json)


@app.command("list")
def list_people(config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists everybody with their role.

    \b
    Example
      blowfish user list
    """
    from dataclasses import asdict

    with server_state(config) as state:
        people = state.users.all()
    rows = [(one.name, one.role, "shut out" if one.is_disabled else "", one.created) for one in people]
    lines = table("People", ("name", "role", "state", "since"), rows)
    print_result([asdict(one) for one in people], lines, as_json=as_json)


@app.command()
def disable(
    person: PersonArgument,
    enable: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shuts a person out at once, login sessions and tokens included.

    \b
    Examples
      blowfish user disable ana
      blowfish user disable ana --undo
    """
    from blowfishdb.server.rest import users as rest

    with server_console(config) as caller:
        rest.disable(person, rest.Disabled(disabled=not enable), caller)
    message = f"{person} {'may sign in again' if enable else 'is shut out'}."
    print_result({"name": person, "disabled": not enable}, message, as_json=as_json)


@app.command()
def password(person: PersonArgument, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Gives a person a new one-time password and ends their sessions.

    \b
    Example
      blowfish user password ana
    """
    from blowfishdb.server.rest.users import new_one

    with server_console(config) as caller:
        made = new_one(person, caller)
    _show_password(person, made["password"], as_json=as_json)


@app.command()
def tokens(
    person: Annotated[str | None, typer.Argument(metavar="[PERSON]", help="Theirs alone.")] = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Lists the tokens of programs. With their caps, and what was spent with them.

    \b
    Examples
      blowfish user tokens
      blowfish user tokens ana
    """
    from blowfishdb.model.serialize import write

    with server_state(config) as state:
        listed = state.tokens.all() if person is None else state.tokens.of(state.users.find(person).name)
    spending = [("none", "") if one.cap is None else (amount(one.cap), amount(one.spent)) for one in listed]
    rows = [(one.id, one.name, one.label, one.until, *each) for one, each in zip(listed, spending, strict=True)]
    lines = table("Tokens", ("token", "of", "for", "until", "cap", "spent"), rows)
    print_result([write(one) for one in listed], lines, as_json=as_json)


@app.command()
def cap(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id; `blowfish user tokens` lists them.")],
    epsilon: Annotated[
        str | None, typer.Argument(metavar="[EPSILON]", help="The most to spend with it in all.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Take its cap away.")] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Caps what a tool may spend with a token. In all; up to the cap it needs no SET blowfish.spend.

    \b
    Examples
      blowfish user cap 3f9c0a12bd77 0.2
      blowfish user cap 3f9c0a12bd77 --off
    """
    from blowfishdb.model.serialize import write
    from blowfishdb.server.rest.users import Cap, set_cap

    if off == (epsilon is not None):
        raise InvalidInput("a cap is an epsilon, such as 0.2; --off takes it away")
    with server_console(config) as caller:
        tokens = caller.app_state.tokens
        set_cap(tokens.find(token).name, token, Cap(epsilon=epsilon), caller)
        changed = tokens.find(token)
    message = f"The token {changed.label!r} of {changed.name} has no cap."
    if changed.cap is not None:
        spent = f"{amount(changed.spent)} of it is spent" if changed.spent else "nothing of it is spent"
        message = f"With the token {changed.label!r} {changed.name} may spend epsilon {amount(changed.cap)}; {spent}."
    print_result(write(changed), message, as_json=as_json)


def _show_password(person: str, password: str | None, *, as_json: bool) -> None:
    message = f"{person} signs in with {password}, shown this once, and changes it then."
    if password is None:
        message = f"{person} signs in with the OpenID provider."
    print_result({"name": person, "password": password}, message, as_json=as_json)
