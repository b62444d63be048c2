"""Aggregates written in SQL: counts, sums, means, spreads, quantiles and shares, with FILTER, CASE and ROUND."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Literal, NoReturn

from sqlglot import exp

from blowfishdb.engine.postprocess import Arithmetic, Formula, Total
from blowfishdb.errors import QueryError
from blowfishdb.model.aggregates import UNCHANGED, Affine, Aggregate, Function
from blowfishdb.model.conditions import Names, is_truth, node_text, only, read_condition, value_of
from blowfishdb.model.domain import CELL, Attribute, Bins, Domain, Integers
from blowfishdb.model.predicate import (
    Axis,
    Both,
    Comparison,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Predicate,
    atoms,
)
from blowfishdb.sql.groups import read_axis
from blowfishdb.sql.refusals import AGGREGATES, FUNCTIONS, refuse

MOST_LEVELS = 100
SPREADS: dict[type[exp.Expression], Function] = {
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "variance_pop",
}
QUANTILE_CALLS = ("QUANTILES", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE", "APPROX_PERCENTILE", "APPROX_QUANTILE")
EXAMPLE = "QUANTILES takes an attribute and its levels: QUANTILES(age, 0.25, 0.5, 0.75)"


@dataclass(frozen=True)
class ReadingContext:
    """What aggregates are read with: the attributes, the groups of the statement, and its table's name."""

    names: Names
    groups: tuple[str, ...]
    table: str

    def attribute(self, name: str) -> Attribute | None:
        """The declared attribute; None where only names are known, and none is taken to be NULL."""
        return None if self.names.declared is None else self.names.declared.find(name)


def read_aggregates(node: exp.Expression, context: ReadingContext) -> list[Aggregate]:
    """The columns that a node between SELECT and FROM asks for; QUANTILES asks for one for each level."""
    inner = bare(node)
    levels = _levels(inner, context)
    if levels:
        return levels
    if isinstance(inner, exp.Div | exp.Mul):
        return [_ratio(inner, context)]
    return [_single(inner, context)]


SIGNS: dict[type[exp.Expression], Literal["+", "-", "*", "/"]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
}
NULLIF = "NULLIF keeps a quotient from being over 0, so its second argument is 0: SUM(cost) / NULLIF(COUNT(*), 0)"
DIVISORS = "a quotient is over a count or a sum: SUM(cost) / SUM(nights)"


def is_formula(node: exp.Expression, context: ReadingContext) -> bool:
    """Whether a node is arithmetic with aggregates, other than an aggregate, a share or a mean."""
    inner = bare(node)
    if _quotient(inner, context) is not None:
        return True
    if type(inner) not in (*SIGNS, exp.Neg) or inner.find(exp.AggFunc) is None:
        return False
    if isinstance(inner, exp.Mul | exp.Div):
        try:
            _ratio(inner, context)
        except QueryError:
            return True
        return False
    return True


def read_formula(node: exp.Expression, context: ReadingContext, named: Callable[[Aggregate], str]) -> Formula:
    """Arithmetic with aggregates, which `named` gives their columns."""
    inner = bare(node)
    if isinstance(inner, exp.Nullif):
        if value_of(inner.expression) != 0:
            raise QueryError(NULLIF)
        return read_formula(inner.this, context, named)
    number = value_of(inner)
    if isinstance(number, int | Fraction) and not isinstance(number, bool):
        return float(number)
    if isinstance(inner, exp.Neg):
        return Arithmetic("-", 0.0, read_formula(inner.this, context, named))
    if isinstance(inner, exp.Window):
        part = summed(inner.this)
        if part is inner.this or not only(inner, "this", "partition_by", "over"):
            raise QueryError(f"{FUNCTIONS['window']}; SUM(SUM(x)) OVER () is the total of all groups")
        return Total(named(_single(part, context)), _partition(inner, context))
    counts = _quotient(inner, context)
    if counts is not None:
        return Arithmetic("/", named(counts[0]), named(counts[1]), 1.0)
    if type(inner) not in SIGNS:
        parts = read_aggregates(inner, context)
        if len(parts) > 1:
            raise QueryError("several quantiles are columns of their own; arithmetic takes one: MEDIAN(x)")
        return named(parts[0])
    left, right = (read_formula(side, context, named) for side in (inner.this, inner.expression))
    if isinstance(inner, exp.Mul | exp.Div) and right == 1.0:
        return left
    if isinstance(inner, exp.Mul) and left == 1.0:
        return right
    if isinstance(inner, exp.Div):
        return Arithmetic("/", left, right, _grain(inner.expression, context))
    return Arithmetic(SIGNS[type(inner)], left, right)


