"""The first ten minutes of a curator and of an analyst, as the two pages tell them, on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

import blowfishdb as bf
from tests.docs.block_runner import run_block
from tests.docs.blocks import ROOT, blocks
from tests.docs.worlds import World

pytestmark = pytest.mark.postgres
CURATOR = blocks(ROOT / "docs" / "start-curator.md")
ANALYST = blocks(ROOT / "docs" / "start-analyst.md")


@pytest.fixture
def place(postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and the table of the first page in the database that its address names."""
    import psycopg

    server = urlsplit(postgres_server)
    monkeypatch.setenv("PGPORT", str(server.port))
    monkeypatch.setenv("PGUSER", str(server.username))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS clinic")
        connection.execute("CREATE DATABASE clinic")
    (statement,) = (block.text for block in CURATOR if block.language == "sql")
    with psycopg.connect("postgresql://localhost/clinic", autocommit=True) as connection:
        connection.execute(statement.encode())
    return tmp_path


def test_both_pages_in_their_order(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(place, {}, has_servers=True)
    for block in (*CURATOR, *ANALYST):
        run_block(block, world)
    said = capsys.readouterr().out
    assert "Run it with: blowfish release visits --histogram 'bin(age, 10)' --within 100" in said
    assert (place / "ages.png").exists() and (place / "cost.svg").exists()
    db = world.names["db"]
    assert isinstance(db, bf.Session)
    db.close()
    with bf.curate("blowfish.toml") as curator:
        assert curator.verify().is_sound
        assert 0 < curator.account("visits").spent <= 4
