"""Explore."""

from __future__ import annotations

from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.shell import empty, page


@page("/explore", "Explore", "ask", lead="Ask, see the price, decide.")
def explore(here: Here) -> None:
    empty("insights", "Nothing yet", f"Nothing asked yet, {here.visitor.name}.")
