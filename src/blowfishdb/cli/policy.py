"""blowfish policy: show, check, draw, risk, what-if, set, edit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blowfishdb.cli.options import (
    USUAL_CONFIG,
    AsJson,
    Beta,
    Confidence,
    ConfigOption,
    CuratorOption,
    Name,
    ReasonOption,
    RiskOptions,
    existing,
    spread,
)
from blowfishdb.cli.output import bullets, exact, exit_code, print_json, print_result, say, table
from blowfishdb.errors import CatalogError, ChangeRefused, InvalidInput, PolicyError, plural

if TYPE_CHECKING:
    from blowfishdb.catalog import Dataset
    from blowfishdb.ledger.values import VersionChange
    from blowfishdb.model.policy import Policy

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

AttributeOption = Annotated[str, typer.Option(metavar="NAME", help="The attribute to look at.")]


@app.command()
def show(name: Name, config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Shows in words what is hidden about a record and what is not.

    Where counts are public, it also shows how many times each multiplies a price.

    \b
    Example
      blowfish policy show visits
    """
    from blowfishdb.cli.declaration import show_edits, show_words
    from blowfishdb.model.document import write_policy
    from blowfishdb.model.explain import explain
    from blowfishdb.present.graph_picture import view_constraints

    with existing(config) as curator:
        declared = curator.dataset(name)
        account, dataset = curator.in_force(name)
    view = view_constraints(dataset.domain, dataset.policy) if dataset.policy.constraints else None
    if as_json:
        words = list(explain(dataset.domain, dataset.policy))
        content = {"version": account.policy_version, "policy": write_policy(dataset.policy), "words": words}
        print_json(content if view is None else {**content, "constraints": view.as_document()})
        return
    show_words(dataset, account)
    if view is not None:
        columns = ["Constraint", "By itself", "Tied to"]
        say(table("Public constraints and how often they multiply a price", columns, view.rows(), right=["By itself"]))
        say(bullets(view.words()))
    show_edits(declared, dataset, account)


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A document with domain and policy. [the configuration]")
    ] = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Finds mistakes in a document or in the configuration. Says at which line the first one is.

    \b
    Examples
      blowfish policy check people.toml
      blowfish policy check --config blowfish.toml
    """
    from blowfishdb.catalog import read_config
    from blowfishdb.cli.declaration import read_file
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
        say(f"{name}: {plural(len(checked[name][0].names), 'attribute')}, the policy fits.", bullets(sentences))
    if not words:
        say("The configuration is sound; it names no dataset yet.")


@app.command()
def draw(
    name: Name,
    attribute: Annotated[str | None, typer.Option(metavar="NAME", help="The attribute to look at.")] = None,
    constraints: Annotated[bool, typer.Option("--constraints", help="The graph of the public constraints.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it: FILE.svg or FILE.dot.")
    ] = None,
    around: Annotated[str | None, typer.Option(metavar="VALUE", help="Show the values around this one.")] = None,
    values: Annotated[int, typer.Option(metavar="NUMBER", help="Show at most this many values.")] = 24,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Draws which values are hidden from each other. Warns of parts that nothing joins.

    Small attributes are drawn whole, of larger ones a window. With --constraints it draws the public constraints
    instead. Reads no data.

    \b
    Examples
      blowfish policy draw visits --attribute ward --output ward.svg
      blowfish policy draw visits --constraints --output constraints.svg
      blowfish policy draw visits --attribute cost --around 900 --output cost.dot
    """
    from blowfishdb.catalog.dataset import read_value
    from blowfishdb.present.graph_picture import to_dot, to_svg, view_graph

    if (attribute is None) is not constraints:
        raise InvalidInput("name what to draw: --attribute NAME, or --constraints")
    writers = {".svg": to_svg, ".dot": to_dot}
    path = output or Path(f"{attribute or 'constraints'}.svg")
    suffixes = [".svg"] if constraints else [*writers]
    if path.suffix.lower() not in suffixes:
        raise InvalidInput(f"a picture is written to a file that ends in {' or '.join(suffixes)}")
    with existing(config) as curator:
        dataset = curator.dataset(name)
    if attribute is None:
        _draw_constraints(dataset, path, as_json=as_json)
        return
    declared = dataset.domain.find(attribute, PolicyError)
    place = None if around is None else read_value(around, declared)
    view = view_graph(dataset.domain, dataset.policy, attribute, place, values)
    _write(path, writers[path.suffix.lower()](view))
    content = {
        "file": str(path),
        "values": view.size,
        "shown": list(view.labels),
        "moves": len(view.pairs),
        "parts": view.parts,
        "warnings": list(view.warnings()),
    }
    shown = f"{'all' if view.is_whole else f'{len(view.labels):,} of'} {plural(view.size, 'value')}"
    message = f"{path}: {shown} of {attribute}, {plural(len(view.pairs), 'hidden move')} among them."
    print_result(content, message, as_json=as_json)
    if not as_json:
        say(*(f"Mind: {warning}" for warning in view.warnings()), style="yellow")


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError:
        raise InvalidInput(f"{path} cannot be written") from None


