"""blowfish dataset: add, try, list, show, remove, budget, domain, caps, refreshed and record."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import (
    USUAL_CONFIG,
    AsJson,
    ColumnsOption,
    ConfigOption,
    CuratorOption,
    DatasetOptions,
    Name,
    ReasonOption,
    existing,
    new_or_existing,
    spread,
)
from blowfishdb.cli.output import budget_line, exact, print_json, print_result, say, table
from blowfishdb.cli.serve import forget_access, recipients
from blowfishdb.errors import CatalogError, sentence

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
@spread
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What analysts will call it.")],
    options: DatasetOptions,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Try a question about each column at the end; shows no count.")
    ] = True,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Adds a dataset. It is declared from its schema: nothing is inferred from the rows.

    Columns without a domain are not used. In a terminal, without --domain and --document, you are asked what the table
    is about, whose rows these are, about each column, what is hidden of it, and the budget, each with a proposal; what
    that protects and costs is shown before anything is added. At the end a question about each column is tried: its
    counts are thrown away, and nothing is charged. --profile proposes the same without a terminal: what the
    options do not say is taken from it. Data that was added before is taken as it was declared.

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
    Words for --join
      patients on patient = id gives age, sex = gender
                                          the row of patients whose id is this
                                          row's patient; joined by the person's
                                          id it is protected, else public
    \b
    Words for --policy
      full, public, line, within 5, cuts 18, 65, blocks a, b | c
      lat + lon=within 0.5                both together, in a straight line;
                                          also blocks FILE and edges FILE
    \b
    Examples
      blowfish dataset add visits --source postgresql://localhost/clinic#visits
      blowfish dataset add visits --source visits.csv --profile patients \\
          --domain ward=@wards.txt
      blowfish dataset add people --source data/people.parquet \\
          --domain "age=0..110 null=0" --domain "state=@states.txt" \\
          --policy "age=within 5" --epsilon 2 --per-analyst 0.5
      blowfish dataset add orders --document orders.toml \\
          --source 'mysql://ana:${PASSWORD}@host/shop#orders' \\
          --person customer --at-most 5 --order-by order_id
    """
    from blowfishdb.catalog.dataset import read_join
    from blowfishdb.cli.declaration import agreed, ask_profile, declare, limited, show_added, show_guidance

    with new_or_existing(config, by) as curator:
        if name in curator.datasets():
            raise CatalogError(f"there is a dataset {name} already; `blowfish dataset show {name}` shows it")
        joins = [read_join(words) for words in options.join or []]
        columns = curator.columns(options.source, joins)
        known = curator.known_account(options.source)
        if known is not None and options.is_silent:
            dataset = limited(curator.as_known(name, options.source), options)
            columns = curator.columns(options.source, dataset.joins)
        else:
            ask = sys.stdin.isatty() and not (options.domain or options.document or as_json)
            if ask and options.profile is None:
                options = replace(options, profile=ask_profile(name, columns))
            declared = declare(name, options, columns, known, ask=ask)
            dataset = replace(declared, joins=tuple(joins))
            if ask:
                accepted = agreed(dataset, str(options.profile), columns, curator.guidance)
                if accepted is None:
                    say("Nothing was added.")
                    return
                dataset = accepted
            elif options.profile and not as_json:
                show_guidance(curator.guidance(dataset))
        account = curator.add(dataset)
        tried = curator.try_questions(name) if trial else []
        show_added(dataset, account, columns, curator.config.path, curator.cautions(name), tried, as_json=as_json)
    if any(one.failure for one in tried):
        raise typer.Exit(FAILED_TRIAL)


FAILED_TRIAL = 6
"""The exit code where the source fails."""


@app.command("try")
def try_questions(
    name: Name, by: CuratorOption = None, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False
) -> None:
    """Tries a question about each column. Costs nothing, shows no count.

    Rows are read, and the log says so. What fails is told in the source's own words, as an analyst never reads them.
    `dataset add` ends with the same.

    \b
    Example
      blowfish dataset try visits
    """
    from blowfishdb.cli.declaration import show_trial, trial_content

    with existing(config, by) as curator:
        cautions, tried = curator.cautions(name), curator.try_questions(name)
    if as_json:
        print_json({"name": name, "cautions": cautions, "trial": trial_content(tried)})
    else:
        say(*(sentence(caution) for caution in cautions), style="yellow")
        show_trial(name, tried)
    if any(one.failure for one in tried):
        raise typer.Exit(FAILED_TRIAL)


