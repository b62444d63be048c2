"""blowfish policy: show, check, draw, risk, what-if, set, edit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.dataset import named, read_family, read_value
from blowfishdb.cli.dataset_add import read_file
from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Beta, Confidence, Config, CuratorOption, Name
from blowfishdb.cli.output import console, exact, exit_code, print_json
from blowfishdb.errors import ChangeRefused, InvalidInput, PolicyError
from blowfishdb.ledger.values import VersionChange
from blowfishdb.model.explain import view_graph
from blowfishdb.model.policy import Policy
from blowfishdb.present.graph_picture import to_dot, to_svg

AttributeOption = Annotated[str, typer.Option(metavar="NAME", help="The attribute to look at.")]


def draw(
    name: Name,
    attribute: AttributeOption,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to: FILE.svg or FILE.dot.")] = None,
    around: Annotated[str | None, typer.Option(metavar="VALUE", help="Show the values around this one.")] = None,
    values: Annotated[int, typer.Option(metavar="NUMBER", help="Show at most so many values.")] = 24,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Draws which values are hidden from each other. Warns of parts that nothing joins.

    Small attributes are drawn whole, of larger ones a window. Reads no data.

    \b
    Examples
      blowfish policy draw visits --attribute ward --output ward.svg
      blowfish policy draw visits --attribute cost --around 900 --output cost.dot
    """
    from blowfishdb.cli.options import existing

    with existing(config) as curator:
        dataset = curator.dataset(name)
    draw_policy(dataset, attribute, output, around, values, as_json=as_json)


def risk(
    name: Name,
    attribute: AttributeOption,
    pair: Annotated[str, typer.Option(metavar="A,B", help="The two values somebody would tell apart.")],
    epsilon: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="What a release costs; repeat it for several releases.")
    ] = None,
    prior: Annotated[str, typer.Option(metavar="NUMBER", help="How likely A was believed before.")] = "0.5",
    odds: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the odds below this factor.")
    ] = None,
    posterior: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the belief below this.")
    ] = None,
    releases: Annotated[int, typer.Option(metavar="NUMBER", help="Over so many releases.")] = 1,
    records: Annotated[int, typer.Option(metavar="NUMBER", help="So many rows of one person change together.")] = 1,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw beliefs before and after: png, svg, pdf.")
    ] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Tells how much releases help to guess, or the budget for a bound.

    \b
    Examples
      blowfish policy risk visits --attribute cost --pair 900,1000 --epsilon 0.5
      blowfish policy risk visits --attribute cost --pair 900,1000 \\
          --epsilon 0.5 --epsilon 0.2 --prior 0.1 --plot risk.png
      blowfish policy risk visits --attribute cost --pair 900,1000 --odds 3 --releases 10
    """
    from blowfishdb.cli.options import existing
    from blowfishdb.cli.what_if import RiskQuestion, show_risk

    with existing(config) as curator:
        dataset = curator.dataset(name)
    asked = RiskQuestion(attribute, pair, tuple(epsilon or ()), prior, odds, posterior, releases, records, plot)
    show_risk(dataset, asked, as_json=as_json)


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
    from blowfishdb.cli.dataset import show_edits, show_words
    from blowfishdb.cli.options import existing
    from blowfishdb.cli.output import print_json
    from blowfishdb.model.explain import explain
    from blowfishdb.model.serialize import write_policy

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
    from blowfishdb.cli.dataset_add import read_file
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
    from blowfishdb.cli.options import existing
    from blowfishdb.cli.what_if import Comparison, compare, show_comparison
    from blowfishdb.engine.target import accuracy_target

    wanted = accuracy_target(within, beta, confidence=confidence)
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
    by: CuratorOption = None,
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
    from blowfishdb.cli.options import existing

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
    by: CuratorOption = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Asks what is hidden of each attribute. Shows what that does to past loss, and puts it in force if you agree.

    \b
    Example
      blowfish policy edit visits
    """
    from blowfishdb.cli.dataset_add import ask_policy, ask_reason, ask_yes, is_terminal
    from blowfishdb.cli.options import existing
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


def changed_policy(dataset: Dataset, words: list[str], document: Path | None) -> Policy:
    """The dataset's policy with the named attributes changed, or the policy of a document."""
    if bool(words) == (document is not None):
        raise PolicyError("say the new policy with --policy or with --document")
    if document is not None:
        return read_file(document).policy
    old = dataset.policy
    said = named(words, "--policy")
    named_now = {name: read_family(text, dataset.domain.find(name, PolicyError)) for name, text in said.items()}
    new = replace(old, attributes=dict(old.attributes) | named_now)
    new.check(dataset.domain)
    return new


def show_change(change: VersionChange, why: str, *, dry_run: bool, as_json: bool) -> None:
    """Prints what a new version did, or would do, to past loss."""
    if as_json:
        print_json(
            {
                "in_force": not dry_run,
                "version": change.next_version,
                "stretch": exact(change.stretch),
                "why": why,
                "spent_before": exact(change.spent_before),
                "spent_after": exact(change.spent_after),
                "limit": exact(change.limit),
                "refusal": change.refusal,
            }
        )
        return
    screen = console()
    if change.refusal is not None:
        screen.print(f"It would be refused: {change.refusal} ({why}).", style="yellow", markup=False)
        return
    verb = "would become" if dry_run else "is"
    screen.print(f"Policy version {change.next_version} {verb} the one in force.", markup=False)
    screen.print(
        f"Past loss counts {exact(change.stretch)} times ({why}): epsilon {exact(change.spent_before)} spent becomes "
        f"{exact(change.spent_after)} of {exact(change.limit)}.",
        markup=False,
    )
    if dry_run:
        screen.print("Nothing was changed.")


WRITERS = {".svg": to_svg, ".dot": to_dot}


def draw_policy(
    dataset: Dataset, attribute: str, output: Path | None, around: str | None, values: int, *, as_json: bool
) -> None:
    """Writes the picture and prints what it shows."""
    path = output or Path(f"{attribute}.svg")
    if path.suffix.lower() not in WRITERS:
        raise InvalidInput(f"a picture is written to a file that ends in {' or '.join(WRITERS)}")
    declared = dataset.domain.find(attribute, PolicyError)
    place = None if around is None else read_value(around, declared)
    view = view_graph(dataset.domain, dataset.policy, attribute, place, values)
    try:
        path.write_text(WRITERS[path.suffix.lower()](view), encoding="utf-8")
    except OSError:
        raise InvalidInput(f"{path} cannot be written") from None
    if as_json:
        print_json(
            {
                "file": str(path),
                "values": view.size,
                "shown": list(view.labels),
                "moves": len(view.pairs),
                "parts": view.parts,
                "warnings": list(view.warnings()),
            }
        )
        return
    screen = console()
    shown = f"all {view.size:,} values" if view.is_whole else f"{len(view.labels):,} of {view.size:,} values"
    screen.print(f"{path}: {shown} of {attribute}, {len(view.pairs):,} hidden moves among them.", markup=False)
    for warning in view.warnings():
        screen.print(f"Mind: {warning}", style="yellow", markup=False)
