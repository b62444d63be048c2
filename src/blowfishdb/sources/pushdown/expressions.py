"""Small expressions that mean the same on every engine: exact doubles, nested choices, functions by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from blowfishdb.model.numbers import LARGEST
from blowfishdb.sources.engine import TEXT_MARK, Expr


@functools.cache
def function(name: str, result: str) -> Callable[[Expr], Expr]:
    """An engine's own function of one argument, called by name; it gets no casts around it."""
    import ibis

    def called(argument: Expr) -> Expr:
        return argument

    return _typed(ibis.udf.scalar.builtin(called, name=name, signature=((None,), result)))


@functools.cache
def function_of_two(name: str, result: str) -> Callable[[Expr, Expr], Expr]:
    """An engine's own function of two arguments, called by name."""
    import ibis

    def called(first: Expr, second: Expr) -> Expr:
        return first, second

    return _typed(ibis.udf.scalar.builtin(called, name=name, signature=((None, None), result)))


def _typed(builtin: Expr) -> Callable[..., Expr]:
    call: Callable[..., Expr] = builtin
    return call


def floor(number: Expr) -> Expr:
    """The double rounded down, still a double: Ibis' own floor casts, and a cast may fail."""
    return function("floor", "float64")(number)


def marked_text(column: Expr) -> Expr:
    """The column inside the mark that an engine replaces by its byte-wise text."""
    return function(TEXT_MARK, "string")(column)


def null_flag(value: Expr) -> Expr:
    """1 where the value is NULL, else 0; not every engine can cast a truth value."""
    import ibis

    return ibis.cases((value.isnull(), ibis.literal(1, "int64")), else_=ibis.literal(0, "int64"))


def whole_double(number: int) -> Expr:
    """A whole number up to 2^53 as a double; as an integer it is read exactly by every parser."""
    import ibis

    return ibis.literal(number, "int64").cast("float64")


def exact_double(number: Fraction) -> Expr:
    """The double nearest to the number.

    Parsers of decimal literals do not all round correctly, and some read 0.1 as a decimal. A quotient of two exact
    doubles is correctly rounded by IEEE arithmetic, and so is a product with powers of two.
    """
    if abs(number.numerator) <= LARGEST and number.denominator <= LARGEST:
        whole = whole_double(number.numerator)
        return whole if number.denominator == 1 else whole / whole_double(number.denominator)
    return _scaled(float(number))


def _scaled(number: float) -> Expr:
    mantissa, exponent = math.frexp(number)
    result, exponent = whole_double(int(mantissa * 2**53)), exponent - 53
    while exponent:
        step = min(abs(exponent), 52)
        power = whole_double(2**step)
        result = result * power if exponent > 0 else result / power
        exponent += -step if exponent > 0 else step
    return result


def choice(number: Expr, edges: Sequence[Expr], values: Sequence[int]) -> Expr:
    """values[i], where i of the increasing edges lie at or below the number; compares log2 times."""
    import ibis

    if not edges:
        return ibis.literal(values[0], "int64")
    middle = len(edges) // 2
    low = choice(number, edges[:middle], values[: middle + 1])
    high = choice(number, edges[middle + 1 :], values[middle + 1 :])
    return ibis.cases((number < edges[middle], low), else_=high)
