"""From a curator's options, or answers in the terminal, to a declared dataset; declared datasets on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TypeVar

from blowfishdb.catalog import Curator, Dataset
from blowfishdb.catalog.dataset import (
    HINT,
    POLICY_HINT,
    attribute_words,
    family_words,
    hidden_words,
    is_protected,
    join_words,
    named,
    read_attribute,
    read_family,
)
from blowfishdb.cli.options import USUAL_CONFIG, DatasetOptions
from blowfishdb.cli.output import LOG, budget_line, bullets, console, exact, print_json, say, short, table
from blowfishdb.engine.target import short_number
from blowfishdb.errors import BlowfishError, CatalogError, DocumentError, SourceFailed, plural
from blowfishdb.ledger.values import Account, AnalystBudget
from blowfishdb.model.document import Document, read_document, write_domain, write_policy
from blowfishdb.model.domain import Attribute, Categorical, Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.numbers import show, suggest
from blowfishdb.model.policy import ROW, Family, Full, Line, Person, Policy, Threshold
from blowfishdb.sources.base import ColumnType, Join, Kind
from blowfishdb.sources.ibis_source import CapsSeen

PERSON = re.compile(r"person\s+(?P<at_most>\d+)\s+by\s+(?P<order_by>\S+)")
Value = TypeVar("Value")
USUAL_LIMIT = "1"
SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
"""Schemes whose columns come from a catalogue, so that a failure to get them cannot quote a row."""


def look_up(curator: Curator, source: str, joins: Sequence[Join] = (), *, as_json: bool) -> Mapping[str, ColumnType]:
    """The columns at an address and of the tables joined to it.

    Where a server fails to list them its message is shown: it has read no row.
    """
    try:
        return curator.columns(source, joins)
    except SourceFailed:
        if not as_json and source.partition(":")[0] in SERVERS:
            say(f"The database says: {LOG.last}", error=True)
        raise


def declare(
    name: str, options: DatasetOptions, columns: Mapping[str, ColumnType], known: Account | None, *, ask: bool
) -> Dataset:
    """The dataset that the options, or the answers in the terminal, declare; `known` is the account the data has."""
    unit: Person | None = None
    if options.person is not None and options.at_most is not None and options.order_by is not None:
        unit = Person(options.person, options.at_most, options.order_by)
    elif options.person is not None:
        raise CatalogError("a person needs --at-most (how many rows count) and --order-by (a row key that orders them)")
    elif options.at_most is not None or options.order_by is not None:
        raise CatalogError("--at-most and --order-by go with --person")
    epsilon, per_analyst = options.epsilon, options.per_analyst
    if known is not None:
        epsilon = show(known.limit) if epsilon is None else epsilon
        per_analyst = exact(known.analyst_limit) if per_analyst is None else per_analyst
    if options.document is not None:
        if options.domain or options.policy:
            raise CatalogError("say it in the document or with --domain and --policy, not both")
        document = read_file(options.document)
        domain, policy = document.domain, document.policy
        if unit is not None:
            policy = replace(policy, unit=unit)
    else:
        attributes = declared_columns(named(options.domain or [], "--domain"), columns)
        words = named(options.policy or [], "--policy")
        families = {column: read_family(text, attributes.get(column)) for column, text in words.items()}
        if ask:
            attributes, hidden, person = ask_columns(name, columns)
            families, unit = {**hidden, **families}, unit or person
        if not attributes:
            first = next(iter(columns), "age")
            raise CatalogError(f"no column has a domain: add --domain '{first}=...' or --document FILE; {HINT}")
        if ask and epsilon is None and per_analyst is None:
            limit, share = ask_budget()
            epsilon, per_analyst = show(limit), exact(share)
        domain, policy = Domain(tuple(attributes.items())), Policy(families, unit=unit or ROW)
    return Dataset(
        name,
        source=options.source,
        domain=domain,
        policy=policy,
        epsilon=USUAL_LIMIT if epsilon is None else epsilon,
        per_analyst=per_analyst,
    )


def limited(dataset: Dataset, options: DatasetOptions) -> Dataset:
    """A known dataset with the budgets that the options name; the ledger refuses other ones than it has."""
    limit = dataset.epsilon if options.epsilon is None else short_number(options.epsilon, "epsilon")
    share = dataset.per_analyst if options.per_analyst is None else short_number(options.per_analyst, "per analyst")
    return replace(dataset, epsilon=limit, per_analyst=share)


def read_file(path: Path) -> Document:
    """The document in a file; its name says whether it is JSON or TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DocumentError(f"the file {path.name} cannot be read") from None
    return read_document(text, "json" if path.suffix == ".json" else "toml")


