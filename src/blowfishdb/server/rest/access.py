"""Who may use a dataset, groups of users, and questions that wait for a curator's yes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from blowfishdb.catalog.curator import Curator
from blowfishdb.catalog.record import Recipients
from blowfishdb.engine.request import short_number
from blowfishdb.errors import plural
from blowfishdb.model.serialize import write
from blowfishdb.present.words import epsilon_words
from blowfishdb.server.auth.approvals import LONGEST_REASON, Approval
from blowfishdb.server.auth.grants import GROUP, Grant
from blowfishdb.server.authentication import AccountAuditor, AccountCurator, Analyst, Auditor, Caller, DataCurator
from blowfishdb.server.rest import Strict
from blowfishdb.server.state import AppState

PROVIDER = "OpenID provider"
"""In whose name limits are set that follow from a group of the provider."""
router = APIRouter(prefix="/datasets/{name}", tags=["access"])
groups_router = APIRouter(prefix="/groups", tags=["access"])


class NewGrant(Strict):
    """A role on the dataset, and for analysts the most epsilon that the user, or each member of the group, may spend.

    The limit holds before they first ask. Without one, the limit that they already have stays.
    """

    role: str = "analyst"
    epsilon: str | None = None


class Members(Strict):
    """The users of a group."""

    members: list[str] = Field(max_length=1000)


class NewThreshold(Strict):
    """The price above which questions wait for a yes; null lets all pass."""

    epsilon: str | None


class Decision(Strict):
    """Yes or no to a question that waits, and why; the analyst reads the reason."""

    approve: bool
    reason: str = Field(default="", max_length=LONGEST_REASON)


@router.get("/access")
def access(name: str, caller: Auditor) -> list[dict[str, Any]]:
    """Who has which role on a dataset."""
    return [write(grant) for grant in caller.app_state.grants.of(caller.auditor().dataset(name).name)]


@router.put("/access/{holder}")
def grant(name: str, holder: str, sent: NewGrant, caller: DataCurator) -> dict[str, Any]:
    """Grants a role on a dataset to a user or a group, perhaps with a limit before they first ask."""
    return dict(write(give_role(caller, name, holder, sent.role, sent.epsilon)))


@router.delete("/access/{holder}", status_code=204)
def revoke(name: str, holder: str, caller: DataCurator, role: str | None = None) -> None:
    """Takes a role on a dataset away from a user or a group, or all of theirs; what they spent stays spent."""
    take_roles(caller, name, holder, role)


@router.put("/approval")
def set_threshold(name: str, sent: NewThreshold, caller: DataCurator) -> dict[str, Any]:
    """Sets the price above which questions of a dataset wait for a curator's yes."""
    caller.curator().dataset(name)
    above = None if sent.epsilon is None else short_number(sent.epsilon, "epsilon")
    caller.app_state.approvals.set_above(name, above)
    caller.note("set the price of approval", name, {"epsilon": sent.epsilon})
    return {"dataset": name, "epsilon": write(above)}


@router.get("/approval")
def threshold(name: str, caller: Analyst) -> dict[str, Any]:
    """The price above which one's questions wait for a curator's yes, and those that one asked."""
    approvals, name = caller.app_state.approvals, caller.app_state.seen_dataset(caller.identity, name)
    return {
        "epsilon": write(approvals.above(name)),
        "questions": [write(one) for one in approvals.of(name, caller.name)],
    }


@router.get("/approvals")
def waiting(name: str, caller: Auditor) -> list[dict[str, Any]]:
    """What waits for a yes, and what was decided within two weeks, newest first."""
    return [write(one) for one in caller.app_state.approvals.of(name)]


@router.put("/approvals/{number}")
def decide(name: str, number: int, sent: Decision, caller: DataCurator) -> dict[str, Any]:
    """Says yes or no. After a yes the analyst asks the same again, once, within two weeks and for no more than that."""
    return dict(write(say_yes_or_no(caller, name, number, yes=sent.approve, reason=sent.reason)))


@groups_router.get("")
def groups(caller: AccountAuditor) -> dict[str, list[str]]:
    """The members of each group."""
    return caller.app_state.grants.groups()


