"""Chains of answers that share their noise: exact joint laws, sessions on neighbouring tables, and drills.

The drills: rows that change meanwhile, draws that fail, chains that end, and whose rows are read.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from blowfishdb.audit.report import CheckLine, Losses, amount, broken, judged, refused
from blowfishdb.audit.scratch import READ, Scratch, listening, scratch, swapped
from blowfishdb.engine import sharing
from blowfishdb.engine.charge import Run, charged_payload, check_receipt, prepare
from blowfishdb.engine.compile import ANALYSTS, OWN, DatasetHandle, compile_query
from blowfishdb.engine.measure import PublishedLevel
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.errors import BlowfishError, ContentChanged, DigestMismatch, ReleaseFailed
from blowfishdb.ledger.values import Charge, Receipt
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy, full, line
from blowfishdb.model.predicate import Column
from blowfishdb.model.query import Query, query
from blowfishdb.noise.coupling import Exponentials, Step, between_law, coarser_law
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.program import Measured

UNITS = (Fraction(2, 3), Fraction(1), Fraction(2))
"""Units of three levels of one number, fine to coarse."""
REACH = 40
SHOWN = 5
"""Values up to which laws are listed, and up to which outputs are compared."""
PLACES = np.arange(-REACH, REACH + 1)
EXACT = 1e-9
SUMMED = 1e-6
"""Relative errors of laws in closed form, and of sums over the listed values."""
ONE = np.ones(1, dtype=np.int64)


def chain_lines() -> Iterator[CheckLine]:
    """Three levels of one number, drawn in every order by the laws that the sampler uses, against the definition."""
    _conditional.cache_clear()
    _drawn.cache_clear()
    violations, wanted = list[str](), _defined()
    for order in itertools.permutations(range(len(UNITS))):
        joint = _drawn(order)
        words = f"levels drawn in the order {', '.join(str(place + 1) for place in order)}"
        shown = np.abs(joint / wanted - 1.0)
        violations += broken({f"{words} have another joint law": float(shown.max()) > EXACT})
        for seen in ((0, 1, 2), (1, 2), (2,)):
            loss, most = _loss(order, seen), float(1 / UNITS[min(seen)])
            told = ", ".join(str(place + 1) for place in seen)
            too_much = f"{words}: the levels {told} together lose {loss:.6g}, the finest alone {most:.6g}"
            violations += broken({too_much: abs(loss / most - 1.0) > SUMMED})
    yield judged("levels of one number", "joint law", violations, "the same in every order; the finest loses all", 6)


def _laplace(unit: Fraction, at: Ints) -> Floats:
    return np.asarray(math.tanh(0.5 / unit) * np.exp(-np.abs(at) / float(unit)))


def _step(fine: Fraction, coarse: Fraction, at: Ints) -> Floats:
    """The law of a coarser value less a finer one, as docs/proofs/sharing.md defines it."""
    stays = (math.sinh(0.5 / coarse) / math.sinh(0.5 / fine)) ** 2
    return np.asarray(stays * (at == 0) + (1.0 - stays) * _laplace(coarse, at))


def _defined() -> Floats:
    """The joint law of the three levels of the number 0, fine to coarse."""
    first, second, third = np.indices((2 * SHOWN + 1,) * len(UNITS)) - SHOWN
    fine, middle, coarse = UNITS
    return _laplace(fine, first) * _step(fine, middle, second - first) * _step(middle, coarse, third - second)


@cache
def _conditional(finer: Fraction | None, unit: Fraction, coarser: Fraction | None, apart: int) -> Floats:
    """The law of a new value less the finer one, as the sampler composes it; `apart` is how far the coarser one is."""
    if coarser is None:
        if finer is None:
            return _laplace(unit, PLACES)
        stays, moves = (float(one[0]) for one in coarser_law(Step.between(finer, unit).floats(ONE), Exponentials()))
        return np.asarray(stays * (PLACES == 0) + moves * _laplace(unit, PLACES))
    left, right = None if finer is None else Step.between(finer, unit), Step.between(unit, coarser)
    distance, meets = np.array([float(abs(apart))]), np.array([float(apart == 0)])
    before = None if left is None else left.floats(ONE)
    ways = [float(way[0]) for way in between_law(before, right.floats(ONE), distance, meets, Exponentials())]
    fall, both, to = float(right.fall), float(right.both), abs(apart)
    law = ways[0] * (PLACES == 0) + ways[1] * (to == PLACES)
    law = law + np.where(PLACES < 0, ways[2] * -math.expm1(-both) * np.exp(both * (PLACES + 1)), 0.0)
    inside = np.where((PLACES >= 0) & (to >= PLACES), np.exp(-fall * PLACES), 0.0)
    law = law + ways[3] * inside / inside.sum()
    law = law + np.where(to < PLACES, ways[4] * -math.expm1(-both) * np.exp(-both * (PLACES - to - 1)), 0.0)
    law = law / sum(ways)
    return np.asarray(law[::-1] if apart < 0 else law)


@cache
def _drawn(order: tuple[int, ...], size: int = SHOWN) -> Floats:
    """The joint law of the levels of the number 0, each drawn given its neighbours among those before it."""
    grids = np.indices((2 * size + 1,) * len(UNITS)) - size
    joint = np.ones(grids.shape[1:])
    for number, place in enumerate(order):
        before = order[:number]
        finer = max((other for other in before if other < place), default=None)
        coarser = min((other for other in before if other > place), default=None)
        start = 0 if finer is None else grids[finer]
        apart = np.zeros_like(joint, dtype=np.int64) if coarser is None else grids[coarser] - start
        fine, coarse = (None if other is None else UNITS[other] for other in (finer, coarser))
        laws = np.stack([_conditional(fine, UNITS[place], coarse, to) for to in range(-2 * size, 2 * size + 1)])
        joint *= laws[apart + 2 * size, grids[place] - start + REACH]
    return np.asarray(joint)


def _loss(order: tuple[int, ...], seen: Sequence[int]) -> float:
    """The largest log-ratio of the levels that somebody sees, when the number moves by one."""
    wide = _drawn(order, 3 * SHOWN) if len(seen) < len(UNITS) else _drawn(order, SHOWN + 1)
    hidden = tuple(place for place in range(len(UNITS)) if place not in seen)
    law = np.log(wide.sum(axis=hidden))
    middle = law.shape[0] // 2
    here = tuple(slice(middle - 2, middle + 3) for _ in seen)
    there = tuple(slice(middle - 1, middle + 4) for _ in seen)
    return float(np.abs(law[here] - law[there]).max())


ANALYSTS_HERE = ("ana", "bob", "eve")
DRAW = "measure_given"
VALUES, RECORDS, STEPS = 4, 6, 4
DECLARED = domain({"x": integers(0, VALUES - 1, null=0)})
POLICIES = {"full": Policy({"x": full()}), "line": Policy({"x": line()})}
QUESTIONS: tuple[Query, ...] = (
    query("histogram", "x"),
    query("histogram", Column("x").bins(2)),
    query("count", (), Column("x") < 2),
    query("cdf", "x"),
    query("histogram", "x", Column("x") >= 1),
)
ALONE = query("histogram", "x", Column("x") >= 2)
"""Rows that no other step measures."""
LEVELS = tuple(Fraction(level, 10) for level in (1, 3, 6, 10))
WITHIN = (3, 6, 12, 25)
SHARPER = 5
"""Nearer than the rows of all levels promise, so that they are made more accurate, or supplemented."""


@dataclass
class Drawn:
    """One draw of rows: the plan, the counts where they were read, what it was given, and what came out."""

    plan: Plan
    counts: Ints | None
    finer: PublishedLevel | None
    coarser: PublishedLevel | None
    noisy: Ints

    def moved(self, counts: Ints) -> Fraction:
        """How far other counts move the rows, in units of the noise of this draw: the loss of this level alone."""
        distance = np.abs(_rows(self.plan, self.counts) - _rows(self.plan, counts))
        return Fraction(int(distance @ self.plan.weights)) / self.plan.unit


def _rows(plan: Plan, counts: Ints | None) -> Ints:
    """The true values of the rows of a plan, from the rows written out."""
    return np.concatenate([np.asarray(part.rows.dense(), dtype=np.int64) @ np.asarray(counts) for part in plan.parts])


@dataclass
class LevelTape:
    """The draws of a session; in the session that is played again, on a neighbour, they come out the same.

    A silent one draws no noise at all: what is published is then the truth.
    """

    usual: Callable[..., Measured]
    """The engine's own draw."""
    played: list[Drawn]
    is_silent: bool
    draws: list[Drawn] = field(default_factory=list)

    def draw(
        self,
        certified: CertifiedPlan,
        counts: Ints | None,
        finer: PublishedLevel | None,
        coarser: PublishedLevel | None,
    ) -> Measured:
        """The engine's own draw, or the one that was played."""
        plan = certified.plan
        if not isinstance(plan, Plan):
            raise TypeError("noise on edges is not drawn at several levels")
        measured = self.usual(certified, counts, finer, coarser)
        if self.is_silent:
            measured = Measured(_rows(plan, counts) if finer is None else finer.noisy, measured.exact)
        if len(self.played) > len(self.draws):
            measured = Measured(self.played[len(self.draws)].noisy, measured.exact)
        self.draws.append(Drawn(plan, counts, finer, coarser, measured.noisy))
        return measured


