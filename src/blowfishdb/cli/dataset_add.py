"""From a curator's options to a declared dataset; in a terminal each column is asked about."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import TypeVar

from blowfishdb.catalog import Curator, Dataset
from blowfishdb.catalog.dataset import (
    HINT,
    POLICY_HINT,
    attribute_words,
    family_words,
    named,
    read_attribute,
    read_family,
)
from blowfishdb.cli.options import USUAL_CONFIG
from blowfishdb.cli.output import LOG, console, exact, print_json, table
from blowfishdb.engine.target import short_number
from blowfishdb.errors import BlowfishError, CatalogError, DocumentError, SourceFailed
from blowfishdb.ledger.values import Account
from blowfishdb.model.document import Document, read_document
from blowfishdb.model.domain import Attribute, Categorical, Domain
from blowfishdb.model.families import Family, Full, Line, Threshold
from blowfishdb.model.numbers import show, suggest
from blowfishdb.model.policy import ROW, Person, Policy, Row
from blowfishdb.sources.base import ColumnType, Kind

PERSON = re.compile(r"person\s+(?P<at_most>\d+)\s+by\s+(?P<order_by>\S+)")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Answers:
    """What was said about the columns of a table."""

    attributes: dict[str, Attribute]
    families: dict[str, Family]
    unit: Person | None


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def ask_columns(name: str, columns: Mapping[str, ColumnType]) -> Answers:
    """Asks about each column until its words make sense; an empty answer leaves it out."""
    console().print(
        f"{name}: {len(columns)} columns, no rows read. Nothing is inferred from the data; say what the public "
        "may know anyway.\nEmpty: not used. ?: what can be said. person 5 by KEY: this column tells people apart.",
        markup=False,
    )
    attributes: dict[str, Attribute] = {}
    families: dict[str, Family] = {}
    unit: Person | None = None
    widest = max(map(len, columns))
    for column, kind in columns.items():
        found = _ask(f"  {column:<{widest}}  {kind.kind.value:<9}  domain?  ", HINT, _domain_reader(column, kind))
        if isinstance(found, Person):
            unit = found
        elif found is not None:
            attributes[column] = found
            hidden = f"  {'':<{widest}}  {'':<9}  hidden?  [everything]  "
            families[column] = _ask(hidden, POLICY_HINT, _family_reader(column, found, Full()))
    return Answers(attributes, {column: family for column, family in families.items() if family != Full()}, unit)


def _domain_reader(column: str, kind: ColumnType) -> Callable[[str], Attribute | Person | None]:
    def read(said: str) -> Attribute | Person | None:
        person = PERSON.fullmatch(said)
        if person:
            return Person(column, int(person["at_most"]), person["order_by"])
        return read_attribute(said, kind.kind) if said else None

    return read


def _family_reader(name: str, attribute: Attribute, usual: Family) -> Callable[[str], Family]:
    def read(said: str) -> Family:
        family = read_family(said, attribute) if said else usual
        Policy({name: family}).check(Domain(((name, attribute),)))
        return family

    return read


def ask_budget() -> tuple[Fraction, Fraction | None]:
    """Asks what the data may lose in all, and what each analyst may spend of it."""
    limit = _ask(
        "  budget: epsilon in all?  [1]  ",
        "a number such as 2 or 0.5: the smaller, the better protected",
        lambda said: short_number(said or "1", "epsilon"),
    )
    own = _ask(
        "  of it, per analyst?  [all]  ",
        "a number such as 0.5; empty: only the budget in all holds",
        lambda said: short_number(said, "per analyst") if said else None,
    )
    return limit, own


def ask_policy(domain: Domain, policy: Policy) -> Policy:
    """Asks what is hidden of each attribute; an empty answer leaves it as it is."""
    console().print("What is hidden of each attribute? Empty: as it is. ?: what can be said.")
    families = dict(policy.attributes)
    widest = max(map(len, domain))
    for name in domain:
        if policy.grid_of(name) is None:
            old = policy.family(name)
            families[name] = _ask(
                f"  {name:<{widest}}  [{family_words(old)}]  ", POLICY_HINT, _family_reader(name, domain[name], old)
            )
    kept = {name: family for name, family in families.items() if name in policy.attributes or family != Full()}
    return replace(policy, attributes=kept)


def ask_yes(question: str) -> bool:
    """Whether the answer is yes; nothing said is no."""
    return console().input(f"{question} [y/N]  ", markup=False).strip().lower() in ("y", "yes")


def ask_reason() -> str:
    """Why something is done, for the record."""

    def read(said: str) -> str:
        if not said:
            raise CatalogError("a reason is kept with every change, for whoever reads the ledger")
        return said

    return _ask("  reason, for the record?  ", "a few words, such as: approved in May", read)


def _ask(prompt: str, hint: str, read: Callable[[str], Found]) -> Found:
    """What is made of the answer; asks again until something can be made of it."""
    screen = console()
    while True:
        said = screen.input(prompt, markup=False).strip()
        if said == "?":
            screen.print(f"    {hint}", markup=False)
            continue
        try:
            return read(said)
        except BlowfishError as error:
            screen.print(f"    {error}", style="yellow", markup=False)


USUAL_LIMIT = "1"
SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
"""Schemes whose columns come from a catalogue, so that a failure to get them cannot quote a row."""


@dataclass(frozen=True)
class Wish:
    """What the options of `dataset add` say."""

    name: str
    source: str
    domain: list[str]
    policy: list[str]
    document: Path | None
    person: str | None
    at_most: int | None
    order_by: str | None
    epsilon: str | None
    per_analyst: str | None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is said about the columns, so that data which is known stays as it was declared."""
        return not (self.domain or self.policy or self.document or self.person or self.at_most or self.order_by)


