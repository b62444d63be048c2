"""The filters of a question: conditions that hold together, each on one attribute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nicegui import ui

from blowfishdb.model.domain import Categorical, Domain
from blowfishdb.server.pages.asking import Condition, Filtered
from blowfishdb.server.pages.shell import icon_button
from blowfishdb.server.pages.steps import is_calendar

WORDS: dict[Condition, str] = {"among": "is one of", "not among": "is none of"}
MOST_LISTED = 2_000
MOST_FILTERS = 8


class FilterForm:
    """Rows of conditions; `on_change` gets all of them after every change."""

    def __init__(
        self, domain: Domain, filters: tuple[Filtered, ...], on_change: Callable[[tuple[Filtered, ...]], object]
    ) -> None:
        self._domain, self._filters, self._on_change = domain, list(filters), on_change
        with ui.element("div").classes("bf-spread").style("margin-top:12px"):
            ui.label("Filter").classes("bf-label").style("margin:0")
            self._button = ui.button("Add", icon="filter_alt", on_click=self._add).props("flat dense size=sm")
        self._box = ui.element("div").classes("bf-stack")
        self._build()

    def _build(self) -> None:
        self._box.clear()
        self._button.set_enabled(len(self._filters) < MOST_FILTERS)
        with self._box:
            if not self._filters:
                ui.label("All records.").classes("bf-quiet bf-small")
            for place in range(len(self._filters)):
                self._row(place)

    def _row(self, place: int) -> None:
        one = self._filters[place]
        attribute = self._domain[one.attribute]
        with ui.element("div").style("display:grid;grid-template-columns:minmax(0,1fr) auto;gap:6px;align-items:start"):
            with ui.element("div").classes("bf-stack").style("gap:6px"):
                with ui.element("div").classes("bf-pair"):
                    name = ui.select(list(self._domain), value=one.attribute).props("outlined dense options-dense")
                    name.props('aria-label="Attribute of the filter"')
                    name.on_value_change(lambda e: self._put(place, blank(self._domain, e.value), rebuild=True))
                    if isinstance(attribute, Categorical):
                        how = ui.select(dict(WORDS), value=one.condition).props("outlined dense options-dense")
                        how.props('aria-label="Condition"')
                        how.on_value_change(
                            lambda e: self._put(place, replace(self._filters[place], condition=e.value))
                        )
                    else:
                        ui.label("from … to, both included").classes("bf-quiet bf-small").style("align-self:center")
                if isinstance(attribute, Categorical):
                    self._values(place, attribute)
                else:
                    self._ends(place, calendar=is_calendar(attribute))
            icon_button("close", f"Remove the filter on {one.attribute}", lambda: self._drop(place))

    def _values(self, place: int, attribute: Categorical) -> None:
        listed = [str(value) for value in attribute.values[:MOST_LISTED]]
        values = ui.select(listed, value=list(self._filters[place].values), multiple=True, label="Values")
        values.props("outlined dense options-dense use-chips").classes("w-full")
        values.on_value_change(lambda e: self._put(place, replace(self._filters[place], values=tuple(e.value or ()))))

    def _ends(self, place: int, *, calendar: bool) -> None:
        example = "2025-01-31" if calendar else ""
        with ui.element("div").classes("bf-pair"):
            low = ui.input("From", value=self._filters[place].low, placeholder=example)
            high = ui.input("To", value=self._filters[place].high, placeholder=example)
            for end in (low, high):
                end.props("outlined dense debounce=250")
            low.on_value_change(lambda e: self._put(place, replace(self._filters[place], low=e.value or "")))
            high.on_value_change(lambda e: self._put(place, replace(self._filters[place], high=e.value or "")))

    def _put(self, place: int, one: Filtered, *, rebuild: bool = False) -> None:
        self._filters[place] = one
        if rebuild:
            self._build()
        self._on_change(tuple(self._filters))

    def _add(self) -> None:
        self._filters.append(blank(self._domain, next(iter(self._domain))))
        self._build()

    def _drop(self, place: int) -> None:
        del self._filters[place]
        self._build()
        self._on_change(tuple(self._filters))


def blank(domain: Domain, name: str) -> Filtered:
    """A condition on the attribute that says nothing yet."""
    return Filtered(name, "among" if isinstance(domain[name], Categorical) else "between")
