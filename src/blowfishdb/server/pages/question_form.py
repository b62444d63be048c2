"""The controls of a question: template, attributes and how finely, ranges and filters. They ask nothing themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nicegui import ui

from blowfishdb.model.domain import Categorical, Domain
from blowfishdb.server.pages.asking import PAIR, TEMPLATES, Asking, Chosen, Filtered, Template
from blowfishdb.server.pages.controls import Tile, tiles
from blowfishdb.server.pages.filter_form import FilterForm
from blowfishdb.server.pages.shell import icon_button
from blowfishdb.server.pages.steps import steps_of, usual_step

TILES: tuple[Tile, ...] = (
    Tile("histogram", "Histogram", "bar_chart", "One count for each value or bin"),
    Tile("cdf", "Cumulative", "stacked_line_chart", "How many records up to each value"),
    Tile("heat", "Heat map", "grid_on", "Counts of two attributes together"),
    Tile("ranges", "Ranges", "straighten", "Counts of ranges that you list, or of all of them"),
    Tile("marginals", "Marginals", "view_module", "The tables of all pairs of several attributes"),
    Tile("sql", "SQL", "code", "A statement in SQL"),
)
ORDERED: tuple[Template, ...] = ("cdf", "ranges")
MOST_ATTRIBUTES = 4


class QuestionForm:
    """Controls over one domain. `on_change` hears of every change; `asking` is what they say now."""

    def __init__(
        self, dataset: str, domain: Domain, on_change: Callable[[], object], offered: Sequence[Tile] = TILES
    ) -> None:
        first = self._usable(domain, "histogram")[0]
        self.asking = Asking(dataset, "histogram", (Chosen(first, usual_step(domain[first])),))
        self.sql = f"SELECT {first}, COUNT(*)\nFROM {dataset}\nGROUP BY {first}"
        self._domain, self._on_change = domain, on_change
        self._tips = {tile.value: tile.tip for tile in offered}
        tiles(offered, "histogram", self._choose_template, "What to ask")
        self._said = ui.label(offered[0].tip).classes("bf-quiet bf-small").style("margin-top:8px")
        self._box = ui.element("div")
        self._build()

    @staticmethod
    def _usable(domain: Domain, template: Template) -> list[str]:
        return [name for name in domain if template not in ORDERED or domain[name].ordered]

    def _change(self, asking: Asking) -> None:
        self.asking = asking
        self._on_change()

    def _choose_template(self, chosen: str) -> None:
        known = next(template for template in TEMPLATES if template == chosen)
        usable = self._usable(self._domain, known)
        kept = [one for one in self.asking.chosen if one.attribute in usable]
        needed = PAIR if known in ("heat", "marginals") else 1
        for name in usable:
            if len(kept) < needed and name not in [one.attribute for one in kept]:
                kept.append(Chosen(name, usual_step(self._domain[name])))
        most = MOST_ATTRIBUTES if known == "marginals" else needed
        self.asking = replace(self.asking, template=known, chosen=tuple(kept[:most]))
        self._said.text = self._tips[known]
        self._build()
        self._on_change()

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            if self.asking.template == "sql":
                self._statement()
                return
            usable = self._usable(self._domain, self.asking.template)
            if not usable or (self.asking.template in ("heat", "marginals") and len(usable) < PAIR):
                ui.label("This dataset has no attribute for that.").classes("bf-quiet bf-small").style(
                    "margin-top:14px"
                )
                return
            for place in range(len(self.asking.chosen)):
                self._attribute(place, usable)
            if self.asking.template == "marginals" and len(self.asking.chosen) < min(MOST_ATTRIBUTES, len(usable)):
                ui.button("Another attribute", icon="add", on_click=self._add).props("flat dense").style(
                    "margin-top:4px"
                )
            if self.asking.template == "ranges":
                self._ranges()
            FilterForm(self._domain, self.asking.filters, self._filter)

    def _attribute(self, place: int, usable: list[str]) -> None:
        chosen = self.asking.chosen[place]
        label = self._label(place)
        can_drop = self.asking.template == "marginals" and len(self.asking.chosen) > PAIR
        with (
            ui.element("div")
            .classes(f"bf-pair bf-attribute {'has-third' if can_drop else ''}")
            .style("margin-top:14px")
        ):
            select = ui.select(usable, value=chosen.attribute, label=label)
            select.props("outlined dense options-dense").on_value_change(
                lambda e: self._choose_attribute(place, e.value)
            )
            steps = steps_of(self._domain[chosen.attribute])
            step = ui.select(steps, value=chosen.step, label="How finely").props("outlined dense options-dense")
            step.on_value_change(lambda e: self._choose_step(place, e.value))
            if len(steps) == 1:
                step.props("readonly hide-dropdown-icon")
            if can_drop:
                icon_button("close", f"Leave out {chosen.attribute}", lambda: self._drop(place))

    def _label(self, place: int) -> str:
        if self.asking.template == "heat":
            return ("Down", "Across")[place]
        return "Attribute" if len(self.asking.chosen) == 1 else f"Attribute {place + 1}"

    def _choose_attribute(self, place: int, name: str) -> None:
        """Puts the attribute there; where another place has it, the two change places."""
        listed = list(self.asking.chosen)
        other = next((n for n, one in enumerate(listed) if one.attribute == name), None)
        if other is None:
            listed[place] = Chosen(name, usual_step(self._domain[name]))
        else:
            listed[place], listed[other] = listed[other], listed[place]
        self.asking = replace(self.asking, chosen=tuple(listed))
        self._build()
        self._on_change()

    def _choose_step(self, place: int, step: str) -> None:
        listed = list(self.asking.chosen)
        listed[place] = replace(listed[place], step=step)
        self._change(replace(self.asking, chosen=tuple(listed)))

    def _add(self) -> None:
        taken = {one.attribute for one in self.asking.chosen}
        name = next(name for name in self._domain if name not in taken)
        self.asking = replace(self.asking, chosen=(*self.asking.chosen, Chosen(name, usual_step(self._domain[name]))))
        self._build()
        self._on_change()

    def _drop(self, place: int) -> None:
        kept = tuple(one for n, one in enumerate(self.asking.chosen) if n != place)
        self.asking = replace(self.asking, chosen=kept)
        self._build()
        self._on_change()

    def _ranges(self) -> None:
        attribute = self._domain[self.asking.chosen[0].attribute]
        hint = "One range on each line, such as 10 to 20 (20 itself is not in it). Empty: all ranges at once."
        area = ui.textarea("Ranges", value=self.asking.spans).props("outlined dense autogrow")
        area.classes("w-full").style("margin-top:14px").props(f'hint="{hint}" debounce=250')
        area.on_value_change(lambda e: self._change(replace(self.asking, spans=e.value or "")))
        if isinstance(attribute, Categorical):
            area.props("readonly")

    def _filter(self, filters: tuple[Filtered, ...]) -> None:
        self._change(replace(self.asking, filters=filters))

    def _statement(self) -> None:
        area = ui.textarea("Statement", value=self.sql).props("outlined autogrow debounce=300 spellcheck=false")
        area.classes("w-full").style("margin-top:14px").props('input-class="bf-mono"')
        said = "SELECT, one of COUNT(*), SUM, AVG, MEDIAN, CDF, QUANTILES, WHERE and GROUP BY; bin(x, 10) makes bins."
        ui.label(said).classes("bf-quiet bf-small").style("margin-top:6px")

        def write(text: str | None) -> None:
            self.sql = text or ""
            self._on_change()

        area.on_value_change(lambda e: write(e.value))
