"""Drills of answers that share their noise: rows that change meanwhile, draws that fail, chains that end, who reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from blowfishdb.audit.report import Line, broken, judged, refused
from blowfishdb.audit.scratch import READ, Scratch, listening, scratch
from blowfishdb.engine.charge import Run, charged_payload, prepare
from blowfishdb.engine.compile import ANALYSTS, OWN, DatasetHandle
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import ContentChanged, ReleaseFailed
from blowfishdb.ledger.values import Charge
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, line
from blowfishdb.model.query import query

DECLARED = domain({"x": integers(0, 3, null=0)})
HISTOGRAM = query("histogram", "x")
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
        request = make_request(handle, HISTOGRAM, target)
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
        usual = PlanRelease.shared_payload

        def broken_payload(*_: object) -> bytes:
            raise RuntimeError("audit")

        setattr(PlanRelease, "shared_payload", broken_payload)  # noqa: B010  # the failure itself
        try:
            with suppress(ReleaseFailed):
                self.ask(analyst, epsilon)
        finally:
            setattr(PlanRelease, "shared_payload", usual)  # noqa: B010


def chain_drill_lines() -> Iterator[Line]:
    """What has to hold beside the laws of the draws, each in a room of its own."""
    drills = {
        "rows that change while they are counted": _changed,
        "an answer over rows that changed while they were counted": _unproven,
        "a chain that ends between charge and draw": _ended,
        "a draw that fails": _failed,
        "a draw that fails between charge and draw of another": _failed_meanwhile,
        "whose rows are read": _read,
        "sharing with oneself": _own,
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
        setattr(world.source, "content", room.content)  # noqa: B010  # of this source alone
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
    own = READ in room.world.watch.events
    return broken(
        {
            "time tells that others have asked: no rows are read for what follows from their answer": not others,
            "rows are read for what follows from an analyst's own answer": own,
        }
    )


def _own(room: Room) -> list[str]:
    room.sharing = OWN
    charges = [room.ask(analyst, PRICE) for analyst in ("ana", "bob")]
    is_shared = room.world.spent != 2 * PRICE or len({one.link.chain for one in charges if one.link}) != len(charges)
    return broken({"analysts share noise although each shares with themselves alone": is_shared})
