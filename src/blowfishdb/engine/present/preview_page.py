"""A preview as HTML for notebooks: the price, every offer, and what there is to say about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blowfishdb.engine.present.html_table import BOX, headline, html_table
from blowfishdb.engine.present.numbers import readable
from blowfishdb.engine.present.svg import element, words

if TYPE_CHECKING:
    from blowfishdb.engine.preview import Preview

COLUMNS = ("mechanism", "epsilon", "within", "usual error", "")
LEFTS = (0, 4)


def fragment(preview: Preview) -> str:
    """What a notebook shows of a preview."""
    below = f"would cost epsilon {readable(float(preview.epsilon))} by {preview.mechanism}; nothing is charged yet"
    said = [element("p", {"style": "margin:6px 0 0"}, words(line)) for line in preview.notes()]
    table = html_table(f"Offers for {preview.title}", COLUMNS, preview.offer_rows(), LEFTS)
    return element("div", {"style": BOX}, headline(preview.head(), below, "div"), table, *said)