def look_up(curator: Curator, source: str, *, as_json: bool) -> Mapping[str, ColumnType]:
    """The columns at an address. What a server says that cannot be asked for them is shown: it has read no row."""
    try:
        return curator.columns(source)
    except SourceFailed:
        if not as_json and source.partition(":")[0] in SERVERS:
            console(error=True).print(f"The database says: {LOG.last}", markup=False)
        raise


def declare(wish: Wish, columns: Mapping[str, ColumnType], known: Account | None, *, ask: bool) -> Dataset:
    """The dataset that the options, or the answers in the terminal, declare; `known` is the account the data has."""
    unit = _unit(wish)
    if known is not None:
        wish = _adopted(wish, known)
    if wish.document is not None:
        if wish.domain or wish.policy:
            raise CatalogError("say it in the document or with --domain and --policy, not both")
        document = read_file(wish.document)
        policy = document.policy
        if unit is not None:
            policy = replace(policy, unit=unit)
        return _dataset(wish, document.domain, policy)
    attributes = declared_columns(named(wish.domain, "--domain"), columns)
    families = {name: read_family(said, attributes.get(name)) for name, said in named(wish.policy, "--policy").items()}
    if ask:
        said = ask_columns(wish.name, columns)
        attributes, families, unit = said.attributes, {**said.families, **families}, unit or said.unit
    if not attributes:
        first = next(iter(columns), "age")
        raise CatalogError(f"no column has a domain: add --domain '{first}=...' or --document FILE; {HINT}")
    if ask and wish.epsilon is None and wish.per_analyst is None:
        limit, own = ask_budget()
        wish = replace(wish, epsilon=show(limit), per_analyst=None if own is None else show(own))
    return _dataset(wish, Domain(tuple(attributes.items())), Policy(families, unit=unit or ROW))


def limited(dataset: Dataset, wish: Wish) -> Dataset:
    """A known dataset with the budgets that the options name; the ledger refuses other ones than it has."""
    limit = dataset.epsilon if wish.epsilon is None else short_number(wish.epsilon, "epsilon")
    own = dataset.per_analyst if wish.per_analyst is None else short_number(wish.per_analyst, "per analyst")
    return dataset.limited_to(limit, own)


def _adopted(wish: Wish, known: Account) -> Wish:
    """The wish with the limits that the data has already, where it names none."""
    own = known.analyst_limit
    return replace(
        wish,
        epsilon=show(known.limit) if wish.epsilon is None else wish.epsilon,
        per_analyst=show(own) if wish.per_analyst is None and own is not None else wish.per_analyst,
    )


