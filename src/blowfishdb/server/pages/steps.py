"""How finely an attribute can be grouped: every value, wider bins, or calendar units; nothing here depends on data."""

from __future__ import annotations

import itertools
from fractions import Fraction

from blowfishdb.model.calendar import NESTS
from blowfishdb.model.domain import Bins, Dates, Integers, Timestamps
from blowfishdb.model.domain.base import Attribute
from blowfishdb.model.numbers import show

UNITS_OF = frozenset(NESTS)
COMFORTABLE = 24
"""So many bars are easy to read; the first choice has at most these."""
LISTED = 9
FEWEST = 2


def is_calendar(attribute: Attribute) -> bool:
    """Whether it goes by days or hours."""
    return isinstance(attribute, Dates | Timestamps)


def steps_of(attribute: Attribute) -> dict[str, str]:
    """Each way to group the attribute, with words for it: "5" becomes "by 5 (20 bins)"."""
    found = {"": f"all {attribute.size:,} {_unit(attribute)}s"}
    if isinstance(attribute, Dates | Timestamps):
        return found | {unit: f"by {unit}" for unit in NESTS[attribute.by]}
    for width, groups in _widths(attribute):
        found[show(width)] = f"by {show(width)} ({groups:,} bins)"
    return found


def usual_step(attribute: Attribute) -> str:
    """The finest grouping that is easy to read."""
    if isinstance(attribute, Dates | Timestamps):
        units = [unit for unit in ("month", "week", "day", "quarter", "year") if unit in NESTS[attribute.by]]
        return "" if attribute.size <= COMFORTABLE or not units else units[0]
    fitting = [show(width) for width, groups in _widths(attribute) if groups <= COMFORTABLE]
    return "" if attribute.size <= COMFORTABLE or not fitting else fitting[0]


def _unit(attribute: Attribute) -> str:
    if isinstance(attribute, Dates | Timestamps):
        return attribute.by
    return "bin" if isinstance(attribute, Bins) else "value"


def _widths(attribute: Attribute) -> list[tuple[Fraction, int]]:
    """Round widths, from fine to coarse, with the number of groups each makes."""
    if isinstance(attribute, Integers):
        own = Fraction(1)
    elif isinstance(attribute, Bins) and attribute.width is not None:
        own = attribute.width
    else:
        return []
    found = []
    for times in _round_numbers():
        groups = -(-attribute.size // times)
        if groups < FEWEST:
            break
        found.append((times * own, groups))
    comfortable = [one for one in found if one[1] <= 20 * COMFORTABLE]
    return (comfortable or found)[:LISTED]


def _round_numbers() -> itertools.chain[int]:
    """2, 5, 10, 20, 25, 50, 100, ..."""
    tens = itertools.count(1)
    return itertools.chain(
        [2, 5], itertools.chain.from_iterable((10**k, 2 * 10**k, 25 * 10 ** (k - 1), 5 * 10**k) for k in tens)
    )
