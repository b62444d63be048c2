"""Users from the console."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from blowfishdb.server.auth.audit_log import AuditLog
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.session import LoginSessions
from blowfishdb.server.auth.users import Tokens, Users
from tests.cli.conftest import Run

CONFIG = 'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n'


def test_users_are_added_shut_out_and_given_passwords(blowfish: Run, folder: Path) -> None:
    (folder / "blowfish.toml").write_text(CONFIG)
    made = blowfish("user", "add", "ana", "--json")
    assert made.code == 0, made.err
    assert "curator" in blowfish("user", "add", "cora", "--role", "curator").out + blowfish("user", "list").out
    database = open_database(f"sqlite:///{folder}/blowfish.users")
    users = Users(database, Grants(database))
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


def test_a_token_is_capped(blowfish: Run, folder: Path) -> None:
    (folder / "blowfish.toml").write_text(CONFIG)
    blowfish("user", "add", "ana")
    database = open_database(f"sqlite:///{folder}/blowfish.users")
    _, token = Tokens(Users(database, Grants(database)), database).issue("ana", "superset", ["ask"], 30)
    capped = blowfish("user", "cap", token.id, "0.2")
    assert "With the token 'superset' ana may spend epsilon 0.2; nothing of it is spent." in " ".join(
        capped.out.split()
    )
    Tokens(Users(database, Grants(database)), database).spend(token.id, Fraction(1, 10))
    assert "0.1 of it is spent" in blowfish("user", "cap", token.id, "0.3").out
    (listed,) = blowfish("user", "tokens", "ana", "--json").json
    assert (listed["cap"], listed["spent"], listed["label"]) == ("3/10", "1/10", "superset")
    assert "superset" in blowfish("user", "tokens").out
    assert blowfish("user", "cap", token.id).code == blowfish("user", "cap", token.id, "1", "--off").code == 3
    assert "has no cap" in blowfish("user", "cap", token.id, "--off").out
    assert blowfish("user", "cap", token.id, "much").code == 3
    assert blowfish("user", "cap", "nobody's", "1").code == 3
    assert blowfish("user", "tokens", "nobody").code == 3
    assert "none" in blowfish("user", "tokens", "ana").out
    lines = [(line.action, line.detail["epsilon"]) for line in AuditLog(database).last() if line.target == token.id]
    assert lines == [("set the cap of a token", part) for part in ("0.2", "0.3", None)]
    database.close()


SERVER = """
import sys
from fractions import Fraction
from pathlib import Path
from blowfishdb.errors import BlowfishError
from blowfishdb.server.state import open_app_state
state = open_app_state(Path("blowfish.toml"))
state.users.all()
print("ready", flush=True)
for line in sys.stdin:
    token, price = line.split()
    state.audit_log.note("ana", "asked for an answer", price)
    try:
        state.tokens.spend(token, Fraction(price))
        print("spent", flush=True)
    except BlowfishError as error:
        print(error.code, flush=True)
"""
Spend = Callable[[str, str], str]


@contextmanager
def killed_server(folder: Path) -> Iterator[Spend]:
    """What spends with a token in a process as a server does, which is killed in the end."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    told, asked = server.stdout, server.stdin
    assert told is not None and asked is not None

    def spend(token: str, price: str) -> str:
        print(token, price, file=asked, flush=True)
        return told.readline().strip()

    with server:
        try:
            assert told.readline() == "ready\n"
            yield spend
        finally:
            server.kill()


def test_commands_beside_a_server_are_seen_by_it_and_lose_nothing_when_it_is_killed(
    blowfish: Run, folder: Path
) -> None:
    """What a token has spent, its cap, who is shut out and all lines of the audit log, in the order of the requests."""
    (folder / "blowfish.toml").write_text(CONFIG)
    blowfish("user", "add", "ana")
    file = folder / "blowfish.users"
    database = open_database(f"sqlite:///{file}")
    token = Tokens(Users(database, Grants(database)), database).issue("ana", "superset", ["ask"], 30)[1].id
    database.close()
    with killed_server(folder) as spend:
        assert blowfish("user", "cap", token, "0.4").code == 0
        log = file.with_name("blowfish.users-wal").stat().st_ino
        assert spend(token, "0.25") == "spent"
        assert blowfish("user", "tokens").code == 0
        assert spend(token, "0.25") == "token-cap-reached"
        assert blowfish("user", "cap", token, "0.6").code == 0
        assert spend(token, "0.25") == "spent"
        assert blowfish("user", "add", "ben").code == blowfish("user", "disable", "ben").code == 0
        assert file.with_name("blowfish.users-wal").stat().st_ino == log
    with killed_server(folder) as spend:
        assert spend(token, "0.25") == "token-cap-reached"
        assert spend(token, "0.1") == "spent"
    database = open_database(f"sqlite:///{file}")
    assert [person.is_disabled for person in Users(database, Grants(database)).all()] == [False, True]
    audit_log = AuditLog(database)
    asked = "asked for an answer"
    assert [line.action for line in audit_log.last()] == [
        *("added a user", "set the cap of a token", asked, asked, "set the cap of a token", asked),
        *("added a user", "disabled a user", asked, asked),
    ]
    assert audit_log.first_fault() is None
    database.close()


def test_mistakes_are_told(blowfish: Run, folder: Path) -> None:
    assert blowfish("user", "list").code == 3
    (folder / "blowfish.toml").write_text(CONFIG)
    assert blowfish("user", "add", "ana", "--role", "king").code == 3
    assert blowfish("user", "password", "nobody").code == 3
    (folder / "blowfish.toml").write_text(f"{CONFIG}\n[server]\nprot = 1\n")
    assert "port" in blowfish("user", "list").err
