"""blowfish access: who may use a dataset of a server, groups of people, and questions that wait for a yes."""

from __future__ import annotations

from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption, Name
from blowfishdb.cli.output import print_result, table
from blowfishdb.cli.serve import server_console
from blowfishdb.errors import InvalidInput, amount

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Holder = Annotated[
    str,
    typer.Argument(metavar="WHO", help="A person, a group such as @cardiology, or @analysts, @curators, @auditors."),
]


@app.command()
def show(name: Name, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists who may use a dataset. Nobody else knows that it exists.

    \b
    Example
      blowfish access show visits
    """
    from blowfishdb.model.serialize import write

    with server_console(config) as caller:
        caller.curator().dataset(name)
        grants, above = caller.app_state.grants.of(name), caller.app_state.approvals.above(name)
    rows = [
        (one.holder, one.role, "" if one.epsilon is None else amount(one.epsilon), one.by or "as usual", one.at)
        for one in grants
    ]
    lines = table(f"Who may use {name}", ("who", "role", "limit", "by", "since"), rows)
    rule = "No question waits for approval."
    if above is not None:
        rule = f"Questions above epsilon {amount(above)} wait for a curator's yes."
    result = {"grants": [write(one) for one in grants], "approval_above": write(above)}
    print_result(result, lines, rule, as_json=as_json)


@app.command()
def grant(
    name: Name,
    holder: Holder,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="curator, analyst or auditor, of this dataset.")
    ] = "analyst",
    epsilon: Annotated[
        str | None, typer.Option(metavar="EPSILON", help="What the person, or each of the group, may spend.")
    ] = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Lets somebody use a dataset. A limit holds before they first ask.

    \b
    Examples
      blowfish access grant visits ana
      blowfish access grant visits @cardiology --epsilon 0.5
      blowfish access grant visits cora --role curator
    """
    from blowfishdb.model.serialize import write
    from blowfishdb.server.rest.access import give_role

    with server_console(config) as caller:
        given = give_role(caller, name, holder, role, epsilon)
    limit = "" if given.epsilon is None else f", and may spend epsilon {amount(given.epsilon)}"
    each = " each" if limit and holder.startswith("@") else ""
    print_result(write(given), f"{holder} is {given.role} of {name}{limit}{each}.", as_json=as_json)


@app.command()
def revoke(
    name: Name,
    holder: Holder,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="This role alone. [all of theirs]")] = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Takes a dataset away from somebody. For them it no longer exists; what they spent stays spent.

    \b
    Examples
      blowfish access revoke visits ana
      blowfish access revoke visits @analysts
    """
    from blowfishdb.server.rest.access import take_roles

    with server_console(config) as caller:
        taken = [one.role for one in take_roles(caller, name, holder, role)]
    message = f"{holder} is no longer {' and '.join(taken)} of {name}."
    print_result({"dataset": name, "holder": holder, "roles": taken}, message, as_json=as_json)


@app.command()
def group(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Its name, which begins with @.")] = None,
    members: Annotated[list[str] | None, typer.Argument(metavar="[PERSON]...", help="All who are in it.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="Take everybody out of it.")] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Says who is in a group. Without people it is shown; without a group all groups are.

    \b
    Examples
      blowfish access group
      blowfish access group @cardiology ana bob
      blowfish access group @cardiology --nobody
    """
    from blowfishdb.server.rest.access import fill_group

    if nobody and (group is None or members):
        raise InvalidInput("--nobody empties one group: name it, and no people")
    with server_console(config) as caller:
        if group is not None and (members or nobody):
            fill_group(caller, group, members or [])
        groups = caller.app_state.grants.groups()
    if group is not None:
        groups = {group: groups.get(group, [])}
    rows = [(name, ", ".join(people) or "nobody") for name, people in groups.items()]
    print_result(groups, table("Groups", ("group", "people"), rows), as_json=as_json)


@app.command("ask-first")
def ask_first(
    name: Name,
    epsilon: Annotated[str | None, typer.Argument(metavar="[EPSILON]", help="Questions above this price wait.")] = None,
    off: Annotated[bool, typer.Option("--off", help="No question waits any more.")] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Has expensive questions wait for a yes. Nothing is charged before. Without a price the rule is shown.

    \b
    Examples
      blowfish access ask-first visits 0.2
      blowfish access ask-first visits --off
    """
    from blowfishdb.model.serialize import write
    from blowfishdb.server.rest.access import NewThreshold, set_threshold

    if off and epsilon is not None:
        raise InvalidInput("a price has questions wait, and --off has none wait: give one of the two")
    with server_console(config) as caller:
        caller.curator().dataset(name)
        if off or epsilon is not None:
            set_threshold(name, NewThreshold(epsilon=epsilon), caller)
        above = caller.app_state.approvals.above(name)
    message = f"No question about {name} waits."
    if above is not None:
        message = (
            f"Questions about {name} above epsilon {amount(above)} wait for a yes, whoever asks the server. Commands "
            "on this machine do not wait: whoever may run them reads the data anyway."
        )
    print_result({"dataset": name, "approval_above": write(above)}, message, as_json=as_json)


@app.command()
def waiting(name: Name, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists questions that wait for a yes. With those that were decided within two weeks.

    \b
    Example
      blowfish access waiting visits
    """
    from blowfishdb.model.serialize import write

    with server_console(config) as caller:
        caller.curator().dataset(name)
        listed = caller.app_state.approvals.of(name)
    rows = [(str(one.number), one.analyst, one.question, amount(one.epsilon), one.state, one.at) for one in listed]
    lines = table(f"Approvals of {name}", ("no.", "analyst", "question", "epsilon", "state", "asked"), rows)
    print_result([write(one) for one in listed], lines, as_json=as_json)


@app.command()
def decide(
    name: Name,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="As `blowfish access waiting` lists it.")],
    yes: Annotated[bool, typer.Option("--yes/--no", help="Let it be released once, or refuse it.", show_default=False)],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the analyst reads it.")] = "",
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Says yes or no to a question that waits. After a yes the analyst asks the same again, within two weeks.

    \b
    Examples
      blowfish access decide visits 3 --yes
      blowfish access decide visits 4 --no --reason "ask for bins of 5"
    """
    from blowfishdb.model.serialize import write
    from blowfishdb.server.rest.access import say_yes_or_no

    with server_console(config) as caller:
        decided = say_yes_or_no(caller, name, number, yes=yes, reason=reason)
    message = f"{decided.analyst} hears no: {decided.question}."
    if yes:
        price = amount(decided.epsilon)
        message = f"{decided.analyst} may release it once, for epsilon {price} at most: {decided.question}."
    print_result(write(decided), message, as_json=as_json)
