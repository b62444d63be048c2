"""What somebody can have instead with the budget that is left; reads no data."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from blowfishdb.engine.compiled import Compiled, compile_query
from blowfishdb.engine.demand import SMALLEST, USUAL_BETA, Demand
from blowfishdb.engine.present.numbers import readable
from blowfishdb.engine.quoting import alpha_for
from blowfishdb.errors import BlowfishError, QueryError
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.numbers import exact
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis
from blowfishdb.model.query import Query

COARSER = 10
"""Fewer bins are tried at so many times the width."""
FEWEST_BINS = 2
COUNTED = ("histogram", "cdf")


def instead(domain: Domain, policy: Policy, compiled: Compiled, wanted: Demand, left: Fraction) -> tuple[str, ...]:
    """A wider alpha at the same beta, at the usual one, or fewer bins: what `left` buys, in words."""
    epsilon = _short(left)
    if epsilon < SMALLEST:
        return ()
    demanded = replace(wanted, mechanism=None) if wanted.is_data_aware else wanted
    said = []
    for beta in dict.fromkeys([demanded.beta, max(demanded.beta, USUAL_BETA)]):
        own = replace(demanded, beta=beta)
        alpha = _alpha(compiled, epsilon, own)
        if alpha is not None:
            said.append(f"within {readable(alpha)} ({own.confidence})")
    coarse = _coarser(domain, compiled.query)
    if coarse is not None:
        words = _coarse_words(domain, policy, coarse, epsilon, demanded)
        said += [] if words is None else [words]
    return tuple(said)


def _alpha(compiled: Compiled, epsilon: Fraction, demanded: Demand) -> float | None:
    try:
        return alpha_for(compiled, epsilon, demanded)
    except BlowfishError:
        return None


def _coarse_words(domain: Domain, policy: Policy, coarse: Query, epsilon: Fraction, demanded: Demand) -> str | None:
    try:
        compiled = compile_query(domain, policy, coarse)
    except BlowfishError:
        return None
    bins, alpha = compiled.problem.graph.cells, _alpha(compiled, epsilon, demanded)
    if alpha is None or bins < FEWEST_BINS:
        return None
    return f"{bins:,} bins within {readable(alpha)} ({demanded.confidence})"


def _coarser(domain: Domain, asked: Query) -> Query | None:
    """The same question over bins about ten times as wide; None where that makes no sense."""
    if asked.kind not in COUNTED or len(asked.axes) != 1:
        return None
    axis = asked.axes[0]
    attribute = domain.find(axis.attribute)
    if not isinstance(attribute, Integers | Bins) or axis.edges or axis.groups or attribute.size < 2 * COARSER:
        return None
    if isinstance(attribute, Bins) and attribute.width is None:
        return None
    step = Fraction(1) if isinstance(attribute, Integers) else attribute.width or Fraction(1)
    own = step if axis.width is None else exact(axis.width, "the width", QueryError)
    return replace(asked, axes=(Axis(axis.attribute, width=COARSER * own),))


def _short(amount: Fraction) -> Fraction:
    """A short fraction at most the amount: three digits, rounded down."""
    if amount <= 0:
        return Fraction(0)
    power = Fraction(10) ** (math.floor(math.log10(amount)) - 2)
    return math.floor(amount / power) * power
