"""What-if and risk: what policies cost and what they hide, without a look at the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from blowfishdb.analysis.risk import risk
from blowfishdb.catalog.dataset import read_value
from blowfishdb.engine.preview import Pair, PolicyPrice
from blowfishdb.engine.serialize import read_query, read_target
from blowfishdb.errors import PolicyError
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.server.access import DataCurator, Member
from blowfishdb.server.rest.datasets import read_policy_for
from blowfishdb.server.rest.queries import Strict

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


class WantedRisk(Strict):
    """Two values of one attribute, what is spent in all, and what was believed before."""

    attribute: str
    one: str
    two: str
    epsilon: str
    prior: str = "0.5"


@dataclass(frozen=True)
class Declared:
    """What the risk meter needs to know."""

    domain: Domain
    policy: Policy


@router.post("/what-if")
def what_if(name: str, sent: WhatIf, caller: DataCurator) -> list[dict[str, Any]]:
    """What a question would cost under each policy, and an adversary's odds on each pair. Reads no data."""
    curator = caller.curator()
    domain = curator.dataset(name).domain
    policies = {label: read_policy_for(domain, policy) for label, policy in sent.policies.items()}
    pairs = [
        Pair(pair.attribute, _value(domain, pair.attribute, pair.one), _value(domain, pair.attribute, pair.two))
        for pair in sent.pairs
    ]
    found = curator.what_if(name, policies, read_query(sent.query), read_target(sent.accuracy_target), pairs)
    return [_price(price, len(pairs)) for price in found]


@router.post("/risk")
def risk_of(name: str, sent: WantedRisk, caller: Member) -> dict[str, Any]:
    """What releases of so much epsilon can add to somebody's belief, at most. Reads no data."""
    domain, policy = caller.backend().declared(name)
    one, two = (_value(domain, sent.attribute, text) for text in (sent.one, sent.two))
    found = risk(Declared(domain, policy), sent.epsilon, one, two, attribute=sent.attribute)
    low, high = found.posterior(sent.prior)
    odds = found.odds if math.isfinite(found.odds) else None
    return {
        "steps": found.steps,
        "odds": odds,
        "posterior_low": low,
        "posterior_high": high,
        "words": list(found.words(sent.prior)),
    }


def _value(domain: Domain, attribute: str, text: str) -> object:
    return read_value(text, domain.find(attribute, PolicyError))


def _price(price: PolicyPrice, pairs: int) -> dict[str, Any]:
    return {
        "policy": price.name,
        "epsilon": None if price.epsilon is None else str(price.epsilon),
        "alpha": price.alpha,
        "mechanism": price.mechanism or None,
        "refusal": price.refusal or None,
        "steps": list(price.steps),
        "odds": [price.odds(place) for place in range(pairs)],
    }