def summed(node: exp.Expression) -> exp.Expression:
    """The aggregate whose total over groups a node takes, as SUM(SUM(x)) OVER () does; else the node itself."""
    inner = node.this if isinstance(node, exp.Sum) and only(node, "this") else None
    is_total = isinstance(inner, exp.Expression) and inner.find(exp.AggFunc) is not None
    return inner.unnest() if inner is not None and is_total else node


def _grain(node: exp.Expression, context: ReadingContext) -> float:
    """The least size, other than 0, of what is divided by; 0 where it is never 0."""
    constant, above, below = _product(node)
    if constant == 0:
        raise QueryError("a number cannot be divided by 0")
    if not above and not below:
        return 0.0
    if len(above) != 1 or below or isinstance(above[0], exp.Add | exp.Sub):
        raise QueryError(f"{node_text(node)} may be 0; {DIVISORS}")
    part = _single(summed(above[0].this) if isinstance(above[0], exp.Window) else above[0], context)
    if part.function in ("count", "people"):
        return float(abs(constant))
    values = _values(part, context.names.declared) if part.function in ("sum", "mean") else None
    if values is not None and part.function == "sum" and values.least_sum > 0:
        return float(abs(constant) * values.least_sum)
    if values is not None and part.function == "mean" and (min(values.ends) > 0 or max(values.ends) < 0):
        return 0.0
    raise QueryError(f"{node_text(node)} may be 0, or as near to it as one likes; {DIVISORS}")


@dataclass(frozen=True)
class _Values:
    """What the values of an aggregate can be: the products of their ends, and the least sum of such, other than 0.

    The least sum is 0 where a sum can be as near to 0 as one likes.
    """

    ends: list[Fraction]
    least_sum: Fraction


def _values(part: Aggregate, declared: Domain | None) -> _Values:
    ends, steps, nearest = [Fraction(1)], Fraction(1), Fraction(1)
    for name, (scale, more) in zip(part.factors, part.affine or (UNCHANGED,) * len(part.factors), strict=True):
        attribute = None if declared is None else declared.find(name)
        if isinstance(attribute, Integers):
            low, high = Fraction(attribute.low), Fraction(attribute.high)
        elif isinstance(attribute, Bins):
            low, high = attribute.edge(0), attribute.edge(attribute.size)
        else:
            raise QueryError(f"{name} has no declared numbers; {DIVISORS}")
        low, high = sorted((scale * low + more, scale * high + more))
        ends = [product * end for product in ends for end in (low, high)]
        # Whole numbers are multiples of a step, and so are their sums; others add up to more where all have one sign.
        is_whole = isinstance(attribute, Integers) or attribute.whole
        step = Fraction(1, math.lcm(scale.denominator, more.denominator)) if is_whole else Fraction(0)
        steps *= step
        nearest *= max(low, -high, step) if low >= 0 or high <= 0 else 0
    return _Values(ends, steps or nearest)


def bare(node: exp.Expression) -> exp.Expression:
    """The node without what changes how a number is shown and not what is asked: alias, brackets, ROUND, CAST.

    ROUND and CAST are so around an aggregate alone; inside one they change each value. COALESCE(SUM(x), 0) is the sum
    as well: that of no records is 0 here.
    """
    while isinstance(node.this, exp.Expression) and (
        isinstance(node, exp.Alias | exp.Paren)
        or _only_shows(node)
        or (
            isinstance(node, exp.Coalesce)
            and isinstance(node.this, exp.Sum | exp.Count)
            and [value_of(part) for part in node.expressions] == [0]
        )
    ):
        node = node.this
    return node


