"""From a demand to offers, and from what is left of a budget to what it buys; reads no data."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.accuracy.quote import Quote, Quotes, accuracy_at, quote
from blowfishdb.engine.demand import Demand
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.plan.problem import Problem


def quotes_for(problem: Problem, demanded: Demand) -> Quotes:
    """Every mechanism's offer for the demand, best first."""
    known: dict[str, Mechanism] = dict(MECHANISMS)
    if demanded.mechanism is not None:
        known = {demanded.mechanism: MECHANISMS[demanded.mechanism]}
    beta = float(demanded.beta)
    if demanded.epsilon is not None:
        return accuracy_at(problem, demanded.epsilon, beta, known, demanded.guarantee)
    return quote(problem, float(demanded.alpha or 0), beta, known, demanded.guarantee)


def best_for(problem: Problem, epsilon: Fraction, demanded: Demand) -> Quote:
    """The most accurate offer at this epsilon, with the demand's beta."""
    return quotes_for(problem, Demand(None, epsilon, demanded.beta, demanded.guarantee, demanded.mechanism)).best
