"""Controls that pages share: tiles, bars, tables, and dialogs that ask before they act."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, TypeVar

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from blowfishdb.errors import BlowfishError, NotSignedIn, sentence
from blowfishdb.ledger.amounts import spent_words
from blowfishdb.present.words import epsilon_words, readable
from blowfishdb.session.backend import Budget

ui.input.default_props("outlined dense")
ui.textarea.default_props("outlined dense")
ui.select.default_props("outlined dense options-dense")


def card() -> ui.element:
    """A section of the page with a frame around it."""
    return ui.element("section").classes("bf-card")


def in_row() -> ui.element:
    """Elements side by side."""
    return ui.element("div").classes("bf-row")


def spread() -> ui.element:
    """Elements at the two ends of a line."""
    return ui.element("div").classes("bf-spread")


def small(text: str, style: str = "") -> ui.label:
    """A remark in small quiet letters."""
    return ui.label(text).classes("bf-quiet bf-small").style(style)


def icon_button(icon: str, label: str, on_click: Callable[[], object]) -> ui.button:
    """A small round button whose label is read out and shown under the pointer."""
    button = called(ui.button(icon=icon, on_click=on_click).props("flat round dense size=sm"), label)
    button.classes("bf-quiet")
    with button:
        ui.tooltip(label)
    return button


def link_button(label: str, target: str, icon: str = "", looks: str = "unelevated") -> ui.button:
    """A button that leads to another page."""
    return ui.button(label, icon=icon or None, on_click=lambda: ui.navigate.to(target)).props(looks)


def heading(text: str, level: int = 2) -> ui.element:
    """A heading; its text is never read as markup."""
    with ui.element(f"h{level}") as element:
        ui.label(text).style("display:inline")
    return element


def redraw(box: ui.element, draw: Callable[[], object]) -> None:
    """Empties a box and draws into it."""
    box.clear()
    with box:
        draw()


def paragraph(text: str) -> ui.element:
    """A paragraph; its text is never read as markup."""
    return ui.label(text).classes("bf-p")


def bullets(sentences: Iterable[str]) -> None:
    """Sentences as a list."""
    with ui.element("ul").classes("bf-list"):
        for text in sentences:
            with ui.element("li"):
                ui.label(text)


def empty(icon: str, title: str, text: str) -> ui.element:
    """What is shown where there is nothing yet, and what to do about it."""
    with ui.element("div").classes("bf-empty") as box:
        ui.icon(icon).props("aria-hidden=true")
        heading(title)
        paragraph(text)
    return box


def notice(text: str, kind: str = "", icon: str = "info") -> ui.element:
    """A sentence that should not be missed; `kind` is "", "is-bad" or "is-accent"."""
    with ui.element("div").classes(f"bf-notice {kind}").props('role="status"') as box:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(text)
    return box


@dataclass(frozen=True)
class Tile:
    """One of several things to choose from."""

    value: str
    label: str
    icon: str = ""
    tip: str = ""
    """What it is for; the page that has the tiles shows it."""


def tiles(
    options: Sequence[Tile],
    value: str,
    on_choose: Callable[[str], object],
    label: str,
    classes: tuple[str, str] = ("bf-tiles", "bf-tile"),
) -> None:
    """Square buttons with pictures, of which one is chosen."""
    buttons: dict[str, ui.element] = {}

    def mark(chosen: str) -> None:
        for name, button in buttons.items():
            button.props(f"aria-checked={'true' if name == chosen else 'false'}")

    def choose(chosen: str) -> None:
        mark(chosen)
        on_choose(chosen)

    with ui.element("div").classes(classes[0]).props(f'role="radiogroup" aria-label="{label}"'):
        for tile in options:
            with ui.element("button").classes(classes[1]).props('type=button role="radio"') as button:
                if tile.icon:
                    ui.icon(tile.icon).props("aria-hidden=true")
                ui.html(tile.label, sanitize=False, tag="span")
            buttons[tile.value] = button.on("click", partial(choose, tile.value))
    mark(value)


def choice(options: Mapping[str, str], value: str, on_choose: Callable[[str], object], label: str) -> None:
    """A few words side by side of which one is chosen."""
    tiles([Tile(name, words) for name, words in options.items()], value, on_choose, label, ("bf-choice", ""))


Element = TypeVar("Element", bound=ui.element)
TableCell: TypeAlias = str | Callable[[], object]
"""A cell of a table: text, or a function that fills it."""


def called(element: Element, label: str = "", test_id: str = "") -> Element:
    """The element with a label for screen readers and a name for tests; names of columns and people may hold quotes."""
    if label:
        element.props["aria-label"] = label
    if test_id:
        element.props["data-testid"] = test_id
    return element


@dataclass(frozen=True)
class Heading:
    """A column of a table: its heading and the classes of its cells.

    "is-number" and "is-time" say what it holds, "is-short" words are never broken, and "is-spare" ones are not shown on
    phones.
    """

    name: str
    looks: str = ""


def figure(number: Fraction | float | None) -> str:
    """A number for people: epsilon as analysts see it, anything else to four digits."""
    if number is None:
        return "–"
    return epsilon_words(number) if isinstance(number, Fraction) and number > 0 else readable(float(number))


def stacked_bar(parts: Mapping[str, float], legend: Sequence[str], label: str) -> None:
    """Shares of a whole as a bar, each in the colour of its kind, with words below."""
    with called(ui.element("div").classes("bf-bar").props("role=img"), f"{label}: {', '.join(legend)}"):
        for kind, share in parts.items():
            ui.element("div").classes(kind).style(f"width:{100 * share:.2f}%")
    with ui.element("div").classes("bf-legend"):
        for words in legend:
            ui.label(words)


def limit_bar(spent: Fraction, limit: Fraction | None, label: str) -> None:
    """What is spent of a limit, as a bar with its numbers below."""
    words = spent_words(spent, limit, figure)
    if not limit:
        stacked_bar({}, [words], label)
        return
    share = min(float(spent / limit), 1.0)
    legend = [words, f"{figure(max(limit - spent, Fraction(0)))} left"]
    stacked_bar({"is-over" if share >= 1.0 else "is-spent": share}, legend, label)


LEAST_SHARE = 0.006
"""The least share of the bar that a price takes, so that it is seen."""


def budget_bar(budget: Budget, price: Fraction = Fraction(0), left: Fraction | None = None) -> None:
    """What is spent, what this would take, what stays, and what others have taken of the data's own budget."""
    rest = budget.remaining if left is None else left
    if rest is None:
        after = [f"after this {figure(budget.spent + price)}"] if price else []
        stacked_bar({}, [f"spent {figure(budget.spent)}", *after], "Your budget")
        return
    limit = budget.dataset_limit if budget.limit is None else budget.limit
    whole = max(limit or Fraction(0), budget.spent + rest)
    is_over, taken = price > rest, min(price, rest)
    gone = whole - budget.spent - rest
    if budget.limit is not None and (budget.limit == 0 or budget.spent > budget.limit):
        # Revoked, or lowered below what was spent: there is no whole of which something is left.
        stacked_bar({}, [spent_words(budget.spent, budget.limit, figure)], "Your budget")
        return
    legend = [
        f"spent {figure(budget.spent)}",
        f"left {figure(rest)}" if is_over or not price else f"left after this {figure(rest - price)}",
        *([f"used by others {figure(gone)}"] if gone > 0 else []),
        f"of {figure(whole)}",
    ]
    next_kind = "is-over" if is_over else "is-next"
    parts = {"is-spent": budget.spent, next_kind: taken, "is-left": rest - taken, "is-gone": gone}
    shares = {kind: float(part / whole) if whole else 0.0 for kind, part in parts.items()}
    if price and not is_over:
        shares["is-next"] = max(shares["is-next"], LEAST_SHARE)
    stacked_bar(shares, legend, "Your budget")


