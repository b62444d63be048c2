"""From a demand to offers, and from what is left of a budget to what it buys; reads no data."""

from __future__ import annotations

from collections.abc import Container, Mapping
from fractions import Fraction

from blowfishdb.accuracy.quote import Quotes, accuracy_at, quote
from blowfishdb.engine.compiled import Compiled
from blowfishdb.engine.demand import Demand
from blowfishdb.mechanisms import direct
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS


def quotes_for(compiled: Compiled, demanded: Demand, among: Container[str] = MECHANISMS) -> Quotes:
    """Every mechanism's offer for the demand, best first; offers are in the problem's units, see Compiled.scale."""
    problem = compiled.problem
    known = {name: propose for name, propose in _candidates(compiled, demanded).items() if name in among}
    beta = float(demanded.beta)
    if demanded.epsilon is not None:
        return accuracy_at(problem, demanded.epsilon, beta, known, demanded.guarantee)
    return quote(problem, float((demanded.alpha or 0) * compiled.scale), beta, known, demanded.guarantee)


def _candidates(compiled: Compiled, demanded: Demand) -> Mapping[str, Mechanism]:
    """The mechanisms to ask: the named one; for sums and means the one that measures them directly; else all."""
    if demanded.mechanism is not None:
        return {demanded.mechanism: MECHANISMS[demanded.mechanism]}
    # One row of large entries is answered best by measuring it (docs/proofs/direct.md); the others only take long.
    return MECHANISMS if compiled.measure is None else {direct.NAME: MECHANISMS[direct.NAME]}


def alpha_for(compiled: Compiled, epsilon: Fraction, demanded: Demand) -> float:
    """The best accuracy that this epsilon buys at the demand's beta, in the question's units."""
    own = Demand(None, epsilon, demanded.beta, demanded.guarantee, demanded.mechanism)
    return quotes_for(compiled, own).best.alpha / compiled.scale
