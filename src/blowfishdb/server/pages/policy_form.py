"""Forms of what is hidden: the family of one attribute, and the graph of several; typed, chosen or imported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from nicegui import events, ui

from blowfishdb.catalog.dataset import read_joint, read_rows, read_value, write_joint, write_row
from blowfishdb.errors import PolicyError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.graphs import Metric
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import (
    MOST_COMBINATIONS,
    Custom,
    Family,
    Grid,
    Joint,
    Partition,
    Threshold,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.server.pages.controls import Tile, called, choice, redraw, small, tiles

LONGEST = 200_000
MOST_GROUPED = 200
"""Values that are listed in groups, at most, where they have an order."""
SIMPLE: dict[str, Family] = {"full": full(), "line": line(), "public": public()}


@dataclass(frozen=True)
class FamilyForm:
    """The kind of family and what was typed for it: theta, cut points, or blocks or pairs line by line."""

    kind: str = "full"
    text: str = ""


@dataclass(frozen=True)
class FamilyKind(Tile):
    """A kind of family for people; and the field it needs, if any, with what is said while it is empty."""

    field: str = ""
    missing: str = ""


FAMILY_KINDS = (
    FamilyKind("full", "Everything secret", "lock", "Any two values are hidden from each other: differential privacy."),
    FamilyKind(
        "threshold",
        "Within a distance",
        "swap_horiz",
        "Values at most this far apart are hidden from each other.",
        "Hidden up to this distance",
        "give the distance up to which values are hidden from each other",
    ),
    FamilyKind("line", "Neighbours only", "linear_scale", "Each value is hidden from the next one only."),
    FamilyKind(
        "cuts",
        "Cut into blocks",
        "content_cut",
        "Values within a block are hidden from each other; which block is not.",
        "New blocks begin at",
        "say where new blocks begin, such as 18, 65",
    ),
    FamilyKind(
        "blocks",
        "Groups of values",
        "workspaces",
        "Values of one group are hidden from each other; which group is not.",
        "One group of values per line",
        "write one group of values per line",
    ),
    FamilyKind(
        "custom",
        "Listed pairs",
        "hub",
        "Exactly the pairs you list are hidden from each other.",
        "One pair of values per line",
        "write one pair of values per line, such as A1, A2",
    ),
    FamilyKind("public", "Public", "public", "Nothing about this attribute is hidden."),
)
KINDS = {kind.value: kind for kind in FAMILY_KINDS}


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
        return SIMPLE[form.kind]
    if not text:
        raise PolicyError(KINDS[form.kind].missing)
    if form.kind == "threshold":
        return threshold(text)
    if form.kind == "cuts":
        return partition(cuts=[cut for row in read_rows(text) for cut in row])
    lines = [[read_value(item, attribute) for item in row] for row in read_rows(text)]
    return partition(lines) if form.kind == "blocks" else custom(lines)


def form_of(family: Family) -> FamilyForm:
    """The form that declares a family."""
    match family:
        case Threshold(theta):
            return FamilyForm("threshold", show_theta(theta))
        case Partition(blocks, ()):
            return FamilyForm("blocks", "\n".join(map(write_row, blocks)))
        case Partition(_, cuts):
            return FamilyForm("cuts", write_row(cuts))
        case Custom(edges):
            return FamilyForm("custom", "\n".join(map(write_row, edges)))
        case _:
            return FamilyForm(next(kind for kind, simple in SIMPLE.items() if family == simple))


@dataclass(eq=False)
class FamilyEditor:
    """The form; `on_change` hears of every change."""

    attribute: Attribute
    form: FamilyForm
    on_change: Callable[[FamilyForm], None]

    def build(self) -> None:
        """Draws tiles for the kinds, and the field of the chosen one below them."""
        tiles(list(kinds_for(self.attribute).values()), self.form.kind, self._choose, "What is hidden")
        self._field = ui.element("div").style("margin-top:12px;min-height:58px")
        redraw(self._field, self._draw)

    def _choose(self, kind: str) -> None:
        self.form = FamilyForm(kind, self._usual(kind))
        redraw(self._field, self._draw)
        self.on_change(self.form)

    def _usual(self, kind: str) -> str:
        """A start that is valid, from the declared domain alone."""
        if kind == "threshold":
            by = self.attribute.by if isinstance(self.attribute, Dates | Timestamps) else ""
            return f"7 {by}s" if by else "5"
        middle = self.attribute.size // 2
        if kind == "cuts":
            return write_row([self.attribute.value_at(middle)])
        values = [self.attribute.value_at(place) for place in range(min(self.attribute.size, MOST_GROUPED))]
        if kind == "blocks":
            return f"{write_row(values[: len(values) // 2])}\n{write_row(values[len(values) // 2 :])}"
        return write_row(values[:2]) if kind == "custom" and len(values) > 1 else ""

    def _type(self, text: object) -> None:
        self.form = replace(self.form, text=str(text or ""))
        self.on_change(self.form)

    def _draw(self) -> None:
        kind, is_long = KINDS[self.form.kind], self.form.kind in ("blocks", "custom")
        if not kind.field:
            small(kind.tip)
            return
        make = ui.textarea if is_long else ui.input
        box = make(kind.field, value=self.form.text, on_change=lambda event: self._type(event.value))
        box.props(f'debounce=250 {"autogrow" if is_long else ""} data-testid="family"').classes("w-full")


@dataclass(frozen=True)
class JointForm:
    """Attributes that are hidden together, how, and what was typed for it; the metric is that of a distance."""

    names: tuple[str, ...]
    kind: str
    text: str
    metric: Metric = "l2"

    @property
    def title(self) -> str:
        """What the choice of attributes calls it."""
        return " + ".join(self.names)


JOINT_KINDS = {
    kind.value: kind
    for kind in (
        FamilyKind(
            "within",
            "Within a distance",
            "swap_horiz",
            "Places at most this far apart, over all attributes, are hidden from each other.",
            "Hidden up to this distance",
            "give the distance up to which places are hidden from each other",
        ),
        FamilyKind(
            "blocks",
            "Blocks",
            "workspaces",
            "Combinations of one block are hidden from each other; which block is not.",
            "The name of a block, then a value of each; * is any value, 18..64 a run",
            "write a line for each part of a block: its name, then a value of each attribute",
        ),
        FamilyKind(
            "pairs",
            "Listed pairs",
            "hub",
            "Exactly the pairs of combinations that you list are hidden from each other.",
            "One pair per line: a value of each, then a value of each again",
            "write one pair of combinations per line",
        ),
    )
}
METRICS: dict[str, str] = {"l2": "Straight line", "l1": "Added up", "linf": "Each on its own"}


def joint_kinds_for(names: Sequence[str], domain: Domain) -> dict[str, FamilyKind]:
    """The ways to hide some attributes together that fit them: only numbers have a distance."""
    numeric = all(isinstance(domain[name], Integers | Bins) for name in names)
    return {name: kind for name, kind in JOINT_KINDS.items() if numeric or name != "within"}


def read_joint_form(form: JointForm, domain: Domain) -> Grid | Joint:
    """The graph that the form declares; PolicyError says what is missing."""
    if len(form.text) > LONGEST:
        raise PolicyError(f"this is longer than {LONGEST:,} characters; declare it in a document")
    if not form.text.strip():
        raise PolicyError(JOINT_KINDS[form.kind].missing)
    if form.kind == "within":
        return grid(form.names, form.text.strip(), form.metric)
    return read_joint(form.text, form.names, domain, is_pairs=form.kind == "pairs")


def joint_form_of(graph: Grid | Joint, domain: Domain) -> JointForm:
    """The form that declares a joint graph."""
    if isinstance(graph, Grid):
        return JointForm(graph.attributes, "within", show(graph.theta), graph.metric)
    kind = "pairs" if isinstance(graph.family, Custom) else "blocks"
    return JointForm(graph.attributes, kind, write_joint(graph, domain))


def usual_joint(names: tuple[str, ...], kind: str, domain: Domain) -> JointForm:
    """A start that is valid, from the declared domain alone: the values of the first attribute in two blocks."""
    attributes = [domain[name] for name in names]
    values = [attributes[0].value_at(place) for place in range(min(attributes[0].size, 2))]
    others = [attribute.value_at(0) for attribute in attributes[1:]]
    if kind == "within":
        return JointForm(names, kind, "1")
    if kind == "pairs":
        return JointForm(names, kind, write_row([values[0], *others, values[-1], *others]))
    half = max(attributes[0].size // 2, 1)
    codes = itertools.product(*(range(attribute.size) for attribute in attributes))
    blocks: list[list[tuple[object, ...]]] = [[], []]
    if math.prod(attribute.size for attribute in attributes) <= MOST_COMBINATIONS:
        for code in codes:
            values_of = tuple(one.value_at(place) for one, place in zip(attributes, code, strict=True))
            blocks[code[0] >= half].append(values_of)
    listed = [block for block in blocks if block]
    return JointForm(names, kind, write_joint(joint(names, partition(listed)), domain) if listed else "")


@dataclass(eq=False)
class JointEditor:
    """The form of several attributes; `on_change` hears of every change, `on_leave` that each is on its own again."""

    domain: Domain
    form: JointForm
    on_change: Callable[[JointForm], None]
    on_leave: Callable[[], None]

    def build(self) -> None:
        """Draws tiles for the kinds, the field of the chosen one, and ways to fill it from a file or to give it up."""
        kinds = joint_kinds_for(self.form.names, self.domain)
        tiles(list(kinds.values()), self.form.kind, self._choose, "What is hidden of them together")
        self._field = ui.element("div").style("margin-top:12px")
        redraw(self._field, self._draw)
        leave = ui.button("Hide each on its own again", icon="call_split", on_click=self.on_leave)
        called(leave.props("flat dense size=sm"), test_id="apart")

    def _set(self, form: JointForm) -> None:
        self.form = form
        self.on_change(form)

    def _choose(self, kind: str) -> None:
        self._set(usual_joint(self.form.names, kind, self.domain))
        redraw(self._field, self._draw)

    def _draw(self) -> None:
        kind = JOINT_KINDS[self.form.kind]
        small(kind.tip, "margin-bottom:10px")
        make = ui.input if self.form.kind == "within" else ui.textarea
        box = make(value=self.form.text, on_change=lambda e: self._set(replace(self.form, text=str(e.value or ""))))
        box.props("debounce=300" + ("" if self.form.kind == "within" else " autogrow input-style=max-height:16em"))
        called(box, f"{kind.field} ({', '.join(self.form.names)})", "joint").classes("w-full")
        if self.form.kind == "within":
            choice(METRICS, self.form.metric, self._measure, "How distances are measured")
            return
        small(f"{kind.field}: {', '.join(self.form.names)}.", "margin-top:4px")
        if self.form.kind == "blocks":
            small("Combinations that no line names are one more block.")
        upload = ui.upload(
            auto_upload=True,
            max_file_size=LONGEST,
            on_upload=self._import,
            on_rejected=lambda: ui.notify(
                f"A file may have {LONGEST:,} bytes at most.", position="top", type="warning"
            ),
        )
        called(upload.props("accept=.csv,.txt"), test_id="import").classes("hidden")
        pick = ui.button("Import a CSV file …", icon="upload_file", on_click=lambda: upload.run_method("pickFiles"))
        pick.props("flat dense size=sm").style("margin-top:6px")

    def _measure(self, metric: str) -> None:
        self._set(replace(self.form, metric=cast(Metric, metric)))

    async def _import(self, event: events.UploadEventArguments) -> None:
        try:
            text = (await event.file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            ui.notify("This file is not text in UTF-8: save it as CSV first.", position="top", type="warning")
            return
        self._set(replace(self.form, text=text))
        redraw(self._field, self._draw)
