"""blowfish dataset: add, list, show, remove, budget, domain and refreshed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.dataset import attribute_words, family_words
from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, CuratorOption, Name
from blowfishdb.cli.output import budget_line, bullets, console, exact, short, table
from blowfishdb.ledger.values import Account, AnalystBudget
from blowfishdb.model.explain import explain
from blowfishdb.model.serialize import write_domain, write_policy

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
    by: CuratorOption = None,
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
    from blowfishdb.catalog.dataset import named
    from blowfishdb.cli.options import existing
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
    by: CuratorOption = None,
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
    from blowfishdb.catalog.dataset import named
    from blowfishdb.cli.dataset_add import declared_columns
    from blowfishdb.cli.options import existing
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
    by: CuratorOption = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Notes that the rows changed. Stored answers are no longer replayed, and the spent budget stays spent.

    \b
    Example
      blowfish dataset refreshed visits --description "rows of May added"
    """
    from blowfishdb.cli.options import existing
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


app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What analysts will call it.")],
    source: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Where the rows are. ${NAME} stands for an environment variable."),
    ],
    domain: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="What the public may know of a column; repeat it.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="What is hidden about it; else everything.")
    ] = None,
    document: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Domain and policy in a file, TOML or JSON, instead.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Rows with the same value here belong to one person.")
    ] = None,
    at_most: Annotated[int | None, typer.Option(metavar="NUMBER", help="So many rows of each person count.")] = None,
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The row key that says which rows of a person count.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What the data may lose in all. [1, or what it has already]")
    ] = None,
    per_analyst: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What each analyst may spend. [only --epsilon holds]")
    ] = None,
    by: CuratorOption = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Adds a dataset. Its schema is read, its rows are not: nothing is inferred from the data.

    Columns without a domain are not used. In a terminal, without --domain and --document, you are asked about each
    column, what is hidden of it, and the budget. Data that was added before is then taken as it was declared.

    \b
    Words for --domain
      age=0..110                          whole numbers, both ends included
      cost=0..50000 step 100              bins; values beyond count at the ends
      day=2024-01-01..2025-12-31 by day   by day, week, month, quarter or year
      seen=2024-01-01T00:00..2025-01-01T00:00 by hour in Europe/Zurich
      ward=A1, A2, B1                     listed values; a < b < c: ordered ones
      ward=@wards.txt                     listed values, one per line
      age=0..110 null=0                   NULL counts as 0; also null=cell,
                                          null=public, outside=cell or =public
    \b
    Words for --policy
      full, public, line, within 5, cuts 18, 65, blocks a, b | c
    \b
    Examples
      blowfish dataset add visits --source postgresql://localhost/clinic#visits
      blowfish dataset add people --source data/people.parquet \\
          --domain "age=0..110 null=0" --domain "state=@states.txt" \\
          --policy "age=within 5" --epsilon 2 --per-analyst 0.5
      blowfish dataset add orders --document orders.toml \\
          --source 'mysql://ana:${PASSWORD}@host/shop#orders' \\
          --person customer --at-most 5 --order-by order_id
    """
    from blowfishdb.cli.dataset_add import Wish, declare, limited, look_up, show_added
    from blowfishdb.cli.options import new_or_existing
    from blowfishdb.errors import CatalogError

    wish = Wish(name, source, domain or [], policy or [], document, person, at_most, order_by, epsilon, per_analyst)
    with new_or_existing(config, by) as curator:
        if name in curator.datasets():
            raise CatalogError(f"there is a dataset {name} already; `blowfish dataset show {name}` shows it")
        columns = look_up(curator, source, as_json=as_json)
        known = curator.known_account(source)
        if known is not None and wish.is_silent:
            dataset = limited(curator.as_known(name, source), wish)
        else:
            ask = sys.stdin.isatty() and not (domain or document or as_json)
            dataset = declare(wish, columns, known, ask=ask)
        account = curator.add(dataset)
        show_added(dataset, account, columns, curator.config.path, as_json=as_json)


@app.command("list")
def list_datasets(config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists the datasets and what is left of their budgets.

    \b
    Example
      blowfish dataset list
    """
    from blowfishdb.cli.options import existing
    from blowfishdb.cli.output import budget_line, console, exact, print_json, table

    with existing(config) as curator:
        rows = [(curator.dataset(name), curator.account(name)) for name in curator.datasets()]
    if as_json:
        print_json(
            [
                {
                    "name": dataset.name,
                    "source": dataset.source,
                    "attributes": list(dataset.domain),
                    "epsilon": exact(account.limit),
                    "spent": exact(account.spent),
                    "policy_version": account.policy_version,
                }
                for dataset, account in rows
            ]
        )
        return
    if not rows:
        console().print("No datasets yet. Add one: blowfish dataset add NAME --source ADDRESS")
        return
    lines = [
        (
            dataset.name,
            ", ".join(dataset.domain),
            f"v{account.policy_version}",
            budget_line(account.spent, account.limit),
        )
        for dataset, account in rows
    ]
    console().print(table("", ("dataset", "attributes", "policy", "budget"), lines))


