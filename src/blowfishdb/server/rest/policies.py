"""The policy of a dataset: as a document with a tag, what a change would do, and the change itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from blowfishdb.errors import InvalidInput, VersionMismatch
from blowfishdb.model.explain import explain
from blowfishdb.model.serialize import write_policy
from blowfishdb.server.access import DataCurator, Member
from blowfishdb.server.rest import Strict, fields_of
from blowfishdb.server.rest.datasets import policy_tag, read_policy_for

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
def policy(name: str, caller: Member, response: Response) -> dict[str, Any]:
    """The policy in force and what it means; its tag is in the header ETag."""
    domain, in_force = caller.backend().declared(name)
    response.headers["ETag"] = policy_tag(in_force)
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
    if if_match is None:
        raise InvalidInput("send the tag of the policy that you looked at in the header If-Match")
    curator = caller.curator()
    account, before = curator.in_force(name)
    if if_match.strip() != policy_tag(before.policy):
        raise VersionMismatch("policy", policy_tag(before.policy))
    wanted = read_policy_for(before.domain, sent.policy)
    change = curator.set_policy(name, wanted, reason=sent.reason, seen=account.policy_version)
    caller.note("changed a policy", name, {"version": change.next_version})
    response.headers["ETag"] = policy_tag(wanted)
    return fields_of(change, *CHANGE)
