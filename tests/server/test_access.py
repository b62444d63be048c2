"""Who may use a dataset: on every face one that somebody may not see is one that does not exist."""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import httpx
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.errors import InvalidInput, NotAllowed, UnknownDataset
from blowfishdb.server.app import rest_app
from blowfishdb.server.auth import grants as grants_module
from blowfishdb.server.auth.database import Clock, open_database
from blowfishdb.server.auth.grants import ACCOUNTS, ROLES, SCOPES, SCOPES_OF, Grants, Principal
from blowfishdb.server.auth.users import Users
from blowfishdb.server.state import AppState, open_app_state
from tests.server.places import AGES, PEOPLE, Place, code, opened
from tests.server.places import SCOPES as TOKEN_SCOPES
from tests.server.wire.places import wire_place
from tests.session.places import make_fixture

HIDDEN, MISSING = "visits", "visots"
FACES = Path(__file__).resolve().parents[2] / "src" / "blowfishdb" / "server"
VARYING = ("x-request-id", "date", "content-length")
BODIES: dict[str, Any] = {
    "previews": AGES,
    "answers": AGES,
    "plans": {"questions": [AGES]},
    "plans/answers": {"questions": [AGES]},
    "synopses/{number}/answers": {"query": AGES["query"]},
    "policy": {"policy": {}, "reason": "why"},
    "domain": {"domain": {}, "reason": "why"},
    "accounting": {"accounting": "sum", "reason": "why"},
    "policy/changes": {"policy": {}},
    "what-if": {"query": AGES["query"], "accuracy_target": {"epsilon": "1"}, "policies": {"full": {}}},
    "risk": {"attribute": "age", "one": "1", "two": "2", "epsilon": "1"},
    "pause": {"reason": "why"},
    "snapshots": {"description": "new rows"},
    "trial": {},
    "budgets": {"epsilon": "20", "reason": "why"},
    "budgets/everyone": {"epsilon": "1", "reason": "why"},
    "budgets/analysts/{analyst}": {"epsilon": "1", "reason": "why"},
    "access/{holder}": {"role": "curator"},
    "approval": {"epsilon": "1"},
    "approvals/{number}": {"approve": True},
}
"""What the routes that read a body would take, by the end of their path."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """`visits` is cora's alone; of `stays` ana and aude are what their accounts say, and bob is the curator."""
    with opened(tmp_path_factory.mktemp("clinic")) as found:
        with duckdb.connect(str(found.folder / "stays.duckdb")) as connection:
            connection.execute("CREATE TABLE stays AS SELECT range % 50 AS days FROM range(500)")
        domain = {"days": bf.integers(0, 49, null=0)}
        state = found.app_state
        state.curator("cora").add(bf.Dataset("stays", source="duckdb:///stays.duckdb#stays", domain=domain))
        state.users.add("carl", "curator", None)
        found.secrets["carl"] = state.tokens.issue("carl", "test", TOKEN_SCOPES["curator"], 300)[0]
        state.session("ana")[HIDDEN].histogram("ward").release(epsilon="0.1")
        state.session("cora")[HIDDEN].histogram("ward").publish(epsilon="0.1")
        state.grants.hand_over(HIDDEN, "cora", everyone=False)
        state.grants.give("stays", "bob", "curator", by="cora")
        found.browser("bob").put("/api/v1/datasets/stays/pause", json={"reason": "new rows"})
        found.browser("bob").delete("/api/v1/datasets/stays/pause")
        yield found


def seen(response: httpx.Response, name: str) -> tuple[int, str, dict[str, str]]:
    """What a response tells, without what always varies; the name that was sent is the same word for all."""
    headers = {key: value for key, value in response.headers.items() if key not in VARYING}
    return response.status_code, response.text.replace(name, "NAME"), headers


@cache
def described(app_state: AppState) -> dict[str, Any]:
    """The paths of the app."""
    paths: dict[str, Any] = rest_app(app_state).openapi()["paths"]
    return paths


