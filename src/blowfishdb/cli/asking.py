"""Questions to a curator in the terminal: each column's domain, what is hidden of it, and the budget."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from blowfishdb.catalog.declaring import HINT, POLICY_HINT, family_words, read_attribute, read_family
from blowfishdb.cli.output import console
from blowfishdb.engine.demand import short_number
from blowfishdb.errors import BlowfishError, CatalogError
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.graphs.families import Family, Full
from blowfishdb.model.policy import Person, Policy
from blowfishdb.sources.base import ColumnType

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
