"""Exact amounts of budget: balances on a common grid, and what each class of edges lost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.errors import AmountTooFine, InvalidInput, LedgerCorrupt

DECIMALS = 10**12
EASY = math.lcm(DECIMALS, *range(1, 31))
"""Every balance counts in parts of this from the start, so decimals of 12 places and small fractions always fit."""
FINEST = 10**60
"""No common denominator grows beyond this: a sum that would need more takes the next short amount above instead."""
LARGEST = 10**9


@dataclass(frozen=True)
class Balance:
    """A sum of amounts as `units` parts of 1/`grid`."""

    units: int
    grid: int

    def __post_init__(self) -> None:
        if self.units < 0 or self.grid < 1 or self.grid > FINEST or self.grid % EASY:
            raise InvalidInput("a balance is a non-negative number of parts of a supported grid")

    @property
    def value(self) -> Fraction:
        """The balance as one reduced fraction."""
        return Fraction(self.units, self.grid)

    def plus(self, amount: Fraction) -> Balance:
        """The balance after adding an amount."""
        grid = math.lcm(self.grid, amount.denominator)
        if grid > FINEST:
            value = total(self.value, amount)
            grid = math.lcm(EASY, value.denominator)
            return Balance(value.numerator * (grid // value.denominator), grid)
        return Balance(self.units * (grid // self.grid) + amount.numerator * (grid // amount.denominator), grid)

    def times(self, factor: Fraction) -> Balance:
        """The balance multiplied by a factor; AmountTooFine when the grid would become too fine. Whole factors fit."""
        product = self.value * factor
        grid = math.lcm(self.grid, product.denominator)
        if grid > FINEST:
            raise AmountTooFine(factor, Fraction(math.ceil(factor)))
        return Balance(product.numerator * (grid // product.denominator), grid)


NOTHING = Balance(0, EASY)
AmountParts = int | Fraction
"""An amount in parts of 1/EASY: a whole number where it is one, as it usually is, and exact in any case."""


def in_parts(amount: Fraction) -> AmountParts:
    """The amount in parts of 1/EASY, which are quicker to compare than fractions."""
    parts = amount * EASY
    return parts.numerator if parts.denominator == 1 else parts


def nearest_above(amount: Fraction) -> Fraction:
    """The least decimal of 12 places that is not below the amount; every account accepts it."""
    return Fraction(math.ceil(amount * DECIMALS), DECIMALS)


def total(before: Fraction, amount: Fraction) -> Fraction:
    """The sum of what was spent before and an amount; a little more where the exact sum would be too fine to carry.

    It is never refused: whether a sum is too fine depends on what others were charged, and a refusal would tell that.
    """
    is_fitting = math.lcm(EASY, before.denominator, amount.denominator) <= FINEST
    return before + (amount if is_fitting else nearest_above(amount))


def check_amount(amount: Fraction, what: str) -> None:
    """Refuses anything but an exact fraction from 0 to a billion that the finest grid can carry."""
    if not isinstance(amount, Fraction):
        raise InvalidInput(f"{what} is an exact Fraction, not {type(amount).__name__}")
    if not 0 <= amount.numerator <= LARGEST * amount.denominator:
        raise InvalidInput(f"{what} lies between 0 and {LARGEST:,}")
    if math.lcm(amount.denominator, EASY) > FINEST:
        raise AmountTooFine(amount, nearest_above(amount))


def spent_words(spent: Fraction, limit: Fraction | None, number: Callable[[Fraction], str]) -> str:
    """What was spent of a limit: "0.5 of 2 spent"; of a limit that was lowered or revoked, what it is now."""
    if limit is None:
        return f"{number(spent)} spent, no limit of its own"
    if limit == 0:
        return f"{number(spent)} spent, nothing more allowed" if spent else "nothing spent, and nothing allowed"
    if spent > limit:
        return f"{number(spent)} spent, more than the limit of {number(limit)}"
    return f"{number(spent)} of {number(limit)} spent"


SUM = "sum"
PER_EDGE = "per-edge"
BY = f"{PER_EDGE} by "
INSIDE = "in "
"""The beginning of class names where components of an attribute are accounted side by side, and only there."""
MOST_CLASSES = 4096
LONGEST_CLASS = 400


def check_accounting(accounting: str) -> None:
    """Refuses what names no way of accounting: sum, per-edge, or per-edge by an attribute."""
    if accounting not in (SUM, PER_EDGE) and not (isinstance(accounting, str) and accounting.startswith(BY)):
        raise InvalidInput(f"accounting is {SUM!r}, {PER_EDGE!r} or '{BY}ATTRIBUTE'")


def parallel_attribute(accounting: str) -> str | None:
    """The attribute whose components are accounted side by side; None when there is none."""
    return accounting.removeprefix(BY) if accounting.startswith(BY) else None


def class_start(accounting: str) -> str:
    """What the names of an account's classes begin with; quoted, so that no two attributes give the same classes."""
    name = parallel_attribute(accounting)
    return "" if name is None else f"{INSIDE}{name!r} "