@app.command()
def show(name: Name, config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Shows domain, policy and budget of a dataset, and who spent it.

    \b
    Example
      blowfish dataset show visits
    """
    from blowfishdb.cli.options import existing

    with existing(config) as curator:
        written, analysts = curator.dataset(name), curator.analysts(name)
        account, dataset = curator.in_force(name)
    if as_json:
        from blowfishdb.cli.output import print_json

        print_json(dataset_content(dataset, account, analysts))
    else:
        show_dataset(dataset, account, analysts)
        show_edits(written, dataset, account)


app.command()(budget)
app.command()(domain)
app.command()(refreshed)


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Takes a dataset out of the configuration. What was spent stays in the ledger, should it come back.

    \b
    Example
      blowfish dataset remove visits --yes
    """
    from blowfishdb.cli.options import existing
    from blowfishdb.cli.output import console, exact, print_json
    from blowfishdb.errors import CatalogError

    with existing(config) as curator:
        account = curator.account(name)
        if not yes and not sys.stdin.isatty():
            raise CatalogError("nobody can be asked here: add --yes to remove it")
        if not yes:
            typer.confirm(f"Remove {name}? Analysts can no longer ask about it", abort=True)
        curator.remove(name)
    if as_json:
        print_json({"removed": name, "spent": exact(account.spent)})
    else:
        console().print(f"{name} is removed; epsilon {exact(account.spent)} stays spent in the ledger.", markup=False)


def dataset_content(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> dict[str, object]:
    """Everything about a dataset, for programs."""
    return {
        "name": dataset.name,
        "source": dataset.source,
        "account": account.id,
        "domain": write_domain(dataset.domain),
        "policy": write_policy(dataset.policy),
        "policy_words": list(explain(dataset.domain, dataset.policy)),
        "policy_version": account.policy_version,
        "domain_version": account.domain_version,
        "snapshot": account.snapshot,
        "epsilon": exact(account.limit),
        "spent": exact(account.spent),
        "remaining": exact(account.remaining),
        "charges": account.charges,
        "analysts": analyst_content(analysts),
    }


def show_dataset(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> None:
    """Prints a dataset."""
    screen = console()
    screen.print(f"{dataset.name}", style="bold", markup=False)
    screen.print(f"  {dataset.source}", style="dim", markup=False)
    rows = []
    for name in dataset.domain:
        joint = dataset.policy.grid_of(name) is not None
        hidden = "jointly with others" if joint else family_words(dataset.policy.family(name))
        rows.append((name, attribute_words(dataset.domain[name], dataset.policy.family(name)), hidden))
    screen.print(table("", ("attribute", "the public may know", "hidden"), rows))
    show_words(dataset, account)
    screen.print(f"\nBudget: epsilon {budget_line(account.spent, account.limit)}", markup=False)
    if analysts:
        screen.print(analyst_table(analysts))


def analyst_content(analysts: Sequence[AnalystBudget]) -> list[dict[str, object]]:
    """Who spent what, for programs."""
    return [{"name": one.analyst, "spent": exact(one.spent), "limit": exact(one.limit)} for one in analysts]


def analyst_table(analysts: Sequence[AnalystBudget]) -> RenderableType:
    """Who spent what."""
    lines = [(one.analyst, short(one.spent), short(one.limit), short(one.remaining)) for one in analysts]
    return table("", ("analyst", "spent", "limit", "left"), lines, right=("spent", "limit", "left"))


def show_words(dataset: Dataset, account: Account) -> None:
    """Prints a policy in words."""
    screen = console()
    screen.print(f"Policy (version {account.policy_version}), in words", style="bold", markup=False)
    screen.print(bullets(explain(dataset.domain, dataset.policy)))


def show_edits(written: Dataset, in_force: Dataset, account: Account) -> None:
    """Warns of what the configuration says and the ledger does not have in force, with the command that changes it."""
    name, screen = written.name, console()
    documents = (
        ("policy", written.policy_document(), in_force.policy_document()),
        ("domain", written.domain_document(), in_force.domain_document()),
    )
    for kind, edited, kept in documents:
        if edited != kept:
            screen.print(
                f"The configuration says another {kind}. This one is in force. Nobody is answered until you put the "
                f"other in force (blowfish policy set {name} --document FILE --reason TEXT) or take the edit back.",
                style="yellow",
                markup=False,
            )
    limits = (
        ("--epsilon", written.epsilon, account.limit),
        ("--per-analyst", written.per_analyst, account.analyst_limit),
    )
    for option, said, limit in limits:
        if said is not None and said != limit:
            screen.print(
                f"The configuration says {exact(said)}, which only the ledger can change: "
                f"blowfish dataset budget {name} {option} {exact(said)} --reason TEXT",
                style="yellow",
                markup=False,
            )