Asked = tuple[str, Query, AccuracyTarget]
"""Who asks what, and how accurately."""


@dataclass
class ChainSession:
    """What a session left behind: its answers, receipts, draws (with the receipt of each) and balances."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    drawn: list[tuple[Receipt, Drawn]] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    spent: Fraction = Fraction(0)
    balances: dict[str, Fraction] = field(default_factory=dict)
    is_sound: bool = True
    failures: list[str] = field(default_factory=list)


def _session(
    policy: Policy, values: Sequence[int], steps: Sequence[Asked], played: list[Drawn], *, is_silent: bool = False
) -> ChainSession:
    """A real session of analysts over a table in memory."""
    session, tape, apart = ChainSession(), LevelTape(getattr(sharing, DRAW), played, is_silent), list[Charge]()
    with scratch(DECLARED, policy) as world, swapped(sharing, DRAW, tape.draw):
        world.fill([{"x": value} for value in values])
        handle = replace(world.handle, sharing=ANALYSTS, read_only=True)
        for analyst, question, target in steps:
            request = make_request(handle, question, target)
            before = len(tape.draws)
            try:
                prepared = partial(prepare, handle, request)
                payload = charged_payload(world.ledger, handle, analyst, request.digest, prepared, Run())
            except BlowfishError as refusal:
                session.failures.append(f"a release of a session failed: {refusal.code}")
                continue
            receipt = world.ledger.charges_of(handle.account, analyst, 1)[0][0]
            session.receipts.append(receipt)
            if receipt.charge.link is None:
                # Noise on edges, which other replays cover.
                apart.append(receipt.charge)
                continue
            content = json.loads(payload)
            del content["released"]
            if is_silent and not np.allclose(content["raw"], _truth(policy, values, question), rtol=0.0, atol=EXACT):
                session.failures.append(f"without noise an answer is not the truth: {_way(receipt)}")
            session.answers.append(content)
            session.drawn += [(receipt, draw) for draw in tape.draws[before:]]
            session.ways[_way(receipt)] += len(tape.draws) > before
        session.spent = world.spent - sum((charge.epsilon for charge in apart), Fraction(0))
        for name in ANALYSTS_HERE:
            paid = sum((charge.received for charge in apart if charge.analyst == name), Fraction(0))
            session.balances[name] = world.ledger.budget_of(handle.account, name).spent - paid
        session.is_sound = world.ledger.verify().is_sound
    return session


def _truth(policy: Policy, values: Sequence[int], question: Query) -> Floats:
    """The answers themselves."""
    compiled = compile_query(DECLARED, policy, question)
    cells = compiled.cells.cell_of({"x": np.array(values)})
    return np.asarray(
        compiled.problem.workload.dense() @ np.bincount(cells[cells >= 0], None, compiled.cells.graph.cells)
    )


def _independent(session: ChainSession) -> Iterator[str]:
    """What is combined must be of chains of its own: weights and intervals are those of independent noise."""
    chains = {one.sequence: one.charge.link.chain for one in session.receipts if one.charge.link is not None}
    for receipt in session.receipts:
        entries = (receipt.sequence, *json.loads(receipt.charge.certificate).get("combined", ()))
        if len({chains.get(entry, str(entry)) for entry in entries}) < len(entries):
            yield "measurements of one chain are combined as if their noise were independent"


def _way(receipt: Receipt) -> str:
    link, document = receipt.charge.link, json.loads(receipt.charge.certificate)
    if link is None or link.received == link.level:
        return "supplement" if "combined" in document else "fresh" if receipt.charge.epsilon else "degrade"
    if link.received:
        return "combined upgrade" if "combined" in document else "upgrade"
    return "free" if {"family", "combined"} & set(document) else "degrade"


def session_chain_lines(*, quick: bool, seed: int) -> Iterator[CheckLine]:
    """Random sessions of analysts: on a table, on a neighbour with the same draws, and without noise."""
    sessions = 2 if quick else 25
    for label, policy in POLICIES.items():
        random = np.random.default_rng([seed, len(label), 15])
        losses, violations, ways = Losses(), list[str](), Counter[str]()
        for number in range(sessions):
            values = random.integers(VALUES, size=RECORDS).tolist()
            # One record is one step away, which both policies hide.
            other = [values[0] + (1 if values[0] < VALUES - 1 else -1), *values[1:]]
            steps = [*_levels(random), *(_step_of(random) for _ in range(STEPS)), *_always()]
            steps += _between() if number == 0 else ()
            first = _session(policy, values, steps, [])
            second = _session(policy, other, steps, [draw for _, draw in first.drawn])
            silent = _session(policy, values, steps, [], is_silent=True)
            ways += first.ways
            violations += [*first.failures, *silent.failures, *_independent(first), *_public(first, second)]
            violations += [*_order(first), *_order(second)]
            _compare(losses, first, second)
        summary = f"loss {amount(losses.worst)} within what was charged; {', '.join(sorted(+ways))}"
        yield judged(
            f"sessions that share noise, {label}", "chains", [*violations, *losses.violations], summary, sessions
        )


def _levels(random: np.random.Generator) -> Iterator[Asked]:
    """The same rows at all levels in some order, by one analyst or the other."""
    for level in random.permutation(len(LEVELS)).tolist():
        target = accuracy_target(epsilon=LEVELS[level], mechanism="identity")
        yield ANALYSTS_HERE[random.integers(2)], QUESTIONS[0], target


def _always() -> Iterator[Asked]:
    """Levels next to others of the same analyst and of the other one, and what is combined of these and of a filter.

    The third analyst has coarse cells alone, which a measurement of finer ones is combined with.
    """
    first, second, third = ANALYSTS_HERE
    yield third, QUESTIONS[1], accuracy_target(epsilon=LEVELS[3], mechanism="identity")
    yield third, QUESTIONS[0], accuracy_target(alpha=WITHIN[2])
    for analyst, place, level in ((first, 1, 1), (first, 1, 3), (second, 1, 0), (second, 1, 2), (first, 2, 3)):
        yield analyst, QUESTIONS[place], accuracy_target(epsilon=LEVELS[level], mechanism="identity")
    for analyst, place in ((first, 0), (second, 0), (first, 1)):
        yield analyst, QUESTIONS[place], accuracy_target(alpha=SHARPER)


def _between() -> Iterator[Asked]:
    """Levels of one chain without any from data but the finest: one below two others, then one between two others."""
    first, second, third = ANALYSTS_HERE
    for analyst, level in ((first, 3), (second, 2), (third, 0), (third, 1)):
        yield analyst, ALONE, accuracy_target(epsilon=LEVELS[level], mechanism="identity")


def _step_of(random: np.random.Generator) -> Asked:
    analyst, question = ANALYSTS_HERE[random.integers(2)], QUESTIONS[random.integers(len(QUESTIONS))]
    if random.integers(2):
        return analyst, question, accuracy_target(epsilon=LEVELS[random.integers(len(LEVELS))], mechanism="identity")
    return analyst, question, accuracy_target(alpha=WITHIN[random.integers(len(WITHIN))])


def _public(first: ChainSession, second: ChainSession) -> list[str]:
    """Everything but the draws must be the same on both tables, and the ledgers in order."""
    charges = [[(one.charge.epsilon, one.charge.received) for one in each.receipts] for each in (first, second)]
    return broken(
        {
            "neighbours are charged differently": charges[0] != charges[1] or first.spent != second.spent,
            "what is published differs although all draws are the same": first.answers != second.answers,
            "the ledger does not verify after a session": not (first.is_sound and second.is_sound),
        }
    )


def _order(session: ChainSession) -> Iterator[str]:
    """Each level must be drawn given the published values next to it in its chain, and from data only without finer."""
    published: dict[str, dict[Fraction, Ints]] = {}
    had: set[tuple[str, str]] = set()
    for receipt, draw in session.drawn:
        if receipt.charge.link is None:
            yield "a draw that shares its noise is charged without a chain"
            continue
        chain = published.setdefault(receipt.charge.link.chain, {})
        unit, owner = draw.plan.unit, (receipt.charge.analyst, receipt.charge.link.chain)
        if _way(receipt) == "supplement" and owner in had:
            yield "a supplement is taken for independent of an answer whose noise it shares"
        had.add(owner)
        finer = max((other for other in chain if other <= unit), default=None)
        coarser = min((other for other in chain if other > unit), default=None)
        for place, given, name in ((finer, draw.finer, "finer"), (coarser, draw.coarser, "coarser")):
            is_right = (place is None) == (given is None)
            if place is not None and given is not None:
                is_right = given.unit == place and np.array_equal(given.noisy, chain[place])
            if not is_right:
                yield f"a level is not drawn given the next {name} one of its chain"
        if (draw.counts is None) != (finer is not None):
            yield "rows are read although a finer level is published, or not read although none is"
        chain[unit] = draw.noisy


def _compare(losses: Losses, first: ChainSession, second: ChainSession) -> None:
    """The loss of all chains, each at the finest level drawn from data, against the account and the balances."""
    by_chain: dict[str, Fraction] = {}
    received: dict[tuple[str, str], Fraction] = {}
    moved: dict[str, tuple[Fraction, Fraction]] = {}
    for (receipt, draw), (_, other) in zip(first.drawn, second.drawn, strict=False):
        chain = receipt.charge.link.chain if receipt.charge.link else ""
        if draw.counts is not None and other.counts is not None:
            loss = draw.moved(other.counts)
            by_chain[chain] = max(by_chain.get(chain, Fraction(0)), loss)
            moved[chain] = loss, draw.plan.unit
        loss, unit = moved.get(chain, (Fraction(0), Fraction(1)))
        key = receipt.charge.analyst, chain
        received[key] = max(received.get(key, Fraction(0)), loss * unit / draw.plan.unit)
    losses.compare("all answers of a session", sum(by_chain.values(), Fraction(0)), first.spent)
    for name, spent in first.balances.items():
        mine = sum((loss for (analyst, _), loss in received.items() if analyst == name), Fraction(0))
        losses.compare(f"all answers that {name} received", mine, spent)


CHEAP, PRICE = Fraction(1, 10), Fraction(3, 10)


@dataclass
class Room:
    """A dataset whose answers share noise, with content that a drill may change while it is counted."""

    world: Scratch
    sharing: str = ANALYSTS
    changes: bool = False
    """Whether the content becomes another one as soon as rows are read."""
    now: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens when a release reaches a step."""

    def content(self) -> str:
        """The digest of the rows as they are."""
        return "other rows" if self.changes and READ in self.world.watch.events else "rows"

    @property
    def handle(self) -> DatasetHandle:
        """The dataset as analysts ask it."""
        return replace(self.world.handle, sharing=self.sharing)

    def ask(self, analyst: str, epsilon: Fraction) -> Charge:
        """Releases a noisy histogram; the charge that is on record for it."""
        handle, target = self.handle, accuracy_target(epsilon=epsilon, mechanism="identity")
        request = make_request(handle, QUESTIONS[0], target)
        release = prepare(handle, request)
        self.world.watch.clear()
        charged_payload(self.world.ledger, handle, analyst, request.digest, lambda: release, Run(progress=self.reached))
        return self.world.ledger.charges_of(handle.account, analyst, 1)[0][0].charge

    def reached(self, step: str) -> None:
        """Does once what the drill has prepared for a step."""
        self.now.pop(step, lambda: None)()

    def end_chains(self) -> None:
        """The data is refreshed, with which everything that was published of the old rows ends."""
        self.world.ledger.new_snapshot(self.world.ledger.account(self.handle.account), "audit", by="audit")

    def fail(self, analyst: str, epsilon: Fraction) -> None:
        """A release that fails once its noise is drawn."""

        def broken_payload(*_: object) -> bytes:
            raise RuntimeError("audit")

        with swapped(PlanRelease, "shared_payload", broken_payload), suppress(ReleaseFailed):
            self.ask(analyst, epsilon)


