"""Dashboards: answers that an analyst arranged on a page, shared by a link or published by a curator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from blowfishdb.errors import InvalidInput, TooLarge
from blowfishdb.ledger.values import check_text
from blowfishdb.model.serialize import write
from blowfishdb.server.auth.database import AuthCursor, AuthRow, Database
from blowfishdb.server.auth.grants import Principal
from blowfishdb.server.auth.users import new_password

MOST_TILES = 24
MOST_EACH = 100
LONGEST_TITLE, LONGEST_CAPTION = 100, 400
Visibility: TypeAlias = Literal["private", "shared", "offered"]
"""For its owner; for analysts who have the link; for those, and for curators, who may publish it."""


@dataclass(frozen=True)
class DashboardTile:
    """An answer on a dashboard: one of its owner's, by its number in their history, and words about it."""

    dataset: str
    number: int
    caption: str = ""
    is_wide: bool = False

    def __post_init__(self) -> None:
        if len(self.caption) > LONGEST_CAPTION or "\0" in self.caption:
            raise InvalidInput(f"a caption is a text of at most {LONGEST_CAPTION} characters")


@dataclass(frozen=True)
class Edition:
    """What a curator published: later changes of the dashboard do not show in it."""

    title: str
    tiles: tuple[DashboardTile, ...]
    by: str
    at: str


@dataclass(frozen=True)
class Dashboard:
    """A title and tiles in their order. Whoever opens it sees answers that its owner has paid for."""

    id: str
    owner: str
    title: str
    tiles: tuple[DashboardTile, ...] = ()
    access: Visibility = "private"
    changed: str = ""
    published: Edition | None = None

    def __post_init__(self) -> None:
        check_text(self.title, "a title", LONGEST_TITLE)
        if len(self.tiles) > MOST_TILES:
            raise TooLarge("answers on a dashboard", len(self.tiles), MOST_TILES, "Take some off, or make another one.")
        if self.access not in get_args(Visibility):
            raise InvalidInput(f"the access is one of {', '.join(get_args(Visibility))}")

    @property
    def is_published_as_is(self) -> bool:
        """Whether what is published is what it shows now."""
        edition = self.published
        return edition is not None and (edition.title, edition.tiles) == (self.title, self.tiles)

    def with_tile(self, tile: DashboardTile) -> Dashboard:
        """The same with one more answer, at the end; an answer is on a dashboard once."""
        if any((one.dataset, one.number) == (tile.dataset, tile.number) for one in self.tiles):
            return self
        return replace(self, tiles=(*self.tiles, tile))

    def with_move(self, place: int, by: int) -> Dashboard:
        """The same with one tile further up or down."""
        tiles = list(self.tiles)
        tile = tiles.pop(place)
        tiles.insert(min(max(place + by, 0), len(tiles)), tile)
        return replace(self, tiles=tuple(tiles))

    def is_for(self, identity: Principal) -> bool:
        """Whether somebody may open it."""
        if identity.name == self.owner and identity.may("ask"):
            return True
        is_curators = self.access == "offered" or self.published is not None
        return (self.access != "private" and identity.may("ask")) or (is_curators and identity.may("curate"))


