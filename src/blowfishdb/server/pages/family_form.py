"""What is hidden of one attribute as a form holds it, read into a family, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nicegui import ui

from blowfishdb.catalog.dataset import read_value
from blowfishdb.errors import PolicyError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.domain import Attribute
from blowfishdb.model.families import (
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
from blowfishdb.server.pages.controls import Tile, small, tiles

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


ICONS = {
    "full": "lock",
    "threshold": "swap_horiz",
    "line": "linear_scale",
    "cuts": "content_cut",
    "blocks": "workspaces",
    "custom": "hub",
    "public": "public",
}
TIPS = {
    "full": "Any two values are hidden from each other: differential privacy.",
    "threshold": "Values at most so far apart are hidden from each other.",
    "line": "Each value is hidden from the next one only.",
    "cuts": "Values within a block are hidden from each other; which block is not.",
    "blocks": "Values of one group are hidden from each other; which group is not.",
    "custom": "Exactly the pairs you list are hidden from each other.",
    "public": "Nothing about this attribute is hidden.",
}


@dataclass(eq=False)
class FamilyEditor:
    """The form; `on_change` hears of every change."""

    attribute: Attribute
    said: FamilyForm
    on_change: Callable[[FamilyForm], None]

    def build(self) -> None:
        """Draws tiles for the kinds, and the field of the chosen one below them."""
        options = [Tile(kind, words, ICONS[kind], TIPS[kind]) for kind, words in kinds_for(self.attribute).items()]
        tiles(options, self.said.kind, self._choose, "What is hidden")
        self._field = ui.element("div").style("margin-top:12px;min-height:58px")
        self._draw()

    def _choose(self, kind: str) -> None:
        self.said = FamilyForm(kind, self._usual(kind))
        self._draw()
        self.on_change(self.said)

    def _usual(self, kind: str) -> str:
        """A start that is valid, from the declared domain alone."""
        if kind == "threshold":
            by = self.attribute.by if isinstance(self.attribute, Dates | Timestamps) else ""
            return f"7 {by}s" if by else "5"
        middle = self.attribute.size // 2
        if kind == "cuts":
            return self.attribute.run_label(middle, middle).split("–")[0].strip()
        labels = [self.attribute.run_label(place, place) for place in range(min(self.attribute.size, 200))]
        if kind == "blocks":
            return f"{', '.join(labels[: len(labels) // 2])}\n{', '.join(labels[len(labels) // 2 :])}"
        return f"{labels[0]}, {labels[1]}" if kind == "custom" and len(labels) > 1 else ""

    def _type(self, text: object) -> None:
        self.said = replace(self.said, text=str(text or ""))
        self.on_change(self.said)

    def _draw(self) -> None:
        self._field.clear()
        labels = {
            "threshold": "Hidden up to this distance",
            "cuts": "New blocks begin at",
            "blocks": "One group of values per line",
            "custom": "One pair of values per line",
        }
        with self._field:
            if self.said.kind not in labels:
                small(TIPS[self.said.kind])
                return
            is_long = self.said.kind in ("blocks", "custom")
            make = ui.textarea if is_long else ui.input
            box = make(labels[self.said.kind], value=self.said.text, on_change=lambda event: self._type(event.value))
            box.props(f'outlined dense debounce=250 {"autogrow" if is_long else ""} data-testid="family"').classes(
                "w-full"
            )