def chain_drill_lines() -> Iterator[CheckLine]:
    """What has to hold beside the laws of the draws, each in a room of its own."""
    drills = {
        "rows that change while they are counted": _changed,
        "an answer over rows that changed while they were counted": _unproven,
        "a chain that ends between charge and draw": _ended,
        "a draw that fails": _failed,
        "a draw that fails between charge and draw of another": _failed_meanwhile,
        "whose rows are read": _read,
        "sharing with oneself": _own,
        "what a difference pays for": _difference,
    }
    for name, drill in drills.items():
        with _room() as room, listening():
            violations = drill(room)
        yield judged("answers that share noise", name, violations, "as it must be")


@contextmanager
def _room() -> Iterator[Room]:
    with scratch(DECLARED, Policy({"x": line()})) as world:
        world.fill([{"x": value % 4} for value in range(10)])
        room = Room(world)
        # The last write stays the same: here it is for the content alone to show that rows changed.
        with swapped(world.source, "content", room.content), swapped(world.source, "last_write", lambda: "a day"):
            yield room


def _changed(room: Room) -> list[str]:
    room.ask("ana", CHEAP)
    room.changes = True
    is_made = not refused(partial(room.ask, "ana", PRICE), ContentChanged)
    return broken({"an answer is made more accurate by rows that changed while they were counted": is_made})


