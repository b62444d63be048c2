"""The routes do what they say: datasets, policies, budgets, the ledger, users."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import blowfishdb as bf
from blowfishdb.catalog import curator as curator_room
from blowfishdb.engine.request import read_query
from blowfishdb.engine.synopsis import from_bytes
from blowfishdb.errors import LedgerUnavailable, PolicyError, QueryError, SourceFailed
from blowfishdb.ledger import Head, Ledger
from blowfishdb.model.document import write_policy
from blowfishdb.model.domain import Domain
from blowfishdb.server.authentication import Caller
from blowfishdb.server.rest.datasets import put_in_force
from blowfishdb.server.rest.queries import SHORT, sent_query
from tests.server.places import AGES, PASSWORD, Place, code, opened

ROOT = "/api/v1/datasets/visits"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place for tests that change nothing others look at."""
    with opened(tmp_path_factory.mktemp("clinic")) as found:
        yield found


def test_what_is_declared_is_told(shared: Place) -> None:
    (line,) = shared.program("ana").get("/api/v1/datasets").json()
    assert line == {"name": "visits", "attributes": ["age", "ward", "cost"], "paused": None}
    told = shared.program("ana").get(ROOT).json()
    assert told["domain"]["age"]["kind"] == "integers"
    assert told["policy"]["attributes"]["age"]["kind"] == "threshold"
    assert any("age" in sentence for sentence in told["policy_words"])
    assert "duckdb" not in json.dumps(told)


def test_a_query_that_was_sent_before_is_told_from_one_that_looks_alike() -> None:
    def of(value: object) -> dict[str, Any]:
        return {"kind": "histogram", "axes": [{"attribute": "age"}], "where": ["==", "age", value]}

    values = ("1", 1, 1.5, True, None, "1.0", ["date", "2020-01-01"], 1, "1", "x" * SHORT)
    for value in values:
        try:
            query = repr(read_query(of(value)))
        except QueryError as refused:
            for _ in range(2):
                with pytest.raises(QueryError, match=re.escape(refused.message)):
                    sent_query(of(value))
        else:
            assert [repr(sent_query(of(value))) for _ in range(2)] == [query, query]
    assert sent_query(of(1)) is sent_query(of(1))
    with pytest.raises(QueryError):
        sent_query(None)


def test_sql_is_a_question(shared: Place) -> None:
    ana = shared.program("ana")
    sent = {"sql": "SELECT ward, COUNT(*) FROM visits GROUP BY ward", "accuracy_target": {"alpha": "50"}}
    quote = ana.post(f"{ROOT}/previews", json=sent).json()
    assert quote["offers"][0]["alpha"] <= 50
    within = {"sql": "SELECT ward, COUNT(*) FROM visits GROUP BY ward OPTIONS (alpha = 50)"}
    assert ana.post(f"{ROOT}/previews", json=within).json()["offers"] == quote["offers"]
    each = {**sent, "accuracy_target": {"alpha": "50", "guarantee": "per-query"}}
    assert ana.post(f"{ROOT}/previews", json=each).json()["accuracy_target"]["guarantee"] == "per-query"


def test_the_name_of_the_largest_group_is_previewed_and_released(shared: Place) -> None:
    ana = shared.program("ana")
    statement = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
    sent = {"sql": statement, "accuracy_target": {"epsilon": "0.25"}}
    quote = ana.post(f"{ROOT}/previews", json=sent).json()
    assert (quote["kind"], quote["offers"][0]["mechanism"]) == ("selection", "group-selection")
    answer = ana.post(f"{ROOT}/answers", json=sent).json()
    assert (answer["mechanism"], answer["epsilon"]) == ("group-selection", "1/4")
    assert "of the last that truly belongs in the list" in answer["remark"]
    assert "place" in answer["columns"][0]
    assert answer["values"] == [1.0]