def _only_shows(node: exp.Expression) -> bool:
    """Whether a node is ROUND, or CAST to a number, of what has an aggregate in it."""
    is_cast = isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.NUMERIC_TYPES)
    if not is_cast and not (isinstance(node, exp.Round) and only(node, "this", "decimals")):
        return False
    calls = (str(call.this).upper() for call in node.find_all(exp.Anonymous))
    return node.find(exp.AggFunc) is not None or any(call in QUANTILE_CALLS for call in calls)


def _single(node: exp.Expression, context: ReadingContext) -> Aggregate:
    names = context.names
    if isinstance(node, exp.Filter):
        condition = read_condition(node.expression.this, names)
        return _filtered(_single(bare(node.this), context), condition)
    if isinstance(node, exp.Count):
        return _count(node, context)
    if isinstance(node, exp.ApproxDistinct) and only(node, "this"):
        return _people(exp.Distinct(expressions=[node.this.copy()]))
    if isinstance(node, exp.CountIf) and only(node, "this"):
        return Aggregate("count", where=read_condition(node.this, names))
    if isinstance(node, exp.Sum | exp.Avg) and only(node, "this"):
        return _total(node, context)
    if type(node) in SPREADS and only(node, "this"):
        return Aggregate(SPREADS[type(node)], (names.attribute(node.this, "STDDEV and VARIANCE take one attribute"),))
    if isinstance(node, exp.Median) and only(node, "this"):
        attribute = names.attribute(node.this, "MEDIAN takes one attribute")
        return Aggregate("quantile", (attribute,), level=Fraction(1, 2))
    _refuse(node, context)


def _filtered(aggregate: Aggregate, condition: Predicate) -> Aggregate:
    if aggregate.function == "share":
        raise QueryError(QUOTIENTS)
    where = condition if aggregate.where is None else Both(aggregate.where, condition)
    return replace(aggregate, where=where)


COUNTED = "COUNT takes *, an attribute or a CASE"


def _count(node: exp.Count, context: ReadingContext) -> Aggregate:
    inner = node.this
    if isinstance(inner, exp.Distinct):
        return _people(inner)
    if not only(node, "this", "big_int"):
        raise QueryError(COUNTED)
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Literal) and not inner.is_string):
        return Aggregate("count")
    if isinstance(inner, exp.Case | exp.If):
        condition, value, other = _branches(inner, context)
        if value is None or other not in (None, exp.Null):
            raise QueryError("COUNT(CASE WHEN ... THEN 1 END) counts the records of the condition; leave ELSE out")
        if value_of(value) is not None:
            return Aggregate("count", where=condition)
        return _filtered(_with_value(context.names.attribute(value, COUNTED), context), condition)
    return _with_value(context.names.attribute(inner, COUNTED), context)


def _with_value(name: str, context: ReadingContext) -> Aggregate:
    """The count of records that have a value of an attribute: a declared one, or one outside of them."""
    attribute = context.attribute(name)
    if attribute is None or attribute.outside != CELL:
        return Aggregate("count", (name,))
    return Aggregate("count", where=Negation(IsNull(name)) if attribute.null == CELL else None)


def _people(node: exp.Distinct) -> Aggregate:
    """Persons by the column of their ids, which need not be declared; whether it is one, the policy tells."""
    columns = node.expressions
    if len(columns) != 1 or not isinstance(columns[0], exp.Column) or not only(node, "expressions"):
        raise QueryError(f"{FUNCTIONS['count_distinct']}.")
    return Aggregate("people", (columns[0].name,))