def _unproven(room: Room) -> list[str]:
    room.changes = True
    first = room.ask("ana", CHEAP)
    room.changes = False
    second = room.ask("ana", PRICE)
    is_built_on = first.link is None or second.link is None or second.link.chain == first.link.chain
    return broken({"an answer is built on one of which nobody knows the rows": is_built_on or second.epsilon != PRICE})


def _ended(room: Room) -> list[str]:
    room.ask("ana", CHEAP)
    room.now["answer"] = room.end_chains
    is_drawn = not refused(partial(room.ask, "ana", PRICE), ContentChanged)
    return broken({"a difference pays for a whole answer once its chain has ended": is_drawn})


def _failed(room: Room) -> list[str]:
    first = room.ask("ana", CHEAP)
    room.fail("bob", PRICE)
    later = [room.ask("eve", PRICE), room.ask("ana", 2 * PRICE)]
    chains = [one.link.chain for one in (first, *later) if one.link is not None]
    is_drawn = len(chains) < len(later) + 1 or chains[0] in chains[1:]
    return broken({"a chain of which a draw has failed is drawn from data again": is_drawn})


def _failed_meanwhile(room: Room) -> list[str]:
    room.ask("ana", CHEAP)
    room.now["answer"] = partial(room.fail, "bob", PRICE)
    is_drawn = not refused(partial(room.ask, "ana", 2 * PRICE), ContentChanged)
    return broken({"a draw reads data although another of its chain has failed": is_drawn})


