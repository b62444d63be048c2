"""Loss counted per class of policy edges: what each class lost, and the worst of them, which is what limits bound.

Proof note: docs/proofs/edge-accounting.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.errors import InvalidInput, LedgerCorrupt
from blowfishdb.ledger.amounts import NOTHING, check_amount

SUM = "sum"
PER_EDGE = "per-edge"
BY = f"{PER_EDGE} by "
INSIDE = "in "
"""Names of classes begin so where components of an attribute are accounted side by side, and never elsewhere."""
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
    start = class_start(accounting)
    if losses is None or not all(name.startswith(start or INSIDE) == bool(start) for name in losses):
        return None
    return losses


def check_losses(losses: Mapping[str, Fraction], epsilon: Fraction) -> None:
    """Refuses losses that are no exact amounts, or more than the release was certified for."""
    if len(losses) > MOST_CLASSES:
        raise InvalidInput(f"a charge names at most {MOST_CLASSES:,} classes of edges")
    for name, loss in losses.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_CLASS:
            raise InvalidInput("a class of edges has a name")
        check_amount(loss, "the loss of a class")
        if loss > epsilon:
            raise InvalidInput("no class of edges loses more than the release does")


@dataclass(frozen=True)
class EdgeBooks:
    """What each class of edges lost so far, beside `rest`, which every class lost."""

    rest: Fraction = Fraction(0)
    classes: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def worst(self) -> Fraction:
        """The most that any class lost."""
        return self.rest + max(self.classes.values(), default=Fraction(0))

    def plus(self, epsilon: Fraction, losses: Mapping[str, Fraction] | None) -> EdgeBooks:
        """The books after a release; one that names no losses cost every class its epsilon."""
        if losses is None:
            return EdgeBooks(_fitting(self.rest, epsilon), self.classes)
        known = dict(self.classes)
        for name, loss in losses.items():
            if loss > 0:
                known[name] = _fitting(known.get(name, Fraction(0)), loss)
        if len(known) > MOST_CLASSES:
            # Too many to keep apart: what is not kept apart counts for all, which is never too little.
            return EdgeBooks(_fitting(self.worst, epsilon))
        return EdgeBooks(self.rest, known)

    def times(self, stretch: Fraction) -> EdgeBooks:
        """The books after a change of policy: its edges are other ones, so the worst loss counts for all of them."""
        return EdgeBooks(self.worst * stretch)

    def lost_by(self, names: Iterable[str] | None) -> Fraction:
        """The most that one of these classes lost; of any class where none are named."""
        if names is None:
            return self.worst
        return self.rest + max((self.classes.get(name, Fraction(0)) for name in names), default=Fraction(0))

    def to_json(self) -> str:
        """The books as they are stored."""
        classes = {name: str(loss) for name, loss in sorted(self.classes.items())}
        return json.dumps({"rest": str(self.rest), "classes": classes}, ensure_ascii=True)


def read_books(written: str) -> EdgeBooks:
    """The books that to_json wrote."""
    try:
        content = json.loads(written)
        classes = {str(name): Fraction(loss) for name, loss in content["classes"].items()}
        return EdgeBooks(Fraction(content["rest"]), classes)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        raise LedgerCorrupt("the losses per class of edges cannot be read") from None


def _fitting(before: Fraction, amount: Fraction) -> Fraction:
    """The sum; AmountTooFine where its denominator would grow without bound."""
    return NOTHING.plus(before).plus(amount).value
