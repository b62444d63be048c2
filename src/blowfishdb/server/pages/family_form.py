"""What is hidden of one attribute as a form holds it, read into a family, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nicegui import ui

from blowfishdb.catalog.dataset import read_value
from blowfishdb.errors import PolicyError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.domain import Attribute
from blowfishdb.model.policy import (
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
MOST_GROUPED = 200
"""Values that are listed in groups, at most, where they have an order."""
SIMPLE: dict[str, Callable[[], Family]] = {"full": full, "line": line, "public": public}


@dataclass(frozen=True)
class FamilyForm:
    """The kind of family and what was typed for it: theta, cut points, or blocks or pairs line by line."""

    kind: str = "full"
    text: str = ""


@dataclass(frozen=True)
class FamilyKind:
    """A kind of family for people: its name, picture and meaning; and the field it needs, if any."""

    label: str
    icon: str
    tip: str
    field: str = ""
    missing: str = ""


KINDS = {
    "full": FamilyKind("Everything secret", "lock", "Any two values are hidden from each other: differential privacy."),
    "threshold": FamilyKind(
        "Within a distance",
        "swap_horiz",
        "Values at most so far apart are hidden from each other.",
        "Hidden up to this distance",
        "say up to which distance values are hidden from each other",
    ),
    "line": FamilyKind("Neighbours only", "linear_scale", "Each value is hidden from the next one only."),
    "cuts": FamilyKind(
        "Cut into blocks",
        "content_cut",
        "Values within a block are hidden from each other; which block is not.",
        "New blocks begin at",
        "say where new blocks begin, such as 18, 65",
    ),
    "blocks": FamilyKind(
        "Groups of values",
        "workspaces",
        "Values of one group are hidden from each other; which group is not.",
        "One group of values per line",
        "write one group of values per line",
    ),
    "custom": FamilyKind(
        "Listed pairs",
        "hub",
        "Exactly the pairs you list are hidden from each other.",
        "One pair of values per line",
        "write one pair of values per line, such as A1, A2",
    ),
    "public": FamilyKind("Public", "public", "Nothing about this attribute is hidden."),
}


def kinds_for(attribute: Attribute) -> dict[str, FamilyKind]:
    """The families that fit an attribute."""
    unfit = set() if attribute.ordered else {"threshold", "line", "cuts"}
    if attribute.ordered and attribute.size > MOST_GROUPED:
        unfit.add("blocks")
    return {name: kind for name, kind in KINDS.items() if name not in unfit}


def read_form(form: FamilyForm, attribute: Attribute) -> Family:
    """The family that the form declares; PolicyError says what is missing."""
    text = form.text.strip()
    if len(text) > LONGEST:
        raise PolicyError(f"this is longer than {LONGEST:,} characters; declare it in a file and add it there")
    if form.kind in SIMPLE:
        return SIMPLE[form.kind]()
    if not text:
        raise PolicyError(KINDS[form.kind].missing)
    if form.kind == "threshold":
        return threshold(text)
    if form.kind == "cuts":
        return partition(cuts=_items(text))
    lines = [[read_value(item, attribute) for item in _items(row)] for row in text.splitlines() if row.strip()]
    return partition(lines) if form.kind == "blocks" else custom(lines)


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


@dataclass(eq=False)
class FamilyEditor:
    """The form; `on_change` hears of every change."""

    attribute: Attribute
    form: FamilyForm
    on_change: Callable[[FamilyForm], None]

    def build(self) -> None:
        """Draws tiles for the kinds, and the field of the chosen one below them."""
        kinds = kinds_for(self.attribute)
        options = [Tile(name, kind.label, kind.icon, kind.tip) for name, kind in kinds.items()]
        tiles(options, self.form.kind, self._choose, "What is hidden")
        self._field = ui.element("div").style("margin-top:12px;min-height:58px")
        self._draw()

    def _choose(self, kind: str) -> None:
        self.form = FamilyForm(kind, self._usual(kind))
        self._draw()
        self.on_change(self.form)

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
        self.form = replace(self.form, text=str(text or ""))
        self.on_change(self.form)

    def _draw(self) -> None:
        self._field.clear()
        kind, is_long = KINDS[self.form.kind], self.form.kind in ("blocks", "custom")
        with self._field:
            if not kind.field:
                small(kind.tip)
                return
            make = ui.textarea if is_long else ui.input
            box = make(kind.field, value=self.form.text, on_change=lambda event: self._type(event.value))
            box.props(f'outlined dense debounce=250 {"autogrow" if is_long else ""} data-testid="family"')
            box.classes("w-full")