@app.command("list")
def list_datasets(config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Lists the datasets and what is left of their budgets.

    \b
    Example
      blowfish dataset list
    """
    with existing(config) as curator:
        rows = [(curator.dataset(name), curator.account(name)) for name in curator.datasets()]
    if not rows and not as_json:
        say("No datasets yet. Add one: blowfish dataset add NAME --source ADDRESS")
        return
    content = [
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
    lines = [
        (
            dataset.name,
            ", ".join(dataset.domain),
            f"v{account.policy_version}",
            budget_line(account.spent, account.limit),
        )
        for dataset, account in rows
    ]
    print_result(content, table("", ("dataset", "attributes", "policy", "budget"), lines), as_json=as_json)


@app.command()
def show(name: Name, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Shows domain, policy and budget of a dataset, and who spent it.

    \b
    Example
      blowfish dataset show visits
    """
    from blowfishdb.cli.declaration import dataset_content, show_dataset, show_edits

    with existing(config) as curator:
        declared, analysts = curator.dataset(name), curator.analysts(name)
        account, dataset = curator.in_force(name)
    if as_json:
        print_json(dataset_content(dataset, account, analysts))
    else:
        show_dataset(dataset, account, analysts)
        show_edits(declared, dataset, account)


@app.command()
def budget(
    name: Name,
    reason: ReasonOption,
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What the data may lose in all; can only be raised.")
    ] = None,
    per_analyst: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What each analyst may spend; 'none' for no such limit.")
    ] = None,
    analyst: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="What one analyst may spend; NAME=none: the same as everyone. May be repeated."
        ),
    ] = None,
    accounting: Annotated[
        str | None,
        typer.Option(metavar="HOW", help='How loss adds up: sum, per-edge, or "per-edge by ATTRIBUTE".'),
    ] = None,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
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
    from blowfishdb.catalog.guidance import budget_words
    from blowfishdb.cli.declaration import ask_yes, show_budget
    from blowfishdb.engine.request import short_number

    limits = named(analyst or [], "--analyst")
    if epsilon is None and per_analyst is None and accounting is None and not limits:
        raise CatalogError("say what changes: --epsilon, --per-analyst, --analyst NAME=NUMBER or --accounting")
    with existing(config, by) as curator:
        if epsilon is not None:
            before, dataset = curator.in_force(name)
            if not as_json:
                say(budget_words(dataset, before.limit, short_number(epsilon, "epsilon")))
                if sys.stdin.isatty() and not ask_yes("A budget that was raised is not lowered again. Raise it?"):
                    say("Nothing was changed.")
                    return
            curator.renew(name, epsilon, reason=reason)
        if per_analyst is not None:
            curator.limit_everyone(name, _limit(per_analyst), reason=reason)
        for one, limit in limits.items():
            curator.limit_analyst(name, one, _limit(limit), reason=reason)
        if accounting is not None:
            curator.set_accounting(name, accounting, reason=reason)
        show_budget(name, curator.account(name), curator.analysts(name), as_json=as_json)


def _limit(text: str) -> str | None:
    return None if text.strip().lower() == "none" else text


@app.command()
def domain(
    name: Name,
    reason: ReasonOption,
    domain: ColumnsOption = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that is no longer asked about; repeat it.")
    ] = None,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
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
    from blowfishdb.cli.declaration import declared_columns

    if bool(domain) == bool(drop):
        raise CatalogError("say what changes: --domain COLUMN=WORDS or --drop COLUMN, one of the two at a time")
    with existing(config, by) as curator:
        if drop:
            changed, change = drop, curator.drop_attributes(name, drop, reason=reason)
        else:
            _, dataset = curator.in_force(name)
            new = declared_columns(named(domain or [], "--domain"), curator.columns(dataset.source, dataset.joins))
            attributes = {**{column: dataset.domain[column] for column in dataset.domain}, **new}
            changed, change = list(new), curator.set_domain(name, attributes, reason=reason)
    version = change.next_version
    message = f"Domain version {version} of {name} is the one in force."
    print_result({"name": name, "domain_version": version, "attributes": changed}, message, as_json=as_json)


