"""The policy of a dataset: as a document with a tag, what a change would do, and the change; what-if and risk."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field

from blowfishdb.analysis.risk import risk
from blowfishdb.catalog.dataset import read_value
from blowfishdb.catalog.guidance import Pair, PolicyPrice
from blowfishdb.engine.request import read_query, read_target
from blowfishdb.errors import InvalidInput, PolicyError, VersionMismatch
from blowfishdb.ledger import VersionChange
from blowfishdb.model.document import read_document, write_domain, write_policy
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Policy
from blowfishdb.server.authentication import Caller, DataCurator, Reader
from blowfishdb.server.rest import Strict, fields_of
from blowfishdb.server.rest.datasets import plain_document, read_policy_for

router = APIRouter(prefix="/datasets/{name}/policy", tags=["policies"])
CHANGE = ("current_version", "next_version", "stretch", "charges", "limit", "spent_before", "spent_after", "refusal")
"""What is told of a change."""


class WantedPolicy(Strict):
    """A policy to look at."""

    policy: dict[str, Any]


class NewPolicy(WantedPolicy):
    """A policy to put in force, and why."""

    reason: str


@router.get("")
def policy(name: str, caller: Reader, response: Response) -> dict[str, Any]:
    """The policy in force and what it means; its tag is in the header ETag."""
    domain, in_force = caller.declared(name)
    response.headers["ETag"] = tag_of(in_force)
    return {"policy": write_policy(in_force), "words": list(explain(domain, in_force))}


@router.post("/changes")
def what_would_change(name: str, sent: WantedPolicy, caller: DataCurator) -> dict[str, Any]:
    """What a new policy would do to past loss; changes nothing."""
    curator = caller.curator()
    domain = curator.dataset(name).domain
    wanted = read_policy_for(domain, sent.policy)
    change, stretch = curator.what_would_change(name, policy=wanted)
    return {**fields_of(change, *CHANGE), "why": stretch.why, "words": list(explain(domain, wanted))}


@router.put("")
def set_policy(
    name: str,
    sent: NewPolicy,
    caller: DataCurator,
    response: Response,
    if_match: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Puts a policy in force; the header If-Match names the tag of the one that it replaces."""
    tag = _seen_tag(if_match, "policy")
    wanted = read_policy_for(caller.curator().in_force(name)[1].domain, sent.policy)
    change = put_in_force(name, tag, wanted, sent.reason, caller)
    response.headers["ETag"] = tag_of(wanted)
    return fields_of(change, *CHANGE)


def tag_of(declared: Policy | Domain) -> str:
    """The entity tag of a policy or a domain: the same for the same one."""
    document = write_policy(declared) if isinstance(declared, Policy) else write_domain(declared)
    return f'"{hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:20]}"'


def _seen_tag(if_match: str | None, what: str) -> str:
    if if_match is None:
        raise InvalidInput(f"send the tag of the {what} that you looked at in the header If-Match")
    return if_match.strip()


def put_in_force(name: str, tag: str, wanted: Policy | Domain, reason: str, caller: Caller) -> VersionChange:
    """What a new policy or domain does, on record; VersionMismatch unless the tag is that of the one it replaces."""
    curator = caller.curator()
    account, before = curator.in_force(name)
    current: Policy | Domain = before.policy if isinstance(wanted, Policy) else before.domain
    what = "policy" if isinstance(wanted, Policy) else "domain"
    if tag != tag_of(current):
        raise VersionMismatch(what, tag_of(current))
    if isinstance(wanted, Policy):
        change = curator.set_policy(name, wanted, reason=reason, seen=account.policy_version)
    else:
        change = curator.set_domain(name, wanted, reason=reason)
    caller.note(f"changed a {what}", name, {"version": change.next_version})
    return change


declaration_router = APIRouter(prefix="/datasets/{name}", tags=["policies"])


class NewDomain(Strict):
    """What the public may know of each attribute, and why it changes."""

    domain: dict[str, Any]
    reason: str


class NewAccounting(Strict):
    """How losses add up, and why that changes."""

    accounting: str
    reason: str


@declaration_router.get("/domain")
def domain(name: str, caller: Reader, response: Response) -> dict[str, Any]:
    """The domain in force; its tag is in the header ETag."""
    in_force, _ = caller.declared(name)
    response.headers["ETag"] = tag_of(in_force)
    return {"domain": write_domain(in_force)}


@declaration_router.put("/domain")
def set_domain(
    name: str,
    sent: NewDomain,
    caller: DataCurator,
    response: Response,
    if_match: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Declares attributes anew, which past answers may refuse; If-Match names the tag of the domain it replaces."""
    tag = _seen_tag(if_match, "domain")
    _, in_force = caller.curator().in_force(name)
    wanted = read_document(plain_document(sent.domain, write_policy(in_force.policy)), "json").domain
    change = put_in_force(name, tag, wanted, sent.reason, caller)
    response.headers["ETag"] = tag_of(wanted)
    return fields_of(change, *CHANGE)


@declaration_router.put("/accounting")
def set_accounting(name: str, sent: NewAccounting, caller: DataCurator) -> dict[str, Any]:
    """Adds up losses in another way; the worst so far then counts for all."""
    caller.curator().set_accounting(name, sent.accounting, reason=sent.reason)
    caller.note("changed the accounting", name, {"accounting": sent.accounting[:200]})
    return {"dataset": name, "accounting": sent.accounting}


what_if_router = APIRouter(prefix="/datasets/{name}", tags=["what-if"])


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


@what_if_router.post("/what-if")
async def what_if(name: str, sent: WhatIf, caller: DataCurator, request: Request) -> list[dict[str, Any]]:
    """What a question would cost under each policy, and an adversary's odds on each pair. Reads no data."""

    def work() -> list[dict[str, Any]]:
        curator = caller.curator()
        domain = curator.dataset(name).domain
        policies = {label: read_policy_for(domain, policy) for label, policy in sent.policies.items()}
        pairs = [Pair(pair.attribute, *_values(domain, pair)) for pair in sent.pairs]
        prices = curator.what_if(name, policies, read_query(sent.query), read_target(sent.accuracy_target), pairs)
        return [_price(price, len(pairs)) for price in prices]

    return await caller.quote(work, request)


@what_if_router.post("/risk")
def risk_of(name: str, sent: WantedRisk, caller: Reader) -> dict[str, Any]:
    """What releases of an epsilon in all can add to somebody's belief, at most. Reads no data."""
    table = caller.session()[name]
    meter = risk(table, sent.epsilon, *_values(table.domain, sent), attribute=sent.attribute)
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
