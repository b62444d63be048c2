"""One real release on a scratch table: charged first, charged right, and in public equal to its neighbour's."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.audit.cases import Case, Ready
from blowfishdb.audit.listening import listening
from blowfishdb.audit.scratch import CHARGED, READ, Scratch
from blowfishdb.audit.sealed import sealed
from blowfishdb.audit.stages import Access, Looked
from blowfishdb.engine.charged_release import Run, charged_payload
from blowfishdb.engine.payable import Payable
from blowfishdb.errors import BlowfishError
from blowfishdb.ledger import Receipt
from blowfishdb.ledger.edge_books import SUM
from blowfishdb.sources.base import Counting

ANALYST = "auditor"
INCIDENT = re.compile(r"\b[0-9a-f]{12}\b")


@dataclass
class Outcome:
    """What a release left behind: the payload or the error, what happened in which order, and the receipt."""

    payload: bytes
    error: str
    events: list[str]
    statements: list[str]
    receipt: Receipt | None
    spent: Fraction
    logged: list[str]
    accesses: list[Access] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def released(world: Scratch, ready: Ready, key: str) -> Outcome:
    """Charges and runs a release as an analyst's session does."""
    world.watch.clear()
    before, payload, error = world.spent, b"", ""
    with listening() as heard:
        try:
            # Every release is a request of its own; otherwise the second one would be answered from the record.
            request = hashlib.sha256(f"{ready.digest} {key}".encode()).hexdigest()
            run = Run(key=key, progress=world.watch.events.append)
            payload = charged_payload(world.ledger, world.holding, ANALYST, request, lambda: ready.payable, run)
        except BlowfishError as failure:
            error = f"{failure.code}: {failure.message}"
        except Exception as failure:  # noqa: BLE001  # whatever leaves the release would reach the analyst
            error = f"{type(failure).__name__}: {failure}"
    charges = world.ledger.charges_of(world.holding.account, ANALYST, 1)
    receipt = charges[0][0] if charges and charges[0][0].charge.key == key else None
    spent = world.spent - before
    return Outcome(payload, error, list(world.watch.events), list(world.watch.statements), receipt, spent, heard)


def counted_and_measured(world: Scratch, payable: Payable, counting: Counting) -> Outcome:
    """The part of a release that reads data, with a statement at hand and its counts sealed; nothing is charged."""
    world.watch.clear()
    payload, error = b"", ""
    with listening() as heard:
        try:
            payload = payable.payload(sealed(counting.run(None)), world.holding)
        except Exception as failure:  # noqa: BLE001  # a failure that depends on data is what is looked for
            error = f"{type(failure).__name__}: {failure}"
    return Outcome(payload, error, list(world.watch.events), list(world.watch.statements), None, Fraction(0), heard)


def charge_troubles(ready: Ready, case: Case, found: Outcome) -> list[str]:
    """The price must be the certificate's, on record before any row is read, and taken from the account once."""
    price, troubles = ready.payable.epsilon, list[str]()
    if found.error:
        troubles.append(f"the release failed: {found.error[:200]}")
    if case.within is None and price not in (case.epsilon, 0):
        troubles.append(f"asked to spend {case.epsilon}, would charge {price}")
    if found.receipt is None:
        return [*troubles, "no charge is on record for this release"]
    charge = found.receipt.charge
    document = json.loads(charge.certificate)
    said = {"the entry": charge.epsilon, "the certificate on record": Fraction(str(document["epsilon"]))}
    if case.accounting == SUM:
        said["the account"] = found.spent
    if found.payload.startswith(b"{"):
        said["the answer"] = _published_price(found.payload)
    troubles += [f"{who} says {value}, the plan costs {price}" for who, value in said.items() if value != price]
    reads = [place for place, event in enumerate(found.events) if event == READ]
    if CHARGED not in found.events or (reads and found.events.index(CHARGED) > reads[0]):
        troubles.append("rows were read before the charge was committed")
    if len(reads) != 1:
        troubles.append(f"{len(reads)} statements read rows where one is enough")
    if price > 0 and not any(draw.values.size for access in found.accesses for draw in access.draws):
        troubles.append("a release that costs something drew no noise")
    return troubles


def repeat_troubles(world: Scratch, ready: Ready, key: str, first: Outcome) -> list[str]:
    """The same request again must be answered from the record: nothing drawn, read or charged."""
    again = released(world, ready, key)
    found = []
    if again.error or again.payload != first.payload:
        found.append("the same request again is answered differently")
    if again.spent or {CHARGED, READ} & set(again.events):
        found.append("the same request again is charged or counted again")
    return found


def _published_price(payload: bytes) -> Fraction:
    content = json.loads(payload)
    proof = content.get("certificate", content)
    return Fraction(str(proof["epsilon"]))


def public_troubles(first: Outcome, second: Outcome) -> list[str]:
    """Everything that is public must be the same on both tables."""
    found = []
    if INCIDENT.sub("", first.error) != INCIDENT.sub("", second.error):
        found.append(
            f"neighbours end differently: {first.error[:80] or 'an answer'} / {second.error[:80] or 'an answer'}"
        )
    elif first.payload != second.payload:
        found.append(f"what is published differs although all noisy outputs are the same: {_where(first, second)}")
    elif first.error:
        found.append(f"the release failed: {first.error[:160]}")
    if first.statements != second.statements:
        found.append("neighbours are asked in different statements")
    if first.events != second.events:
        found.append("charging, reading and what is told of it happen in another order")
    if first.spent != second.spent:
        found.append("neighbours are charged differently")
    if first.logged or second.logged:
        found.append(f"something was said beside the curator's log: {(first.logged or second.logged)[0][:120]}")
    if first.receipt is not None and second.receipt is not None:
        one, two = first.receipt.charge, second.receipt.charge
        if (one.certificate, one.losses, one.program_digest) != (two.certificate, two.losses, two.program_digest):
            found.append("what the ledger keeps of the release depends on the data")
    return found


def _where(first: Outcome, second: Outcome) -> str:
    """The first thing that differs, by its name alone."""
    if len(first.payload) != len(second.payload):
        return "its length"
    try:
        one, two = json.loads(first.payload), json.loads(second.payload)
    except ValueError:
        return "its bytes"
    return ", ".join(key for key in one if one[key] != two.get(key)) or "its bytes"
