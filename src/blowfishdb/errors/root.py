"""The root of all errors, and how an amount is written in them."""

from __future__ import annotations

from fractions import Fraction


def amount(epsilon: Fraction) -> str:
    """The number for people; the exact one is in the error's fields."""
    short = f"{float(epsilon):.6g}"
    return short if Fraction(short) == epsilon else f"about {short}"


class BlowfishError(Exception):
    """The root of the tree; `code` never changes once published."""

    code = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message
