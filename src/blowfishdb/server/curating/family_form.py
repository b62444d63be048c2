"""What is hidden of one attribute as a form holds it, read into a family, and back."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.catalog.graph_files import read_value
from blowfishdb.errors import PolicyError
from blowfishdb.model.domain import Attribute
from blowfishdb.model.graphs.families import (
    Custom,
    Family,
    Full,
    Line,
    Partition,
    Public,
    Threshold,
    custom,
    full,
    line,
    partition,
    public,
    show_theta,
    threshold,
)

LONGEST = 200_000


@dataclass(frozen=True)
class FamilyForm:
    """The kind of family and what was typed for it: theta, cut points, or blocks or pairs line by line."""

    kind: str = "full"
    text: str = ""


def kinds_for(attribute: Attribute) -> dict[str, str]:
    """The families that fit an attribute, with words for each."""
    found = {"full": "Everything secret"}
    if attribute.ordered:
        found |= {"threshold": "Within a distance", "line": "Neighbours only", "cuts": "Cut into blocks"}
    if not attribute.ordered or attribute.size <= 200:
        found["blocks"] = "Groups of values"
    return found | {"custom": "Listed pairs", "public": "Public"}


def read_form(said: FamilyForm, attribute: Attribute) -> Family:
    """The family that the form declares; PolicyError says what is missing."""
    text = said.text.strip()
    if len(text) > LONGEST:
        raise PolicyError(f"this is longer than {LONGEST:,} characters; declare it in a file and add it there")
    if said.kind in ("full", "line", "public"):
        simple: dict[str, Family] = {"full": full(), "line": line(), "public": public()}
        return simple[said.kind]
    if not text:
        missing = {
            "threshold": "say up to which distance values are hidden from each other",
            "cuts": "say where new blocks begin, such as 18, 65",
            "blocks": "write one group of values per line",
            "custom": "write one pair of values per line, such as A1, A2",
        }
        raise PolicyError(missing.get(said.kind, "say what is hidden"))
    if said.kind == "threshold":
        return threshold(text)
    if said.kind == "cuts":
        return partition(cuts=_items(text))
    lines = [[read_value(item, attribute) for item in _items(row)] for row in text.splitlines() if row.strip()]
    return partition(lines) if said.kind == "blocks" else custom(lines)


def form_of(family: Family) -> FamilyForm:
    """The form that declares a family."""
    match family:
        case Full():
            return FamilyForm("full")
        case Public():
            return FamilyForm("public")
        case Line():
            return FamilyForm("line")
        case Threshold(theta):
            return FamilyForm("threshold", show_theta(theta))
        case Partition(blocks, ()):
            return FamilyForm("blocks", "\n".join(", ".join(map(str, block)) for block in blocks))
        case Partition(_, cuts):
            return FamilyForm("cuts", ", ".join(map(str, cuts)))
        case Custom(edges):
            return FamilyForm("custom", "\n".join(f"{one}, {two}" for one, two in edges))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
