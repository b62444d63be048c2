"""Numbers as people read them; the low end of an interval is rounded down and the high end up, so it stays true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from blowfishdb.engine.released import Released
from blowfishdb.model.numbers import show

SHORT_EPSILON = 12
"""An epsilon with a longer exact form is shown rounded up, with a sign that says so."""

ABOVE_ZERO = " (axis begins above 0)"


@dataclass(frozen=True)
class Digits:
    """So many places after the point."""

    places: int

    def value(self, number: float) -> str:
        """The number, rounded to the nearest."""
        return self._text(round(number, self.places))

    def low(self, number: float) -> str:
        """The number, rounded down."""
        step = 10.0**self.places
        return self._text(math.floor(number * step) / step)

    def high(self, number: float) -> str:
        """The number, rounded up."""
        step = 10.0**self.places
        return self._text(math.ceil(number * step) / step)

    def _text(self, number: float) -> str:
        return f"{number + 0.0:,.{self.places}f}"


def digits_of(answer: Released) -> Digits:
    """Whole numbers where all are whole, and for counts; else two digits of the narrowest interval."""
    if answer.is_counts:
        return Digits(0)
    shown = np.concatenate([answer.values, answer.bounds.low, answer.bounds.high])
    if np.array_equal(shown, np.round(shown)):
        return Digits(0)
    widths = answer.bounds.high - answer.bounds.low
    narrowest = float(widths[widths > 0.0].min(initial=math.inf))
    if not math.isfinite(narrowest):
        return Digits(2)
    return Digits(min(max(1 - math.floor(math.log10(narrowest)), 0), 6))


def readable(number: float) -> str:
    """A number to four digits, written out: 77,850, not 7.785e+04; only what is very large or small is not."""
    if not math.isfinite(number) or not 1e-6 <= abs(number) < 1e15:
        return f"{number:.4g}"
    places = max(3 - math.floor(math.log10(abs(number))), 0)
    short = float(f"{number:.4g}")
    text = f"{short:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def budget_words(left: Fraction, price: Fraction) -> str:
    """What somebody has left, and what a price would leave of it."""
    after = left - price
    rest = f"this leaves {readable(float(after))}" if after >= 0 else "this is too dear"
    return f"You have {readable(float(left))} left; {rest}."


def percent(beta: float) -> str:
    """The confidence that an error probability leaves: 0.05 becomes "95 %"."""
    left = (1 - Decimal(repr(float(beta)))) * 100
    return f"{left.normalize():f} %"


def epsilon_words(epsilon: Fraction) -> str:
    """Epsilon exactly where that is short, else to three digits, rounded up."""
    exact = show(epsilon)
    if len(exact) <= SHORT_EPSILON:
        return exact
    places = max(2 - math.floor(math.log10(epsilon)), 0)
    return f"≈ {math.ceil(epsilon * 10**places) / 10**places:.{places}f}"


def printable(text: str) -> str:
    """The text without characters that could steer a terminal or turn the direction of writing."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def accuracy_words(answer: Released) -> str:
    """How near the truth all values are: "every value within 50 (95 %)"."""
    digits = digits_of(answer)
    if answer.caveat and answer.together is not None:
        return f"intervals for the noise alone ({percent(answer.beta)})"
    if answer.together is not None and answer.raw.size == 1:
        low, high = digits.low(float(answer.bounds.low[0])), digits.high(float(answer.bounds.high[0]))
        return (
            f"{low} exactly ({percent(answer.beta)})"
            if low == high
            else f"between {low} and {high} ({percent(answer.beta)})"
        )
    if answer.together is not None:
        return f"all intervals hold together ({percent(answer.beta)})"
    if answer.widths.simultaneous == 0.0:
        return "exact"
    width = digits.high(answer.widths.simultaneous)
    if answer.caveat:
        return f"noise within {width} ({percent(answer.beta)})"
    every = "within" if answer.raw.size == 1 else "every value within"
    return f"{every} {width} ({percent(answer.beta)})"