@app.command()
def caps(
    name: Name,
    at_most: Annotated[str, typer.Option(metavar="NUMBERS", help="Caps to compare, side by side.")] = "1,2,3,5,10,20",
    person: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that tells people apart. [as the policy says]")
    ] = None,
    order_by: Annotated[str | None, typer.Option(metavar="COLUMN", help="The row key. [as the policy says]")] = None,
    source: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where the rows are, for a table that is not added yet.")
    ] = "",
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shows how many rows several caps drop. Reads rows, and logs it.

    What is shown is data: a cap chosen by it depends on the rows. Analysts buy the same from NAME.people.

    \b
    Examples
      blowfish dataset caps visits --at-most 1,2,5,10
      blowfish dataset caps visits --source postgresql://localhost/clinic#visits \\
          --person patient --order-by visit_id
    """
    from blowfishdb.cli.declaration import show_caps
    from blowfishdb.model.policy import Person

    numbers = [int(part) if part.strip().isdecimal() else 0 for part in at_most.split(",")]
    if (person is None) != (order_by is None):
        raise CatalogError("--person and --order-by go together")
    unit = None if person is None or order_by is None else Person(person, 1, order_by)
    if source and unit is None:
        raise CatalogError("for a table that is not added yet, say how people are told apart: --person and --order-by")
    with new_or_existing(config, by) if source else existing(config, by) as curator:
        seen = curator.look_at_caps(name, numbers, unit, source)
    show_caps(name, seen, as_json=as_json)


@app.command()
def refreshed(
    name: Name,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What changed, for the record.")],
    numbers_hold: Annotated[
        bool, typer.Option("--numbers-hold", help="The numbers of public constraints hold for the new rows too.")
    ] = False,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Notes that the rows changed. Stored answers are no longer replayed, and the spent budget stays spent.

    \b
    Example
      blowfish dataset refreshed visits --description "rows of May added"
    """
    with existing(config, by) as curator:
        account = curator.refreshed(name, description, numbers_hold=numbers_hold)
    message = f"{name} is at snapshot {account.snapshot} now."
    print_result({"name": name, "snapshot": account.snapshot}, message, as_json=as_json)


@app.command()
def record(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it: a page for a browser, FILE.html.")],
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Writes the record of processing, for an ethics board. What is hidden, from whom, at what odds; what was released.

    \b
    Example
      blowfish dataset record visits visits.html
    """
    from blowfishdb.catalog.record import record_page

    if file.suffix.lower() not in (".html", ".htm"):
        raise CatalogError(f"the record is a page for a browser: name it {file.stem}.html, and print it to PDF there")
    readers = recipients(config, name)
    with existing(config) as curator:
        page = record_page(curator, name, readers)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise CatalogError(f"the record {file.name} cannot be written: {problem.strerror}") from None
    message = (
        f"The record of {name} is {file}. Open it in a browser, write what only you know into its lines, and print it."
    )
    print_result({"file": str(file)}, message, as_json=as_json)


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Takes a dataset out of the configuration. What was spent stays in the ledger, should it come back.

    \b
    Example
      blowfish dataset remove visits --yes
    """
    with existing(config) as curator:
        account = curator.account(name)
        if not yes and not sys.stdin.isatty():
            raise CatalogError("this is not a terminal, so nobody can confirm: add --yes to remove it")
        if not yes:
            typer.confirm(f"Remove {name}? Analysts can no longer ask about it", abort=True)
        curator.remove(name)
    forget_access(config, name)
    spent = exact(account.spent)
    message = f"{name} is removed; epsilon {spent} stays spent in the ledger."
    print_result({"removed": name, "spent": spent}, message, as_json=as_json)
