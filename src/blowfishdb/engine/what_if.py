"""Policies side by side: what a question costs under each, and an adversary's odds. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.errors import BlowfishError
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

LARGEST_POWER = 700.0


@dataclass(frozen=True)
class Pair:
    """Two values of one attribute that somebody would like to tell apart."""

    attribute: str
    one: object
    two: object


@dataclass(frozen=True)
class PolicyPrice:
    """A question under one policy. `steps` has the distance of each pair, None where it is not hidden at all.

    Where no mechanism can answer, `epsilon` and `alpha` are None and `refusal` says why.
    """

    name: str
    epsilon: Fraction | None
    alpha: float | None
    mechanism: str
    steps: tuple[int | None, ...]
    refusal: str = ""

    def odds(self, place: int) -> float | None:
        """By what factor an observer's odds between a pair's values may change; None: they may become certain."""
        steps = self.steps[place]
        if steps is None or self.epsilon is None:
            return None
        return math.exp(min(float(self.epsilon) * steps, LARGEST_POWER))


def what_if(
    domain: Domain, policies: Mapping[str, Policy], asked: Query, demanded: Demand, pairs: Sequence[Pair] = ()
) -> tuple[PolicyPrice, ...]:
    """The price of one question under each policy, in the given order."""
    return tuple(_price(domain, name, policy, asked, demanded, pairs) for name, policy in policies.items())


def _price(
    domain: Domain, name: str, policy: Policy, asked: Query, demanded: Demand, pairs: Sequence[Pair]
) -> PolicyPrice:
    policy.check(domain)
    steps = tuple(hidden_distance(domain, policy, pair.attribute, pair.one, pair.two) for pair in pairs)
    try:
        compiled = compile_query(domain, policy, asked)
        best = quotes_for(compiled, demanded).best
    except BlowfishError as refusal:
        return PolicyPrice(name, None, None, "", steps, refusal.message)
    return PolicyPrice(name, best.epsilon, best.alpha / compiled.scale, best.mechanism, steps)
