"""The form of what is hidden of one attribute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nicegui import ui

from blowfishdb.model.domain import Attribute, Dates, Timestamps
from blowfishdb.server.curating.family_form import FamilyForm, kinds_for
from blowfishdb.server.pages.controls import Tile, tiles

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
                ui.label(TIPS[self.said.kind]).classes("bf-small bf-quiet")
                return
            is_long = self.said.kind in ("blocks", "custom")
            make = ui.textarea if is_long else ui.input
            box = make(labels[self.said.kind], value=self.said.text, on_change=lambda event: self._type(event.value))
            box.props(f'outlined dense debounce=250 {"autogrow" if is_long else ""} data-testid="family"').classes(
                "w-full"
            )
