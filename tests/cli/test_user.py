"""Users from the console."""

from __future__ import annotations

from pathlib import Path

from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.session import LoginSessions
from blowfishdb.server.auth.users import Users
from tests.cli.conftest import Run

CONFIG = 'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n'


def test_users_are_added_shut_out_and_given_passwords(blowfish: Run, folder: Path) -> None:
    (folder / "blowfish.toml").write_text(CONFIG)
    made = blowfish("user", "add", "ana", "--json")
    assert made.code == 0, made.err
    assert "curator" in blowfish("user", "add", "cora", "--role", "curator").out + blowfish("user", "list").out
    database = open_database(f"sqlite:///{folder}/blowfish.users")
    users = Users(database)
    logins = LoginSessions(users, database)
    assert logins.sign_in("ana", made.json["password"], "x").identity.must_change
    new = blowfish("user", "password", "ana", "--json").json["password"]
    assert new != made.json["password"]
    assert logins.sign_in("ana", new, "x").identity.name == "ana"
    assert blowfish("user", "disable", "ana", "--json").json == {"name": "ana", "disabled": True}
    assert "shut out" in blowfish("user", "list").out
    assert blowfish("user", "disable", "ana", "--undo").code == 0
    assert [line["name"] for line in blowfish("user", "list", "--json").json] == ["ana", "cora"]
    database.close()


def test_mistakes_are_told(blowfish: Run, folder: Path) -> None:
    assert blowfish("user", "list").code == 3
    (folder / "blowfish.toml").write_text(CONFIG)
    assert blowfish("user", "add", "ana", "--role", "king").code == 3
    assert blowfish("user", "password", "nobody").code == 3
    (folder / "blowfish.toml").write_text(f"{CONFIG}\n[server]\nprot = 1\n")
    assert "port" in blowfish("user", "list").err
