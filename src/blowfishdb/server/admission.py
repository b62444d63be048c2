"""Who is let in: how many requests, connections and bytes one account or one address may have here at a time.

Whoever has signed in is counted by their account, so that people who share an address do not stand in each other's way;
everybody else is counted by their address.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Generic, NamedTuple, TypeVar

from blowfishdb.errors import RateLimited, ServerFull, TooManyAtOnce, TooSlow
from blowfishdb.server.settings import Settings

Result = TypeVar("Result")
Guest = TypeVar("Guest")
MOST_PARTIES = 10_000
OF_ONE_CUSTOMER = 64
"""The bits of an IPv6 address that a customer of a network does not choose."""
LARGEST_OF_STRANGERS = 10_000
"""Bytes of a request, or of a message, from somebody who has not signed in."""
SMALL = 2**16
"""Bytes that are not counted: connections read as much ahead anyway."""
SLOWEST = 32 * 2**10
"""Bytes a second: whoever sends or takes this many is waited for."""
RECENT = 10.0
"""Seconds: of an account that has as many connections as it may, one that was used since then is not closed."""
SOON = 1
"""Seconds after which somebody who found everything taken may try again."""


class Party(NamedTuple):
    """Whoever is counted."""

    kind: str
    name: str

    @property
    def is_account(self) -> bool:
        """Whether it is an account; else it is an address, of whoever has not signed in."""
        return self.kind == "account"


def account(name: str) -> Party:
    """Whoever signed in by this name."""
    return Party("account", name)


@lru_cache(maxsize=MOST_PARTIES)
def address(text: str) -> Party:
    """Whoever is at an address. IPv6 addresses that belong to one customer are one: they choose among very many."""
    try:
        found = ip_address(text)
    except ValueError:
        return Party("address", text)
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or ip_network((found, OF_ONE_CUSTOMER), strict=False).network_address
    return Party("address", str(found))


@dataclass(frozen=True, eq=False)
class RateLimit:
    """A limit of requests per minute for each party; the longest silent are forgotten."""

    per_minute: int
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[Party, tuple[float, float]] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check(self, party: Party) -> None:
        """Takes one request from the party's bucket; RateLimited when it is empty."""
        with self._turn:
            now = self.seconds()
            left, seen = self._left.pop(party, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - seen) * self.per_minute / 60)
            self._left[party] = (max(0.0, left - 1), now) if left >= 1 else (left, now)
            while len(self._left) > MOST_PARTIES:
                self._left.popitem(last=False)
        if left < 1:
            raise RateLimited(math.ceil((1 - left) * 60 / self.per_minute))

    def give_back(self, party: Party) -> None:
        """Puts one request back into the party's bucket."""
        with self._turn:
            if party in self._left:
                left, seen = self._left[party]
                self._left[party] = min(float(self.per_minute), left + 1), seen


@dataclass(frozen=True, eq=False)
class RequestSlots:
    """How many requests of each party are here at a time, from their first byte to the last of the answer."""

    most: int
    _taken: Counter[Party] = field(default_factory=Counter)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taken(self, party: Party) -> Iterator[None]:
        """One more request, which ends with the block; TooManyAtOnce beyond the limit."""
        with self._turn:
            if self._taken[party] >= self.most:
                raise TooManyAtOnce("requests", self.most, SOON)
            self._taken[party] += 1
        try:
            yield
        finally:
            with self._turn:
                self._taken[party] -= 1
                if not self._taken[party]:
                    del self._taken[party]


@dataclass(frozen=True, eq=False)
class Buffers:
    """The bytes of requests and answers on their way, of each party and in all.

    A party that keeps nothing may always keep one request or answer: how large these are is limited elsewhere.
    """

    of_one: int
    in_all: int
    _kept: Counter[Party] = field(default_factory=Counter)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def take(self, party: Party, size: int) -> None:
        """Notes bytes that are kept; TooManyAtOnce beyond what one may keep, ServerFull beyond what all may."""
        with self._turn:
            kept = self._kept[party]
            if kept and kept + size > self.of_one:
                raise TooManyAtOnce("bytes of requests and answers", self.of_one, SOON)
            if kept < self._kept.total() and self._kept.total() + size > self.in_all:
                raise ServerFull("bytes of requests and answers", SOON)
            self._kept[party] = kept + size

    def give_back(self, party: Party, size: int) -> None:
        """Notes bytes that are kept no more."""
        with self._turn:
            self._kept[party] -= size
            if self._kept[party] <= 0:
                del self._kept[party]

    @property
    def kept(self) -> int:
        """The bytes of all parties together."""
        return self._kept.total()


