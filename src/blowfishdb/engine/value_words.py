"""Sentences on what values count as in sums, means, spreads and quantiles: the middle of a bin, an end, a number."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from blowfishdb.engine.compile import Compiled
from blowfishdb.model.aggregates import SPREADS
from blowfishdb.model.cells import middles
from blowfishdb.model.domain import CELL, CLAMP, Bins, Integers
from blowfishdb.model.groups import AxisCells
from blowfishdb.model.numbers import show
from blowfishdb.present.words import readable, upper_end

OF_VALUES = ("sum", "mean", *SPREADS)


def value_words(*questions: Compiled) -> str:
    """What values count as where answers are sums, means, spreads or quantiles of them; nothing for counts."""
    return "; ".join(dict.fromkeys(words for compiled in questions for words in _words_of(compiled)))


def _words_of(compiled: Compiled) -> Iterator[str]:
    for name, uses in _functions(compiled).items():
        axis = compiled.cells.layout[name]
        if uses & set(OF_VALUES):
            yield from _inside_words(name, axis, uses)
        yield from _ends_words(name, axis)


def _functions(compiled: Compiled) -> dict[str, set[str]]:
    """The attributes whose values are answered about, each with the functions of them."""
    kind, found = compiled.query.kind, dict[str, set[str]]()
    if kind in ("sum", "mean", "quantiles"):
        found[compiled.cells.axes[0]] = {kind}
    for part in compiled.query.aggregates:
        for name in part.factors if part.function in (*OF_VALUES, "quantile") else ():
            found.setdefault(name, set()).add(part.function)
    return found


def _inside_words(name: str, axis: AxisCells, uses: set[str]) -> tuple[str, ...]:
    _, inside, unit = middles(name, axis)
    far = readable(upper_end(float(int(inside.max(initial=0)) * unit)))
    if not inside.any():
        return ()
    each = " for each record" if "sum" in uses else ""
    return (f"a value of {name} counts as the middle of its bin, up to {far} off, and intervals add that{each}",)


def _ends_words(name: str, axis: AxisCells) -> tuple[str, ...]:
    attribute = axis.segments.attribute
    if not isinstance(attribute, Integers | Bins):
        return ()
    whole = attribute.denominator
    ends = attribute.value_ends(np.array([0]), np.array([attribute.size - 1]), whole)
    low, high = (show(Fraction(int(end[0]), whole)) for end in ends)
    words = []
    if attribute.outside == CLAMP:
        words.append(f"{name} below {low} or above {high} counts as that end, and intervals are of values so counted")
    elif attribute.outside != CELL:
        words.append(f"{name} below {low} or above {high} counts as {attribute.outside}")
    if attribute.null != CELL:
        words.append(f"NULL of {name} counts as {attribute.null}")
    return tuple(words)
