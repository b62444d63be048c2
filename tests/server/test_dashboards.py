"""Dashboards: who opens one, what is kept of it, and what a curator publishes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blowfishdb.errors import InvalidInput, TooLarge
from blowfishdb.server import dashboards as module
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import SCOPES_OF, Principal, Role
from blowfishdb.server.dashboards import MOST_TILES, Dashboard, Dashboards, DashboardTile


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Dashboards]:
    database = open_database(f"sqlite:///{tmp_path}/users")
    yield Dashboards(database)
    database.close()


def somebody(name: str, role: Role) -> Principal:
    return Principal(name, role, SCOPES_OF[role])


ANA, BEN = somebody("ana", "analyst"), somebody("ben", "analyst")
CORA, AUDE = somebody("cora", "curator"), somebody("aude", "auditor")
ANA_WITHOUT_RIGHT = somebody("ana", "auditor")
"""The owner in another role, or with a token that may not ask."""
FIRST, SECOND = DashboardTile("visits", 3, "Wards", is_wide=True), DashboardTile("visits", 4)


def test_only_those_open_it_whom_its_owner_lets_in(store: Dashboards) -> None:
    made = store.create("ana", "Wards")
    who = {"private": [ANA], "shared": [ANA, BEN], "offered": [ANA, BEN, CORA]}
    for access, allowed in who.items():
        store.save(replace(made, access=access))  # type: ignore[arg-type]
        for identity in (ANA, BEN, CORA, AUDE, replace(BEN, must_change=True), ANA_WITHOUT_RIGHT):
            if identity in allowed:
                assert store.open(made.id, identity).access == access
            else:
                with pytest.raises(InvalidInput) as refused:
                    store.open(made.id, identity)
                with pytest.raises(InvalidInput) as nowhere:
                    store.open("no such dashboard", identity)
                assert refused.value.message == nowhere.value.message


def test_tiles_are_kept_in_their_order_each_once(store: Dashboards) -> None:
    made = store.create("ana", "Wards").with_tile(FIRST).with_tile(SECOND).with_tile(replace(FIRST, caption="again"))
    store.save(made)
    assert store.open(made.id, ANA).tiles == (FIRST, SECOND)
    assert made.with_move(0, 1).tiles == made.with_move(1, -1).tiles == (SECOND, FIRST)
    assert made.with_move(0, -1).tiles == made.with_move(1, 5).tiles == (FIRST, SECOND)
    assert [one.id for one in store.of("ana")] == [made.id]
    assert store.of("ben") == []
    # Somebody who made up the object of another's dashboard changes nothing.
    with pytest.raises(InvalidInput):
        store.save(replace(made, owner="ben", title="Mine"))
    store.delete(replace(made, owner="ben"))
    assert store.open(made.id, ANA).title == "Wards"
    store.delete(made)
    assert store.of("ana") == []


def test_what_is_published_is_what_the_curator_saw(store: Dashboards) -> None:
    made = store.save(replace(store.create("ana", "Wards").with_tile(FIRST), access="offered"))
    with pytest.raises(InvalidInput):
        store.edition(made.id)
    seen = store.open(made.id, CORA)
    store.save(made.with_tile(SECOND))
    with pytest.raises(InvalidInput, match="has changed since"):
        store.publish(seen, "cora")
    assert store.publish(store.open(made.id, CORA), "cora").by == "cora"
    assert store.open(made.id, CORA).is_published_as_is
    # Later changes are not published, and neither is a dashboard that is offered no more.
    store.save(replace(made, title="Other", tiles=(), access="private"))
    owner, edition = store.edition(made.id)
    assert (owner, edition.title, edition.tiles) == ("ana", "Wards", (FIRST, SECOND))
    assert [(one.id, one.is_published_as_is) for one in store.offered()] == [(made.id, False)]
    with pytest.raises(InvalidInput):
        store.publish(store.open(made.id, CORA), "cora")
    store.withdraw(made.id)
    with pytest.raises(InvalidInput):
        store.edition(made.id)
    assert store.offered() == []


def test_what_is_out_of_form_is_refused(store: Dashboards, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput):
        store.create("ana", "")
    with pytest.raises(InvalidInput, match="caption"):
        DashboardTile("visits", 1, "x" * 401)
    with pytest.raises(TooLarge):
        Dashboard("id", "ana", "Many", tuple(DashboardTile("visits", number) for number in range(MOST_TILES + 1)))
    with pytest.raises(InvalidInput, match="access"):
        Dashboard("id", "ana", "Open", access="everybody")  # type: ignore[arg-type]
    monkeypatch.setattr(module, "MOST_EACH", 1)
    store.create("ana", "One")
    with pytest.raises(TooLarge):
        store.create("ana", "Two")