@dataclass(eq=False)
class ConnectionPlaces(Generic[Guest]):
    """The places for connections, so many in all and so many of one party. Who waits the longest makes room.

    A connection waits while its client has nothing to do here. Where places are short, one is closed of the party that
    has the most connections; where a party has all of its own, one that was not used for a while.
    """

    in_all: int
    of_one: int
    close: Callable[[Guest], None]
    recent: float = 0.0
    _of: dict[Party, dict[Guest, None]] = field(default_factory=dict)
    _waiting: dict[Party, dict[Guest, float]] = field(default_factory=dict)
    _size: int = 0

    def enter(self, party: Party, guest: Guest, *, is_bounded: bool = True) -> None:
        """One more connection of a party; TooManyAtOnce or ServerFull where nobody makes room."""
        if is_bounded and len(self._of.get(party, ())) >= self.of_one:
            waiting = self._waiting.get(party)
            if not waiting or time.monotonic() - next(iter(waiting.values())) < self.recent:
                what = "connections" if party.is_account else "connections that have not signed in"
                raise TooManyAtOnce(what, self.of_one, SOON)
            self._make_room(party)
        elif self._size >= self.in_all:
            if not self._waiting:
                raise ServerFull("connections", SOON)
            self._make_room(max(self._waiting, key=lambda one: len(self._of[one])))
        self._of.setdefault(party, {})[guest] = None
        self._size += 1

    def leave(self, party: Party, guest: Guest) -> None:
        """Gives a place back; nothing follows where that was done."""
        guests = self._of.get(party, {})
        if guest in guests:
            self.works(party, guest)
            del guests[guest]
            self._size -= 1
            if not guests:
                del self._of[party]

    def waits(self, party: Party, guest: Guest) -> None:
        """Notes that a connection waits for its client."""
        if guest in self._of.get(party, ()):
            self._waiting.setdefault(party, {}).setdefault(guest, time.monotonic())

    def works(self, party: Party, guest: Guest) -> None:
        """Notes that a connection is used."""
        waiting = self._waiting.get(party)
        if waiting is not None and waiting.pop(guest, None) is not None and not waiting:
            del self._waiting[party]

    def _make_room(self, party: Party) -> None:
        oldest = next(iter(self._waiting[party]))
        self.leave(party, oldest)
        self.close(oldest)


@dataclass(eq=False)
class ReadingPace:
    """How long somebody is waited for: some seconds, and more for each byte that they send or take."""

    seconds: float
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.seconds

    async def wait_for(self, event: Awaitable[Result], size: int = 0) -> Result:
        """What the event gives; TooSlow when it does not come in time. `size` is what they have to send or to take."""
        self.left = min(self.left, self.seconds) + size / SLOWEST
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.left):
                return await event
        except TimeoutError:
            raise TooSlow(self.seconds) from None
        finally:
            self.left -= time.monotonic() - began


class Admission:
    """The limits of one server, which REST, the pages and the PostgreSQL port share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.requests = RateLimit(settings.requests_per_minute)
        self.sign_ins = RateLimit(settings.sign_ins_per_minute)
        self.slots = RequestSlots(settings.requests_at_once)
        self.buffers = Buffers(settings.buffers_of_an_account, settings.buffers)

    def signed_in(self, place: str, name: str) -> None:
        """Counts a sign-in that succeeded with the account: other people at that address may still sign in."""
        self.sign_ins.give_back(address(place))
        self.sign_ins.check(account(name))

    def pace(self) -> ReadingPace:
        """How long somebody is waited for who sends a request or takes an answer."""
        return ReadingPace(self.settings.request_seconds)


def strangers(settings: Settings, close: Callable[[Guest], None]) -> ConnectionPlaces[Guest]:
    """The places of one port for connections that have not signed in."""
    return ConnectionPlaces(max(1, settings.connections // 2), settings.connections_of_an_address, close)


def members(settings: Settings, close: Callable[[Guest], None]) -> ConnectionPlaces[Guest]:
    """The places of one port for connections that have signed in."""
    return ConnectionPlaces(settings.connections, settings.connections_of_an_account, close, RECENT)