def dataset_routes(app_state: AppState) -> list[tuple[str, str]]:
    """Every route that names a dataset in its path, as the app has them."""
    paths = described(app_state)
    return [(method.upper(), path) for path in paths for method in paths[path] if "/datasets/{name}" in path]


def asked_by_name(app_state: AppState) -> list[str]:
    """Every route that takes the name of a dataset beside its path."""
    read = {
        path: methods["get"].get("parameters", ()) for path, methods in described(app_state).items() if "get" in methods
    }
    named = [path for path, parameters in read.items() if any(one["name"] == "dataset" for one in parameters)]
    assert named
    return named


def differences(place: Place, who: str, methods: tuple[str, ...]) -> list[tuple[str, str]]:
    """The routes that tell somebody a hidden dataset from a missing one, or tell of it at all."""
    client, differing = place.browser(who), []
    number = str(place.app_state.session("ana").history(HIDDEN)[0].number)
    parts = {"number": number, "analyst": "ana", "holder": "ana"}
    for method, path in dataset_routes(place.app_state):
        body = BODIES.get(path.partition("{name}/")[2])
        assert body is not None or method in ("GET", "DELETE"), f"say what {path} reads"
        for sent in ((body, {}) if body is not None else (None,)) if method in methods else ():
            told = []
            for name in (HIDDEN, MISSING):
                headers = {"If-Match": '"x"', "Idempotency-Key": "k"}
                content = None if method in ("GET", "DELETE") else sent
                address = path.format(name=name, **parts)
                told.append(seen(client.request(method, address, json=content, headers=headers), name))
            if told[0] != told[1] or told[0][0] != 404 or HIDDEN in told[0][1]:
                differing.append((method, path))
    for path in asked_by_name(place.app_state):
        pair = [seen(client.get(path, params={"dataset": name}), name) for name in (HIDDEN, MISSING)]
        if pair[0] != pair[1] or pair[0][0] not in (403, 404):
            differing.append(("GET", path))
    return differing


@pytest.mark.parametrize("who", ["ana", "bob", "aude", "carl"])
def test_a_dataset_that_one_may_not_see_is_a_missing_one_on_every_route(place: Place, who: str) -> None:
    assert len(dataset_routes(place.app_state)) >= 25
    assert differences(place, who, ("GET", "POST", "PUT", "DELETE", "PATCH")) == []
    listed = place.browser(who).get("/api/v1/datasets").text
    assert HIDDEN not in listed
    assert "stays" in listed


