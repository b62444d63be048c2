"""People, visits, tokens and the audit log, on both databases, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import AccountsUnavailable, InvalidInput, SignInRefused, TokenCapReached
from blowfishdb.server.auth.audit_log import AuditLog
from blowfishdb.server.auth.database import Clock, Database, open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.session import FREE_TRIES, FREE_TRIES_OF_AN_ADDRESS, IDLE, LONGEST_LOGIN, LoginSessions
from blowfishdb.server.auth.users import Tokens, Users, hash_password, is_password, new_password
from blowfishdb.server.dashboards import Dashboards, DashboardTile

PASSWORD = "correct horse battery"


@dataclass
class Place:
    database: Database
    time: float = 1_000_000.0

    def __post_init__(self) -> None:
        self.database.clock = Clock(lambda: self.time)
        self.users = Users(self.database, Grants(self.database))
        self.logins = LoginSessions(self.users, self.database)
        self.tokens = Tokens(self.users, self.database)
        self.audit_log = AuditLog(self.database)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/users.db"
    database = open_database(url)
    found = Place(database)
    found.users.add("cora", "curator", PASSWORD, must_change=False)
    found.users.add("ana", "analyst", PASSWORD, must_change=False)
    yield found
    database.close()


def test_a_visit_begins_ends_and_is_not_guessed(place: Place) -> None:
    login = place.logins.sign_in("ana", PASSWORD, "1.2.3.4")
    found = place.logins.resume(login.secret)
    assert found is not None
    assert (found.name, found.role, found.csrf_token) == ("ana", "analyst", login.identity.csrf_token)
    assert place.logins.resume(login.secret[:-1]) is None
    place.logins.sign_out(login.secret)
    assert place.logins.resume(login.secret) is None


@pytest.mark.postgres
def test_several_servers_write_one_log(postgres_url: str) -> None:
    servers = [Place(open_database(postgres_url)) for _ in range(4)]
    servers[0].audit_log.note("console", "made the tables")

    def work(server: Place) -> None:
        for number in range(15):
            server.audit_log.note("ana", f"step {number}")
            with pytest.raises(SignInRefused):
                server.logins.sign_in("nobody", "x" * 12, "1.2.3.4")
            server.time += 10_000

    with ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(work, servers))
    assert servers[0].audit_log.first_fault() is None
    assert len(servers[0].audit_log.lines()) == 1 + 4 * 15
    for server in servers:
        server.database.close()


def test_texts_that_one_database_cannot_keep_are_refused_by_both(place: Place) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        place.logins.sign_in("a\0b", PASSWORD, "x")
    assert place.users.find("ana").role == "analyst"


@pytest.mark.parametrize("name", [" ", " ana", "ana ", "a/b", "../ana"])
def test_names_that_no_address_can_name_are_refused(place: Place, name: str) -> None:
    with pytest.raises(InvalidInput, match="a name begins"):
        place.users.add(name, "analyst", PASSWORD)


def test_idle_and_long_visits_end(place: Place) -> None:
    login = place.logins.sign_in("ana", PASSWORD, "x")
    place.time += IDLE + 1
    assert place.logins.resume(login.secret) is None
    login = place.logins.sign_in("ana", PASSWORD, "x")
    for _ in range(LONGEST_LOGIN // (IDLE // 2) - 1):
        place.time += IDLE // 2
        assert place.logins.resume(login.secret) is not None
    place.time += IDLE // 2
    assert place.logins.resume(login.secret) is None


def test_wrong_names_and_passwords_are_told_alike_and_make_one_wait(place: Place) -> None:
    said = set()
    for name, password in (("ana", "wrong password"), ("nobody", PASSWORD)):
        with pytest.raises(SignInRefused) as refusal:
            place.logins.sign_in(name, password, name)
        said.add(str(refusal.value))
    assert len(said) == 1
    for _ in range(FREE_TRIES):
        with pytest.raises(SignInRefused):
            place.logins.sign_in("ana", "wrong password", "y")
    with pytest.raises(SignInRefused, match="wait"):
        place.logins.sign_in("ana", PASSWORD, "elsewhere")
    place.time += 3600
    assert place.logins.sign_in("ana", PASSWORD, "elsewhere").identity.name == "ana"


def test_an_address_that_many_share_waits_later_than_a_name(place: Place) -> None:
    for number in range(2 * FREE_TRIES):
        with pytest.raises(SignInRefused, match="wrong"):
            place.logins.sign_in(f"nobody {number}", "wrong password", "office")
    place.logins.check_password("cora", PASSWORD, "office")
    for number in range(FREE_TRIES_OF_AN_ADDRESS):
        with pytest.raises(SignInRefused):
            place.logins.sign_in(f"nobody {number}", "wrong password", "office")
    with pytest.raises(SignInRefused, match="too many"):
        place.logins.sign_in("ana", PASSWORD, "office")


def test_the_disabled_are_out_at_once(place: Place) -> None:
    login = place.logins.sign_in("ana", PASSWORD, "x")
    secret, _ = place.tokens.issue("ana", "laptop", ["ask"], 30)
    place.users.disable("ana")
    assert place.logins.resume(login.secret) is None
    assert place.tokens.resume(secret) is None
    # A request that was under way may still make one.
    late, _ = place.tokens.issue("ana", "late", ["ask"], 30)
    assert place.tokens.resume(late) is None
    with pytest.raises(SignInRefused):
        place.logins.sign_in("ana", PASSWORD, "x")
    place.users.disable("ana", disabled=False)
    assert place.logins.sign_in("ana", PASSWORD, "x").identity.name == "ana"


def test_a_new_password_ends_visits_and_the_first_must_be_changed(place: Place) -> None:
    place.users.add("bob", "analyst", PASSWORD)
    login = place.logins.sign_in("bob", PASSWORD, "x")
    assert not login.identity.may("ask")
    place.users.set_password("bob", "another long password")
    assert place.logins.resume(login.secret) is None
    assert place.logins.sign_in("bob", "another long password", "x").identity.may("ask")


def test_tokens_have_scopes_and_an_end(place: Place) -> None:
    secret, made = place.tokens.issue("ana", "notebook", ["ask"], 2)
    found = place.tokens.resume(secret)
    assert found is not None
    assert found.may("ask")
    assert found.may("curate", "ask")
    assert not found.may("curate", "audit")
    with pytest.raises(InvalidInput, match="scopes"):
        place.tokens.issue("ana", "more", ["ask", "curate"], 2)
    with pytest.raises(InvalidInput, match="days"):
        place.tokens.issue("ana", "long", ["ask"], 9999)
    assert [token.id for token in place.tokens.of("ana")] == [made.id]
    place.time += 3 * 86_400
    assert place.tokens.resume(secret) is None
    with pytest.raises(InvalidInput):
        place.tokens.revoke("cora", made.id)
    place.tokens.revoke("ana", made.id)
    assert place.tokens.of("ana") == []


def test_no_secret_is_stored(place: Place) -> None:
    login = place.logins.sign_in("ana", PASSWORD, "x")
    secret, _ = place.tokens.issue("ana", "t", ["ask"], 1)
    with place.database.write() as cursor:
        stored = str(
            [cursor.rows(f"SELECT * FROM {table}") for table in ("users", "login_session", "token", "failure")]
        )
    for hidden in (PASSWORD, login.secret, secret):
        assert hidden not in stored


def test_the_log_notices_a_missing_or_changed_line(place: Place) -> None:
    for number in range(4):
        place.audit_log.note("cora", "looked", f"page {number}", {"number": number})
    assert [line.target for line in place.audit_log.last(2)] == ["page 2", "page 3"]
    assert place.audit_log.first_fault() is None
    with place.database.write() as cursor:
        cursor.rows("UPDATE audit_log SET body = replace(body, 'page 1', 'page 9') WHERE number = 2")
    assert place.audit_log.first_fault() == 2
    with place.database.write() as cursor:
        cursor.rows("DELETE FROM audit_log WHERE number = 2")
    assert place.audit_log.first_fault() == 2


def test_a_line_that_need_not_be_on_disk_is_there_at_once_and_in_the_chain(place: Place) -> None:
    """What waits for the disk and what does not is asked of the database itself, inside the transaction."""
    is_sqlite = place.database.mark == "?"
    asked = "PRAGMA synchronous" if is_sqlite else "SHOW synchronous_commit"
    levels = []
    for durable in (False, True, False):
        with place.database.write(durable=durable) as cursor:
            levels.append(next(iter((cursor.row(asked) or {}).values())))
        place.audit_log.note("ana", "looked", durable=durable)
    assert levels == ([1, 2, 1] if is_sqlite else ["off", "on", "off"])
    assert len(place.audit_log.lines()) == 3
    assert place.audit_log.first_fault() is None


def test_caps_are_exact_belong_to_tokens_that_ask_and_end_with_them(place: Place) -> None:
    tokens = place.tokens
    mine, curators = tokens.issue("ana", "tool", ["ask"], 1)[1], tokens.issue("cora", "tool", ["curate"], 1)[1]
    for token, cap, words in ((mine.id, -1, "0 or more"), (curators.id, 1, "may ask"), ("nobody's", 1, "no such")):
        with pytest.raises(InvalidInput, match=words):
            tokens.set_cap(token, Fraction(cap))
    # Without a cap there is nothing to take.
    tokens.spend(mine.id, Fraction(10))
    tokens.set_cap(mine.id, Fraction(1))
    for _ in range(3):
        tokens.spend(mine.id, Fraction(1, 3))
    with pytest.raises(TokenCapReached) as refused:
        tokens.spend(mine.id, Fraction(1, 10**9))
    assert refused.value.allowed == 0
    tokens.spend(mine.id, Fraction(-1, 3))
    # Also below what was spent before the cap was lowered, something is given back and nothing more is taken.
    assert tokens.set_cap(mine.id, Fraction(1, 10)).spent == Fraction(2, 3)
    tokens.spend(mine.id, Fraction(-1, 3))
    with pytest.raises(TokenCapReached):
        tokens.spend(mine.id, Fraction(1, 10**9))
    assert tokens.find(mine.id).spent == Fraction(1, 3)
    tokens.set_cap(mine.id, Fraction(1))
    tokens.spend(mine.id, Fraction(1, 3))
    assert tokens.set_cap(mine.id, Fraction(2)).spent == Fraction(2, 3)
    assert tokens.set_cap(mine.id, None).cap is None
    assert [(token.name, token.cap) for token in tokens.all()] == [("ana", None), ("cora", None)]
    tokens.set_cap(mine.id, Fraction(2))
    place.users.disable("ana")
    with place.database.read() as cursor:
        assert cursor.rows("SELECT * FROM token_cap") == []


def test_dashboards_are_kept_by_both_databases(place: Place) -> None:
    store = Dashboards(place.database)
    made = store.save(replace(store.create("ana", "Wards").with_tile(DashboardTile("visits", 3)), access="offered"))
    store.publish(made, "cora")
    (kept,) = store.of("ana")
    assert (kept.tiles, kept.published) == (made.tiles, store.edition(made.id)[1])
    store.withdraw(made.id)
    store.delete(made)
    assert store.offered() == []


def test_bad_people_are_refused(place: Place) -> None:
    for name, role, password in (("ana", "analyst", PASSWORD), ("x", "king", PASSWORD), ("x", "analyst", "short")):
        with pytest.raises(InvalidInput):
            place.users.add(name, role, password)
    with pytest.raises(InvalidInput):
        place.users.find("nobody")
    assert [user.name for user in place.users.all()] == ["ana", "cora"]


def test_passwords_are_hashed_and_checked() -> None:
    kept = hash_password(PASSWORD)
    assert PASSWORD not in kept
    assert is_password(PASSWORD, kept)
    assert not is_password(PASSWORD + "x", kept)
    assert not is_password(PASSWORD, None)
    assert not is_password(PASSWORD, "damaged")
    assert len({new_password() for _ in range(5)}) == 5


def test_a_broken_database_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 30)
    with pytest.raises(AccountsUnavailable), open_database(f"sqlite:///{path}").write():
        pass
    with pytest.raises(InvalidInput):
        open_database("mysql://x/y")
