"""What-if and risk: what policies cost and what they hide, without a look at the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from blowfishdb.analysis.risk import risk
from blowfishdb.catalog.dataset import read_value
from blowfishdb.engine.request import read_query
from blowfishdb.engine.target import read_target
from blowfishdb.engine.what_if import Pair, PolicyPrice
from blowfishdb.errors import PolicyError
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.server.access import DataCurator, Member, worker_pools_of
from blowfishdb.server.rest import Strict, fields_of
from blowfishdb.server.rest.datasets import read_policy_for

router = APIRouter(prefix="/datasets/{name}", tags=["what-if"])


class WantedPair(Strict):
    """Two values of one attribute."""

    attribute: str
    one: str
    two: str


class WhatIf(Strict):
    """One question under several policies."""

    query: dict[str, Any]
    accuracy_target: dict[str, Any]
    policies: dict[str, dict[str, Any]] = Field(min_length=1, max_length=40)
    pairs: list[WantedPair] = Field(default_factory=list, max_length=40)


class WantedRisk(WantedPair):
    """Two values of one attribute, what is spent in all, and what was believed before."""

    epsilon: str
    prior: str = "0.5"


@dataclass(frozen=True)
class Declared:
    """What the risk meter needs to know."""

    domain: Domain
    policy: Policy


@router.post("/what-if")
async def what_if(name: str, sent: WhatIf, caller: DataCurator, request: Request) -> list[dict[str, Any]]:
    """What a question would cost under each policy, and an adversary's odds on each pair. Reads no data."""

    def work() -> list[dict[str, Any]]:
        curator = caller.curator()
        domain = curator.dataset(name).domain
        policies = {label: read_policy_for(domain, policy) for label, policy in sent.policies.items()}
        pairs = [Pair(pair.attribute, *_values(domain, pair)) for pair in sent.pairs]
        prices = curator.what_if(name, policies, read_query(sent.query), read_target(sent.accuracy_target), pairs)
        return [_price(price, len(pairs)) for price in prices]

    return await worker_pools_of(request).quote(caller.name, work, request)


@router.post("/risk")
def risk_of(name: str, sent: WantedRisk, caller: Member) -> dict[str, Any]:
    """What releases of so much epsilon can add to somebody's belief, at most. Reads no data."""
    domain, policy = caller.backend().declared(name)
    meter = risk(Declared(domain, policy), sent.epsilon, *_values(domain, sent), attribute=sent.attribute)
    low, high = meter.posterior(sent.prior)
    return {
        "steps": meter.steps,
        "odds": meter.odds if math.isfinite(meter.odds) else None,
        "posterior_low": low,
        "posterior_high": high,
        "words": list(meter.words(sent.prior)),
    }


def _values(domain: Domain, pair: WantedPair) -> tuple[object, object]:
    attribute = domain.find(pair.attribute, PolicyError)
    return read_value(pair.one, attribute), read_value(pair.two, attribute)


def _price(price: PolicyPrice, pairs: int) -> dict[str, Any]:
    return {
        **fields_of(price, "epsilon", "alpha", "steps"),
        "policy": price.name,
        "mechanism": price.mechanism or None,
        "refusal": price.refusal or None,
        "odds": [price.odds(place) for place in range(pairs)],
    }