def _total(node: exp.Sum | exp.Avg, context: ReadingContext) -> Aggregate:
    inner, is_mean = _inside(node.this, context), isinstance(node, exp.Avg)
    if isinstance(inner, exp.Coalesce) and [value_of(part) for part in inner.expressions] == [0]:
        if is_mean:
            raise QueryError("AVG leaves NULL out: write AVG(x), or SUM(x) / COUNT(*) where NULL counts as 0")
        # NULL, which is left out, adds 0.
        inner = _inside(inner.this, context)
    if isinstance(inner, exp.Case | exp.If):
        condition, value, other = _branches(inner, context)
        if value is None:
            raise QueryError("SUM and AVG of a CASE add up a number or an attribute: CASE WHEN ... THEN x ELSE 0 END")
        number = value_of(value)
        if number is not None:
            if number != 1 or (is_mean and other != 0):
                raise QueryError("a CASE that is added up gives 1 or an attribute, and else 0: multiply the answer")
            share = Aggregate("share", where=condition, of=context.groups)
            return share if is_mean else Aggregate("count", where=condition)
        if is_mean and other == 0:
            raise QueryError("leave ELSE 0 out: AVG then takes the mean over the records of the condition")
        return _product_of("mean" if is_mean else "sum", value, context, condition)
    if _is_yes_or_no(inner, context):
        # True adds 1.
        condition = read_condition(inner, context.names)
        if not is_mean:
            return Aggregate("count", where=condition)
        if _unknown_atoms(condition, context):
            raise QueryError(QUOTIENTS)
        return Aggregate("share", where=condition, of=context.groups)
    return _product_of("mean" if is_mean else "sum", inner, context)


def _is_yes_or_no(node: exp.Expression, context: ReadingContext) -> bool:
    """Whether a node is a condition, or an attribute of truth values."""
    names = context.names
    is_condition = isinstance(node, exp.Predicate | exp.Connector | exp.Not)
    return is_condition or (names.declared is not None and is_truth(names.find(node), names.declared))


QUOTIENTS = (
    "AVG of a condition over some records of a group is worked out of two counts: select it as a column with a name, "
    "and use the name; or write COUNT(*) FILTER (WHERE ...) / COUNT(*) FILTER (WHERE ...)"
)


def _quotient(node: exp.Expression, context: ReadingContext) -> tuple[Aggregate, Aggregate] | None:
    """The counts whose quotient AVG of a condition is, where it is over some records of each group; None elsewhere.

    These are the records of its FILTER, and those for which the condition is true or false; a CASE with ELSE 0 also
    takes those for which it is unknown.
    """
    mean = bare(node.this) if isinstance(node, exp.Filter) else node
    if not isinstance(mean, exp.Avg) or not only(mean, "this"):
        return None
    inner = _inside(mean.this, context)
    among: list[Predicate] = []
    if isinstance(inner, exp.Case | exp.If):
        condition, value, other = _branches(inner, context)
        if value is None or value_of(value) != 1 or other != 0:
            return None
    elif _is_yes_or_no(inner, context):
        condition = read_condition(inner, context.names)
        among += _known(condition, context)
    else:
        return None
    chosen = [read_condition(node.expression.this, context.names)] if isinstance(node, exp.Filter) else []
    if not among and not chosen:
        return None
    part, whole = reduce(Both, [condition, *chosen]), reduce(Both, [*among, *chosen])
    return Aggregate("count", where=part), Aggregate("count", where=whole)


def _known(condition: Predicate, context: ReadingContext) -> list[Predicate]:
    """What records meet for which a condition is true or false; nothing where that is all of them."""
    unknown = list(dict.fromkeys(_unknown_atoms(condition, context)))
    if len(unknown) == 1 and all(isinstance(atom, Comparison | Member) for atom in atoms(condition)):
        names = {atom.attribute for atom in atoms(condition)}
        return [Negation(unknown[0]) if len(names) == 1 else Either(condition, Negation(condition))]
    return [Either(condition, Negation(condition))] if unknown else []


def _unknown_atoms(condition: Predicate, context: ReadingContext) -> list[Predicate]:
    """When comparisons of a condition are unknown: for NULL, and those of order for values outside as well."""
    unknown: list[Predicate] = []
    for atom in atoms(condition):
        attribute = context.attribute(atom.attribute)
        if attribute is None or not isinstance(atom, Comparison | Member):
            continue
        unknown += [IsNull(atom.attribute)] if attribute.null == CELL else []
        is_order = isinstance(atom, Comparison) and atom.op != "=="
        unknown += [IsOutside(atom.attribute)] if is_order and attribute.outside == CELL else []
    return unknown


