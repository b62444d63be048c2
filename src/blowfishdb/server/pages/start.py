"""The first page: where a visitor is sent."""

from __future__ import annotations

from nicegui import ui


@ui.page("/")
def start() -> None:
    """An empty page until somebody signs in."""
    ui.label("BlowfishDB")