def in_classes(accounting: str, losses: Mapping[str, Fraction] | None) -> Mapping[str, Fraction] | None:
    """The losses where they name classes of this way of accounting; None, which charges every class, where not.

    A charge may have been made up a moment before the accounting changed; its classes would then cut the edges in
    another way, and what the same edge lost under two names would not be added up.
    """
    if accounting == SUM or losses is None:
        return None
    start = class_start(accounting)
    return losses if all(name.startswith(start or INSIDE) == bool(start) for name in losses) else None


def check_losses(losses: Mapping[str, Fraction], epsilon: Fraction) -> None:
    """Refuses losses that are not exact amounts, or exceed what the release was certified for."""
    if len(losses) > MOST_CLASSES:
        raise InvalidInput(f"a charge names at most {MOST_CLASSES:,} classes of edges")
    for name, loss in losses.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_CLASS:
            raise InvalidInput("a class of edges has a name")
        check_amount(loss, "the loss of a class")
        if loss > epsilon:
            raise InvalidInput("no class of edges loses more than the release does")


@dataclass(frozen=True)
class ClassLosses:
    """What each class of edges lost so far, beside `rest`, which every class lost."""

    rest: Fraction = Fraction(0)
    classes: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def worst(self) -> Fraction:
        """The most that any class lost."""
        return total(self.rest, max(self.classes.values())) if self.classes else self.rest

    def plus(self, epsilon: Fraction, losses: Mapping[str, Fraction] | None) -> ClassLosses:
        """The losses after a release; one that names no classes cost each of them its epsilon."""
        if losses is None:
            return ClassLosses(total(self.rest, epsilon), self.classes)
        known = dict(self.classes)
        for name, loss in losses.items():
            if loss > 0:
                known[name] = total(known.get(name, Fraction(0)), loss)
        if len(known) > MOST_CLASSES:
            # Too many to keep apart: what is not kept apart counts for all, which is never too little.
            return ClassLosses(total(self.worst, epsilon))
        return ClassLosses(self.rest, known)

    def times(self, stretch: Fraction) -> ClassLosses:
        """The losses after a change of policy: its edges are other ones, so the worst loss counts for all of them."""
        return ClassLosses(self.worst * stretch)

    def lost_by(self, names: Iterable[str] | None) -> Fraction:
        """The most that one of these classes lost; of any class where none are named."""
        if names is None:
            return self.worst
        return self.rest + max((self.classes.get(name, Fraction(0)) for name in names), default=Fraction(0))

    def to_json(self) -> str:
        """The losses as the ledger stores them."""
        classes = {name: str(loss) for name, loss in sorted(self.classes.items())}
        return json.dumps({"rest": str(self.rest), "classes": classes}, ensure_ascii=True)


def read_losses(document: str) -> ClassLosses:
    """The losses that to_json wrote."""
    try:
        content = json.loads(document)
        classes = {str(name): Fraction(loss) for name, loss in content["classes"].items()}
        return ClassLosses(Fraction(content["rest"]), classes)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        raise LedgerCorrupt("the losses per class of edges cannot be read") from None