def _read(room: Room) -> list[str]:
    room.ask("bob", PRICE)
    room.ask("ana", CHEAP)
    others = READ in room.world.watch.events
    room.ask("bob", CHEAP)
    mine = READ in room.world.watch.events
    return broken(
        {
            "time tells that others have asked: no rows are read for what follows from their answer": not others,
            "rows are read for what follows from an analyst's own answer": mine,
        }
    )


def _own(room: Room) -> list[str]:
    room.sharing = OWN
    charges = [room.ask(analyst, PRICE) for analyst in ("ana", "bob")]
    is_shared = room.world.spent != 2 * PRICE or len({one.link.chain for one in charges if one.link}) != len(charges)
    return broken({"analysts share noise although each shares with themselves alone": is_shared})


def _difference(room: Room) -> list[str]:
    room.ask("ana", CHEAP)
    room.ask("ana", PRICE)
    handle = room.handle
    receipt = room.world.ledger.charges_of(handle.account, "ana", 1)[0][0]
    target = accuracy_target(epsilon=PRICE, mechanism="identity")
    alone = prepare(handle, make_request(handle, QUESTIONS[0], target))
    is_paid = not refused(partial(check_receipt, receipt, alone), DigestMismatch)
    is_whole = receipt.charge.epsilon != PRICE - CHEAP
    return broken(
        {
            "the difference to an earlier answer pays for noise of its own": is_paid,
            "a finer level of the same rows is charged another amount than the difference": is_whole,
        }
    )