def budget_left(budget: Budget) -> None:
    """What an analyst may still spend in large letters, above its bar."""
    with in_row().style("align-items:baseline;gap:10px;margin:12px 0 8px"):
        if budget.remaining is None:
            ui.label(figure(budget.spent)).classes("bf-big").props('data-testid="spent"')
            ui.label("epsilon spent by you; the curator set no limit of your own").classes("bf-quiet")
        else:
            ui.label(figure(budget.remaining)).classes("bf-big").props('data-testid="left"')
            ui.label("epsilon left for you").classes("bf-quiet")
    budget_bar(budget)


def why_nothing(budget: Budget) -> str:
    """Why an analyst with nothing left has nothing left."""
    if budget.limit == 0:
        return "The curator lets you spend nothing on this data."
    whose = "The data's budget" if budget.dataset_remaining == 0 else "Your budget"
    return f"{whose} is used up."


def scrolled(label: str) -> ui.element:
    """Room that scrolls sideways, with the keyboard too, where its content is wider than the screen."""
    return called(ui.element("div").classes("bf-scroll").props("tabindex=0 role=region"), label)


def plain_table(columns: Sequence[Heading], rows: Sequence[Sequence[TableCell]], label: str) -> None:
    """A short table."""
    with scrolled(label), called(ui.element("table").classes("bf-table"), label):
        with ui.element("thead"), ui.element("tr"):
            for column in columns:
                with ui.element("th" if column.name else "td").classes(column.looks) as head:
                    ui.label(column.name)
                if column.name:
                    head.props("scope=col")
        with ui.element("tbody"):
            for row in rows:
                with ui.element("tr"):
                    for column, cell in zip(columns, row, strict=True):
                        with ui.element("td").classes(column.looks):
                            _ = ui.label(cell) if isinstance(cell, str) else cell()


PER_PAGE = 25


