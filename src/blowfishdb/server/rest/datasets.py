"""Datasets: what is declared of them, adding, pausing and removing; budgets; policies, what-if and risk."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from blowfishdb.analysis.risk import risk
from blowfishdb.catalog.dataset import Dataset, read_value
from blowfishdb.catalog.guidance import Pair, PolicyPrice
from blowfishdb.engine.request import read_query, read_target
from blowfishdb.errors import InvalidInput, PolicyError, VersionMismatch
from blowfishdb.ledger import Account, VersionChange
from blowfishdb.model.document import read_document, write_domain, write_policy
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Policy
from blowfishdb.model.serialize import write
from blowfishdb.server.authentication import AccountCurator, Analyst, AnyCaller, Auditor, Caller, DataCurator, Reader
from blowfishdb.server.rest import Strict, fields_of
from blowfishdb.sources.base import Join


def plain_document(domain: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """One document from its two parts."""
    return json.dumps({"version": 1, "domain": domain, "policy": policy})


def read_policy_for(domain: Domain, policy: Mapping[str, Any]) -> Policy:
    """A policy as it travels, checked against a domain; DocumentError says what is wrong with it."""
    return read_document(plain_document(write_domain(domain), policy), "json").policy


router = APIRouter(prefix="/datasets", tags=["datasets"])


class JoinedTable(Strict):
    """A table that a foreign key points to, and the columns it gives, by the names of the domain."""

    table: str
    foreign_key: str
    key: str
    attributes: dict[str, str] | list[str]


class NewDataset(Strict):
    """A dataset to add: the address of its table, its domain and policy as documents, its budgets and joins.

    With `everyone` all accounts may use it by their roles, else nobody but whoever adds it, until they grant it; null
    is what the server's settings say.
    """

    name: str
    source: str
    domain: dict[str, Any]
    policy: dict[str, Any] = Field(default_factory=dict)
    epsilon: str = "1"
    per_analyst: str | None = None
    joins: list[JoinedTable] = Field(default_factory=list)
    everyone: bool | None = None


class Reason(Strict):
    """Why, for the record."""

    reason: str


class Description(Strict):
    """What is new, and whether the numbers that public constraints give are true of it too."""

    description: str
    numbers_hold: bool = False


@router.get("")
def datasets(caller: AnyCaller) -> list[dict[str, Any]]:
    """All datasets with their attributes."""
    session = caller.session()
    return [
        {"name": name, "attributes": list(session[name].domain), "paused": _pause(caller, name)}
        for name in session.datasets()
    ]


@router.get("/{name}")
def dataset(name: str, caller: Reader) -> dict[str, Any]:
    """What is declared of one dataset: domain and policy as documents, and the policy in words."""
    domain, policy = caller.declared(name)
    return {
        "name": name,
        "domain": write_domain(domain),
        "policy": write_policy(policy),
        "policy_words": list(explain(domain, policy)),
        "joins": [write(join) for join in caller.session()[name].joins],
        "paused": _pause(caller, name),
    }


@router.post("", status_code=201)
def add(sent: NewDataset, caller: AccountCurator) -> dict[str, Any]:
    """Adds a dataset; reads its schema and none of its rows. `trial` is the next thing to ask."""
    document = read_document(plain_document(sent.domain, sent.policy), "json")
    plain = sent.model_dump(exclude={"domain", "policy", "joins", "everyone"})
    joins = [Join(**one.model_dump()) for one in sent.joins]
    dataset = Dataset(**plain, domain=document.domain, policy=document.policy, joins=joins)
    account = add_dataset(dataset, caller, everyone=sent.everyone)
    return {"name": sent.name, "account": account.id, "epsilon": str(account.limit)}


@router.post("/{name}/trial")
def try_questions(name: str, caller: DataCurator) -> dict[str, Any]:
    """Whether the source counts for a question about each column; shows no count, costs nothing."""
    caller.note("tried questions", name)
    curator = caller.curator()
    tried = [
        {"question": one.question, "seconds": round(one.seconds, 3), "failure": one.failure or None}
        for one in curator.try_questions(name)
    ]
    return {"name": name, "cautions": curator.cautions(name), "trial": tried}


def add_dataset(dataset: Dataset, caller: Caller, *, everyone: bool | None = None) -> Account:
    """The account of a dataset that is added, on record; for everyone, or for whoever adds it."""
    account, state = caller.curator().add(dataset), caller.app_state
    is_open = state.settings.new_datasets == "everyone" if everyone is None else everyone
    state.grants.hand_over(dataset.name, caller.name, everyone=is_open)
    caller.note("added a dataset", dataset.name, {"for": "everyone" if is_open else caller.name})
    return account


@router.delete("/{name}", status_code=204)
def remove(name: str, caller: DataCurator, reason: str = "") -> None:
    """Takes a dataset out; its account, and what was spent, stay in the ledger."""
    caller.curator().remove(name)
    caller.app_state.grants.forget(name)
    caller.app_state.approvals.forget(name)
    caller.note("removed a dataset", name, {"reason": reason} if reason else {})


@router.put("/{name}/pause")
def pause(name: str, sent: Reason, caller: DataCurator) -> dict[str, Any]:
    """Pauses a dataset: no previews and no releases until it is resumed."""
    caller.curator().dataset(name)
    caller.app_state.pauses.pause(name, by=caller.name, reason=sent.reason)
    caller.note("paused a dataset", name, {"reason": sent.reason})
    return {"name": name, "paused": _pause(caller, name)}


@router.delete("/{name}/pause", status_code=204)
def go_on(name: str, caller: DataCurator) -> None:
    """Resumes a paused dataset."""
    caller.curator().dataset(name)
    caller.app_state.pauses.resume(name)
    caller.note("let a dataset go on", name)


@router.post("/{name}/snapshots")
def refreshed(name: str, sent: Description, caller: DataCurator) -> dict[str, Any]:
    """Notes that the rows were refreshed: old answers no longer replay, and the spent budget stays."""
    account = caller.curator().refreshed(name, sent.description, numbers_hold=sent.numbers_hold)
    caller.note("noted refreshed rows", name)
    return {"name": name, "snapshot": account.snapshot}


def _pause(caller: Caller, name: str) -> dict[str, str] | None:
    pause = caller.app_state.pauses.of(name)
    return None if pause is None else {"at": pause.at, "reason": pause.reason}


budgets_router = APIRouter(prefix="/datasets/{name}", tags=["budgets"])
PART = ("analyst", "spent", "limit", "remaining", "is_individual")
"""What is told of each analyst's budget."""


