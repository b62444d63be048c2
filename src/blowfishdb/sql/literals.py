"""Values written in SQL: exact numbers, texts, truth values and dates; nothing is computed."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.sql.refusals import shown

LONGEST_NUMBER = 40
LONGEST_TEXT = 1_000
LARGEST_EXPONENT = 40
DATE_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME")

Value = int | Fraction | str | bool


def only(node: exp.Expression, *known: str) -> bool:
    """Whether no part of the node is set but the known ones."""
    return all(key in known for key, part in node.args.items() if part not in (None, False, []))


def value_of(node: exp.Expression) -> Value | None:
    """The value that a node writes, or None where it writes none."""
    if isinstance(node, exp.Paren):
        return value_of(node.this)
    if isinstance(node, exp.Neg):
        inner = value_of(node.this)
        return -inner if isinstance(inner, int | Fraction) and not isinstance(inner, bool) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast):
        return _moment(node)
    if not isinstance(node, exp.Literal):
        return None
    return _text(str(node.this)) if node.is_string else number(str(node.this))


def number(text: str) -> int | Fraction:
    """The exact number that digits write."""
    if len(text) > LONGEST_NUMBER:
        raise QueryError(f"a number has at most {LONGEST_NUMBER} characters, not {len(text):,}")
    try:
        written = Decimal(text)
    except InvalidOperation:
        raise QueryError(f"{shown(text)} is no number") from None
    if not written.is_finite() or abs(written.adjusted()) > LARGEST_EXPONENT:
        raise QueryError(f"{shown(text)} is out of range: numbers lie below 1e{LARGEST_EXPONENT} in size")
    exact = Fraction(written)
    return int(exact) if exact.denominator == 1 else exact


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise QueryError(f"a text value has at most {LONGEST_TEXT:,} characters, not {len(text):,}")
    return text


def _moment(node: exp.Cast) -> str | None:
    """DATE '2024-02-29' and TIMESTAMP '...': the text, which the declared attribute reads."""
    kind = node.args.get("to")
    inner = node.this
    if not isinstance(kind, exp.DataType) or not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    return _text(str(inner.this)) if kind.this.name in DATE_TYPES else None
