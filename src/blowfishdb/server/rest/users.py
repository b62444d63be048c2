"""People: made by curators, with one-time passwords that must be changed at the first visit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from blowfishdb.errors import InvalidInput
from blowfishdb.server.access import AUDITING, Keeper, office_of
from blowfishdb.server.accounts.passwords import new_password
from blowfishdb.server.rest.asking import Strict

router = APIRouter(prefix="/users", tags=["users"])


class NewUser(Strict):
    """A name and a role: curator, analyst or auditor. Who signs in `elsewhere` gets no password."""

    name: str
    role: str
    elsewhere: bool = False


class Disabled(Strict):
    """Whether somebody is shut out."""

    disabled: bool


@router.get("", dependencies=[AUDITING])
def users(request: Request) -> list[dict[str, Any]]:
    """Everybody who has an account."""
    return [asdict(person) for person in office_of(request).people.all()]


@router.post("", status_code=201)
def add(sent: NewUser, visitor: Keeper, request: Request) -> dict[str, Any]:
    """A new person; the password is shown this once."""
    office, password = office_of(request), None if sent.elsewhere else new_password()
    person = office.people.add(sent.name, sent.role, password)
    office.actions.note(visitor.name, "added a person", person.name, {"role": person.role})
    return {"name": person.name, "role": person.role, "password": password}


@router.put("/{name}/disabled")
def disable(name: str, sent: Disabled, visitor: Keeper, request: Request) -> dict[str, Any]:
    """Shuts somebody out at once, visits and tokens included, or lets them in again."""
    if name == visitor.name:
        raise InvalidInput("nobody shuts themselves out: ask another curator")
    office = office_of(request)
    person = office.people.disable(name, disabled=sent.disabled)
    office.actions.note(visitor.name, "disabled a person" if sent.disabled else "enabled a person", name)
    return asdict(person)


@router.post("/{name}/password")
def new_one(name: str, visitor: Keeper, request: Request) -> dict[str, Any]:
    """A new one-time password for somebody who forgot theirs; their visits end."""
    office, password = office_of(request), new_password()
    office.people.set_password(name, password, must_change=True)
    office.actions.note(visitor.name, "gave a new password", name)
    return {"name": name, "password": password}
