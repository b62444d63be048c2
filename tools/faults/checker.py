"""The independent checker: reads a ledger's tables itself and holds them against what the clients saw.

It shares no code with the ledger: hashes, sums and limits are worked out again from the documented format, so a
ledger that charges too little, too late or not at all cannot talk its way out.
Clients write what they asked and saw into files that are durable line by line; the checker believes nothing else.
Nothing of BlowfishDB is imported here, so that a fault there cannot hide itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]
Who = tuple[str, str]
"""Analyst and key."""
NO_LIMIT = Fraction(10**12)
TABLES = {
    "head": "SELECT ledger, sequence, hash FROM head",
    "entries": "SELECT sequence, kind, account, analyst, charge_key, body, previous_hash, hash FROM entry"
    " ORDER BY sequence",
    "accounts": "SELECT id, limit_top, limit_bottom, spent_units, spent_grid, charges FROM account",
    "analysts": "SELECT account, name, limit_top, limit_bottom, spent_units, spent_grid FROM analyst",
    "answers": "SELECT charge, entry, payload FROM answer",
}


@dataclass(frozen=True)
class Tables:
    """The rows of a ledger in one consistent view."""

    head: tuple[str, int, str]
    entries: Rows
    accounts: Rows
    analysts: Rows
    answers: Rows


@dataclass
class Verdict:
    """What is wrong, counted; `notes` says each thing in words."""

    over_spend: int = 0
    unpaid_answers: int = 0
    untraced_charges: int = 0
    charges: int = 0
    answers_seen: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.over_spend or self.unpaid_answers or self.untraced_charges)


def read_tables(url: str) -> Tables:
    """The tables of the ledger at a SQLite or PostgreSQL address, read without the ledger's code."""
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///")).absolute()
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            return _tables(lambda sql: connection.execute(sql).fetchall())
    import psycopg

    with psycopg.connect(url) as server:
        server.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        server.execute("SET LOCAL search_path = blowfish_ledger")
        return _tables(lambda sql: server.execute(sql.encode()).fetchall())


def _tables(rows: Callable[[str], Rows]) -> Tables:
    found = {name: rows(sql) for name, sql in TABLES.items()}
    ledger, sequence, own = found["head"][0]
    head = (str(ledger), int(sequence), str(own))
    return Tables(head, found["entries"], found["accounts"], found["analysts"], found["answers"])


def check(tables: Tables, records: Iterable[Record], *, is_settled: bool = True) -> Verdict:
    """What is wrong with the ledger, given what clients asked and saw.

    `is_settled` when every client was let finish at the end: then each charge must have its answer on record.
    """
    seen = list(records)
    verdict = Verdict()
    _check_chain(tables, verdict)
    charges = _charges(tables)
    verdict.charges = len(charges)
    _check_sums(tables, charges, verdict)
    check_levels(charges, verdict)
    _check_charges(tables, charges, seen, verdict, is_settled=is_settled)
    _check_answers(tables, charges, seen, verdict)
    return verdict


@dataclass(frozen=True)
class Paid:
    """A charge of the chain."""

    sequence: int
    account: str
    who: Who
    epsilon: Fraction
    hash: str
    received: Fraction
    """What the analyst pays: less than the price where they share noise and had a part of it already."""
    chain: str
    level: Fraction


def _charges(tables: Tables) -> list[Paid]:
    found = []
    for sequence, kind, account, analyst, key, body, _, own in tables.entries:
        if kind == "charge":
            fields = json.loads(body)
            who = (str(fields["analyst"]), str(fields["key"]))
            if who != (analyst, key) or fields["account"] != account:
                raise ValueError(f"entry {sequence} contradicts itself")
            price = Fraction(fields["epsilon"])
            shared = (
                Fraction(fields.get("received", price)),
                str(fields.get("chain", "")),
                Fraction(fields.get("level", 0)),
            )
            found.append(Paid(int(sequence), str(account), who, price, str(own), *shared))
    return found


def _check_chain(tables: Tables, verdict: Verdict) -> None:
    ledger, last, own = tables.head
    previous, expected = _sha256(f"blowfishdb ledger {ledger}".encode()), 1
    for sequence, _, _, _, _, body, before, found in tables.entries:
        link = _sha256(f"{previous}:{sequence}:{_sha256(body.encode())}".encode())
        if sequence != expected or before != previous or found != link:
            _untraced(verdict, f"the chain breaks at entry {expected}")
            return
        previous, expected = found, expected + 1
    if (last, own) != (expected - 1, previous):
        _untraced(verdict, f"the head says {last}, the chain ends at {expected - 1}")