class NewLimit(Strict):
    """A limit and why; null takes a limit away."""

    epsilon: str | None
    reason: str


class NewTotal(Strict):
    """What the data may lose in all, and why."""

    epsilon: str
    reason: str


@budgets_router.get("/budget", response_model=dict[str, Any])
def own(name: str, caller: Analyst) -> Response:
    """What one spent and may still spend."""
    # Asked more often than anything else: a dictionary would be handed to another thread to be written.
    return JSONResponse(write(caller.session().budget(name)))


@budgets_router.get("/budgets")
def all_budgets(name: str, caller: Auditor) -> dict[str, Any]:
    """What the data may lose and has lost, and each analyst's part."""
    curator = caller.auditor()
    account = curator.account(name)
    return {
        "dataset": name,
        **fields_of(account, "limit", "spent", "remaining", "charges"),
        "per_analyst": write(account.analyst_limit),
        "analysts": [fields_of(budget, *PART) for budget in curator.analysts(name)],
    }


@budgets_router.put("/budgets")
def renew(name: str, sent: NewTotal, caller: DataCurator) -> dict[str, Any]:
    """Raises what the data may lose in all; what was spent stays spent."""
    account = caller.curator().renew(name, sent.epsilon, reason=sent.reason)
    caller.note("renewed a budget", name, {"epsilon": str(account.limit), "reason": sent.reason})
    return {"dataset": name, **fields_of(account, "limit", "remaining")}


@budgets_router.put("/budgets/everyone")
def limit_everyone(name: str, sent: NewLimit, caller: DataCurator) -> dict[str, Any]:
    """Sets what each analyst without an individual limit may spend."""
    account = caller.curator().limit_everyone(name, sent.epsilon, reason=sent.reason)
    caller.note("limited every analyst", name, {"epsilon": sent.epsilon, "reason": sent.reason})
    return {"dataset": name, "per_analyst": write(account.analyst_limit)}


@budgets_router.put("/budgets/analysts/{analyst}")
def limit_analyst(name: str, analyst: str, sent: NewLimit, caller: DataCurator) -> dict[str, Any]:
    """Gives one analyst an individual limit, or takes it away."""
    budget = caller.curator().limit_analyst(name, analyst, sent.epsilon, reason=sent.reason)
    action = "revoked an analyst" if budget.limit == 0 else "limited an analyst"
    caller.note(action, name, {"analyst": analyst, "epsilon": sent.epsilon, "reason": sent.reason})
    return fields_of(budget, *PART)


policy_router = APIRouter(prefix="/datasets/{name}/policy", tags=["policies"])
CHANGE = ("current_version", "next_version", "stretch", "charges", "limit", "spent_before", "spent_after", "refusal")
"""What is told of a change."""


class WantedPolicy(Strict):
    """A policy to look at."""

    policy: dict[str, Any]


class NewPolicy(WantedPolicy):
    """A policy to put in force, and why."""

    reason: str


@policy_router.get("")
def policy(name: str, caller: Reader, response: Response) -> dict[str, Any]:
    """The policy in force and what it means; its tag is in the header ETag."""
    domain, in_force = caller.declared(name)
    response.headers["ETag"] = tag_of(in_force)
    return {"policy": write_policy(in_force), "words": list(explain(domain, in_force))}


@policy_router.post("/changes")
def what_would_change(name: str, sent: WantedPolicy, caller: DataCurator) -> dict[str, Any]:
    """What a new policy would do to past loss; changes nothing."""
    curator = caller.curator()
    domain = curator.dataset(name).domain
    wanted = read_policy_for(domain, sent.policy)
    change, stretch = curator.what_would_change(name, policy=wanted)
    return {**fields_of(change, *CHANGE), "why": stretch.why, "words": list(explain(domain, wanted))}


@policy_router.put("")
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
    """Changes how losses are added up; the worst so far then counts for all."""
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