def test_an_answer_travels_as_it_is_stored_unless_less_of_it_is_shown(shared: Place) -> None:
    ana = shared.program("ana")
    sent = {"sql": "SELECT ward, COUNT(*) FROM visits GROUP BY ward", "accuracy_target": {"epsilon": "0.125"}}
    first, again = (ana.post(f"{ROOT}/answers", json=sent) for _ in range(2))
    assert first.content == again.content == bf.Answer.from_json(first.content).to_json().encode()
    assert first.headers["content-type"] == "application/json"
    sent["sql"] += " ORDER BY COUNT(*) DESC LIMIT 2"
    cut = ana.post(f"{ROOT}/answers", json=sent).json()
    assert len(cut["values"]) == 2 < len(first.json()["values"])
    assert cut["released"] == first.json()["released"]


def test_several_questions_are_planned_and_released_together(shared: Place) -> None:
    ana = shared.program("ana")
    statements = "SELECT CDF(age) FROM visits; SELECT COUNT(*) FROM visits WHERE age < 60 OPTIONS (alpha = 40)"
    sent = {"sql": statements, "accuracy_target": {"alpha": "50"}}
    plan = ana.post(f"{ROOT}/plans", json=sent).json()
    assert Fraction(plan["total"]) < Fraction(plan["one_by_one"])
    assert [one["accuracy_target"]["alpha"] for one in plan["questions"]] == ["50", "40"]
    assert code(ana.post(f"{ROOT}/plans/answers", json={**sent, "spend": "0.001"})) == "spending-cap-reached"
    answers = ana.post(f"{ROOT}/plans/answers", json=sent, headers={"Idempotency-Key": "both"})
    assert [one["kind"] for one in answers.json()] == ["cdf", "count"]
    again = ana.post(f"{ROOT}/plans/answers", json=sent, headers={"Idempotency-Key": "both"})
    assert [one["epsilon"] for one in again.json()] == [plan["total"]] * 2
    query = {"query": {"kind": "cdf", "axes": [{"attribute": "age"}]}, "accuracy_target": {"alpha": "50"}}
    listed = {"questions": [query, {**query, "accuracy_target": {}}], "accuracy_target": {"alpha": "60"}}
    assert ana.post(f"{ROOT}/plans", json=listed).json()["total"] == "0"
    for wrong in ({}, {**sent, **listed}, {"questions": []}, {"questions": [{**query, "accuracy_target": {}}]}):
        assert ana.post(f"{ROOT}/plans", json=wrong).status_code in (400, 422)
    other = {"sql": "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM others", "accuracy_target": {"alpha": "5"}}
    assert ana.post(f"{ROOT}/plans", json=other).status_code in (400, 422)
    assert shared.program("aude").post(f"{ROOT}/plans", json=sent).status_code == 403


def test_synopses_are_asked_by_all_roles(shared: Place) -> None:
    asked = {"query": {"kind": "synopsis", "axes": [{"attribute": "ward"}]}, "accuracy_target": {"epsilon": "1/4"}}
    file = shared.program("ana").post(f"{ROOT}/answers", json=asked)
    assert from_bytes(file.content).names == ("ward",)
    number = shared.program("aude").get(f"{ROOT}/synopses").json()[0]["number"]
    own = shared.program("ana").get(f"{ROOT}/answers/{number}")
    assert own.content == shared.program("cora").get(f"{ROOT}/synopses/{number}").content
    count = {"query": {"kind": "count"}}
    answer = shared.program("bob").post(f"{ROOT}/synopses/{number}/answers", json=count).json()
    assert answer["kind"] == "count"
    assert code(shared.program("bob").post(f"{ROOT}/synopses/99/answers", json=count)) == "unknown-answer"