def _other_than(condition: Predicate, context: ReadingContext, *, truth: bool = True) -> Predicate:
    """The records for which a condition is not true, as ELSE takes them: false or unknown; or those not false."""
    if not _unknown_atoms(condition, context):
        return Negation(condition) if truth else condition
    if isinstance(condition, Negation):
        return _other_than(condition.inner, context, truth=not truth)
    if isinstance(condition, Both | Either):
        joined = Either if isinstance(condition, Both) == truth else Both
        return joined(*(_other_than(part, context, truth=truth) for part in (condition.first, condition.second)))
    known: Predicate = Negation(condition) if truth else condition
    return reduce(Either, _unknown_atoms(condition, context), known)


def _inside(node: exp.Expression, context: ReadingContext) -> exp.Expression:
    """What stands inside an aggregate, without brackets and without casts that leave each of its values as it is."""
    if not isinstance(node, exp.Paren | exp.Cast):
        return node
    inner = _inside(node.this, context)
    return inner if isinstance(node, exp.Paren) or _keeps_values(node.to, inner, context) else node


def _keeps_values(kind: exp.Expression, inner: exp.Expression, context: ReadingContext) -> bool:
    """Whether a cast changes no number: to numbers with any fraction, or of whole numbers or conditions."""
    if value_of(inner) is not None or not kind.is_type(*exp.DataType.NUMERIC_TYPES):
        return False
    if not kind.expressions and kind.is_type(*exp.DataType.FLOAT_TYPES, exp.DType.DECIMAL):
        return True
    if isinstance(inner, exp.Case | exp.If):
        # It gives what its one branch gives, or 0, or NULL.
        inner = _inside(_branches(inner, context)[1] or inner, context)
    name = context.names.find(inner)
    is_whole = isinstance(value_of(inner), int) or (name is not None and isinstance(context.attribute(name), Integers))
    return is_whole or _is_yes_or_no(inner, context)


SUMMED = "SUM and AVG take an attribute, or a product of such: SUM(price * units), SUM(price * (1 - discount))"


def _product_of(
    function: Function, node: exp.Expression, context: ReadingContext, where: Predicate | None = None
) -> Aggregate:
    """The sum or mean of a product of a x + b over attributes x."""
    constant, factors = _linear_factors(node, context)
    if not factors:
        raise QueryError(f"{SUMMED}; a number alone is COUNT(*) times it")
    name, (scale, more) = factors[0]
    factors[0] = name, (constant * scale, constant * more)
    affine = tuple(pair for _, pair in factors)
    names = tuple(name for name, _ in factors)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"squares are not added up: VAR_POP({twice}) is how far {twice} is spread around its mean; a product is of "
            "different attributes"
        )
    return Aggregate(function, names, where, affine=() if set(affine) == {UNCHANGED} else affine)


def _linear_factors(node: exp.Expression, context: ReadingContext) -> tuple[Fraction, list[tuple[str, Affine]]]:
    """A product: its constant, and its factors a x + b."""
    inner = _inside(node, context)
    if isinstance(inner, exp.Mul | exp.Div):
        (one, left), (two, right) = (_linear_factors(side, context) for side in (inner.this, inner.expression))
        if isinstance(inner, exp.Mul):
            return one * two, left + right
        if right or two == 0:
            raise QueryError(f"{SUMMED}; it is divided by numbers other than 0 alone")
        return one / two, left
    if isinstance(inner, exp.Neg):
        constant, factors = _linear_factors(inner.this, context)
        return -constant, factors
    number = value_of(inner)
    if isinstance(number, int | Fraction) and not isinstance(number, bool):
        return Fraction(number), []
    if isinstance(inner, exp.Add | exp.Sub):
        sign = 1 if isinstance(inner, exp.Add) else -1
        (one, left), (two, right) = (_linear_factors(side, context) for side in (inner.this, inner.expression))
        if len(left) + len(right) > 1:
            raise QueryError(f"{SUMMED}; sums of two attributes are two columns: SUM(x), SUM(y)")
        if not left and not right:
            return one + sign * two, []
        ((name, (scale, more)),) = left or right
        if left:
            return Fraction(1), [(name, (one * scale, one * more + sign * two))]
        return Fraction(1), [(name, (sign * two * scale, one + sign * two * more))]
    if isinstance(inner, exp.Round | exp.Cast):
        raise QueryError(f"{node_text(inner)} changes values before they are added up; round the answer: ROUND(SUM(x))")
    return Fraction(1), [(context.names.attribute(inner, SUMMED), UNCHANGED)]


