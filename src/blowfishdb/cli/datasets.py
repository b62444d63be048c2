"""blowfish dataset: add, list, show, remove, and upkeep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, Curator, Name
from blowfishdb.cli.upkeep import budget, domain, refreshed

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
    by: Curator = None,
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
    from blowfishdb.cli.adding import Wish, declare, limited, look_up, show_added
    from blowfishdb.cli.opening import new_or_existing
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
    from blowfishdb.cli.opening import existing
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
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.showing import dataset_content, show_dataset, show_edits

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
    from blowfishdb.cli.opening import existing
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
