"""A preview as HTML for notebooks: the price, every offer, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.engine.present.html_table import BOX, headline, html_table
from blowfishdb.engine.present.svg import element, words

COLUMNS = ("mechanism", "epsilon", "within", "usual error", "")
LEFTS = (0, 4)


def fragment(title: str, price: str, offers: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """What a notebook shows of a preview; an offer has a text for each of the columns."""
    said = [element("p", {"style": "margin:6px 0 0"}, words(line)) for line in notes]
    table = html_table("What each mechanism offers", COLUMNS, offers, LEFTS)
    return element("div", {"style": BOX}, headline(title, price, "div"), table, *said)