def test_looking_ahead_reads_no_data(shared: Place) -> None:
    full, near = write_policy(bf.Policy()), write_policy(bf.Policy({"age": bf.threshold(5)}))
    wanted = {
        "query": {"kind": "cdf", "axes": [{"attribute": "age"}]},
        "accuracy_target": {"alpha": "50"},
        "policies": {"full": full, "near": near},
        "pairs": [{"attribute": "age", "one": "20", "two": "40"}],
    }
    prices = shared.program("cora").post(f"{ROOT}/what-if", json=wanted).json()
    assert [price["policy"] for price in prices] == ["full", "near"]
    assert [price["steps"] for price in prices] == [[1], [4]]
    pair = {"attribute": "age", "one": "20", "two": "40", "epsilon": "1/2"}
    meter = shared.program("ana").post(f"{ROOT}/risk", json=pair).json()
    assert meter["steps"] == 4
    assert meter["posterior_low"] < 0.5 < meter["posterior_high"]
    assert code(shared.program("ana").post(f"{ROOT}/risk", json={**pair, "attribute": "x"})) == "invalid-policy"


def test_a_policy_changes_only_as_it_was_looked_at(place: Place) -> None:
    cora, ana = place.browser("cora"), place.program("ana")
    before = cora.get(f"{ROOT}/policy")
    wanted = write_policy(bf.Policy({"age": bf.threshold(10)}))
    change = cora.post(f"{ROOT}/policy/changes", json={"policy": wanted}).json()
    assert (change["current_version"], change["next_version"], change["refusal"]) == (1, 2, None)
    sent = {"policy": wanted, "reason": "wider"}
    assert code(cora.put(f"{ROOT}/policy", json=sent)) == "invalid-input"
    assert code(cora.put(f"{ROOT}/policy", json=sent, headers={"If-Match": '"x"'})) == "version-mismatch"
    done = cora.put(f"{ROOT}/policy", json=sent, headers={"If-Match": before.headers["etag"]})
    assert done.json()["next_version"] == 2
    late = cora.put(f"{ROOT}/policy", json=sent, headers={"If-Match": before.headers["etag"]})
    assert late.status_code == 412
    after = ana.get(f"{ROOT}/policy")
    assert after.headers["etag"] == done.headers["etag"] != before.headers["etag"]
    assert after.json()["policy"]["attributes"]["age"]["theta"] == 10
    assert ana.post(f"{ROOT}/answers", json=AGES).json()["policy_version"] == 2
    bad = {"policy": {"attributes": {"age": {"kind": "threshold"}}}, "reason": "x"}
    assert code(cora.put(f"{ROOT}/policy", json=bad, headers={"If-Match": after.headers["etag"]})) == "invalid-document"


def test_domain_unit_and_accounting_change_by_rest_as_on_the_page(place: Place) -> None:
    cora, ana = place.browser("cora"), place.program("ana")
    before = ana.get(f"{ROOT}/domain")
    wider = before.json()["domain"] | {"age": {"kind": "integers", "low": 0, "high": 120, "null": 0}}
    sent = {"domain": wider, "reason": "older people"}
    assert code(cora.put(f"{ROOT}/domain", json=sent)) == "invalid-input"
    assert code(cora.put(f"{ROOT}/domain", json=sent, headers={"If-Match": '"x"'})) == "version-mismatch"
    done = cora.put(f"{ROOT}/domain", json=sent, headers={"If-Match": before.headers["etag"]})
    assert done.status_code == 200 and done.headers["etag"] == ana.get(f"{ROOT}/domain").headers["etag"]
    late = cora.put(f"{ROOT}/domain", json=sent, headers={"If-Match": before.headers["etag"]})
    assert late.status_code == 412
    changed = cora.put(f"{ROOT}/accounting", json={"accounting": "per-edge", "reason": "one at a time"})
    assert changed.json() == {"dataset": "visits", "accounting": "per-edge"}
    assert place.app_state.curator("cora").account("visits").accounting == "per-edge"
    assert code(cora.put(f"{ROOT}/accounting", json={"accounting": "guess", "reason": "x"})) in (
        "invalid-input",
        "invalid-dataset",
    )


