"""Datasets: what is declared of them, adding, removing, pausing and refreshing; budgets, one's own and everybody's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from blowfishdb.catalog.dataset import Dataset
from blowfishdb.ledger import Account
from blowfishdb.model.document import read_document, write_domain, write_policy
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Policy
from blowfishdb.model.serialize import write
from blowfishdb.server.authentication import AccountCurator, Analyst, Auditor, Caller, DataCurator, Member, Reader
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
def datasets(caller: Member) -> list[dict[str, Any]]:
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
    """Adds a dataset; reads its schema and none of its rows."""
    document = read_document(plain_document(sent.domain, sent.policy), "json")
    plain = sent.model_dump(exclude={"domain", "policy", "joins", "everyone"})
    joins = [Join(**one.model_dump()) for one in sent.joins]
    dataset = Dataset(**plain, domain=document.domain, policy=document.policy, joins=joins)
    account = add_dataset(dataset, caller, everyone=sent.everyone)
    return {"name": sent.name, "account": account.id, "epsilon": str(account.limit)}


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
    """Pauses a dataset: no previews and no releases until it goes on."""
    caller.curator().dataset(name)
    caller.app_state.pauses.pause(name, by=caller.name, reason=sent.reason)
    caller.note("paused a dataset", name, {"reason": sent.reason})
    return {"name": name, "paused": _pause(caller, name)}


@router.delete("/{name}/pause", status_code=204)
def go_on(name: str, caller: DataCurator) -> None:
    """Lets a paused dataset go on."""
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


@budgets_router.get("/budget")
def own(name: str, caller: Analyst) -> dict[str, Any]:
    """What one spent and may still spend."""
    content: dict[str, Any] = write(caller.session().budget(name))
    return content


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
    """Sets what each analyst without a limit of their own may spend."""
    account = caller.curator().limit_everyone(name, sent.epsilon, reason=sent.reason)
    caller.note("limited every analyst", name, {"epsilon": sent.epsilon, "reason": sent.reason})
    return {"dataset": name, "per_analyst": write(account.analyst_limit)}


@budgets_router.put("/budgets/analysts/{analyst}")
def limit_analyst(name: str, analyst: str, sent: NewLimit, caller: DataCurator) -> dict[str, Any]:
    """Gives one analyst a limit of their own, or takes it away."""
    budget = caller.curator().limit_analyst(name, analyst, sent.epsilon, reason=sent.reason)
    action = "revoked an analyst" if budget.limit == 0 else "limited an analyst"
    caller.note(action, name, {"analyst": analyst, "epsilon": sent.epsilon, "reason": sent.reason})
    return fields_of(budget, *PART)