def listed_table(names: Sequence[str], words: int, rows: Iterable[Sequence[str]], label: str) -> None:
    """A long table of text, page by page; its first columns, `words` of them, are words, and the others numbers."""
    columns = [
        {"name": f"c{n}", "label": name, "field": f"c{n}", "align": "left" if n < words else "right"}
        for n, name in enumerate(names)
    ]
    listed: list[dict[str, Any]] = [
        {"id": place, **{f"c{n}": part for n, part in enumerate(row)}} for place, row in enumerate(rows)
    ]
    with scrolled(label):
        table = ui.table(columns=columns, rows=listed, row_key="id", pagination=PER_PAGE).props("flat dense")
    called(table.classes("w-full").props("" if len(listed) > PER_PAGE else "hide-bottom"), label)


InputField: TypeAlias = ValidationElement[Any]
"""An input, a text area or a select."""


def blame(field: InputField, text: str, *, is_focused: bool = True) -> None:
    """Says beside a field what is wrong with it; whatever is typed there next takes it back."""
    if "error" not in field.slots:
        with field.add_slot("error"):
            message = ui.label().props("role=alert")
        field.props["aria-describedby"] = message.html_id
    (message,) = (element for element in field.slots["error"] if isinstance(element, ui.label))
    message.set_text(text)
    field.props["error"] = True  # without a message of its own: the framework would show that one, and not the slot
    if is_focused:
        field.run_method("focus")


@contextmanager
def blaming(field: InputField) -> Iterator[None]:
    """Tells beside the field why the block failed; a login session that has ended is told as everywhere."""
    field.error = None
    try:
        yield
    except NotSignedIn:
        raise
    except BlowfishError as error:
        blame(field, sentence(error.message))


@contextmanager
def opened_dialog(title: str, text: str = "", *, width: int = 460) -> Iterator[ui.dialog]:
    """A dialog with a title and a remark, open as soon as the block has filled it."""
    with called(ui.dialog(), title) as dialog, ui.card().style(f"width:{width}px"):
        ui.label(title).classes("bf-title")
        if text:
            small(text, "margin-top:4px")
        yield dialog
    dialog.open()


def decision(
    dialog: ui.dialog,
    action: str,
    work: Callable[[], Awaitable[None]],
    *,
    is_grave: bool = False,
    test_id: str = "go",
) -> None:
    """The two buttons that end a dialog; a second click does nothing while the first one is at work."""

    async def act() -> None:
        button.disable()
        try:
            await work()
        finally:
            if not button.is_deleted:
                button.enable()

    with in_row().style("justify-content:flex-end;margin-top:18px"):
        ui.button("Leave it", on_click=dialog.close).props("flat")
        button = ui.button(action, on_click=act)
        button.props(f'unelevated {"color=negative" if is_grave else ""} data-testid="{test_id}"')


def ask_reason(
    title: str,
    text: str,
    action: str,
    work: Callable[[str], Awaitable[None]],
    *,
    first: Callable[[], InputField] | None = None,
    is_grave: bool = False,
) -> None:
    """A dialog that asks why, for the record, before something is done; `first` draws a field above that."""
    with opened_dialog(title, text) as dialog:
        field = None if first is None else first()
        reason = ui.input("Why, for the record").props('maxlength=200 data-testid="reason"')
        reason.classes("w-full").style("margin-top:14px").props("autofocus" if field is None else "")

        async def go() -> None:
            if not reason.value.strip():
                blame(reason, "A reason is kept with every change.")
                return
            with blaming(field or reason):
                await work(reason.value.strip())
                dialog.close()

        decision(dialog, action, go, is_grave=is_grave)


def ask_text(
    title: str,
    text: str,
    label: str,
    action: str,
    work: Callable[[str], Awaitable[None]],
    test_ids: tuple[str, str],
    *,
    value: str = "",
    placeholder: str = "",
    longest: int | None = None,
    is_grave: bool = False,
) -> None:
    """A dialog with one field; the work gets what was typed, and what it refuses is told beside the field."""
    with opened_dialog(title, text) as dialog:
        field = ui.input(label, value=value, placeholder=placeholder).props("autofocus")
        field.props("" if longest is None else f"maxlength={longest}")
        called(field, test_id=test_ids[0]).classes("w-full").style("margin-top:12px")

        async def go() -> None:
            with blaming(field):
                await work((field.value or "").strip())

        decision(dialog, action, go, is_grave=is_grave, test_id=test_ids[1])


def ask_after_warning(
    title: str,
    warning: str,
    action: str,
    work: Callable[[], Awaitable[None]],
    test_id: str,
    *,
    text: str = "",
    is_grave: bool = False,
) -> None:
    """A dialog that says why something is better left alone, before it is done."""
    with opened_dialog(title, width=520) as dialog:
        notice(warning, "is-bad" if is_grave else "is-accent", "warning").style("margin-top:12px")
        if text:
            small(text, "margin-top:12px")

        async def go() -> None:
            dialog.close()
            await work()

        decision(dialog, action, go, is_grave=is_grave, test_id=test_id)


def pill(text: str, kind: str = "") -> None:
    """A word in a small frame; `kind` is "", "is-brand", "is-good", "is-bad" or "is-accent"."""
    ui.label(text).classes(f"bf-pill {kind}")