def test_a_policy_made_for_an_earlier_domain_is_checked_against_the_one_in_force(place: Place) -> None:
    cora, keeper = place.browser("cora"), place.app_state.curator("cora")
    tag = cora.get(f"{ROOT}/policy").headers["etag"]
    made_before = bf.Policy({"age": bf.partition(cuts=[50])})
    keeper.set_domain("visits", Domain((("age", bf.integers(0, 40, null=0)),)), reason="younger")
    caller = Caller(place.app_state.logins.begin("cora").identity, place.app_state)
    with pytest.raises(PolicyError):
        put_in_force("visits", tag, made_before, "as looked at", caller)
    sent = {"policy": write_policy(made_before), "reason": "as looked at"}
    assert code(cora.put(f"{ROOT}/policy", json=sent, headers={"If-Match": tag})) == "invalid-document"
    assert cora.get(f"{ROOT}/policy").headers["etag"] == tag


def test_a_person_unit_needs_its_columns_when_it_is_saved(place: Place) -> None:
    cora = place.browser("cora")
    before = cora.get(f"{ROOT}/policy")
    policy = before.json()["policy"] | {"unit": {"person": "nobody", "at_most": 2, "order_by": "id"}}
    refused = cora.put(
        f"{ROOT}/policy", json={"policy": policy, "reason": "people"}, headers={"If-Match": before.headers["etag"]}
    )
    assert refused.status_code >= 400 and "nobody" in refused.json()["detail"]
    assert cora.get(f"{ROOT}/policy").headers["etag"] == before.headers["etag"]


def test_two_curators_at_once_do_not_overwrite_each_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cora = place.browser("cora")
    tag = cora.get(f"{ROOT}/policy").headers["etag"]
    stretch = curator_room.policy_stretch

    def interrupted(*given: Any) -> Any:
        """Another server puts a policy in force while this one still works out its own."""
        monkeypatch.setattr(curator_room, "policy_stretch", stretch)
        place.app_state.curator("carl").set_policy("visits", bf.Policy({"age": bf.threshold(9)}), reason="quicker")
        return stretch(*given)

    monkeypatch.setattr(curator_room, "policy_stretch", interrupted)
    sent = {"policy": write_policy(bf.Policy({"age": bf.threshold(10)})), "reason": "slower"}
    assert code(cora.put(f"{ROOT}/policy", json=sent, headers={"If-Match": tag})) == "stale-version"
    assert cora.get(f"{ROOT}/policy").json()["policy"]["attributes"]["age"]["theta"] == 9


def test_budgets_are_limited_and_renewed(place: Place) -> None:
    cora, ana = place.browser("cora"), place.program("ana")
    own = {"epsilon": "1/20", "reason": "new here"}
    assert cora.put(f"{ROOT}/budgets/analysts/ana", json=own).json()["limit"] == "1/20"
    refused = ana.post(f"{ROOT}/answers", json=AGES)
    assert (refused.status_code, code(refused)) == (402, "budget-exceeded")
    assert refused.json()["fields"]["remaining_analyst"] == "1/20"
    cora.put(f"{ROOT}/budgets/analysts/ana", json={"epsilon": None, "reason": "trusted"})
    assert ana.post(f"{ROOT}/answers", json=AGES).status_code == 200
    everyone = cora.put(f"{ROOT}/budgets/everyone", json={"epsilon": "0.5", "reason": "fair"})
    assert everyone.json()["per_analyst"] == "1/2"
    assert cora.put(f"{ROOT}/budgets", json={"epsilon": "12", "reason": "more"}).json()["limit"] == "12"
    told = place.program("aude").get(f"{ROOT}/budgets").json()
    assert (told["spent"], told["limit"], told["per_analyst"]) == ("1/10", "12", "1/2")
    assert [line["analyst"] for line in told["analysts"]] == ["ana"]
    assert ana.get(f"{ROOT}/budget").json()["remaining"] == "2/5"


