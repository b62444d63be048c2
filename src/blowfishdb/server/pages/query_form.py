"""The controls of a query: template, attributes, groups, filters and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from nicegui import ui

from blowfishdb.engine.request import read_settings
from blowfishdb.errors import ParameterError
from blowfishdb.mechanisms.parameters import check_settings
from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS, PARAMETERS
from blowfishdb.model.domain import Attribute, Categorical, Domain
from blowfishdb.model.predicate import name_text
from blowfishdb.present.words import shortened
from blowfishdb.server.pages.controls import Tile, choice, icon_button, redraw, small, spread, tiles
from blowfishdb.server.pages.layout import PageContext
from blowfishdb.server.pages.query_draft import (
    CONFIDENCES,
    FORMS,
    FUNCTIONS,
    MOST_FILTERS,
    WORDS,
    AccuracyDraft,
    AxisDraft,
    FilterChoice,
    QueryDraft,
    QuestionDraft,
    Template,
    is_calendar,
    is_numeric,
    listed_values,
    statement_of,
    steps_of,
    usable_attributes,
    usual_axis,
    with_sides,
    with_template,
)


class FilterForm:
    """Rows of conditions; `on_change` gets all of them after every change."""

    def __init__(
        self, domain: Domain, filters: tuple[FilterChoice, ...], on_change: Callable[[tuple[FilterChoice, ...]], object]
    ) -> None:
        self._domain, self._filters, self._on_change = domain, list(filters), on_change
        with spread().style("margin-top:12px"):
            ui.label("Filter").classes("bf-label").style("margin:0")
            self._button = ui.button("Add", icon="filter_alt", on_click=self._add).props("flat dense size=sm")
        self._box = ui.element("div").classes("bf-stack")
        self._build()

    def _build(self) -> None:
        self._box.clear()
        self._button.set_enabled(len(self._filters) < MOST_FILTERS)
        with self._box:
            if not self._filters:
                small("All records.")
            for place in range(len(self._filters)):
                self._row(place)

    def _row(self, place: int) -> None:
        condition = self._filters[place]
        attribute = self._domain[condition.attribute]
        with ui.element("div").style("display:grid;grid-template-columns:minmax(0,1fr) auto;gap:6px;align-items:start"):
            with ui.element("div").classes("bf-stack").style("gap:6px"):
                with ui.element("div").classes("bf-pair"):
                    name = ui.select(list(self._domain), value=condition.attribute)
                    name.props('aria-label="Attribute of the filter"')
                    name.on_value_change(lambda e: self._choose_attribute(place, e.value))
                    if isinstance(attribute, Categorical):
                        how = ui.select(dict(WORDS), value=condition.condition).props('aria-label="Condition"')
                        how.on_value_change(lambda e: self._put(place, condition=e.value))
                    else:
                        small("from … to, both included", "align-self:center")
                if isinstance(attribute, Categorical):
                    value_choice(attribute, condition.values, "Values", lambda values: self._put(place, values=values))
                else:
                    example = "2025-01-31" if is_calendar(attribute) else ""
                    with ui.element("div").classes("bf-pair"):
                        low = ui.input("From", value=condition.low, placeholder=example).props("debounce=250")
                        low.on_value_change(lambda e: self._put(place, low=e.value or ""))
                        high = ui.input("To", value=condition.high, placeholder=example).props("debounce=250")
                        high.on_value_change(lambda e: self._put(place, high=e.value or ""))
            icon_button("close", f"Remove the filter on {condition.attribute}", lambda: self._drop(place))

    def _put(self, place: int, **changes: Any) -> None:
        self._filters[place] = replace(self._filters[place], **changes)
        self._on_change(tuple(self._filters))

    def _choose_attribute(self, place: int, name: str) -> None:
        self._filters[place] = blank(self._domain, name)
        self._build()
        self._on_change(tuple(self._filters))

    def _add(self) -> None:
        self._filters.append(blank(self._domain, next(iter(self._domain))))
        self._build()
        self._on_change(tuple(self._filters))

    def _drop(self, place: int) -> None:
        del self._filters[place]
        self._build()
        self._on_change(tuple(self._filters))


def blank(domain: Domain, name: str) -> FilterChoice:
    """A condition on the attribute that says nothing yet."""
    return FilterChoice(name, "among" if isinstance(domain[name], Categorical) else "between")


def value_choice(
    attribute: Attribute, chosen: tuple[str, ...], label: str, on_change: Callable[[tuple[str, ...]], object]
) -> None:
    """Some of the values of a category; of many, those that hold what is typed are shown."""
    listed = listed_values(attribute)
    select = ui.select(
        listed, value=list(chosen), multiple=True, label=label, with_input=len(listed) > SEARCHED, clearable=True
    )
    select.props("use-chips").classes("w-full")
    select.on_value_change(lambda e: on_change(tuple(e.value or ())))


SEARCHED = 12
"""More options than this can be searched."""
TILES: tuple[Tile, ...] = (
    Tile("histogram", "Histogram", "bar_chart", "One count for each value or bin"),
    Tile("number", "Number", "pin", "A count, mean, sum or spread: one number, or one for each group"),
    Tile("quantiles", "Quantiles", "align_vertical_center", "The median, or other values below which a share lies"),
    Tile("shares", "Shares", "pie_chart", "The percentage of records in each group"),
    Tile("top", "Top list", "leaderboard", "The groups with the most records"),
    Tile("compare", "Compare", "compare", "The difference and the ratio of two groups"),
    Tile("cdf", "Cumulative", "stacked_line_chart", "How many records up to each value"),
    Tile("heat", "Heat map", "grid_on", "Counts of two attributes together"),
    Tile("ranges", "Ranges", "straighten", "Counts of ranges that you list, or of all of them"),
    Tile("marginals", "Marginals", "view_module", "The tables of all pairs of several attributes"),
    Tile("sql", "SQL", "code", "A statement in SQL"),
)


class QueryForm:
    """Controls over one `domain`. `on_change` hears of every change; `draft` and `sql` are what they say now.

    Whoever comes back to a template finds the attributes as they left them there. `write` gives the statement that asks
    the same as the controls: SQL begins with it, and what somebody wrote is replaced by it only when they say so.
    """

    def __init__(
        self,
        dataset: str,
        domain: Domain,
        on_change: Callable[[], object],
        offered: Sequence[Tile] = TILES,
        question: QuestionDraft | None = None,
        write: Callable[[QueryDraft], str | None] = lambda _: None,
    ) -> None:
        self.domain, self._on_change, self._write = domain, on_change, write
        usual = QueryDraft(dataset, "histogram", (usual_axis(domain, next(iter(domain))),))
        question = question or QuestionDraft(usual)
        self.draft, self.sql, self._written = question.query, question.sql, ""
        self._kept: dict[Template, QueryDraft] = {}
        self._newest = usual if self.draft.template == "sql" else self.draft
        """The newest question of the controls."""
        self._tips = {tile.value: tile.tip for tile in offered}
        tiles(offered, self.draft.template, self._choose_template, "What to ask")
        self._tip = small(self._tips[self.draft.template], "margin-top:8px")
        self._box = ui.element("div")
        redraw(self._box, self._build)

    def _put(self, *, rebuild: bool = False, **changes: Any) -> None:
        self.draft = replace(self.draft, **changes)
        if rebuild:
            redraw(self._box, self._build)
        self._on_change()

    def _choose_template(self, chosen: str) -> None:
        self._tip.text = self._tips[chosen]
        template = next(template for template in FORMS if template == chosen)
        if self.draft.template != "sql":
            self._kept[self.draft.template] = self._newest = self.draft
        draft, kept = with_template(self._newest, template, self.domain), self._kept.get(template)
        if kept is not None:
            draft = replace(draft, chosen=kept.chosen, first=kept.first, second=kept.second, cut=kept.cut)
        self.draft = draft
        if template == "sql" and self.sql == self._written:
            self.sql = self._written = self._from_controls()
        self._put(rebuild=True)

    def _from_controls(self) -> str:
        """The statement that asks what the controls last asked, or else one to begin with."""
        column, dataset = name_text(next(iter(self.domain))), name_text(self._newest.dataset)
        return self._write(self._newest) or f"SELECT {column}, COUNT(*) FROM {dataset} GROUP BY {column}"

    def _build(self) -> None:
        draft, form = self.draft, FORMS[self.draft.template]
        if draft.template == "sql":
            self._statement()
            return
        usable = usable_attributes(draft.template, self.domain)
        if len(usable) < form.least:
            text = "no attribute for that" if form.least == 1 else "one attribute only, and this takes two"
            small(f"This dataset has {text}.", "margin-top:14px")
            return
        if form.is_measured:
            self._measure()
        for place in range(len(draft.chosen)):
            self._attribute(place, usable)
            if draft.template == "compare" and place == 0:
                self._sides()
        if len(draft.chosen) < min(form.most, len(usable)):
            more = ui.button(form.more, icon="add", on_click=self._add)
            more.props("flat dense").style("margin-top:4px")
        if draft.template == "ranges":
            self._ranges()
        if draft.template == "top":
            self._text("How many", "most").style("margin-top:14px")
        FilterForm(self.domain, draft.filters, lambda filters: self._put(filters=filters))

    def _measure(self) -> None:
        """What is measured, and of which attribute."""
        draft = self.draft
        with ui.element("div").classes("bf-pair bf-attribute").style("margin-top:14px"):
            if draft.template == "quantiles":
                self._text("Percent", "levels")
            else:
                function = ui.select(dict(FUNCTIONS), value=draft.function, label="What")
                function.on_value_change(lambda e: self._put(function=e.value, rebuild=True))
            if draft.measures:
                numeric = [name for name in self.domain if is_numeric(self.domain[name])]
                of = ui.select(numeric, value=draft.of or None, label="Of")
                of.on_value_change(lambda e: self._put(of=e.value))

    def _sides(self) -> None:
        """The two groups of a comparison."""
        attribute = self.domain[self.draft.chosen[0].attribute]
        with ui.element("div").classes("bf-stack").style("margin-top:8px"):
            if isinstance(attribute, Categorical):
                value_choice(attribute, self.draft.first, "First group", lambda values: self._put(first=values))
                value_choice(attribute, self.draft.second, "Second group", lambda values: self._put(second=values))
            else:
                self._text("The second group begins at", "cut")

    def _text(self, label: str, part: str) -> ui.input:
        """A field whose text is a part of the draft."""
        field = ui.input(label, value=str(getattr(self.draft, part))).props("debounce=250")

        def write(text: str | None) -> None:
            changes: dict[str, Any] = {part: text or ""}
            self._put(**changes)

        return field.on_value_change(lambda e: write(e.value))

    def _attribute(self, place: int, usable: list[str]) -> None:
        template, axis, form = self.draft.template, self.draft.chosen[place], FORMS[self.draft.template]
        can_drop = len(self.draft.chosen) > form.least and place >= min(form.least, 1)
        is_split = template == "compare" and place == 0
        classes = f"bf-pair {'has-third' if can_drop else ''} {'is-single' if is_split else 'bf-attribute'}"
        with ui.element("div").classes(classes).style("margin-top:14px"):
            select = ui.select(usable, value=axis.attribute, label=form.labels[place])
            select.on_value_change(lambda e: self._choose_attribute(place, e.value))
            if not is_split:
                steps = steps_of(self.domain[axis.attribute])
                step = ui.select(steps, value=axis.step, label="How finely")
                step.on_value_change(lambda e: self._put(chosen=self._with(place, replace(axis, step=e.value))))
                if len(steps) == 1:
                    step.props("readonly hide-dropdown-icon")
            if can_drop:
                icon_button("close", f"Leave out {axis.attribute}", lambda: self._drop(place))

    def _with(self, place: int, axis: AxisDraft) -> tuple[AxisDraft, ...]:
        return (*self.draft.chosen[:place], axis, *self.draft.chosen[place + 1 :])

    def _choose_attribute(self, place: int, name: str) -> None:
        """Puts the attribute there; where another place has it, the two change places."""
        axes = list(self.draft.chosen)
        other = next((n for n, axis in enumerate(axes) if axis.attribute == name), None)
        if other is None:
            axes[place] = usual_axis(self.domain, name)
        else:
            axes[place], axes[other] = axes[other], axes[place]
        self.draft = with_sides(replace(self.draft, chosen=tuple(axes)), self.domain)
        self._put(rebuild=True)

    def _add(self) -> None:
        taken = {axis.attribute for axis in self.draft.chosen}
        name = next(name for name in usable_attributes(self.draft.template, self.domain) if name not in taken)
        self._put(chosen=(*self.draft.chosen, usual_axis(self.domain, name)), rebuild=True)

    def _drop(self, place: int) -> None:
        self._put(chosen=self.draft.chosen[:place] + self.draft.chosen[place + 1 :], rebuild=True)

    def _ranges(self) -> None:
        hint = "One range on each line, such as 10 to 20 (20 itself is not in it). Empty: all ranges at once."
        area = ui.textarea("Ranges", value=self.draft.spans).props(f'autogrow hint="{hint}" debounce=250')
        area.classes("w-full").style("margin-top:14px")
        area.on_value_change(lambda e: self._put(spans=e.value or ""))
        if isinstance(self.domain[self.draft.chosen[0].attribute], Categorical):
            area.props("readonly")

    def _statement(self) -> None:
        def write(text: str | None) -> None:
            self.sql = text or ""
            self._on_change()

        area = ui.textarea("Statement", value=self.sql, on_change=lambda e: write(e.value))
        area.props('autogrow debounce=300 spellcheck=false input-class="bf-mono"', remove="dense")
        area.classes("w-full").style("margin-top:14px")
        text = (
            "COUNT(*), SUM, AVG, STDDEV, MEDIAN, shares and more, by groups; bin(x, 10) makes bins. See the SQL guide."
        )
        small(text, "margin-top:6px")
        from_controls = self._write(self._newest)
        if from_controls is None:
            small("The other controls ask something that no statement says, or that is not filled in yet.")
        elif self.sql != from_controls:

            def begin_anew() -> None:
                self.sql = self._written = self._from_controls()
                self._put(rebuild=True)

            button = ui.button("Replace it by what the other controls ask", icon="restart_alt", on_click=begin_anew)
            button.props('flat dense data-testid="from-controls"').style("margin-top:4px")


class DatasetForm:
    """A choice of datasets, and the controls of a query over the chosen one; `on_change` hears of every change."""

    def __init__(
        self,
        context: PageContext,
        names: list[str],
        dataset: str,
        on_change: Callable[[], object],
        offered: Sequence[Tile] = TILES,
        question: QuestionDraft | None = None,
    ) -> None:
        self._context, self._on_change, self._offered = context, on_change, offered
        data = ui.select(names, value=dataset, label="Dataset", on_change=lambda e: self._choose(e.value))
        data.classes("w-full").style("margin-bottom:14px")
        self._box = ui.element("div")
        self._kept: dict[str, QueryForm] = {}
        self._build(dataset, question)

    def _choose(self, dataset: str) -> None:
        """Shows the controls over another dataset, as they were left where they were used before."""
        self._kept[self.query.draft.dataset] = self.query
        kept = self._kept.get(dataset)
        self._build(dataset, None if kept is None else QuestionDraft(kept.draft, sql=kept.sql))
        self._on_change()

    def _build(self, dataset: str, question: QuestionDraft | None = None) -> None:
        table = self._context.session()[dataset]
        write = partial(statement_of, table=table)
        self._box.clear()
        with self._box:
            self.query = QueryForm(dataset, table.domain, self._on_change, self._offered, question, write)


AUTOMATIC = "automatic"


class AccuracyForm:
    """Either alpha with a confidence, or epsilon; `draft` is what the controls say now."""

    def __init__(self, on_change: Callable[[], object], draft: AccuracyDraft | None = None) -> None:
        self.draft = draft or AccuracyDraft()
        self._on_change, self._unit, self._usual = on_change, "", ""
        self._kept: dict[str, tuple[tuple[str, str], ...]] = {}
        """The parameters of mechanisms that were chosen before."""
        ways = {"accuracy": "Choose accuracy", "budget": "Choose budget"}
        choice(ways, self.draft.by, self._by, "Accuracy or budget")
        self._box = ui.element("div").style("margin-top:12px")
        redraw(self._box, self._build)

    def follow(self, query: QueryDraft, domain: Domain) -> None:
        """Says the accuracy in the unit of a question; one that nobody has typed becomes the usual one."""
        before, self._usual = self._usual, query.usual_alpha(domain)
        if (query.unit(), before) == (self._unit, self._usual):
            return
        self._unit = query.unit()
        if before == self.draft.alpha:
            self.draft = replace(self.draft, alpha=self._usual)
        redraw(self._box, self._build)

    def ask_for(self, alpha: str) -> None:
        """Asks for an accuracy in place of what was typed."""
        self._put(by="accuracy", alpha=alpha)
        redraw(self._box, self._build)

    def _by(self, chosen: str) -> None:
        by: Literal["accuracy", "budget"] = "budget" if chosen == "budget" else "accuracy"
        # Mechanisms that look at the data promise no accuracy.
        stays = by == "budget" or self.draft.mechanism not in DATA_AWARE
        self._choose_only(self.draft.mechanism if stays else None)
        self._put(by=by)
        redraw(self._box, self._build)

    def _put(self, **changes: Any) -> None:
        self.draft = replace(self.draft, **changes)
        self._on_change()

    def _choose(self, mechanism: str | None) -> None:
        self._choose_only(mechanism)
        self._on_change()
        redraw(self._expert, self._build_parameters)

    def _choose_only(self, mechanism: str | None) -> None:
        """Another mechanism, with the parameters that it had when it was last chosen."""
        self._kept[self.draft.mechanism or ""] = self.draft.parameters
        self.draft = replace(self.draft, mechanism=mechanism, parameters=self._kept.get(mechanism or "", ()))

    def _set(self, name: str, value: str) -> None:
        settings = {**dict(self.draft.parameters), name: value.strip()}
        self._put(parameters=tuple((one, text) for one, text in settings.items() if text))

    def field_at_fault(self) -> ui.input:
        """The field that an error of the accuracy target is about: a parameter that is refused, or else the amount."""
        for name, text in self.draft.parameters:
            try:
                check_settings(PARAMETERS, self.draft.mechanism, read_settings({name: text}))
            except ParameterError:
                return self._fields[name]
        return self.amount

    def _build_parameters(self) -> None:
        """The parameters of the mechanism, with what each means; an empty one is at its default."""
        taken, self._fields = PARAMETERS.get(self.draft.mechanism or "", ()), dict[str, ui.input]()
        if not taken:
            return
        settings = dict(self.draft.parameters)
        with ui.expansion("Parameters, for experts", value=bool(settings)).props("dense").classes("w-full"):
            for one in taken:
                field = ui.input(one.name, value=settings.get(one.name, ""), placeholder=f"default: {one.usual}")
                field.classes("w-full").props(
                    f'debounce=300 stack-label hide-bottom-space data-testid="parameter-{one.name}"'
                )
                field.on_value_change(lambda e, name=one.name: self._set(name, e.value or ""))
                self._fields[one.name] = field
                ui.label(f"{one.meaning} {one.kind[0].upper()}{one.kind[1:]}.").classes("bf-quiet bf-parameter")

    def _build(self) -> None:
        with ui.element("div").classes("bf-pair"):
            if self.draft.by == "accuracy":
                self.amount = ui.input("Within ±", value=self.draft.alpha, suffix=shortened(self._unit, 14) or None)
                self.amount.props("debounce=200")
                self.amount.on_value_change(lambda e: self._put(alpha=e.value or ""))
            else:
                self.amount = ui.input("Spend epsilon", value=self.draft.epsilon).props("debounce=200")
                self.amount.on_value_change(lambda e: self._put(epsilon=e.value or ""))
            sure = ui.select(CONFIDENCES, value=self.draft.confidence, label="Confidence")
            sure.on_value_change(lambda e: self._put(confidence=e.value))
        # Mechanisms that look at the data promise no accuracy, so they need a budget.
        aware = list(DATA_AWARE) if self.draft.by == "budget" else []
        options = {AUTOMATIC: "the best for this question"} | {name: name for name in (*MECHANISMS, *CHOICES)}
        options |= {name: f"{name} (looks at the data)" for name in aware}
        with ui.expansion("Mechanism").props("dense").classes("w-full").style("margin-top:6px"):
            select = ui.select(options, value=self.draft.mechanism or AUTOMATIC)
            select.classes("w-full").props('aria-label="Mechanism"')
            select.on_value_change(lambda e: self._choose(None if e.value == AUTOMATIC else e.value))
            self._expert = ui.element("div")
            redraw(self._expert, self._build_parameters)
            fresh = ui.switch("Noise independent of earlier answers", value=self.draft.fresh)
            fresh.props('dense data-testid="fresh"').style("margin-top:8px")
            fresh.on_value_change(lambda e: self._put(fresh=bool(e.value)))