@dataclass(frozen=True, eq=False)
class Dashboards:
    """All dashboards."""

    database: Database

    def create(self, owner: str, title: str) -> Dashboard:
        """A new one, empty and for its owner alone."""
        # As hard to guess as a password: whoever has the id of a shared one has its link.
        dashboard = Dashboard(new_password(), owner, title, changed=self.database.clock.text())
        with self.database.write() as cursor:
            number = len(cursor.rows("SELECT 1 FROM dashboard WHERE owner = ?", owner))
            if number >= MOST_EACH:
                raise TooLarge("dashboards", number + 1, MOST_EACH, "Delete some.")
            cursor.insert("dashboard", _row(dashboard))
        return dashboard

    def of(self, owner: str) -> list[Dashboard]:
        """Somebody's own, the one that was changed last first."""
        return self._listed("owner = ?", owner)

    def offered(self) -> list[Dashboard]:
        """Those that curators may publish, or have published."""
        return self._listed("access = 'offered' OR published IS NOT NULL")

    def _listed(self, condition: str, *values: str) -> list[Dashboard]:
        rows = self.database.rows(f"SELECT * FROM dashboard WHERE {condition} ORDER BY changed DESC, id", *values)
        return [_dashboard(row) for row in rows]

    def open(self, dashboard: str, identity: Principal) -> Dashboard:
        """One that somebody may open; for one that they may not, the same error as for one that is not there."""
        known = _find(self.database, dashboard)
        if not known.is_for(identity):
            raise nowhere()
        return known

    def edition(self, dashboard: str) -> tuple[str, Edition]:
        """The owner and what was published, for readers without an account."""
        known = _find(self.database, dashboard)
        if known.published is None:
            raise nowhere()
        return known.owner, known.published

    def save(self, dashboard: Dashboard) -> Dashboard:
        """Keeps title, tiles and access as its owner changed them; what is published stays as it is."""
        changed = replace(dashboard, changed=self.database.clock.text())
        row = _row(changed)
        with self.database.write() as cursor:
            if _find(cursor, dashboard.id).owner != dashboard.owner:
                raise nowhere()
            columns = ("title", "tiles", "access", "changed")
            marks = ", ".join(f"{column} = ?" for column in columns)
            cursor.rows(f"UPDATE dashboard SET {marks} WHERE id = ?", *(row[column] for column in columns), changed.id)
        return changed

    def delete(self, dashboard: Dashboard) -> None:
        """Forgets a dashboard, its publication included; its answers stay in the history."""
        self.database.change("DELETE FROM dashboard WHERE id = ? AND owner = ?", dashboard.id, dashboard.owner)

    def publish(self, dashboard: Dashboard, by: str) -> Edition:
        """Publishes what a curator has seen, to whoever has the link; InvalidInput where it has changed since."""
        with self.database.write() as cursor:
            now = _find(cursor, dashboard.id)
            if now.access != "offered" or (now.title, now.tiles) != (dashboard.title, dashboard.tiles):
                raise InvalidInput("the dashboard has changed since you opened it: look at it again")
            edition = Edition(now.title, now.tiles, by, self.database.clock.text())
            cursor.rows("UPDATE dashboard SET published = ? WHERE id = ?", json.dumps(write(edition)), now.id)
        return edition

    def withdraw(self, dashboard: str) -> None:
        """Takes a publication back; its readers find nothing there any more."""
        with self.database.write() as cursor:
            cursor.rows("UPDATE dashboard SET published = NULL WHERE id = ?", _find(cursor, dashboard).id)


def nowhere() -> InvalidInput:
    """The error for a dashboard that is not there, or not for whoever asks."""
    return InvalidInput("this link leads to no dashboard, or to one that is not shared")


def _find(database: Database | AuthCursor, dashboard: str) -> Dashboard:
    row = database.row("SELECT * FROM dashboard WHERE id = ?", dashboard)
    if row is None:
        raise nowhere()
    return _dashboard(row)


def _row(dashboard: Dashboard) -> dict[str, str | int | None]:
    content: dict[str, Any] = write(dashboard)
    edition = content["published"]
    return content | {
        "tiles": json.dumps(content["tiles"]),
        "published": None if edition is None else json.dumps(edition),
    }


def _tiles(content: Sequence[dict[str, object]]) -> tuple[DashboardTile, ...]:
    return tuple(DashboardTile(**one) for one in content)  # type: ignore[arg-type]


def _dashboard(row: AuthRow) -> Dashboard:
    stored = None if row["published"] is None else json.loads(row["published"])
    edition = None if stored is None else Edition(**stored | {"tiles": _tiles(stored["tiles"])})
    return Dashboard(**row | {"tiles": _tiles(json.loads(row["tiles"])), "published": edition})