def _branches(node: exp.Case | exp.If, context: ReadingContext) -> tuple[Predicate, exp.Expression | None, object]:
    """The condition of a CASE with one branch, what it gives, and its ELSE: a number, exp.Null or None."""
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    if len(branches) != 1 or (isinstance(node, exp.Case) and node.this is not None):
        raise QueryError("a CASE inside an aggregate has one WHEN; write one aggregate for each of them")
    branch = branches[0]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    condition, value = read_condition(branch.this, context.names), branch.args["true"]
    if isinstance(value, exp.Null):
        return condition, None, None
    if default is None or isinstance(default, exp.Null):
        return condition, value, None if default is None else exp.Null
    other = value_of(default)
    if other == 0 or (other == 1 and value_of(value) == 0):
        if other == 1:
            return _other_than(condition, context), default, 0
        return condition, value, 0
    raise QueryError("a CASE inside an aggregate ends in ELSE 0 or without ELSE")


def _levels(node: exp.Expression, context: ReadingContext) -> list[Aggregate]:
    """The quantiles that a call asks for; none for any other call."""
    if isinstance(node, exp.Filter):
        condition = read_condition(node.expression.this, context.names)
        return [_filtered(part, condition) for part in _levels(bare(node.this), context)]
    called = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
        ordered = node.expression.expressions
        if len(ordered) != 1 or ordered[0].args.get("desc") or not only(node.this, "this"):
            raise QueryError("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) takes one attribute in rising order")
        levels = node.this.this
        listed = levels.expressions if isinstance(levels, exp.Array) else [levels]
        return quantiles(ordered[0].this, listed, context.names)
    if isinstance(node, exp.Quantile | exp.ApproxQuantile):
        if not only(node, "this", "quantile"):
            raise QueryError(EXAMPLE)
        return quantiles(node.this, [node.args["quantile"]], context.names)
    return (
        quantiles(node.expressions[0], node.expressions[1:], context.names)
        if called in QUANTILE_CALLS and node.expressions
        else []
    )


def quantiles(attribute: exp.Expression, levels: Iterable[exp.Expression], names: Names) -> list[Aggregate]:
    """The quantiles of one attribute at the given levels."""
    values = [value_of(part) for part in levels]
    if not 1 <= len(values) <= MOST_LEVELS:
        raise QueryError(f"{EXAMPLE}; at most {MOST_LEVELS} of them")
    shares = [Fraction(level) for level in values if isinstance(level, int | Fraction)]
    if len(shares) != len(values) or not all(0 < level < 1 for level in shares):
        raise QueryError(f"{EXAMPLE}; levels lie strictly between 0 and 1")
    name = names.attribute(attribute, EXAMPLE)
    return [Aggregate("quantile", (name,), level=level) for level in shares]


def _ratio(node: exp.Expression, context: ReadingContext) -> Aggregate:
    """A share, a mean, or an aggregate times 1, from a product and quotient of counts, sums and numbers."""
    constant, above, below = _product(node)
    if len(above) == 1 and not below:
        single = _single(above[0], context)
        if constant == 1:
            return single
        if single.function in ("sum", "mean") and constant != 0:
            first, *others = single.affine or (UNCHANGED,) * len(single.factors)
            return replace(single, affine=((constant * first[0], constant * first[1]), *others))
    if len(above) != 1 or len(below) != 1:
        raise QueryError(
            f"{node_text(node)} is not a share. A share is written 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), or "
            "1.0 * COUNT(*) FILTER (WHERE ...) / COUNT(*); other arithmetic is for the answer"
        )
    part = _single(above[0], context)
    if part.function == "sum" and constant == 1 and isinstance(below[0], exp.Count):
        size = _single(below[0], context)
        if size.where == part.where and (size.factors == part.factors or _all_have_values(part, size, context)):
            return replace(part, function="mean")
    if part.function != "count" or part.factors or constant.denominator != 1 or constant < 1:
        raise QueryError("a share is a count over a count, times a whole number such as 1 or 100")
    return Aggregate("share", where=part.where, of=_whole(below[0], context), times=int(constant))