def test_the_matrix_notices_routes_that_forget(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # The plant: everybody sees everything, as if no route asked.
    monkeypatch.setattr(Grants, "sees", lambda *_: True)
    monkeypatch.setattr(AppState, "_seen", lambda self, *_: self._live.now())
    reading = [route for route in dataset_routes(place.app_state) if route[0] == "GET"]
    assert set(differences(place, "aude", ("GET",))) >= set(reading)


@pytest.mark.parametrize("who", ["bob", "aude", "carl"])
def test_books_and_logs_leave_out_what_one_may_not_see(place: Place, who: str) -> None:
    client = place.browser(who)
    cora = place.browser("cora")
    cora.put(f"/api/v1/datasets/{HIDDEN}/pause", json={"reason": "a secret reason"})
    cora.delete(f"/api/v1/datasets/{HIDDEN}/pause")
    lines = [client.get("/api/v1/audit-log", params={"most": 1000}), client.get("/api/v1/ledger/export")]
    assert all(HIDDEN not in one.text and "secret reason" not in one.text for one in lines)
    entries = client.get("/api/v1/ledger/entries").json()
    assert entries
    account = place.app_state.curator("cora").account("stays").id
    assert {entry["account"] for entry in entries} == {account}
    assert HIDDEN in cora.get("/api/v1/audit-log", params={"most": 1000}).text
    # Auditors by account read about users too; the curator of one dataset reads about that one.
    cora.put("/api/v1/groups/@some", json={"members": ["ana"]})
    now = client.get("/api/v1/audit-log", params={"most": 1000})
    assert ("set a group" in now.text) == (who != "bob")
    assert "stays" in now.text or who != "bob"


def test_pauses_suggestions_and_people_tell_nothing_of_a_hidden_dataset(place: Place) -> None:
    ana = place.app_state.logins.begin("ana").identity
    session = place.app_state.session_of(ana)
    place.app_state.pauses.pause(HIDDEN, by="cora", reason="secret")
    try:
        for name in (HIDDEN, f"{HIDDEN}.people", MISSING):
            backend = place.app_state.backend_of(ana)
            for work in (backend.declared, backend.budget, session.history, session.synopses, backend.joins):
                with pytest.raises(UnknownDataset, match="there is no dataset") as refused:
                    work(name)
                assert str(refused.value).replace(name, "NAME") == "there is no dataset 'NAME'; known are 'stays'"
            with pytest.raises(UnknownDataset):
                backend.reopen(name, 1)
        with pytest.raises(UnknownDataset, match="known are 'stays'"):
            session.sql("SELECT COUNT(*) FROM visitors OPTIONS (epsilon = 0.1)")
        assert session.datasets() == ["stays"]
    finally:
        place.app_state.pauses.resume(HIDDEN)


def calls(work: Callable[[], object]) -> list[str]:
    """The functions that are called until a dataset turns out not to be there."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    gc.disable()  # a collection calls others in between
    sys.setprofile(note)
    try:
        with suppress(UnknownDataset):
            work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return names


def test_a_hidden_dataset_takes_the_steps_of_a_missing_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants_module, "FRESH_SECONDS", 10.0**9)
    ana, state = place.app_state.logins.begin("ana").identity, place.app_state
    backend, session = state.backend_of(ana, "ask"), state.session_of(ana, "ask")
    works: dict[str, Callable[[str], object]] = {
        "routes": lambda name: state.seen_dataset(ana, name),
        "declared": backend.declared,
        "budget": backend.budget,
        "history": session.history,
        "answer": lambda name: backend.reopen(name, 3),
        "ledger": lambda name: state.curator_of(ana).account(name),
        "sql": lambda name: session.sql(f"SELECT COUNT(*) FROM {name} OPTIONS (epsilon = 0.1)"),
    }
    for label, work in works.items():
        for name in (HIDDEN, MISSING):  # texts that were sent before are parsed already
            calls(lambda name=name, work=work: work(name))  # type: ignore[misc]
        hidden, missing = (calls(lambda name=name, work=work: work(name)) for name in (HIDDEN, MISSING))  # type: ignore[misc]
        assert hidden == missing, label
        assert hidden
    # The check notices one that looks first and hides then: it opens the source, or asks what is paused.
    seen = calls(lambda: state.session("ana").budget(HIDDEN))
    assert seen != calls(lambda: state.session("ana").budget(MISSING))


def test_a_curator_cannot_reach_hidden_data_by_another_name(place: Place) -> None:
    curator = place.app_state.curator_of(place.app_state.logins.begin("carl").identity, "curate")
    with pytest.raises(bf.errors.CatalogError, match="belongs to a dataset already"):
        curator.add(
            bf.Dataset("mine", source="duckdb:///clinic.duckdb#visits", domain={"age": bf.integers(0, 99, null=0)})
        )
    taken = "duckdb:///clinic.duckdb#visits"
    looks: list[Callable[[], object]] = [
        lambda: curator.look_at_column(taken, "age"),
        lambda: curator.known_account(taken),
        lambda: curator.columns(taken),
        lambda: curator.look_at_caps("draft", [1, 2], bf.person("id", at_most=1, order_by="id"), taken),
    ]
    for look in looks:
        with pytest.raises(bf.errors.CatalogError, match="belongs to a dataset already"):
            look()
    (place.folder / "new.csv").write_text("id\n1\n")
    assert list(curator.columns("new.csv")) == ["id"], "what is nobody's may be looked at and added"
    with pytest.raises(bf.errors.CatalogError, match="there is a dataset visits already"):
        curator.add(
            bf.Dataset(HIDDEN, source="duckdb:///stays.duckdb#stays", domain={"days": bf.integers(0, 49, null=0)})
        )
    assert curator.datasets() == ["stays"]


def test_faces_reach_datasets_only_by_what_somebody_may_see() -> None:
    whole = re.compile(r"app_state\.(session|backend|curator)\(|state\.(session|backend|curator)\(")
    allowed = {
        ("pages/dashboards.py", "session"),  # what a curator published, and answers whose dataset was checked
        ("rest/access.py", "curator"),  # limits that follow from a group
        ("state.py", "session"),
    }
    uses = set()
    for path in FACES.rglob("*.py"):
        for match in whole.finditer(path.read_text()):
            uses.add((str(path.relative_to(FACES)), match[1] or match[2]))
    assert uses <= allowed, "ask for session_of, backend_of or curator_of"


# --- roles


def test_roles_are_per_dataset(place: Place) -> None:
    state = place.app_state
    bob, cora, ana = place.browser("bob"), place.browser("cora"), place.browser("ana")
    # Curator of one, where his account is an analyst's.
    assert bob.put("/api/v1/datasets/stays/budgets/everyone", json={"epsilon": "1", "reason": "r"}).status_code == 200
    assert bob.get("/api/v1/sessions/current").json()["scopes"] == ["ask", "audit", "curate"]
    assert code(bob.post("/api/v1/users", json={"name": "eve", "role": "analyst"})) == "not-allowed"
    assert (
        code(ana.put("/api/v1/datasets/stays/budgets/everyone", json={"epsilon": "1", "reason": "r"})) == "not-allowed"
    )
    # An account of a curator asks where it was granted.
    sent = {"query": {"kind": "count"}, "accuracy_target": {"epsilon": "1/10"}}
    assert code(cora.post("/api/v1/datasets/stays/previews", json=sent)) == "not-allowed"
    assert cora.put(f"/api/v1/datasets/{HIDDEN}/access/bob", json={"role": "auditor"}).status_code == 200
    try:
        assert bob.get(f"/api/v1/datasets/{HIDDEN}/budgets").status_code == 200
        assert bob.get(f"/api/v1/datasets/{HIDDEN}").status_code == 200
        assert code(bob.post(f"/api/v1/datasets/{HIDDEN}/previews", json=sent)) == "not-allowed"
        assert code(bob.put(f"/api/v1/datasets/{HIDDEN}/approval", json={"epsilon": None})) == "not-allowed"
        with pytest.raises(NotAllowed, match="the right to ask on visits"):
            state.session_of(state.logins.begin("bob").identity)[HIDDEN].count().preview(epsilon="0.1")
    finally:
        assert cora.delete(f"/api/v1/datasets/{HIDDEN}/access/bob").status_code == 204
    assert bob.get(f"/api/v1/datasets/{HIDDEN}/budgets").status_code == 404
    assert code(cora.delete(f"/api/v1/datasets/{HIDDEN}/access/bob")) == "invalid-input"
    assert "keeps a curator" in cora.delete(f"/api/v1/datasets/{HIDDEN}/access/cora").json()["detail"]
    token = state.tokens.issue("bob", "books", ["audit"], 1)[0]
    assert place.bearing(token).get("/api/v1/datasets/stays/budgets").status_code == 200
    assert code(place.bearing(token).post("/api/v1/datasets/stays/previews", json=sent)) == "not-allowed"


def test_a_limit_holds_before_somebody_first_asks(tmp_path: Path) -> None:
    with opened(tmp_path) as place:
        cora, ana, bob = place.browser("cora"), place.browser("ana"), place.browser("bob")
        access, groups = "/api/v1/datasets/visits/access", "/api/v1/groups"
        assert cora.put(f"{groups}/@cardio", json={"members": ["ana"]}).status_code == 200
        given = cora.put(f"{access}/@cardio", json={"epsilon": "1/4"}).json()
        assert (given["holder"], given["role"], given["epsilon"]) == ("@cardio", "analyst", "1/4")
        assert ana.get("/api/v1/datasets/visits/budget").json()["limit"] == "1/4"
        assert ana.post("/api/v1/datasets/visits/answers", json=with_price("1/2")).status_code == 402
        assert bob.get("/api/v1/datasets/visits/budget").json()["limit"] is None
        cora.put(f"{groups}/@cardio", json={"members": ["ana", "bob"]})
        assert bob.get("/api/v1/datasets/visits/budget").json()["limit"] == "1/4"
        # A limit of one's own stays; those who have the group's follow it.
        cora.put(f"{access}/bob", json={"epsilon": "1/8"})
        cora.put(f"{access}/@cardio", json={"epsilon": "1/2"})
        limits = [who.get("/api/v1/datasets/visits/budget").json()["limit"] for who in (ana, bob)]
        assert limits == ["1/2", "1/8"]
        assert cora.get(groups).json() == {"@cardio": ["ana", "bob"]}
        for holder, body in (("@nobody", {}), ("eve", {}), ("@analysts", {"epsilon": "1"}), ("ana", {"role": "king"})):
            assert code(cora.put(f"{access}/{holder}", json=body)) == "invalid-input"
        for group, members in (("cardio", []), ("@curators", []), ("@x", ["eve"]), ("@", ["ana"])):
            assert code(cora.put(f"{groups}/{group}", json={"members": members})) == "invalid-input"
        assert code(cora.put(f"{groups}/@x", json={"members": ["n"] * 1001})) == "invalid-input"
        shown = {(one["holder"], one["role"]) for one in cora.get(access).json()}
        assert shown >= {("@cardio", "analyst"), ("bob", "analyst"), ("@curators", "curator")}
        log = cora.get("/api/v1/audit-log", params={"most": 1000}).text
        assert "granted a role" in log
        assert "set a group" in log


def test_a_new_dataset_is_its_curators_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as place:
        with duckdb.connect(str(tmp_path / "more.duckdb")) as connection:
            connection.execute("CREATE TABLE more AS SELECT range % 9 AS days FROM range(90)")
        object.__setattr__(place.app_state.settings, "new_datasets", "curators")
        domain = {"days": {"kind": "integers", "low": 0, "high": 8, "null": 0, "outside": "clamp"}}
        sent = {"name": "more", "source": "duckdb:///more.duckdb#more", "domain": domain}
        cora, ana = place.browser("cora"), place.browser("ana")
        made = cora.post("/api/v1/datasets", json=sent)
        assert made.status_code == 201, made.text
        assert ana.get("/api/v1/datasets/more").status_code == 404
        assert [(one["holder"], one["role"]) for one in cora.get("/api/v1/datasets/more/access").json()] == [
            ("cora", "curator")
        ]
        cora.put("/api/v1/datasets/more/access/@analysts", json={})
        assert ana.get("/api/v1/datasets/more").status_code == 200
        assert cora.delete("/api/v1/datasets/more").status_code == 204
        # Another one of its name inherits nothing.
        assert cora.post("/api/v1/datasets", json={**sent, "everyone": False}).status_code == 201
        assert ana.get("/api/v1/datasets/more").status_code == 404
        cora.delete("/api/v1/datasets/more")
        assert cora.post("/api/v1/datasets", json={**sent, "everyone": True}).status_code == 201
        assert ana.get("/api/v1/datasets/more").status_code == 200


def with_price(epsilon: str) -> dict[str, Any]:
    return {**AGES, "accuracy_target": {"epsilon": epsilon}}


# --- installations from before


def test_an_installation_from_before_keeps_its_datasets_open_and_a_new_one_does_not(tmp_path: Path) -> None:
    config = make_fixture(tmp_path)
    first = open_app_state(config)
    first.users.add("ana", "analyst", None)
    ana = first.logins.begin("ana").identity
    assert first.session_of(ana).datasets() == []
    with first.users.database.write() as cursor:
        cursor.rows("DROP TABLE dataset_grant")
        cursor.rows("DROP TABLE grants_since")
    first.close()
    # As an older version left it: users, and no word of grants.
    later = open_app_state(config)
    assert later.session_of(ana).datasets() == ["visits"]
    assert {(one.holder, one.role) for one in later.grants.of("visits")} == {
        ("@analysts", "analyst"),
        ("@curators", "curator"),
        ("@auditors", "auditor"),
    }
    later.grants.take("visits", "@analysts")
    assert "left all datasets to all accounts" in later.audit_log.last()[-1].action
    later.close()
    again = open_app_state(config)
    assert again.session_of(ana).datasets() == [], "it is left open once"
    again.close()


def test_what_somebody_sees_follows_roles_grants_and_the_configuration(tmp_path: Path) -> None:
    config = make_fixture(tmp_path)
    state, other = open_app_state(config), open_app_state(config)
    state.users.add("ana", "analyst", None)
    ana = state.logins.begin("ana").identity
    curator = replace(ana, role="curator", scopes=SCOPES_OF["curator"])
    assert state.session_of(curator).datasets() == ["visits"], "by the role of the account"
    for _ in range(2):
        assert state.session_of(ana).datasets() == [], "of an account whose role is another one by now"
    with pytest.raises(UnknownDataset):
        state.seen_dataset(ana, "visits")
    state.grants.give("visits", "ana", "analyst", by="cora")
    before = state.backend_of(ana).declared("visits")
    assert state.seen_dataset(ana, "visits") == "visits"
    later = time.monotonic() + 2 * grants_module.FRESH_SECONDS
    object.__setattr__(state.grants, "seconds", lambda: later)
    assert state.backend_of(ana).declared("visits") is not None
    assert state.grants.now().read == later
    assert state._seen(ana, ("ask",)) is state._seen(ana, ("ask",)), "read again, the same grants"
    other.grants.take("visits", "ana")
    object.__setattr__(state.grants, "seconds", lambda: later + 2 * grants_module.FRESH_SECONDS)
    assert state.session_of(ana).datasets() == [], "taken away at another server"
    state.grants.give("visits", "ana", "analyst", by="cora")
    config.write_text(config.read_text() + "\n")
    after = state.backend_of(ana).declared("visits")
    assert after == before and after[0] is not before[0], "of the configuration as it was read last"
    state.close()
    other.close()


# --- one function decides


@pytest.fixture(scope="module")
def granting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grants]:
    """Users of every role, and nothing granted."""
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('users') / 'u'}", Clock(lambda: 1_700_000_000.0))
    grants = Grants(database)
    for name, role in PEOPLE.items():
        Users(database, grants).add(name, role, None)
    yield grants
    database.close()


@settings(max_examples=30)
@given(data=st.data())
def test_may_says_what_the_grants_say(granting: Grants, data: st.DataObject) -> None:
    """Against a list of grants read one by one."""
    grants = granting
    for dataset in ("d", "e"):
        grants.forget(dataset)
    names = list(PEOPLE)
    members = data.draw(st.lists(st.sampled_from(names), unique=True))
    grants.set_group("@g", members)
    model: set[tuple[str, str, str]] = set()
    steps = st.tuples(
        st.booleans(), st.sampled_from(["d", "e"]), st.sampled_from([*names, "@g", *ACCOUNTS]), st.sampled_from(ROLES)
    )
    for gives, dataset, holder, role in data.draw(st.lists(steps, max_size=8)):
        held = {one for one in model if one[0] == dataset} or {(dataset, "@curators", "curator")}
        if gives and not (holder == "@g" and not members):
            grants.give(dataset, holder, role, by="x")
            held = held | {(dataset, holder, role)}
        elif (dataset, holder, role) in held and any(r == "curator" for _, h, r in held - {(dataset, holder, role)}):
            grants.take(dataset, holder, role)
            held = held - {(dataset, holder, role)}
        else:
            with pytest.raises(InvalidInput):
                grants.take(dataset, holder, role) if not gives else grants.give(dataset, holder, role, by="x")
        model = {one for one in model if one[0] != dataset} | held
    for name, account in PEOPLE.items():
        identity = Principal(name, ROLES[ROLES.index(account)], frozenset(SCOPES))  # type: ignore[arg-type]
        mine = {name, f"@{account}s"} | ({"@g"} if name in members else set())
        for dataset in ("d", "e"):
            held = {one for one in model if one[0] == dataset} or {(dataset, "@curators", "curator")}
            for scope in SCOPES:
                expected = any(h in mine and scope in SCOPES_OF[r] for _, h, r in held)  # type: ignore[index]
                assert grants.may(identity, dataset, scope) == expected
                weak = Principal(name, identity.role, frozenset(SCOPES) - {scope})
                assert not grants.may(weak, dataset, scope)


def test_a_change_on_another_server_holds_within_a_second(tmp_path: Path) -> None:
    address, seconds = f"sqlite:///{tmp_path / 'users'}", [0.0]
    one, two = Grants(open_database(address)), Grants(open_database(address), seconds=lambda: seconds[0])
    Users(one.database, one).add("ana", "analyst", None)
    ana = Principal("ana", "analyst", frozenset(SCOPES))
    assert not two.may(ana, "d", "ask")
    one.give("d", "ana", "analyst", by="x", epsilon=Fraction(1, 2))
    assert one.may(ana, "d", "ask")
    assert not two.may(ana, "d", "ask")
    seconds[0] = 1.0
    assert two.may(ana, "d", "ask")
    assert not two.may(Principal("ana", "analyst", frozenset(SCOPES), must_change=True), "d", "ask")
    (mine,) = one.to("ana")
    assert (mine.dataset, mine.epsilon) == ("d", Fraction(1, 2))
    for grants in (one, two):
        grants.database.close()


def test_a_name_that_looks_like_a_group_has_nothing_of_it(tmp_path: Path) -> None:
    grants = Grants(open_database(f"sqlite:///{tmp_path / 'users'}"))
    users = Users(grants.database, grants)
    with pytest.raises(InvalidInput, match="begin with @"):
        users.add("@curators", "analyst", None)
    grants.give("d", "@curators", "curator", by="x")
    assert not grants.may(Principal("@curators", "analyst", frozenset(SCOPES)), "d", "curate")
    grants.database.close()


# --- the PostgreSQL port


def test_the_port_knows_no_dataset_that_its_analyst_may_not_see(tmp_path: Path) -> None:
    with wire_place(tmp_path) as port:
        state = port.app_state
        told: dict[str, list[object]] = {}
        with port.connect() as connection:
            assert [row[0] for row in connection.execute("SELECT tablename FROM pg_tables").fetchall()] == [HIDDEN]
            # Revoked while the connection is open.
            state.grants.hand_over(HIDDEN, "cora", everyone=False)
            for name in (HIDDEN, MISSING):
                told[name] = []
                for statement in (
                    "SELECT COUNT(*) FROM {} OPTIONS (epsilon = 0.1)",
                    "EXPLAIN SELECT COUNT(*) FROM {} OPTIONS (epsilon = 0.1)",
                    "SELECT COUNT(*) FROM public.{} OPTIONS (epsilon = 0.1)",
                    "COPY (SELECT COUNT(*) FROM {} OPTIONS (epsilon = 0.1)) TO STDOUT",
                ):
                    with pytest.raises(psycopg.Error) as refused:
                        connection.execute(statement.format(name).encode())
                    diag = refused.value.diag
                    told[name].append(
                        (diag.sqlstate, str(diag.message_primary).replace(name, "NAME"), diag.message_hint)
                    )
                for table in ("pg_catalog.pg_class", "information_schema.columns", "pg_catalog.pg_description"):
                    rows = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
                    told[name].append(rows)
                    assert HIDDEN not in str(rows)
            assert told[HIDDEN] == told[MISSING]
            assert told[HIDDEN][0] == ("42P01", "there is no dataset 'NAME'; none is known", None)