def read_file(path: Path) -> Document:
    """The document in a file; its name says whether it is JSON or TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DocumentError(f"the file {path.name} cannot be read") from None
    return read_document(text, "json" if path.suffix == ".json" else "toml")


def declared_columns(words: Mapping[str, str], columns: Mapping[str, ColumnType]) -> dict[str, Attribute]:
    """What is said of each column; CatalogError for one that the data does not have."""
    for name in words:
        if name not in columns:
            raise CatalogError(f"the data has no column {name!r}; {suggest(name, columns)}")
    return {name: _attribute(name, said, columns[name]) for name, said in words.items()}


def _attribute(name: str, words: str, column: ColumnType) -> Attribute:
    try:
        return read_attribute(words, column.kind)
    except BlowfishError as error:
        raise CatalogError(f"{name}: {error}") from None


def _dataset(wish: Wish, domain: Domain, policy: Policy) -> Dataset:
    return Dataset(
        wish.name,
        source=wish.source,
        domain=domain,
        policy=policy,
        epsilon=USUAL_LIMIT if wish.epsilon is None else wish.epsilon,
        per_analyst=wish.per_analyst,
    )


def _unit(wish: Wish) -> Row | Person | None:
    if wish.person is None:
        if wish.at_most is not None or wish.order_by is not None:
            raise CatalogError("--at-most and --order-by go with --person")
        return None
    if wish.at_most is None or wish.order_by is None:
        raise CatalogError("a person needs --at-most (how many rows count) and --order-by (a row key that orders them)")
    return Person(wish.person, wish.at_most, wish.order_by)


def show_added(
    dataset: Dataset, account: Account, columns: Mapping[str, ColumnType], path: Path, *, as_json: bool
) -> None:
    """What was written where."""
    unit = dataset.policy.unit
    keys = (unit.id, unit.order_by) if isinstance(unit, Person) else ()
    unused = [name for name in columns if name not in dataset.domain and name not in keys]
    if as_json:
        print_json(
            {
                "name": dataset.name,
                "account": account.id,
                "config": str(path),
                "attributes": list(dataset.domain),
                "unused": unused,
                "epsilon": exact(account.limit),
                "spent": exact(account.spent),
                "per_analyst": exact(account.analyst_limit),
                "policy_version": account.policy_version,
            }
        )
        return
    screen = console()
    screen.print(f"{dataset.name}: {len(columns)} columns, no rows read.", markup=False)
    rows = [
        (
            name,
            columns[name].kind.value,
            attribute_words(dataset.domain[name], dataset.policy.family(name)),
            _hidden(dataset.policy, name),
        )
        for name in dataset.domain
    ]
    screen.print(table("", ("attribute", "column", "the public may know", "hidden"), rows))
    texts = [name for name in dataset.domain if is_read_from_text(dataset.domain[name], columns[name])]
    if texts:
        screen.print(
            f"Read from text: {', '.join(texts)}. What cannot be read as declared counts as NULL.",
            style="dim",
            markup=False,
        )
    for name in thwarted(dataset):
        screen.print(
            f"{name}: NULL or values outside are hidden among all values, which brings any two within 2 steps, so that "
            "its policy saves little. If that is not meant, say what they count as: null=VALUE, or null=public.",
            style="yellow",
            markup=False,
        )
    if isinstance(unit, Person):
        screen.print(
            f"People: by {unit.id}; at most {unit.at_most} of each one's rows count, first by {unit.order_by}.",
            markup=False,
        )
    if unused:
        screen.print(f"Not used: {', '.join(unused)}", markup=False)
    own = "" if account.analyst_limit is None else f", {exact(account.analyst_limit)} per analyst"
    spent = "" if not account.spent else f" ({exact(account.spent)} of it spent: this data had an account already)"
    screen.print(f"Budget: epsilon {exact(account.limit)} in all{own}{spent}.", markup=False)
    screen.print(f"Written to {near(path)} (policy version {account.policy_version}).", markup=False)
    chosen = "" if path.name == str(USUAL_CONFIG) and near(path) == path.name else f" --config {quote(near(path))}"
    screen.print(f"Next: blowfish policy show {quote(dataset.name)}{chosen}", style="dim", markup=False, soft_wrap=True)


def near(path: Path) -> str:
    """A path as it is typed from here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def is_read_from_text(attribute: Attribute, column: ColumnType) -> bool:
    """Whether numbers or dates are read from a column of text."""
    return column.kind == Kind.TEXT and not isinstance(attribute, Categorical)


def thwarted(dataset: Dataset) -> list[str]:
    """Attributes with a threshold whose hidden cells of their own undo most of it."""
    return [
        name
        for name in dataset.domain
        if isinstance(dataset.policy.family(name), Threshold | Line)
        and any(not slot.public for slot in dataset.domain[name].slots)
    ]


def _hidden(policy: Policy, name: str) -> str:
    return "jointly with others" if policy.grid_of(name) is not None else family_words(policy.family(name))
