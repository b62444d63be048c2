"""Questions above a price wait for a curator's yes: released once, for no more, by that analyst, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors as postgres

import blowfishdb as bf
from blowfishdb.errors import ApprovalRefused, BudgetExceeded, InvalidInput, TooLarge, WaitsForApproval
from blowfishdb.server.auth import approvals as module
from blowfishdb.server.auth.approvals import DAYS
from tests.server.places import AGES, Place, code, opened
from tests.server.wire.places import wire_place

VISITS = "/api/v1/datasets/visits"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with opened(tmp_path) as found:
        found.app_state.approvals.set_above("visits", Fraction(1, 4))
        yield found


def ages(epsilon: str) -> dict[str, Any]:
    return {**AGES, "accuracy_target": {"epsilon": epsilon}}


def wards(epsilon: str) -> dict[str, Any]:
    query = {"kind": "histogram", "axes": [{"attribute": "ward"}]}
    return {"query": query, "accuracy_target": {"epsilon": epsilon}}


def test_a_question_waits_is_approved_and_released_once(place: Place) -> None:
    ana, bob, cora = place.browser("ana"), place.browser("bob"), place.browser("cora")
    assert ana.post(f"{VISITS}/answers", json=wards("1/4")).status_code == 200
    first = ana.post(f"{VISITS}/answers", json=ages("1/2"))
    assert (first.status_code, code(first)) == (409, "waits-for-approval")
    assert first.json()["fields"]["number"] == 1
    assert "Nothing was charged" in first.json()["detail"]
    assert ana.post(f"{VISITS}/answers", json=ages("1/2")).json() == first.json(), "one place on the list"
    assert ana.get(f"{VISITS}/budget").json()["spent"] == "1/4"
    (waiting,) = cora.get(f"{VISITS}/approvals").json()
    assert (waiting["analyst"], waiting["epsilon"], waiting["state"]) == ("ana", "1/2", "waiting")
    assert "age" in waiting["question"]
    assert ana.get(f"{VISITS}/approval").json() == {"epsilon": "1/4", "questions": [waiting]}
    assert bob.get(f"{VISITS}/approval").json()["questions"] == [], "others' questions are theirs to know"
    assert cora.put(f"{VISITS}/approvals/1", json={"approve": True}).json()["state"] == "approved"
    assert code(cora.put(f"{VISITS}/approvals/1", json={"approve": False})) == "invalid-input"
    # Hers alone.
    assert bob.post(f"{VISITS}/answers", json=ages("1/2")).json()["fields"]["number"] == 2
    answer = ana.post(f"{VISITS}/answers", json=ages("1/2"))
    assert answer.status_code == 200
    assert ana.get(f"{VISITS}/budget").json()["spent"] == "3/4"
    assert ana.post(f"{VISITS}/answers", json=ages("1/2")).text == answer.text, "a replay needs no yes"
    place.app_state.curator("cora").refreshed("visits", "new rows")
    again = ana.post(f"{VISITS}/answers", json=ages("1/2"))
    assert (code(again), again.json()["fields"]["number"]) == ("waits-for-approval", 3)
    log = cora.get("/api/v1/audit-log", params={"most": 1000}).json()
    assert [one["action"] for one in log if "approv" in one["action"]].count("approved a question") == 1
    assert [one["detail"]["number"] for one in log if one["action"] == "waits for approval"] == [1, 1, 2, 3]


def test_a_refusal_is_told_with_its_reason_and_ends(place: Place) -> None:
    ana, cora = place.browser("ana"), place.browser("cora")
    ana.post(f"{VISITS}/answers", json=ages("1/2"))
    cora.put(f"{VISITS}/approvals/1", json={"approve": False, "reason": "ask for bins of 5"})
    refused = ana.post(f"{VISITS}/answers", json=ages("1/2"))
    assert (refused.status_code, code(refused)) == (403, "approval-refused")
    assert "ask for bins of 5" in refused.json()["detail"]
    place.time[0] += DAYS * 86_400
    later = place.browser("ana").post(f"{VISITS}/answers", json=ages("1/2"))
    assert (code(later), later.json()["fields"]["number"]) == ("waits-for-approval", 2)
    assert code(place.browser("cora").put(f"{VISITS}/approvals/1", json={"approve": True})) == "invalid-input"


def test_a_yes_ends_and_is_good_for_its_price_alone(place: Place) -> None:
    store, session = place.app_state.approvals, place.app_state.session("ana")
    question = session["visits"].histogram("age")
    with pytest.raises(WaitsForApproval) as waits:
        question.release(epsilon="1/2")
    store.decide("visits", waits.value.number, yes=True, by="cora")
    place.time[0] += DAYS * 86_400
    with pytest.raises(WaitsForApproval) as anew:
        question.release(epsilon="1/2")
    assert anew.value.number == waits.value.number + 1
    # Another accuracy is another question.
    store.decide("visits", anew.value.number, yes=True, by="cora")
    with pytest.raises(WaitsForApproval):
        question.release(epsilon="3/4")
    assert session.budget("visits").spent == 0
    assert question.release(epsilon="1/2").epsilon == Fraction(1, 2)


def test_small_steps_to_more_accuracy_count_as_one(place: Place) -> None:
    question = place.app_state.session("ana")["visits"].histogram("age")
    for level in ("1/5", "1/4"):
        question.release(epsilon=level, mechanism="identity")
    with pytest.raises(WaitsForApproval) as waits:
        question.release(epsilon="3/10", mechanism="identity")  # 1/20 more than what was paid
    assert waits.value.requested == Fraction(3, 10)
    place.app_state.approvals.decide("visits", waits.value.number, yes=True, by="cora")
    question.release(epsilon="3/10", mechanism="identity")
    assert place.app_state.session("ana").budget("visits").spent == Fraction(3, 10)


def test_a_higher_price_than_the_approved_one_waits_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store, session = place.app_state.approvals, place.app_state.session("ana")
    with pytest.raises(WaitsForApproval) as waits:
        session["visits"].histogram("age").release(epsilon="1/2")
    store.decide("visits", waits.value.number, yes=True, by="cora")
    with store.database.write() as cursor:
        cursor.rows("UPDATE approval SET epsilon = '2/5'")
    with pytest.raises(WaitsForApproval) as again:
        session["visits"].histogram("age").release(epsilon="1/2")
    assert (again.value.number, again.value.requested) == (2, Fraction(1, 2))
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    with pytest.raises(TooLarge, match="wait for approval"):
        session["visits"].histogram("ward").release(epsilon="1/2")


def test_a_yes_with_which_nothing_was_charged_stays_good(place: Place) -> None:
    state, session = place.app_state, place.app_state.session("ana")
    state.curator("cora").limit_analyst("visits", "ana", "1/4", reason="less")
    with pytest.raises(WaitsForApproval) as waits:
        session["visits"].histogram("age").release(epsilon="1/2")
    state.approvals.decide("visits", waits.value.number, yes=True, by="cora")
    with pytest.raises(BudgetExceeded):
        session["visits"].histogram("age").release(epsilon="1/2")
    assert [one.state for one in state.approvals.of("visits")] == ["approved"]
    state.curator("cora").limit_analyst("visits", "ana", "1", reason="more")
    session["visits"].histogram("age").release(epsilon="1/2")
    assert [one.state for one in state.approvals.of("visits")] == ["used"]


def test_a_plan_and_a_synopsis_wait_as_one_question_each(place: Place) -> None:
    state, session = place.app_state, place.app_state.session("ana")
    table = session["visits"]
    plan = session.plan([table.histogram("ward"), table.where(bf.col("ward") == "A1").histogram("age")], alpha=20)
    price = plan.to_pay(None)
    state.approvals.set_above("visits", price / 2)
    with pytest.raises(WaitsForApproval) as waits:
        plan.release()
    assert waits.value.requested == price
    assert session.budget("visits").spent == 0
    with pytest.raises(WaitsForApproval) as other:
        table.histogram("ward").publish(epsilon=str(price))
    assert other.value.number == 2
    for number in (1, 2):
        state.approvals.decide("visits", number, yes=True, by="cora")
    assert len(plan.release()) == 2
    assert session.budget("visits").spent == price
    table.histogram("ward").publish(epsilon=str(price))
    assert session.budget("visits").spent == 2 * price


def test_the_port_and_python_hear_the_same(tmp_path: Path) -> None:
    statement = b"SELECT ward, COUNT(*) FROM visits GROUP BY ward OPTIONS (epsilon = 0.5)"
    with wire_place(tmp_path) as port:
        port.app_state.approvals.set_above("visits", Fraction(1, 4))
        with port.connect(spend="1") as connection:
            with pytest.raises(postgres.InsufficientPrivilege, match="waits for approval as number 1 of visits"):
                connection.execute(statement)
            port.app_state.approvals.decide("visits", 1, yes=False, by="cora", reason="no")
            with pytest.raises(psycopg.Error, match="number 1 of visits was refused: no"):
                connection.execute(statement)
            with port.app_state.users.database.write() as cursor:
                cursor.rows("UPDATE approval SET state = 'approved'")
            assert len(connection.execute(statement).fetchall()) == 3


def test_what_a_client_hears_travels_as_a_typed_error(place: Place) -> None:
    with bf.connect(place.address, token=place.secrets["ana"]) as session:
        with pytest.raises(WaitsForApproval) as waits:
            session["visits"].histogram("age").release(epsilon="1/2")
        assert (waits.value.number, waits.value.requested) == (1, Fraction(1, 2))
        place.app_state.approvals.decide("visits", 1, yes=False, by="cora")
        with pytest.raises(ApprovalRefused, match="was refused"):
            session["visits"].histogram("age").release(epsilon="1/2")


def test_rules_that_make_no_sense_are_refused(place: Place) -> None:
    cora, store = place.browser("cora"), place.app_state.approvals
    for epsilon in ("-1", "lots"):
        assert cora.put(f"{VISITS}/approval", json={"epsilon": epsilon}).status_code == 422
    with pytest.raises(InvalidInput, match="at most"):
        store.decide("visits", 1, yes=True, by="cora", reason="x" * 401)
    assert cora.put(f"{VISITS}/approval", json={"epsilon": None}).json() == {"dataset": "visits", "epsilon": None}
    assert place.browser("ana").post(f"{VISITS}/answers", json=ages("1/2")).status_code == 200
    cora.put(f"{VISITS}/approval", json={"epsilon": "0"})
    assert code(place.browser("ana").post(f"{VISITS}/answers", json=wards("1/8"))) == "waits-for-approval"
    cora.delete(VISITS)
    assert store.above("visits") is None
    assert store.of("visits") == []