@groups_router.put("/{group}")
def set_group(group: str, sent: Members, caller: AccountCurator) -> dict[str, Any]:
    """Gives a group its members; those who are new get the limits that were granted to it."""
    fill_group(caller, group, sent.members)
    return {"group": group, "members": sorted(set(sent.members))}


def give_role(caller: Caller, dataset: str, holder: str, role: str, epsilon: str | None) -> Grant:
    """The grant of a role, with a limit in the ledger where one is named, on record; UnknownDataset where unseen."""
    curator, grants = caller.curator(), caller.app_state.grants
    curator.dataset(dataset)
    limit = None if epsilon is None else short_number(epsilon, "epsilon")
    before = next((one.epsilon for one in grants.of(dataset) if (one.holder, one.role) == (holder, role)), None)
    given = grants.give(dataset, holder, role, by=caller.name, epsilon=limit)
    caller.note("granted a role", dataset, {"to": holder, "role": given.role, "epsilon": epsilon})
    if holder.startswith(GROUP):
        _limit_members(curator, given, grants.groups().get(holder, []), before)
    elif limit is not None:
        curator.limit_analyst(dataset, holder, limit, reason="with the grant")
    return given


def take_roles(caller: Caller, dataset: str, holder: str, role: str | None) -> list[Grant]:
    """The roles that were taken from a user or a group, on record: the named one, or all of theirs."""
    caller.curator().dataset(dataset)
    taken = caller.app_state.grants.take(dataset, holder, role)
    for grant in taken:
        caller.note("revoked a role", dataset, {"of": holder, "role": grant.role})
    return taken


def say_yes_or_no(caller: Caller, dataset: str, number: int, *, yes: bool, reason: str) -> Approval:
    """The decided question, on record."""
    caller.curator().dataset(dataset)
    decided = caller.app_state.approvals.decide(dataset, number, yes=yes, by=caller.name, reason=reason)
    action = "approved a question" if yes else "refused a question"
    caller.note(action, dataset, {"number": number, "of": decided.analyst, "reason": reason})
    return decided


def fill_group(caller: Caller, group: str, members: Sequence[str]) -> None:
    """Gives a group its members, on record."""
    grants = caller.app_state.grants
    new = grants.set_group(group, members)
    caller.note("set a group", group, {"members": ", ".join(members)[:1000]})
    for granted in grants.to(group) if new else ():
        # Of all datasets: a limit that a curator granted follows from the group, whoever fills it.
        _limit_members(caller.app_state.curator(caller.name), granted, new)


def recipients_of(app_state: AppState, dataset: str) -> Recipients:
    """Who may use a dataset, for its record of processing: of groups the number of members, not their names."""
    groups = app_state.grants.groups()

    def words(grant: Grant) -> tuple[str, str, str]:
        members = groups.get(grant.holder)
        of = "" if members is None else f" ({plural(len(members), 'member')})"
        each = " each" if grant.holder.startswith(GROUP) else ""
        return grant.holder + of, grant.role, "" if grant.epsilon is None else f"{epsilon_words(grant.epsilon)}{each}"

    return Recipients([words(grant) for grant in app_state.grants.of(dataset)], app_state.approvals.above(dataset))


def follow_provider(app_state: AppState, name: str, claimed: Sequence[str]) -> list[str]:
    """The groups that an OpenID provider counts somebody among, theirs from now on, with the limits granted to them."""
    grants = app_state.grants
    before = set(grants.now().groups.get(name, ()))
    groups = grants.follow_provider(name, claimed)
    for group in groups:
        for granted in grants.to(group) if group not in before else ():
            _limit_members(app_state.curator(PROVIDER), granted, [name])
    return groups


def _limit_members(curator: Curator, grant: Grant, members: Sequence[str], before: Fraction | None = None) -> None:
    """Gives members of a group the limit of its grant, except those with an individual limit."""
    if grant.epsilon is None or grant.dataset not in curator.datasets():
        return
    limits = {one.analyst: one.limit for one in curator.analysts(grant.dataset) if one.is_individual}
    for member in members:
        if limits.get(member, before) == before:
            curator.limit_analyst(grant.dataset, member, grant.epsilon, reason=f"as a member of {grant.holder}")