def test_a_paused_dataset_waits(place: Place) -> None:
    cora, ana = place.browser("cora"), place.program("ana")
    assert ana.post(f"{ROOT}/answers", json=AGES).status_code == 200
    number = ana.get(f"{ROOT}/answers").json()[0]["number"]
    cora.put(f"{ROOT}/pause", json={"reason": "checking the rows"})
    for path in ("answers", "previews"):
        refused = ana.post(f"{ROOT}/{path}", json={**AGES, "accuracy_target": {"epsilon": "1/7"}})
        assert code(refused) == "dataset-paused"
        assert "checking the rows" in refused.json()["detail"]
    assert ana.get(f"{ROOT}/answers/{number}").status_code == 200
    assert ana.get("/api/v1/datasets").json()[0]["paused"]["reason"] == "checking the rows"
    cora.delete(f"{ROOT}/pause")
    assert ana.post(f"{ROOT}/previews", json=AGES).status_code == 200
    assert code(cora.put("/api/v1/datasets/nothing/pause", json={"reason": "x"})) == "unknown-dataset"


def test_datasets_come_and_go(place: Place) -> None:
    cora = place.browser("cora")
    declared = cora.get(ROOT).json()
    new = {
        "name": "again",
        "source": "duckdb:///clinic.duckdb#visits",
        "domain": {"age": declared["domain"]["age"]},
        "epsilon": "10",
    }
    refused = cora.post("/api/v1/datasets", json=new)
    assert code(refused) == "account-conflict"
    assert (
        code(cora.post("/api/v1/datasets", json={**new, "source": "duckdb:///clinic.duckdb#none"})) == "invalid-source"
    )
    assert cora.delete(ROOT).status_code == 204
    assert code(place.program("ana").get(ROOT)) == "unknown-dataset"
    back = {**new, "name": "visits", "domain": declared["domain"], "policy": declared["policy"]}
    assert cora.post("/api/v1/datasets", json=back).status_code == 201
    assert place.program("ana").post(f"{ROOT}/previews", json=AGES).status_code == 200
    assert cora.post(f"{ROOT}/snapshots", json={"description": "June"}).json()["snapshot"] == 2


def test_the_ledger_is_open_to_auditors(place: Place) -> None:
    place.program("ana").post(f"{ROOT}/answers", json=AGES)
    aude = place.program("aude")
    entries = aude.get("/api/v1/ledger/entries", params={"dataset": "visits"}).json()
    assert [entry["kind"] for entry in entries][-2:] == ["charge", "answer"]
    assert aude.get("/api/v1/ledger/entries", params={"after": entries[-1]["sequence"]}).json() == []
    assert aude.get("/api/v1/ledger/verification").json()["sound"]
    lines = aude.get("/api/v1/ledger/export").text.splitlines()
    assert len(lines) == len(aude.get("/api/v1/ledger/entries").json())
    assert '"raw"' not in "".join(lines)
    record = aude.get("/api/v1/ledger/record", params={"dataset": "visits"})
    assert record.status_code == 200 and "1 answer paid for" in record.text and "attachment" in str(record.headers)
    assert place.program("ana").get("/api/v1/ledger/record", params={"dataset": "visits"}).status_code == 403
    audit_log = aude.get("/api/v1/audit-log").json()
    assert [(line["who"], line["action"]) for line in audit_log] == [
        ("ana", "asked for an answer"),
        ("aude", "exported the ledger"),
        ("aude", "took the record of processing"),
    ]
    assert aude.get("/api/v1/audit-log/verification").json() == {"sound": True, "fault": None}
    assert "Who may ask?" in record.text and "wait until a curator" not in record.text
    place.app_state.grants.set_group("@team", ["ana", "bob"])
    cora = place.browser("cora")
    assert cora.put(f"{ROOT}/access/@team", json={"role": "analyst", "epsilon": "1/8"}).status_code == 200
    assert cora.put(f"{ROOT}/approval", json={"epsilon": "1/5"}).status_code == 200
    text = aude.get("/api/v1/ledger/record", params={"dataset": "visits"}).text
    assert "@team (2 members)" in text and "0.125 each" in text and "above epsilon 0.2 wait until a curator" in text


