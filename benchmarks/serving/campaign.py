"""What many analysts do at once against one budget, what each request took, and whether the books are right then."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from benchmarks.serving.client import Caller, Reply
from benchmarks.serving.place import Place, Running
from blowfishdb.ledger import Ledger

Kind: TypeAlias = Literal["preview", "release", "refusal", "replay", "read", "plain"]
DATASET = "people"
PATH = f"/api/v1/datasets/{DATASET}"
OK = 200
REFUSED = "budget-exceeded"
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "histogram", "axes": [{"attribute": "age"}]},
    {"kind": "cdf", "axes": [{"attribute": "age"}]},
    {"kind": "histogram", "axes": [{"attribute": "state"}]},
    {"kind": "histogram", "axes": [{"attribute": "age", "width": "5"}, {"attribute": "state"}]},
)


@dataclass(frozen=True)
class Outcome:
    """One request: who sent it, when it began (seconds into the campaign), how long it took, what came of it."""

    kind: Kind
    analyst: str
    began: float
    seconds: float
    status: int
    epsilon: Fraction | None = None


@dataclass(frozen=True)
class Campaign:
    """So many rounds by every analyst, numbered from `first`; between requests each thinks for about `think` seconds.

    A round is a preview, its release, the same release again, and a look at the budget.
    """

    rounds: int
    first: int = 0
    think: float = 0.0

    def price(self, number: int) -> Fraction:
        """What the release of one round costs: every round asks something new."""
        return Fraction(1000 + number, 10**6)

    def total(self, analysts: int) -> Fraction:
        """What all releases would cost together."""
        return analysts * sum((self.price(number) for number in self.numbers), Fraction(0))

    @property
    def numbers(self) -> range:
        """The rounds."""
        return range(self.first, self.first + self.rounds)


@dataclass(frozen=True)
class Books:
    """What the ledger says after a campaign, beside what the analysts saw."""

    limit: Fraction
    spent: Fraction
    charges: int
    charged: Fraction
    answers: int
    paid_for: Fraction
    is_sound: bool

    @property
    def faults(self) -> list[str]:
        """What is wrong; empty when every answer was charged exactly once and nothing was spent twice."""
        found = []
        if self.spent > self.limit:
            found.append(f"over-spend: {self.spent} of {self.limit}")
        if self.charged != self.spent:
            found.append(f"the charges add up to {self.charged}, the account says {self.spent}")
        if (self.answers, self.paid_for) != (self.charges, self.charged):
            found.append(f"{self.answers} answers for {self.paid_for}, {self.charges} charges for {self.charged}")
        if not self.is_sound:
            found.append("the chain of the ledger is broken")
        return found


def run_campaign(place: Place, running: Running, campaign: Campaign, heard: Callable[[int], None]) -> list[Outcome]:
    """Every request of every analyst; `heard` is told how many are done."""
    return asyncio.run(_everybody(place, running, campaign, heard))


async def _everybody(place: Place, running: Running, campaign: Campaign, heard: Callable[[int], None]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    await asyncio.gather(
        *(
            _analyst(name, Caller(running.port, token), campaign, began, outcomes, heard)
            for name, token in place.tokens.items()
        )
    )
    return outcomes


async def _analyst(
    name: str,
    caller: Caller,
    campaign: Campaign,
    began: float,
    outcomes: list[Outcome],
    heard: Callable[[int], None],
) -> None:
    chance = random.Random(name)
    # Not all at the same instant: nobody presses a key with two hundred others.
    await asyncio.sleep(campaign.think * chance.random())
    for number in campaign.numbers:
        asked = {"query": chance.choice(QUESTIONS), "accuracy_target": {"epsilon": str(campaign.price(number))}}
        steps: Sequence[tuple[Kind, str, str, dict[str, Any] | None]] = (
            ("preview", "POST", f"{PATH}/previews", asked),
            ("release", "POST", f"{PATH}/answers", asked),
            ("replay", "POST", f"{PATH}/answers", asked),
            ("read", "GET", f"{PATH}/budget", None),
        )
        is_refused = False
        for kind, method, path, sent in steps:
            if kind == "replay" and is_refused:
                continue
            at = time.perf_counter() - began
            reply = await caller.ask(method, path, sent)
            is_refused = _is_refused(reply)
            price = campaign.price(number) if kind == "release" and not is_refused else None
            outcomes.append(Outcome("refusal" if is_refused else kind, name, at, reply.seconds, reply.status, price))
            heard(len(outcomes))
            await asyncio.sleep(campaign.think * (0.5 + chance.random()))
    caller.close()


def _is_refused(reply: Reply) -> bool:
    """Whether the budget did not allow it; RuntimeError for any other failure, which a benchmark must not hide."""
    if reply.status == OK:
        return False
    found = json.loads(reply.body)
    if found.get("code") != REFUSED:
        raise RuntimeError(f"the server answered {reply.status}: {found.get('code')}, {found.get('detail')}")
    return True


def run_plainly(running: Running, callers: int, requests: int) -> list[Outcome]:
    """So many requests to the plain app by each of so many callers, none of whom thinks."""
    return asyncio.run(_plainly(running, callers, requests))


async def _plainly(running: Running, callers: int, requests: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    asked = {"query": QUESTIONS[0], "accuracy_target": {"epsilon": "1/1000"}}

    async def one(name: str) -> None:
        caller = Caller(running.port, name)
        for _ in range(requests):
            at = time.perf_counter() - began
            reply = await caller.ask("POST", "/answers", asked)
            outcomes.append(Outcome("plain", name, at, reply.seconds, reply.status))
        caller.close()

    await asyncio.gather(*(one(f"caller-{number}") for number in range(callers)))
    return outcomes


def read_books(ledger: Ledger, outcomes: Sequence[Outcome]) -> Books:
    """The account against every charge on record and every answer that somebody received."""
    (account,) = ledger.accounts()
    paid = [Fraction(str(entry.fields["epsilon"])) for entry in ledger.entries() if entry.kind == "charge"]
    released = [outcome for outcome in outcomes if outcome.kind == "release"]
    return Books(
        limit=account.limit,
        spent=account.spent,
        charges=len(paid),
        charged=sum(paid, Fraction(0)),
        answers=len(released),
        paid_for=sum((outcome.epsilon or Fraction(0) for outcome in released), Fraction(0)),
        is_sound=ledger.verify().is_sound,
    )


def throughput(outcomes: Sequence[Outcome]) -> float:
    """Requests a second, from the first to the last reply."""
    ends = [outcome.began + outcome.seconds for outcome in outcomes]
    return len(outcomes) / (max(ends) - min(outcome.began for outcome in outcomes))


def counted(outcomes: Sequence[Outcome]) -> Counter[Kind]:
    """How many requests there were of each kind."""
    return Counter(outcome.kind for outcome in outcomes)
