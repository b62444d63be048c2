"""The Python client: the same face as a local session, the same typed errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import (
    BudgetExceeded,
    DeadlinePassed,
    DocumentError,
    InvalidInput,
    KeyReused,
    NotAllowed,
    NotSignedIn,
    QueryError,
    ServerUnreachable,
    SignInRefused,
    SpendingCapReached,
    UnknownAnswer,
    UnknownDataset,
)
from blowfishdb.session import QuestionPlan, Session
from tests.server.places import PASSWORD, Place, opened
from tests.session.places import visits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("clinic"), visits(epsilon="10", per_analyst="5")) as found:
        found.app_state.users.set_password("bob", PASSWORD)
        yield found


@pytest.fixture
def address(place: Place) -> str:
    return place.address


@pytest.fixture
def db(place: Place, address: str) -> Iterator[Session]:
    with bf.connect(address, token=place.secrets["ana"]) as session:
        yield session


def test_the_face_is_that_of_a_local_session(place: Place, db: Session) -> None:
    local = place.app_state.session("ana")
    assert db.analyst == "ana"
    assert db.datasets() == local.datasets() == ["visits"]
    assert db["visits"].domain == local["visits"].domain
    assert db["visits"].policy == local["visits"].policy
    question = db["visits"].where(bf.col("ward") == "A1").histogram(bf.col("age").bins(10))
    near = local["visits"].where(bf.col("ward") == "A1").histogram(bf.col("age").bins(10))
    assert str(question.preview(epsilon="0.1")) == str(near.preview(epsilon="0.1"))
    answer = question.release(epsilon="0.1")
    again = near.release(epsilon="0.1")
    assert np.array_equal(answer.raw, again.raw)
    assert str(answer) == str(again)
    assert db.budget("visits") == local.budget("visits")
    assert db.history("visits") == local.history("visits")
    number = db.history("visits")[0].number
    assert db.history("visits", before=number) == local.history("visits", before=number) == []
    assert db.history("visits", most=1, key="a plan") == []
    assert db.synopses("visits", most=1, before=number) == []
    with pytest.raises(InvalidInput):
        db.history("visits", before=0)
    reopened = db.reopen("visits", number)
    assert isinstance(reopened, Answer)
    assert np.array_equal(reopened.raw, answer.raw)


def test_sql_and_steps(db: Session) -> None:
    heard: list[str] = []
    answer = db.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon="0.2", progress=heard.append)
    assert isinstance(answer, Answer)
    assert answer.epsilon == Fraction(1, 5)
    assert heard[-1] == "done"
    assert "ward" in str(db.sql("EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon="0.2"))


def test_a_table_of_aggregates_over_rest(db: Session) -> None:
    text = "SELECT ward, COUNT(*) AS n, AVG(age) FROM visits GROUP BY ward HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 2"
    answer = db.sql(text, epsilon="0.2")
    assert isinstance(answer, Answer)
    assert answer.row_count == 2
    assert [column.name for column in answer.columns] == ["n", "mean_age"]
    assert "n within" in str(db.sql(f"EXPLAIN {text}", epsilon="0.2"))


def test_a_plan_is_charged_by_one_request_or_not_at_all(
    place: Place, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, before = db["visits"], db.budget("visits").spent
    cdf, old, wards = table.cdf("age"), table.where(bf.col("age") >= 77).count(), table.histogram("ward")
    by_epsilon = (wards, {"epsilon": "0.031"})
    plan = db.plan([cdf, by_epsilon, old], alpha=70)
    assert [one.together for one in plan.questions] == [0, None, 0]
    heard: list[str] = []
    answers = plan.release(key="three", progress=heard.append, spend=plan.total)
    assert heard == ["charge", "done", "done"]
    assert [answer.title for answer in answers] == [one.title for one in plan.questions]
    assert db.budget("visits").spent == before + plan.total
    for key in ("three", None):
        assert [one.values.tolist() for one in plan.release(key=key)] == [one.values.tolist() for one in answers]
    local = place.app_state.session("ana")
    assert local.history("visits")[0].key.startswith("three ")
    # Whatever does not fit in all leaves nothing charged, though each of its releases would fit.
    left = db.budget("visits").remaining
    apart = db.plan([(question, {"epsilon": left * 2 / 3}) for question in (table.histogram("cost"), wards)])
    monkeypatch.setattr(QuestionPlan, "check_budget", lambda self, key: None)
    with pytest.raises(BudgetExceeded) as refusal:
        apart.release()
    assert refusal.value.requested == left * 4 / 3
    assert db.budget("visits").remaining == left
    capped = replace(apart, questions=tuple(replace(one, price=Fraction(1, 10)) for one in apart.questions))
    with pytest.raises(SpendingCapReached):
        capped.release()
    assert db.budget("visits").remaining == left


@pytest.mark.parametrize(
    "wrong",
    [
        {"releases": []},
        {"releases": [{"query": {"kind": "count"}, "accuracy_target": {"alpha": "50"}}], "spend": "1"},
        {"releases": [{"query": {"kind": "count"}, "accuracy_target": {"alpha": "50"}}], "questions": []},
        {"releases": [{"query": {"kind": "count"}, "accuracy_target": {}}]},
        {
            "releases": [
                {
                    "query": {"kind": "synopsis", "axes": [{"attribute": "ward"}]},
                    "accuracy_target": {"epsilon": "0.01"},
                }
            ]
        },
    ],
)
def test_releases_of_a_plan_that_make_no_sense_are_refused(place: Place, wrong: dict[str, object]) -> None:
    ana = place.program("ana")
    before = ana.get("/api/v1/datasets/visits/budget").json()["spent"]
    assert ana.post("/api/v1/datasets/visits/plans/answers", json=wrong).status_code in (400, 422)
    assert ana.get("/api/v1/datasets/visits/budget").json()["spent"] == before


def test_a_reply_without_an_answer_to_each_question_is_refused(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = db.plan([(db["visits"].count(), {"epsilon": "0.01"}), (db["visits"].cdf("age"), {"epsilon": "0.01"})])

    def reply(self: httpx.Client, method: str, path: str, **sent: Any) -> httpx.Response:
        return httpx.Response(200, json=[]) if path.endswith("plans/answers") else real(self, method, path, **sent)

    real = httpx.Client.request
    monkeypatch.setattr(httpx.Client, "request", reply)
    with pytest.raises(DocumentError, match="each question"):
        plan.release()


def test_synopses_are_published_for_everybody(place: Place, address: str, db: Session) -> None:
    near = place.app_state.session("ana")["visits"].histogram("ward").publish_preview(epsilon="0.3")
    assert db["visits"].histogram("ward").publish_preview(epsilon="0.3").to_dict() == near.to_dict()
    made = db["visits"].histogram("ward").publish(epsilon="0.3")
    with bf.connect(address, token=place.secrets["bob"]) as other:
        (line,) = other.synopses("visits")
        assert (line.epsilon, line.dataset) == (Fraction(3, 10), "visits")
        found = other.synopsis("visits", line.number)
        assert found.artefact.digest() == made.artefact.digest()
        assert other.budget("visits").spent == 0
        with pytest.raises(UnknownAnswer):
            other.synopsis("visits", line.number + 1)
        with pytest.raises(UnknownAnswer):
            other.reopen("visits", line.number)


def test_points_travel(db: Session, place: Place) -> None:
    columns = db["visits"].columns(["age", "cost"])
    near = place.app_state.session("ana")["visits"].columns(["age", "cost"])
    assert columns.preview(epsilon="1", clusters=3, rows=3000) == near.preview(epsilon="1", clusters=3, rows=3000)
    weights = columns.point_weights(epsilon="1", clusters=3, rows=3000)
    assert weights.to_json() == near.point_weights(epsilon="1", clusters=3, rows=3000).to_json()


def test_errors_come_back_with_their_type_and_fields(db: Session) -> None:
    with pytest.raises(BudgetExceeded) as refusal:
        db["visits"].histogram("age").release(epsilon="9")
    assert refusal.value.requested == 9
    assert isinstance(refusal.value.remaining_analyst, Fraction)
    assert refusal.value.instead
    with pytest.raises(SpendingCapReached) as capped:
        db["visits"].histogram("age").release(epsilon="0.07", spend="0.05", fresh=True)
    assert (capped.value.requested, capped.value.allowed) == (Fraction(7, 100), Fraction(1, 20))
    with pytest.raises(UnknownDataset, match="visits"):
        db["visit"]
    with pytest.raises(QueryError):
        db["visits"].histogram("wage")
    with pytest.raises(UnknownAnswer) as unknown:
        db.reopen("visits", 10**6)
    assert unknown.value.number == 10**6
    db["visits"].count().release(epsilon="0.01", key="mine")
    with pytest.raises(KeyReused):
        db["visits"].count().release(epsilon="0.02", key="mine")


def test_fresh_noise_is_charged_each_time_and_once_for_a_key(db: Session) -> None:
    ages, spent = db["visits"].histogram("age"), db.budget("visits").spent
    fresh = {"epsilon": "0.01", "mechanism": "identity", "fresh": True}
    drawn = {tuple(ages.release(**fresh).raw.tolist()) for _ in range(2)}
    keyed = {tuple(ages.release(**fresh, key="once").raw.tolist()) for _ in range(2)}
    assert (len(drawn), len(keyed), len(drawn | keyed)) == (2, 1, 3)
    assert db.budget("visits").spent - spent == Fraction(3, 100)
    assert ages.preview(**fresh).epsilon == Fraction(1, 100)
    item = (ages, {"epsilon": "0.01", "mechanism": "identity"})
    planned = [db.plan([item], fresh=True).release(key=key)[0] for key in (None, None, "plan", "plan")]
    assert len({tuple(answer.raw.tolist()) for answer in planned}) == 3
    assert db.budget("visits").spent - spent == Fraction(6, 100)


def test_a_name_and_a_password_serve_too(place: Place, address: str) -> None:
    with bf.connect(address, analyst="bob", password=PASSWORD) as session:
        assert session.analyst == "bob"
        session["visits"].count().release(epsilon="0.01")
    with pytest.raises(SignInRefused):
        bf.connect(address, analyst="bob", password="wrong password")


def test_who_does_not_get_in(place: Place, address: str, tmp_path: Path) -> None:
    with pytest.raises(NotSignedIn):
        bf.connect(address, token="bfdb_forged")
    with pytest.raises(InvalidInput):
        bf.connect(address)
    with pytest.raises(InvalidInput):
        bf.connect(tmp_path / "blowfish.toml", token="x")
    with pytest.raises(ServerUnreachable):
        bf.connect("http://127.0.0.1:1", token="x")
    with bf.connect(address, token=place.secrets["cora"]) as curator, pytest.raises(NotAllowed):
        curator["visits"].count().preview(epsilon="0.1")


def test_a_server_that_is_none_of_ours(place: Place, address: str) -> None:
    with pytest.raises(ServerUnreachable, match="not as BlowfishDB"):
        bf.connect(address + "/elsewhere", token=place.secrets["ana"])


@pytest.mark.parametrize(
    ("status", "kind", "content"),
    [
        (200, "text/html", b"<h1>Welcome</h1>"),
        (200, "application/json", b"[]"),
        (200, "application/json", b"{}"),
        (200, "application/json", b"no JSON"),
        (302, "text/html", b""),
    ],
)
def test_another_program_at_the_address(status: int, kind: str, content: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ServerUnreachable, match="not as BlowfishDB"):
            bf.connect(address, token="x")
        with pytest.raises(ServerUnreachable, match="not as BlowfishDB"):
            bf.connect(address, analyst="ana", password=PASSWORD)
        server.shutdown()


def test_a_deadline_travels_with_a_release_and_with_a_plan(db: Session) -> None:
    table, before = db["visits"], db.budget("visits")
    with pytest.raises(DeadlinePassed):
        table.histogram("ward").release(epsilon="0.0123", deadline=1e-9)
    plan = db.plan([(table.histogram("ward"), {"epsilon": "0.0124"}), (table.count(), {"epsilon": "0.0125"})])
    with pytest.raises(DeadlinePassed):
        plan.release(deadline=1e-9)
    assert db.budget("visits") == before