def _all_have_values(part: Aggregate, size: Aggregate, context: ReadingContext) -> bool:
    """Whether every record that is counted has a value of what is added up: all of them have one."""
    declared = [context.attribute(name) for name in part.factors]
    return not size.factors and not any(one is not None and one.slots for one in declared)


def _product(node: exp.Expression) -> tuple[Fraction, list[exp.Expression], list[exp.Expression]]:
    """A product and quotient: its constant, what stands above the line, and what below."""
    inner = bare(node)
    if isinstance(inner, exp.Nullif):
        if value_of(inner.expression) != 0:
            raise QueryError(NULLIF)
        return _product(inner.this)
    if isinstance(inner, exp.Mul | exp.Div):
        one, two = _product(inner.this), _product(inner.expression)
        if isinstance(inner, exp.Mul):
            return one[0] * two[0], one[1] + two[1], one[2] + two[2]
        if two[0] == 0:
            raise QueryError("a number cannot be divided by 0")
        return one[0] / two[0], one[1] + two[2], one[2] + two[1]
    number = value_of(inner)
    if isinstance(number, int | Fraction) and not isinstance(number, bool):
        return Fraction(number), [], []
    return Fraction(1), [inner], []


def _whole(node: exp.Expression, context: ReadingContext) -> tuple[str, ...]:
    """The groups whose counts a share divides by: those of a window over counts, or the group itself."""
    if isinstance(node, exp.Count):
        size = _single(node, context)
        if size.factors or size.where is not None:
            raise QueryError("a share divides by COUNT(*)")
        return context.groups
    inner = node.this if isinstance(node, exp.Window) else None
    is_sum = isinstance(inner, exp.Sum) and isinstance(inner.this, exp.Count) and isinstance(inner.this.this, exp.Star)
    if not is_sum or not only(node, "this", "partition_by", "over"):
        raise QueryError("a share divides by SUM(COUNT(*)) OVER (), or OVER (PARTITION BY ...) a group")
    return _partition(node, context)


def _partition(node: exp.Expression, context: ReadingContext) -> tuple[str, ...]:
    """The groups that the PARTITION BY of a window names, as they are selected or by the name of their attribute."""
    of = []
    select = node.find_ancestor(exp.Select)
    items = [] if select is None else [item.unalias() for item in select.expressions]
    grouped = [read_axis(item, context.names) for item in items if item.find(exp.AggFunc) is None]
    for part in node.args.get("partition_by") or []:
        axis = read_axis(part, context.names)
        if axis is None or axis.attribute not in context.groups or axis not in (Axis(axis.attribute), *grouped):
            raise QueryError(f"PARTITION BY names attributes that are grouped, as they are, not {node_text(part)}")
        of.append(axis.attribute)
    having = None if select is None else select.args.get("having")
    if having is not None and having.find(exp.AggFunc) is not None and set(of) != set(context.groups):
        raise QueryError(
            "a window is over the groups that HAVING leaves, whose total is not measured: leave HAVING out, or write "
            "SELECT * FROM (SELECT ...) WHERE n > 100 to choose among shares of all"
        )
    return tuple(of)


def _refuse(node: exp.Expression, context: ReadingContext) -> NoReturn:
    for kind, advice in ((exp.Min, "min"), (exp.Max, "max"), (exp.Window, "window")):
        if isinstance(node, kind):
            raise QueryError(f"{FUNCTIONS[advice]}.")
    if node.find(exp.Mode) is not None:
        raise QueryError(f"{FUNCTIONS['mode']}.")
    if node.find(exp.Select) is not None:
        refuse("Subqueries are known after FROM only; the total of all groups is SUM(COUNT(*)) OVER ()", context.table)
    raise QueryError(
        f"{node_text(node)} is not known here. Between SELECT and FROM stand attributes, bin(x, 10), "
        f"DATE_TRUNC('month', x), and {AGGREGATES}."
    )