def declared_columns(words: Mapping[str, str], columns: Mapping[str, ColumnType]) -> dict[str, Attribute]:
    """The attribute that the words declare for each column; CatalogError for one that the data does not have."""
    attributes: dict[str, Attribute] = {}
    for name, text in words.items():
        if name not in columns:
            raise CatalogError(f"the data has no column {name!r}; {suggest(name, columns)}")
        try:
            attributes[name] = read_attribute(text, columns[name].kind)
        except BlowfishError as error:
            raise CatalogError(f"{name}: {error}") from None
    return attributes


def show_added(
    dataset: Dataset, account: Account, columns: Mapping[str, ColumnType], path: Path, *, as_json: bool
) -> None:
    """Prints an added dataset and the file that declares it."""
    domain, policy, unit = dataset.domain, dataset.policy, dataset.policy.unit
    keys = (unit.id, unit.order_by) if isinstance(unit, Person) else ()
    unused = [name for name in columns if name not in domain and name not in keys]
    if as_json:
        print_json(
            {
                "name": dataset.name,
                "account": account.id,
                "config": str(path),
                "attributes": list(domain),
                "unused": unused,
                "epsilon": exact(account.limit),
                "spent": exact(account.spent),
                "per_analyst": exact(account.analyst_limit),
                "policy_version": account.policy_version,
            }
        )
        return
    say(f"{dataset.name}: {plural(len(columns), 'column')}, no {'protected ' if dataset.joins else ''}rows read.")
    rows = [(name, columns[name].kind.value, *_attribute_row(dataset, name)) for name in domain]
    say(table("", ("attribute", "column", "the public may know", "hidden"), rows))
    texts = [name for name in domain if columns[name].kind == Kind.TEXT and not isinstance(domain[name], Categorical)]
    if texts:
        say(f"Read from text: {', '.join(texts)}. What cannot be read as declared counts as NULL.", style="dim")
    for name in domain:
        if isinstance(policy.family(name), Threshold | Line) and domain[name].has_hidden_cell:
            say(
                f"{name}: NULL or values outside are hidden among all values, which brings any two within 2 steps, so "
                "that its policy saves little. If that is not meant, say what they count as: null=VALUE, or "
                "null=public.",
                style="yellow",
            )
    if isinstance(unit, Person):
        counting = f"at most {plural(unit.at_most, 'row')} of each {'counts' if unit.at_most == 1 else 'count'}"
        say(f"People: by {unit.id}; {counting}, first by {unit.order_by}.")
    show_joins(dataset)
    if unused:
        say(f"Not used: {', '.join(unused)}")
    share = "" if account.analyst_limit is None else f", {exact(account.analyst_limit)} per analyst"
    spent = "" if not account.spent else f" ({exact(account.spent)} of it spent: this data had an account already)"
    here = Path.cwd()
    near = str(path.relative_to(here) if path.is_relative_to(here) else path)
    config = "" if near == str(USUAL_CONFIG) else f" --config {quote(near)}"
    say(f"Budget: epsilon {exact(account.limit)} in all{share}{spent}.")
    say(f"Written to {near} (policy version {account.policy_version}).")
    say(f"Next: blowfish policy show {quote(dataset.name)}{config}", style="dim", soft_wrap=True)


def show_joins(dataset: Dataset) -> None:
    """Prints the tables that are joined, and whether they are protected or taken to be public."""
    for join in dataset.joins:
        person = "protected with the rows of each person"
        say(f"Joined: {join_words(join)} ({person if is_protected(join, dataset.policy) else 'public'}).")