def test_people_are_kept_by_curators(place: Place) -> None:
    cora = place.browser("cora")
    made = cora.post("/api/v1/users", json={"name": "eve", "role": "analyst"}).json()
    eve = place.browser()
    assert eve.post("/api/v1/sessions", json={"name": "eve", "password": made["password"]}).json()["must_change"]
    renewed = cora.post("/api/v1/users/eve/password").json()["password"]
    assert renewed != made["password"]
    assert code(eve.get("/api/v1/sessions/current")) == "not-signed-in"
    assert code(cora.put("/api/v1/users/cora/disabled", json={"disabled": True})) == "invalid-input"
    assert cora.put("/api/v1/users/eve/disabled", json={"disabled": True}).json()["is_disabled"]
    names = {line["name"] for line in place.program("aude").get("/api/v1/users").json()}
    assert "eve" in names
    assert code(cora.post("/api/v1/users", json={"name": "eve", "role": "analyst"})) == "invalid-input"
    assert code(cora.post("/api/v1/users", json={"name": "x", "role": "king"})) == "invalid-input"


def test_signing_in_and_out(place: Place) -> None:
    place.app_state.users.set_password("ana", PASSWORD)
    ana = place.browser()
    me = ana.post("/api/v1/sessions", json={"name": "ana", "password": PASSWORD}).json()
    assert (me["role"], me["scopes"]) == ("analyst", ["ask"])
    assert ana.get("/api/v1/sessions/current").json() == me
    assert ana.delete("/api/v1/sessions/current", headers={"X-CSRF-Token": me["csrf_token"]}).status_code == 204
    assert code(ana.get("/api/v1/sessions/current")) == "not-signed-in"


def test_tokens_are_listed_and_ended(place: Place) -> None:
    ana = place.browser("ana")
    made = ana.post("/api/v1/tokens", json={"label": "notebook", "scopes": ["ask"]}).json()
    assert made["secret"] not in ana.get("/api/v1/tokens").text
    assert ana.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert code(place.bearing(made["secret"]).get("/api/v1/datasets")) == "not-signed-in"


def test_a_server_whose_data_is_gone_is_not_ready(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def gone(self: object) -> object:
        calls.append(self)
        raise SourceFailed("0123456789ab")

    monkeypatch.setattr("blowfishdb.sources.ibis_source.IbisSource.columns", gone)
    answers = [place.browser().get("/ready") for _ in range(3)]
    assert [(answer.status_code, code(answer)) for answer in answers] == [(503, "sources-unavailable")] * 3
    assert len(calls) == 1, "its outcome counts for a while"
    assert "visits" not in answers[0].text
    assert "the data of visits cannot be reached" in caplog.text


def test_a_source_that_hangs_holds_nobody_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    for patience in ("PROBE_PATIENCE", "FIRST_PATIENCE"):
        monkeypatch.setattr(f"blowfishdb.server.state.{patience}", 0.01)
    monkeypatch.setattr("blowfishdb.sources.ibis_source.IbisSource.columns", lambda self: release.wait(10) and {})
    try:
        before = threading.active_count()
        codes = {code(place.browser().get("/ready")) for _ in range(3)}
        assert codes == {"sources-unavailable"}
        assert threading.active_count() - before < 10
    finally:
        release.set()


def test_operators_see_numbers_and_no_names(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.program("ana").get(ROOT)
    assert place.browser().get("/health").json() == {"status": "ok"}
    assert place.browser().get("/ready").json() == {"status": "ready"}
    text = place.program("aude").get("/metrics").text
    assert 'blowfish_requests_total{method="GET",route="/api/v1/datasets/{name}",status="200"} 1' in text
    assert "visits" not in text and "ana" not in text.replace("analysts", "")

    def away(self: Ledger) -> Head:
        raise LedgerUnavailable("the ledger is away")

    monkeypatch.setattr(Ledger, "head", away)
    assert place.browser().get("/ready").status_code == 503
    assert place.browser().get("/health").status_code == 200
