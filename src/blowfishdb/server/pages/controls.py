"""Small controls that Quasar does not have: tiles and choices that a keyboard reaches like radio buttons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nicegui import ui


@dataclass(frozen=True)
class Tile:
    """One of several things to choose from."""

    value: str
    label: str
    icon: str = ""
    tip: str = ""
    """What it is for; the page that has the tiles shows it."""


def tiles(options: Sequence[Tile], value: str, on_choose: Callable[[str], object], label: str) -> None:
    """Square buttons with pictures, of which one is chosen."""
    _group(options, value, on_choose, label, ("bf-tiles", "bf-tile"))


def choice(options: Mapping[str, str], value: str, on_choose: Callable[[str], object], label: str) -> None:
    """A few words side by side of which one is chosen."""
    _group([Tile(name, words) for name, words in options.items()], value, on_choose, label, ("bf-choice", ""))


def _group(
    options: Sequence[Tile], value: str, on_choose: Callable[[str], object], label: str, classes: tuple[str, str]
) -> None:
    buttons: dict[str, ui.element] = {}

    def choose(chosen: str) -> None:
        for name, button in buttons.items():
            button.props(f"aria-checked={_truth(name == chosen)}")
        on_choose(chosen)

    def chooser(chosen: str) -> Callable[[], None]:
        return lambda: choose(chosen)

    with ui.element("div").classes(classes[0]).props(f'role="radiogroup" aria-label="{label}"'):
        for tile in options:
            button = ui.element("button").classes(classes[1])
            button.props(f'type=button role="radio" aria-checked={_truth(tile.value == value)}')
            buttons[tile.value] = button
            with button:
                if tile.icon:
                    ui.icon(tile.icon).props("aria-hidden=true")
                ui.html(tile.label, sanitize=False, tag="span")
            button.on("click", chooser(tile.value))


def _truth(value: bool) -> str:  # an attribute of markup
    return "true" if value else "false"