def show_caps(name: str, seen: CapsSeen, *, as_json: bool) -> None:
    """Prints what several caps count of the rows of a dataset."""
    listed = [
        {"at_most": cap.at_most, "counted": cap.counted, "dropped": seen.dropped(cap), "people_over": cap.people_over}
        for cap in seen.caps
    ]
    if as_json:
        print_json({"name": name, "rows": seen.rows, "nobodys": seen.nobodys, "people": seen.people, "caps": listed})
        return
    say(f"{name}: {plural(seen.rows, 'row')} of {plural(seen.people, 'person', 'people')}, {seen.nobodys:,} of nobody.")
    rows = [tuple(f"{number:,}" for number in one.values()) for one in listed]
    heads = ("at most", "rows that count", "rows that do not", "people with more")
    say(table("", heads, rows, right=heads))
    say("These are true numbers, and that you looked is logged. A cap chosen by them depends on the rows.", style="dim")


def _attribute_row(dataset: Dataset, name: str) -> tuple[str, str]:
    """What the public may know of an attribute, and what is hidden."""
    policy = dataset.policy
    return attribute_words(dataset.domain[name], policy.family(name), policy.presence), hidden_words(name, policy)


def dataset_content(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> dict[str, object]:
    """A dataset with its budgets as JSON."""
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
    say(dataset.name, style="bold")
    say(f"  {dataset.source}", style="dim")
    rows = [(name, *_attribute_row(dataset, name)) for name in dataset.domain]
    say(table("", ("attribute", "the public may know", "hidden"), rows))
    show_joins(dataset)
    show_words(dataset, account)
    say(f"\nBudget: epsilon {budget_line(account.spent, account.limit)}")
    _show_analysts(analysts)


def show_budget(name: str, account: Account, analysts: Sequence[AnalystBudget], *, as_json: bool) -> None:
    """Prints what a dataset and its analysts spent, and may spend."""
    if as_json:
        limits = {"epsilon": exact(account.limit), "per_analyst": exact(account.analyst_limit)}
        spent = {"spent": exact(account.spent), "accounting": account.accounting}
        print_json({"name": name, **limits, **spent, "analysts": analyst_content(analysts)})
        return
    say(f"{name}: epsilon {budget_line(account.spent, account.limit)}")
    if account.accounting != "sum":
        say(f"Counted {account.accounting}: spent is what the worst class of edges lost.")
    _show_analysts(analysts)


def analyst_content(analysts: Sequence[AnalystBudget]) -> list[dict[str, object]]:
    """Spending and limit of each analyst as JSON."""
    return [{"name": one.analyst, "spent": exact(one.spent), "limit": exact(one.limit)} for one in analysts]


def _show_analysts(analysts: Sequence[AnalystBudget]) -> None:
    if analysts:
        rows = [(one.analyst, short(one.spent), short(one.limit), short(one.remaining)) for one in analysts]
        say(table("", ("analyst", "spent", "limit", "left"), rows, right=("spent", "limit", "left")))


def show_words(dataset: Dataset, account: Account) -> None:
    """Prints a policy in words."""
    say(f"Policy (version {account.policy_version}), in words", style="bold")
    say(bullets(explain(dataset.domain, dataset.policy)))


def show_edits(declared: Dataset, in_force: Dataset, account: Account) -> None:
    """Warns of what the configuration says and the ledger does not have in force, with the command that changes it."""
    name = declared.name
    documents = (
        ("policy", declared.policy_document, in_force.policy_document),
        ("domain", declared.domain_document, in_force.domain_document),
    )
    for kind, edited, recorded in documents:
        if edited != recorded:
            say(
                f"The configuration says another {kind}. This one is in force. Nobody is answered until you put the "
                f"other in force (blowfish policy set {name} --document FILE --reason TEXT) or take the edit back.",
                style="yellow",
            )
    limits = (
        ("--epsilon", declared.epsilon, account.limit),
        ("--per-analyst", declared.per_analyst, account.analyst_limit),
    )
    for option, edited_limit, limit in limits:
        if edited_limit is not None and edited_limit != limit:
            say(
                f"The configuration says {exact(edited_limit)}, which only the ledger can change: "
                f"blowfish dataset budget {name} {option} {exact(edited_limit)} --reason TEXT",
                style="yellow",
            )


def ask_columns(
    name: str, columns: Mapping[str, ColumnType]
) -> tuple[dict[str, Attribute], dict[str, Family], Person | None]:
    """Attributes, policies and unit of a table: each column is asked about until the words for it make sense."""
    say(
        f"{name}: {plural(len(columns), 'column')}, no rows read. Nothing is inferred from the data; say what the "
        "public may know anyway.\n"
        "Empty: not used. ?: what can be said. person 5 by KEY: this column tells people apart."
    )
    attributes: dict[str, Attribute] = {}
    families: dict[str, Family] = {}
    unit: Person | None = None
    widest = max(map(len, columns))
    for column, kind in columns.items():
        prompt = f"  {column:<{widest}}  {kind.kind.value:<9}  domain?  "
        answer = _ask(prompt, HINT, partial(_read_domain, column, kind))
        if isinstance(answer, Person):
            unit = answer
        elif answer is not None:
            attributes[column] = answer
            hidden = f"  {'':<{widest}}  {'':<9}  hidden?  [everything]  "
            families[column] = _ask(hidden, POLICY_HINT, partial(_read_family, column, answer, Full()))
    return attributes, {column: family for column, family in families.items() if family != Full()}, unit


def _read_domain(column: str, kind: ColumnType, text: str) -> Attribute | Person | None:
    person = PERSON.fullmatch(text)
    if person:
        return Person(column, int(person["at_most"]), person["order_by"])
    return read_attribute(text, kind.kind) if text else None


def _read_family(name: str, attribute: Attribute, usual: Family, text: str) -> Family:
    family = read_family(text, attribute) if text else usual
    Policy({name: family}).check(Domain(((name, attribute),)))
    return family


def ask_budget() -> tuple[Fraction, Fraction | None]:
    """Asks what the data may lose in all, and what each analyst may spend of it."""
    limit = _ask(
        "  budget: epsilon in all?  [1]  ",
        "a number such as 2 or 0.5: the smaller, the better protected",
        lambda text: short_number(text or "1", "epsilon"),
    )
    share = _ask(
        "  of it, per analyst?  [all]  ",
        "a number such as 0.5; empty: only the budget in all holds",
        lambda text: short_number(text, "per analyst") if text else None,
    )
    return limit, share


def ask_policy(domain: Domain, policy: Policy) -> Policy:
    """Asks what is hidden of each attribute; an empty answer leaves it as it is."""
    say("What is hidden of each attribute? Empty: as it is. ?: what can be said.")
    families = dict(policy.attributes)
    widest = max(map(len, domain))
    for name in domain:
        if policy.grid_of(name) is None:
            old = policy.family(name)
            prompt = f"  {name:<{widest}}  [{family_words(old)}]  "
            families[name] = _ask(prompt, POLICY_HINT, partial(_read_family, name, domain[name], old))
    changed = {name: family for name, family in families.items() if name in policy.attributes or family != Full()}
    return replace(policy, attributes=changed)


def ask_yes(question: str) -> bool:
    """Whether the answer is yes; nothing said is no."""
    return console().input(f"{question} [y/N]  ", markup=False).strip().lower() in ("y", "yes")


def ask_reason() -> str:
    """The reason for a change, for the record."""

    def read(text: str) -> str:
        if not text:
            raise CatalogError("a reason is kept with every change, for whoever reads the ledger")
        return text

    return _ask("  reason, for the record?  ", "a few words, such as: approved in May", read)


def _ask(prompt: str, hint: str, read: Callable[[str], Value]) -> Value:
    """The value of an answer; asks again until it can be read."""
    while True:
        text = console().input(prompt, markup=False).strip()
        if text == "?":
            say(f"    {hint}")
            continue
        try:
            return read(text)
        except BlowfishError as error:
            say(f"    {error}", style="yellow")
