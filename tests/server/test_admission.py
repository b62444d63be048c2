"""What one account or one address may have at a time: rates, requests, bytes, places, and the time for the rest."""

from __future__ import annotations

import asyncio
import time

import pytest

from blowfishdb.errors import RateLimited, ServerFull, TooManyAtOnce, TooSlow
from blowfishdb.server.admission import (
    SLOWEST,
    Admission,
    Buffers,
    ConnectionPlaces,
    ReadingPace,
    RequestSlots,
    account,
    address,
)
from blowfishdb.server.settings import Settings

ANA, BOB, HERE = account("ana"), account("bob"), address("10.0.0.1")


def test_addresses_of_one_customer_are_one() -> None:
    assert address("2001:db8::1") == address("2001:db8::ffff:1") != address("2001:db8:0:1::1")
    assert address("::ffff:10.0.0.1") == address("10.0.0.1") != address("10.0.0.2")
    assert address("unknown") != address("10.0.0.1")
    assert account("10.0.0.1") != address("10.0.0.1")


def test_a_party_has_so_many_requests_and_others_have_theirs() -> None:
    slots = RequestSlots(2)
    with slots.taken(ANA), slots.taken(ANA):
        with pytest.raises(TooManyAtOnce) as refusal, slots.taken(ANA):
            raise AssertionError
        assert (refusal.value.most, refusal.value.wait) == (2, 1)
        with slots.taken(BOB), slots.taken(HERE):
            pass
    with slots.taken(ANA):
        pass
    assert not slots._taken


def test_bytes_are_bounded_of_one_and_in_all_and_one_large_answer_always_passes() -> None:
    buffers = Buffers(10, 15)
    buffers.take(ANA, 12)
    with pytest.raises(TooManyAtOnce):
        buffers.take(ANA, 1)
    buffers.take(BOB, 3)
    with pytest.raises(ServerFull):
        buffers.take(HERE, 1)
    buffers.give_back(ANA, 12)
    buffers.take(HERE, 10)
    assert buffers.kept == 13
    buffers.give_back(BOB, 3)
    buffers.give_back(HERE, 10)
    assert buffers.kept == 0
    assert not buffers._kept


def places(in_all: int, of_one: int, recent: float = 0.0) -> tuple[ConnectionPlaces[str], list[str]]:
    closed: list[str] = []
    return ConnectionPlaces(in_all, of_one, closed.append, recent), closed


def test_the_connection_that_waits_longest_makes_room() -> None:
    rooms, closed = places(9, 3)
    for guest in "abc":
        rooms.enter(ANA, guest)
    with pytest.raises(TooManyAtOnce):
        rooms.enter(ANA, "d")
    rooms.waits(ANA, "b")
    rooms.waits(ANA, "a")
    rooms.enter(ANA, "d")
    rooms.works(ANA, "a")
    with pytest.raises(TooManyAtOnce):
        rooms.enter(ANA, "e")
    assert closed == ["b"]
    rooms.enter(BOB, "f")
    rooms.leave(ANA, "b")
    rooms.leave(ANA, "a")
    rooms.enter(ANA, "e")
    assert closed == ["b"]


def test_a_connection_that_was_used_just_now_stays() -> None:
    rooms, closed = places(9, 1, recent=60.0)
    rooms.enter(ANA, "a")
    rooms.waits(ANA, "a")
    with pytest.raises(TooManyAtOnce):
        rooms.enter(ANA, "b")
    rooms.recent = 0.0
    rooms.enter(ANA, "b")
    assert closed == ["a"]


def test_whoever_has_most_makes_room_for_others() -> None:
    rooms, closed = places(4, 4, recent=60.0)
    for guest in "abc":
        rooms.enter(ANA, guest)
        rooms.waits(ANA, guest)
    rooms.enter(BOB, "d")
    rooms.waits(BOB, "d")
    rooms.enter(HERE, "e")
    rooms.enter(HERE, "f")
    assert closed == ["a", "b"]
    for party, guest in ((ANA, "c"), (BOB, "d")):
        rooms.works(party, guest)
    with pytest.raises(ServerFull):
        rooms.enter(HERE, "g")
    for party, guest in ((ANA, "c"), (BOB, "d"), (HERE, "e"), (HERE, "f")):
        rooms.leave(party, guest)
    assert (rooms._of, rooms._waiting, rooms._size) == ({}, {}, 0)


def test_a_proxy_has_as_many_as_there_are() -> None:
    rooms, closed = places(3, 1)
    for guest in "abc":
        rooms.enter(HERE, guest, is_bounded=False)
        rooms.waits(HERE, guest)
    rooms.enter(HERE, "d", is_bounded=False)
    assert closed == ["a"]


def test_whoever_sends_is_waited_for_and_whoever_stops_is_not() -> None:
    async def waited(pace: ReadingPace, pieces: list[tuple[float, int]]) -> None:
        for seconds, size in pieces:
            await pace.wait_for(asyncio.sleep(seconds), size)

    asyncio.run(waited(ReadingPace(0.2), [(0.1, SLOWEST)] * 5))
    began = time.monotonic()
    with pytest.raises(TooSlow):
        asyncio.run(waited(ReadingPace(0.2), [(0.02, 10)] * 100))
    assert time.monotonic() - began < 1.5
    # What was quick before does not let anybody stop for long now.
    with pytest.raises(TooSlow):
        asyncio.run(waited(ReadingPace(0.1), [(0.0, 100 * SLOWEST), (0.5, 0)]))


def test_whoever_signs_in_takes_nothing_from_others_at_their_address() -> None:
    admission = Admission(Settings(sign_ins_per_minute=2))
    for name in ("ana", "bob", "cid", "dora", "ana"):
        admission.sign_ins.check(HERE)
        admission.signed_in("10.0.0.1", name)
    admission.sign_ins.check(HERE)
    with pytest.raises(RateLimited):
        admission.signed_in("10.0.0.1", "ana")
    for _ in range(2):
        admission.sign_ins.check(HERE)
    with pytest.raises(RateLimited):
        admission.sign_ins.check(HERE)
