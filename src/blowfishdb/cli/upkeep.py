"""blowfish dataset budget, domain and refreshed: what a curator does from time to time, on record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, Curator, Name

if TYPE_CHECKING:
    from blowfishdb.ledger.values import Account, AnalystBudget

Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]


def budget(
    name: Name,
    reason: Reason,
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What the data may lose in all: more than before.")
    ] = None,
    per_analyst: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What each analyst may spend; 'none' for no limit of its own.")
    ] = None,
    analyst: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="What one analyst may spend; NAME=none: as everyone. Repeat it."),
    ] = None,
    accounting: Annotated[
        str | None,
        typer.Option(metavar="HOW", help='How loss adds up: sum, per-edge, or "per-edge by ATTRIBUTE".'),
    ] = None,
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Renews a budget or sets limits of analysts. What was spent stays spent.

    \b
    Examples
      blowfish dataset budget visits --epsilon 4 --reason "second year"
      blowfish dataset budget visits --per-analyst 0.5 --analyst ana=1 \\
          --reason "agreed in May"
      blowfish dataset budget visits --accounting "per-edge by ward" \\
          --reason "wards are separate"
    """
    from blowfishdb.catalog.declaring import named
    from blowfishdb.cli.opening import existing
    from blowfishdb.errors import CatalogError

    own = named(analyst or [], "--analyst")
    if epsilon is None and per_analyst is None and accounting is None and not own:
        raise CatalogError("say what changes: --epsilon, --per-analyst, --analyst NAME=NUMBER or --accounting")
    with existing(config, by) as curator:
        if epsilon is not None:
            curator.renew(name, epsilon, reason=reason)
        if per_analyst is not None:
            curator.limit_everyone(name, _limit(per_analyst), reason=reason)
        for one, limit in own.items():
            curator.limit_analyst(name, one, _limit(limit), reason=reason)
        if accounting is not None:
            curator.set_accounting(name, accounting, reason=reason)
        _show(name, curator.account(name), curator.analysts(name), as_json=as_json)


def domain(
    name: Name,
    reason: Reason,
    domain: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="What the public may know of a column; repeat it.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that is no longer asked about; repeat it.")
    ] = None,
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Declares columns anew, or more of them, or drops some. What was released before must still be bounded.

    Until something was released a column may be declared in any other way; afterwards columns may only come or go,
    and one that comes back is declared as it was.

    \b
    Examples
      blowfish dataset domain visits --domain "age=0..120 null=0" --reason "a typing error"
      blowfish dataset domain visits --domain "stay=0..90 null=0" --reason "asked for in May"
      blowfish dataset domain visits --drop stay --reason "nobody asks about it"
    """
    from blowfishdb.catalog.declaring import named
    from blowfishdb.cli.adding import declared_columns
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import console, print_json
    from blowfishdb.errors import CatalogError

    if bool(domain) == bool(drop):
        raise CatalogError("say what changes: --domain COLUMN=WORDS or --drop COLUMN, one of the two at a time")
    with existing(config, by) as curator:
        if drop:
            changed, change = drop, curator.drop_attributes(name, drop, reason=reason)
        else:
            _, dataset = curator.in_force(name)
            said = declared_columns(named(domain or [], "--domain"), curator.columns(dataset.source, dataset.joins))
            wanted = {**{column: dataset.domain[column] for column in dataset.domain}, **said}
            changed, change = list(said), curator.set_domain(name, wanted, reason=reason)
    if as_json:
        print_json({"name": name, "domain_version": change.next_version, "attributes": changed})
    else:
        console().print(f"Domain version {change.next_version} of {name} is the one in force.", markup=False)


def refreshed(
    name: Name,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What changed, for the record.")],
    numbers_hold: Annotated[
        bool, typer.Option("--numbers-hold", help="The numbers of public facts are true of the new rows too.")
    ] = False,
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Notes that the rows changed. Stored answers are no longer replayed, and the spent budget stays spent.

    \b
    Example
      blowfish dataset refreshed visits --description "rows of May added"
    """
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import console, print_json

    with existing(config, by) as curator:
        account = curator.refreshed(name, description, numbers_hold=numbers_hold)
    if as_json:
        print_json({"name": name, "snapshot": account.snapshot})
    else:
        console().print(f"{name} is at snapshot {account.snapshot} now.", markup=False)


def _limit(written: str) -> str | None:
    return None if written.strip().lower() == "none" else written


def _show(name: str, account: Account, analysts: list[AnalystBudget], *, as_json: bool) -> None:
    from blowfishdb.cli.output import budget_line, console, exact, print_json
    from blowfishdb.cli.showing import analyst_content, analyst_table

    if as_json:
        limits = {"epsilon": exact(account.limit), "per_analyst": exact(account.analyst_limit)}
        spent = {"spent": exact(account.spent), "accounting": account.accounting}
        print_json({"name": name, **limits, **spent, "analysts": analyst_content(analysts)})
        return
    console().print(f"{name}: epsilon {budget_line(account.spent, account.limit)}", markup=False)
    if account.accounting != "sum":
        console().print(f"Counted {account.accounting}: spent is what the worst class of edges lost.", markup=False)
    if analysts:
        console().print(analyst_table(analysts))
