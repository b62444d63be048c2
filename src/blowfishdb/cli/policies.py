"""blowfish policy: show, check, draw, risk, what-if, set, edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.exits import exit_code
from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Beta, Confidence, Config, Curator, Name
from blowfishdb.cli.policy_looks import draw, risk
from blowfishdb.errors import ChangeRefused

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command()(draw)
app.command()(risk)


@app.command()
def show(name: Name, config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Shows in words what is hidden about a record and what is not.

    \b
    Example
      blowfish policy show visits
    """
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import print_json
    from blowfishdb.cli.showing import show_edits, show_words
    from blowfishdb.model.explain import explain
    from blowfishdb.model.written import write_policy

    with existing(config) as curator:
        written = curator.dataset(name)
        account, dataset = curator.in_force(name)
    if as_json:
        words = list(explain(dataset.domain, dataset.policy))
        print_json({"version": account.policy_version, "policy": write_policy(dataset.policy), "words": words})
    else:
        show_words(dataset, account)
        show_edits(written, dataset, account)


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A document with domain and policy; else the configuration.")
    ] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Finds mistakes in a document or in the configuration. Says at which line the first one is.

    \b
    Examples
      blowfish policy check people.toml
      blowfish policy check --config blowfish.toml
    """
    from blowfishdb.catalog import read_config
    from blowfishdb.cli.adding import read_file
    from blowfishdb.cli.output import bullets, console, print_json
    from blowfishdb.model.explain import explain

    if file is not None:
        document = read_file(file)
        checked = {file.name: (document.domain, document.policy)}
    else:
        checked = {name: (one.domain, one.policy) for name, one in read_config(config).datasets.items()}
    words = {name: list(explain(*declared)) for name, declared in checked.items()}
    if as_json:
        print_json({"sound": True, "checked": words})
        return
    for name, sentences in words.items():
        console().print(f"{name}: {len(checked[name][0].names)} attributes, the policy fits.", markup=False)
        console().print(bullets(sentences))
    if not words:
        console().print("The configuration is sound; it names no dataset yet.")


@app.command("what-if")
def what_if(
    name: Name,
    attribute: Annotated[str, typer.Option(metavar="NAME", help="The attribute whose policy would change.")],
    within: Annotated[
        str,
        typer.Option("--within", "--alpha", "--accuracy", metavar="NUMBER", help="Every count this near the truth ..."),
    ],
    confidence: Confidence = None,
    beta: Beta = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="WORDS", help="A policy to compare, such as 'within 500'; repeat it.")
    ] = None,
    theta: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="The same as --policy 'within NUMBER'; repeat it.")
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Two values an adversary would tell apart; repeat it.")
    ] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Compares policies of one attribute. Shows what an accuracy costs under each, and what an adversary may learn.

    The odds are how much more likely one of two values may look than the other after the release: e to the power of
    epsilon times the steps between the values. Reads no data and changes nothing.

    \b
    Examples
      blowfish policy what-if visits --attribute cost --within 50
      blowfish policy what-if visits --attribute cost --within 50 \\
          --theta 1000 --theta 5000 --policy "cuts 10000" \\
          --pair 900,1000 --pair 900,20000
    """
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.what_if import Comparison, compare, show_comparison
    from blowfishdb.engine.demand import demand

    wanted = demand(within, beta, confidence=confidence)
    asked = Comparison(attribute, wanted, [*(policy or []), *(f"within {one}" for one in theta or [])], pair or [])
    with existing(config) as curator:
        dataset = curator.dataset(name)
    show_comparison(dataset, asked, compare(dataset, asked), as_json=as_json)


@app.command("set")
def set_policy(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")],
    policy: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="The new policy of an attribute; repeat it.")
    ] = None,
    document: Annotated[Path | None, typer.Option(metavar="FILE", help="The new policy in a document.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Puts a new policy in force. What was spent under the old one is carried over, stretched where it must be.

    \b
    Examples
      blowfish policy set visits --policy "cost=within 1000" \\
          --reason "approved in May" --dry-run
      blowfish policy set visits --document visits.toml --reason "approved in May"
    """
    from blowfishdb.cli.changing import changed_policy, show_change
    from blowfishdb.cli.opening import existing

    with existing(config, by) as curator:
        new = changed_policy(curator.dataset(name), policy or [], document)
        change, stretch = curator.what_would_change(name, policy=new)
        if not dry_run:
            change = curator.set_policy(name, new, reason=reason)
    show_change(change, stretch.why, dry_run=dry_run, as_json=as_json)
    if change.refusal is not None:
        raise typer.Exit(exit_code(ChangeRefused(change.refusal)))


@app.command()
def edit(
    name: Name,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record. [you are asked]")] = None,
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Asks what is hidden of each attribute. Shows what that does to past loss, and puts it in force if you agree.

    \b
    Example
      blowfish policy edit visits
    """
    from blowfishdb.cli.asking import ask_policy, ask_reason, ask_yes, is_terminal
    from blowfishdb.cli.changing import show_change
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import console
    from blowfishdb.errors import CatalogError

    if not is_terminal():
        raise CatalogError(f"nobody can be asked here: use blowfish policy set {name} --policy COLUMN=WORDS")
    with existing(config, by) as curator:
        dataset = curator.dataset(name)
        new = ask_policy(dataset.domain, dataset.policy)
        if new == dataset.policy:
            console().print("Nothing was changed.")
            return
        change, stretch = curator.what_would_change(name, policy=new)
        show_change(change, stretch.why, dry_run=True, as_json=False)
        if change.refusal is not None:
            raise typer.Exit(exit_code(ChangeRefused(change.refusal)))
        if not ask_yes("Put it in force?"):
            return
        change = curator.set_policy(name, new, reason=reason or ask_reason())
    show_change(change, stretch.why, dry_run=False, as_json=as_json)