def _check_sums(tables: Tables, charges: list[Paid], verdict: Verdict) -> None:
    by_account: dict[str, list[Paid]] = defaultdict(list)
    by_analyst: dict[tuple[str, str], list[Paid]] = defaultdict(list)
    for paid in charges:
        by_account[paid.account].append(paid)
        by_analyst[paid.account, paid.who[0]].append(paid)
    opened = {account: json.loads(body) for _, kind, account, _, _, body, _, _ in tables.entries if kind == "account"}
    for account, top, bottom, units, grid, count in tables.accounts:
        own = by_account.pop(account, [])
        limit = Fraction(opened[account]["limit"])
        if limit != Fraction(int(top), int(bottom)):
            _untraced(verdict, f"the limit of {account} is not the one on record")
        _compare(verdict, f"account {account}", [paid.epsilon for paid in own], limit, Fraction(int(units), int(grid)))
        if count != len(own):
            _untraced(verdict, f"account {account} counts {count} charges, the chain has {len(own)}")
    for account, name, top, bottom, units, grid in tables.analysts:
        own = by_analyst.pop((account, name), [])
        written = opened[account]["analyst_limit"]
        limit = NO_LIMIT if written is None else Fraction(written)
        if limit != (NO_LIMIT if top is None else Fraction(int(top), int(bottom))):
            _untraced(verdict, f"the limit of {name} is not the one on record")
        _compare(verdict, f"analyst {name}", [paid.received for paid in own], limit, Fraction(int(units), int(grid)))
    for orphan in [*by_account, *by_analyst]:
        _untraced(verdict, f"charges of {orphan} have no balance")


def check_levels(charges: list[Paid], verdict: Verdict) -> None:
    """Along a chain of shared noise the data pays for what is new in all, and an analyst for what is new to them."""
    highest: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for paid in charges:
        if paid.chain:
            for whose, amount in (("", paid.epsilon), (paid.who[0], paid.received)):
                if amount != max(Fraction(0), paid.level - highest[paid.chain, whose]):
                    _untraced(
                        verdict, f"the charge {paid.sequence} is not what its level adds for {whose or 'the data'}"
                    )
                highest[paid.chain, whose] = max(paid.level, highest[paid.chain, whose])


def _compare(verdict: Verdict, who: str, amounts: list[Fraction], limit: Fraction, balance: Fraction) -> None:
    total = sum(amounts, Fraction(0))
    if max(total, balance) > limit:
        verdict.over_spend += 1
        verdict.notes.append(f"{who} spent {max(total, balance)} of {limit}")
    if total != balance:
        _untraced(verdict, f"the balance of {who} is {balance}, its charges add up to {total}")


def _check_charges(
    tables: Tables, charges: list[Paid], seen: list[Record], verdict: Verdict, *, is_settled: bool
) -> None:
    asked = {(one.analyst, one.key) for one in seen if one.kind == ASKED}
    for who, times in Counter(paid.who for paid in charges).items():
        if times > 1:
            _untraced(verdict, f"{who} was charged {times} times")
        if who not in asked:
            _untraced(verdict, f"{who} was charged and never asked")
    answered = {int(charge) for charge, _, _ in tables.answers}
    for paid in charges:
        if is_settled and paid.sequence not in answered:
            _untraced(verdict, f"the charge {paid.sequence} never got its answer")


def _check_answers(tables: Tables, charges: list[Paid], seen: list[Record], verdict: Verdict) -> None:
    """Every answer that anybody saw is the one on record for a charge of that analyst and key."""
    bodies = [json.loads(body) for _, kind, _, _, _, body, _, _ in tables.entries if kind == "answer"]
    noted = {int(body["charge"]): body for body in bodies}
    paid_by = {paid.who: paid for paid in charges}
    stored = {int(charge): _sha256(bytes(payload)) for charge, _, payload in tables.answers}
    for one in seen:
        if one.kind != SAW:
            continue
        verdict.answers_seen += 1
        paid = paid_by.get((one.analyst, one.key))
        entry = None if paid is None else noted.get(paid.sequence)
        if paid is None or entry is None:
            _unpaid(verdict, f"{one.analyst} saw an answer for {one.key} that nobody paid for")
        elif (entry["payload_digest"], entry["charge_hash"], stored.get(paid.sequence)) != (
            one.detail,
            paid.hash,
            one.detail,
        ):
            _unpaid(verdict, f"{one.analyst} saw another answer for {one.key} than the one on record")


def _untraced(verdict: Verdict, note: str) -> None:
    verdict.untraced_charges += 1
    verdict.notes.append(note)


def _unpaid(verdict: Verdict, note: str) -> None:
    verdict.unpaid_answers += 1
    verdict.notes.append(note)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ASKED = "asked"
SAW = "saw"
REFUSED = "refused"
UNCLEAN = "unclean"
DIED = "died"
KINDS = (ASKED, SAW, REFUSED, UNCLEAN, DIED)


@dataclass(frozen=True)
class Record:
    """One line: `detail` is the digest of an answer, the code of a refusal, a stray error, or the place of a death."""

    kind: str
    analyst: str
    key: str
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a record is one of {', '.join(KINDS)}")


class ClientLog:
    """Appends records to one file; each is on disk before `note` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, analyst: str, key: str, detail: str = "") -> None:
        """Writes one record, durably."""
        line = json.dumps(asdict(Record(kind, analyst, key, detail))) + "\n"
        os.write(self._descriptor, line.encode())
        os.fsync(self._descriptor)


def read_log(path: Path) -> list[Record]:
    """The records of one file; a line that was cut off by a death is none."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [Record(**json.loads(line)) for line in lines]


def read_logs(folder: Path) -> list[Record]:
    """The records of all clients."""
    return [record for path in sorted(folder.glob("*.log")) for record in read_log(path)]


def settled_keys(records: Iterable[Record], final_refusals: Iterable[str]) -> set[str]:
    """The keys that need no further try: answered, or refused for good."""
    final = set(final_refusals)
    return {one.key for one in records if one.kind == SAW or (one.kind == REFUSED and one.detail in final)}