def _draw_constraints(dataset: Dataset, path: Path, *, as_json: bool) -> None:
    from blowfishdb.present.graph_picture import constraints_svg, view_constraints

    view = view_constraints(dataset.domain, dataset.policy)
    _write(path, constraints_svg(view))
    message = f"{path}: {plural(len(view.names), 'public constraint')}, {plural(len(view.pairs), 'line')} among them."
    print_result({"file": str(path), **view.as_document()}, message, bullets(view.words()), as_json=as_json)


@app.command()
@spread
def risk(
    name: Name,
    attribute: AttributeOption,
    options: RiskOptions,
    config: ConfigOption = USUAL_CONFIG,
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
    from blowfishdb.cli.answers import show_risk

    with existing(config) as curator:
        dataset = curator.dataset(name)
    show_risk(dataset, attribute, options, as_json=as_json)


@app.command("what-if")
def what_if(
    name: Name,
    attribute: Annotated[str, typer.Option(metavar="NAME", help="The attribute whose policy would change.")],
    within: Annotated[
        str,
        typer.Option(
            "--within", "--alpha", "--accuracy", metavar="NUMBER", help="Every count within this of the truth ..."
        ),
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
        list[str] | None,
        typer.Option(metavar="A,B", help="Two values that an adversary tries to tell apart; may be repeated."),
    ] = None,
    config: ConfigOption = USUAL_CONFIG,
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
    from blowfishdb.cli.answers import show_comparison
    from blowfishdb.engine.request import accuracy_target

    target = accuracy_target(within, beta, confidence=confidence)
    policies = [*(policy or []), *(f"within {one}" for one in theta or [])]
    with existing(config) as curator:
        dataset = curator.dataset(name)
    show_comparison(dataset, attribute, target, policies, pair or [], as_json=as_json)


@app.command("set")
def set_policy(
    name: Name,
    reason: ReasonOption,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=WORDS", help="The new policy of an attribute, or of several; repeat it."),
    ] = None,
    document: Annotated[Path | None, typer.Option(metavar="FILE", help="The new policy in a document.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Puts a new policy in force. What was spent under the old one is carried over, stretched where it must be.

    \b
    Examples
      blowfish policy set visits --policy "cost=within 1000" \\
          --reason "approved in May" --dry-run
      blowfish policy set visits --policy "lat + lon=within 0.5" \\
          --reason "places within 0.5 degrees, both together"
      blowfish policy set visits --document visits.toml --reason "approved in May"
    """
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
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Asks what is hidden of each attribute. Shows what that does to past loss, and puts it in force if you agree.

    \b
    Example
      blowfish policy edit visits
    """
    from blowfishdb.cli.declaration import ask_policy, ask_reason, ask_yes

    if not sys.stdin.isatty():
        raise CatalogError(
            f"this is not a terminal, so nobody can be asked: use blowfish policy set {name} --policy COLUMN=WORDS"
        )
    with existing(config, by) as curator:
        dataset = curator.dataset(name)
        new = ask_policy(dataset.domain, dataset.policy)
        if new == dataset.policy:
            say("Nothing was changed.")
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
    from blowfishdb.catalog.dataset import named, read_policies, with_policies
    from blowfishdb.cli.declaration import read_file

    if bool(words) == (document is not None):
        raise PolicyError("say the new policy with --policy or with --document")
    if document is not None:
        return read_file(document).policy
    families, graphs = read_policies(named(words, "--policy"), dataset.domain)
    new = with_policies(dataset.policy, families, graphs)
    new.check(dataset.domain)
    return new


def show_change(change: VersionChange, why: str, *, dry_run: bool, as_json: bool) -> None:
    """Prints what a new version did, or would do, to past loss."""
    from blowfishdb.model.numbers import show

    if change.refusal is not None and not as_json:
        say(f"It would be refused: {change.refusal} ({why}).", style="yellow")
        return
    content = {
        "in_force": not dry_run,
        "version": change.next_version,
        "stretch": exact(change.stretch),
        "why": why,
        "spent_before": exact(change.spent_before),
        "spent_after": exact(change.spent_after),
        "limit": exact(change.limit),
        "refusal": change.refusal,
    }
    lines = (
        f"Policy version {change.next_version} {'would become' if dry_run else 'is'} the one in force.",
        f"{change.words(show)} Why: {why}." if change.charges else change.words(show),
        *(["Nothing was changed."] if dry_run else []),
    )
    print_result(content, *lines, as_json=as_json)
