"""What one question would cost under other policies, and what each of them would hide; reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.engine.charge import UNREAD, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.program import QuantilesRelease
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, make_request
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
    domain: Domain, policies: Mapping[str, Policy], query: Query, target: AccuracyTarget, pairs: Sequence[Pair] = ()
) -> tuple[PolicyPrice, ...]:
    """The price of one question under each policy, in the given order: that of the release which would run."""
    prices = []
    for name, policy in policies.items():
        policy.check(domain)
        steps = tuple(hidden_distance(domain, policy, pair.attribute, pair.one, pair.two) for pair in pairs)
        handle = DatasetHandle(name, domain, policy, "", 0, 0, 0, UNREAD)
        try:
            prices.append(PolicyPrice(name, *_promise(handle, query, target), steps))
        except BlowfishError as refusal:
            prices.append(PolicyPrice(name, None, None, "", steps, refusal.message))
    return tuple(prices)


def _promise(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> tuple[Fraction, float | None, str]:
    """The price of a release, how far off it is at most, and its mechanism."""
    release = prepare(handle, make_request(handle, query, target))
    if isinstance(release, PlanRelease):
        return release.epsilon, release.compiled.shown(release.best.alpha), release.best.mechanism
    if isinstance(release, QuantilesRelease):
        return release.epsilon, release.best.alpha, release.best.mechanism
    preview = release.preview(handle)
    best = preview.best if isinstance(preview, Preview) else None
    return release.epsilon, None if best is None else best.alpha, "" if best is None else best.mechanism
