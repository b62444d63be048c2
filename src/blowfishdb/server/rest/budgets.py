"""Budgets: one's own for analysts, everybody's for curators and auditors, and changing them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from blowfishdb.model.serialize import write
from blowfishdb.server.access import Analyst, Auditor, DataCurator
from blowfishdb.server.rest import Strict, fields_of

router = APIRouter(prefix="/datasets/{name}", tags=["budgets"])
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


@router.get("/budget")
def own(name: str, caller: Analyst) -> dict[str, Any]:
    """What one spent and may still spend."""
    content: dict[str, Any] = write(caller.backend().budget(name))
    return content


@router.get("/budgets")
def all_budgets(name: str, caller: Auditor) -> dict[str, Any]:
    """What the data may lose and has lost, and each analyst's part."""
    curator = caller.curator()
    account = curator.account(name)
    return {
        "dataset": name,
        **fields_of(account, "limit", "spent", "remaining", "charges"),
        "per_analyst": write(account.analyst_limit),
        "analysts": [fields_of(budget, *PART) for budget in curator.analysts(name)],
    }


@router.put("/budgets")
def renew(name: str, sent: NewTotal, caller: DataCurator) -> dict[str, Any]:
    """Raises what the data may lose in all; what was spent stays spent."""
    account = caller.curator().renew(name, sent.epsilon, reason=sent.reason)
    caller.note("renewed a budget", name, {"epsilon": str(account.limit)})
    return {"dataset": name, **fields_of(account, "limit", "remaining")}


@router.put("/budgets/everyone")
def limit_everyone(name: str, sent: NewLimit, caller: DataCurator) -> dict[str, Any]:
    """Sets what each analyst without a limit of their own may spend."""
    account = caller.curator().limit_everyone(name, sent.epsilon, reason=sent.reason)
    caller.note("limited every analyst", name, {"epsilon": sent.epsilon})
    return {"dataset": name, "per_analyst": write(account.analyst_limit)}


@router.put("/budgets/analysts/{analyst}")
def limit_analyst(name: str, analyst: str, sent: NewLimit, caller: DataCurator) -> dict[str, Any]:
    """Gives one analyst a limit of their own, or takes it away."""
    budget = caller.curator().limit_analyst(name, analyst, sent.epsilon, reason=sent.reason)
    caller.note("limited an analyst", name, {"analyst": analyst, "epsilon": sent.epsilon})
    return fields_of(budget, *PART)
