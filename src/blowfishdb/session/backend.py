"""The backend between an analyst and the data: takes queries, hands out previews, answers and budgets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from blowfishdb.catalog.catalog import Catalog
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, published
from blowfishdb.engine.points import SCHEMA as POINT_SCHEMA
from blowfishdb.engine.points import PointPreview, PointQuery, PointWeights
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.synopsis import from_bytes
from blowfishdb.engine.synopsis_answers import Synopsis, SynopsisPreview
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import UnknownAnswer
from blowfishdb.ledger import Account, Receipt
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

Reopened: TypeAlias = Answer | Synopsis | PointWeights


@dataclass(frozen=True)
class Budget:
    """What one analyst spent on a dataset and may still spend; None where only the data's own limit holds."""

    dataset: str
    analyst: str
    spent: Fraction
    limit: Fraction | None
    remaining: Fraction
    dataset_limit: Fraction
    dataset_remaining: Fraction


@dataclass(frozen=True)
class Past:
    """A charge of the past: what was asked, when, and what it cost. `number` opens its answer again, free.

    `is_current` while the policy, the domain and the data are those it was released under.
    """

    number: int
    dataset: str
    at: str
    question: str
    mechanism: str
    epsilon: Fraction
    key: str
    policy_version: int
    is_synopsis: bool
    is_current: bool


@dataclass(frozen=True)
class Published:
    """A synopsis that somebody paid for: everybody may ask it, for ever and free."""

    number: int
    dataset: str
    at: str
    title: str
    mechanism: str
    epsilon: Fraction
    policy_version: int


@dataclass(frozen=True, eq=False, repr=False)
class Backend:
    """What an analyst may ask for."""

    analyst: str
    names: Callable[[], list[str]]
    declared: Callable[[str], tuple[Domain, Policy]]
    budget: Callable[[str], Budget]
    preview: Callable[[str, Query, Domain, AccuracyTarget], Preview]
    release: Callable[[str, Query, Domain, AccuracyTarget, Run], Answer]
    publish_preview: Callable[[str, Query, Domain, AccuracyTarget], SynopsisPreview]
    publish: Callable[[str, Query, Domain, AccuracyTarget, Run], Synopsis]
    point_preview: Callable[[str, PointQuery, Domain, Fraction], PointPreview]
    point_weights: Callable[[str, PointQuery, Domain, Fraction, Run], PointWeights]
    history: Callable[[str], list[Past]]
    reopen: Callable[[str, int], Reopened]
    synopses: Callable[[str], list[Published]]
    synopsis: Callable[[str, int], Synopsis]
    close: Callable[[], None]


PARQUET = b"PAR1"


def past_charges(catalog: Catalog, name: str, analyst: str) -> list[Past]:
    """The analyst's own charges on a dataset, newest first."""
    account = catalog.account(name)
    found = catalog.ledger.charges_of(account.id, analyst)
    return [_past(name, account, receipt, at) for receipt, at in found]


def reopened(catalog: Catalog, name: str, analyst: str, number: int) -> Reopened:
    """A stored answer of the analyst's own; somebody else's number is as unknown as one that was never given."""
    account = catalog.account(name).id
    receipt = catalog.ledger.receipt(number)
    if receipt is None or (receipt.charge.account, receipt.charge.analyst) != (account, analyst):
        raise UnknownAnswer(number)
    payload = catalog.ledger.answer_for(receipt)
    if payload is None:
        raise UnknownAnswer(number)
    return read_payload(published(payload, receipt))


def published_synopses(catalog: Catalog, name: str) -> list[Published]:
    """Every synopsis of a dataset, newest first, whoever paid for it: a synopsis is made to be public."""
    found = []
    for receipt, at in catalog.ledger.answered_charges(catalog.account(name).id):
        certificate = json.loads(receipt.charge.certificate)
        if certificate.get("synopsis") is True:
            charge = receipt.charge
            title, mechanism = str(certificate["question"]), str(certificate["mechanism"])
            one = Published(receipt.sequence, name, at, title, mechanism, charge.epsilon, charge.policy_version)
            found.append(one)
    return found


def published_synopsis(catalog: Catalog, name: str, number: int) -> Synopsis:
    """One published synopsis; UnknownAnswer for a number that is none."""
    account, receipt = catalog.account(name).id, catalog.ledger.receipt(number)
    if receipt is None or receipt.charge.account != account:
        raise UnknownAnswer(number)
    payload = catalog.ledger.answer_for(receipt)
    if payload is None or json.loads(receipt.charge.certificate).get("synopsis") is not True:
        raise UnknownAnswer(number)
    return Synopsis(from_bytes(published(payload, receipt)))


def read_payload(payload: bytes) -> Reopened:
    """The answer, synopsis or weights that a stored payload holds."""
    if payload.startswith(PARQUET):
        return Synopsis(from_bytes(payload))
    if json.loads(payload).get("schema") == POINT_SCHEMA:
        return PointWeights.from_json(payload)
    return Answer.from_json(payload)


def _past(name: str, account: Account, receipt: Receipt, at: str) -> Past:
    charge = receipt.charge
    certificate = json.loads(charge.certificate)
    in_force = (account.policy_version, account.domain_version, account.snapshot)
    return Past(
        number=receipt.sequence,
        dataset=name,
        at=at,
        question=str(certificate.get("question", "")),
        mechanism=str(certificate.get("mechanism", "")),
        epsilon=charge.epsilon,
        key=charge.key,
        policy_version=charge.policy_version,
        is_synopsis=bool(certificate.get("synopsis", False)),
        is_current=(charge.policy_version, charge.domain_version, charge.snapshot) == in_force,
    )
