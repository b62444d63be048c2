"""The two stores that every conformance test runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blowfishdb.ledger import Ledger
from tests.ledger.support import Place


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty ledger's place, once for each store."""
    if request.param == "postgres":
        return Place(request.getfixturevalue("postgres_url"), tmp_path / "elsewhere" / "mark")
    return Place(f"sqlite:///{tmp_path}/books/ledger.db", tmp_path / "elsewhere" / "mark")


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """An open, empty ledger."""
    with place.open() as found:
        yield found
