"""Caps on what a token may spend, by the PostgreSQL port and by REST, and when a line of the audit log is on disk."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from blowfishdb.errors import StaleVersion
from blowfishdb.ledger import Ledger
from blowfishdb.server.auth.audit_log import AuditLog
from tests.server.places import AGES, code, opened
from tests.server.wire.places import wire_place

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward OPTIONS (epsilon = 0.25)"


def test_a_token_spends_up_to_the_cap_of_the_curator_and_no_more(tmp_path: Path) -> None:
    with wire_place(tmp_path) as port:
        tokens = port.app_state.tokens
        (token,) = tokens.of("ana")
        tokens.set_cap(token.id, Fraction(1, 2))
        with port.connect() as connection:
            assert connection.execute("SHOW blowfish.spend").fetchone() == ("0.5",)
            assert len(connection.execute(WARDS.encode()).fetchall()) == 3
            connection.execute("SET blowfish.spend = '9'")
            with pytest.raises(errors.ConfigurationLimitExceeded, match=r"0\.25 is left of what this token") as refused:
                connection.execute(WARDS.replace("0.25", "0.75").encode())
            assert refused.value.diag.message_hint is None
            connection.execute("RESET blowfish.spend")
            assert connection.execute("SHOW blowfish.spend").fetchone() == ("0.5",)
        # Another connection has no new cap, and what was answered stays free.
        with port.connect() as connection:
            assert connection.execute("SHOW blowfish.spend").fetchone() == ("0.25",)
            assert len(connection.execute(WARDS.encode()).fetchall()) == 3
            with pytest.raises(psycopg.Error, match=r"this costs epsilon 0\.3"):
                connection.execute(WARDS.replace("0.25", "0.3").encode())
        assert tokens.find(token.id).spent == Fraction(1, 4)
        assert port.app_state.session("ana").budget("visits").spent == Fraction(1, 4)


def test_what_the_ledger_refuses_is_given_back_to_the_token(tmp_path: Path) -> None:
    with wire_place(tmp_path) as port:
        tokens = port.app_state.tokens
        (token,) = tokens.of("ana")
        tokens.set_cap(token.id, Fraction(10**6))
        with port.connect() as connection, pytest.raises(errors.ConfigurationLimitExceeded):
            connection.execute(WARDS.replace("0.25", "1000").encode())
        assert tokens.find(token.id).spent == 0


def test_a_charge_refused_for_another_reason_is_given_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot changes between the quote and the charge: nothing is charged, by one question or by a plan."""

    def changed(*_: object) -> None:
        raise StaleVersion("snapshot", 1, 2)

    with opened(tmp_path) as place:
        tokens, ana = place.app_state.tokens, place.program("ana")
        (token,) = tokens.of("ana")
        tokens.set_cap(token.id, Fraction(1))
        wards = {"query": {"kind": "histogram", "axes": [{"attribute": "ward"}]}}
        sums = {"query": {"kind": "sum", "axes": [{"attribute": "cost"}]}}
        one = wards | {"accuracy_target": {"epsilon": "1/10"}}
        with monkeypatch.context() as patch:
            for name in ("charge", "charge_all"):
                patch.setattr(Ledger, name, changed)
            assert code(ana.post("/api/v1/datasets/visits/answers", json=one)) == "stale-version"
            both = {"releases": [one, sums | {"accuracy_target": {"epsilon": "1/5"}}]}
            assert code(ana.post("/api/v1/datasets/visits/plans/answers", json=both)) == "stale-version"
        assert tokens.find(token.id).spent == 0
        assert ana.post("/api/v1/datasets/visits/plans/answers", json=both).status_code == 200
        assert tokens.find(token.id).spent == Fraction(3, 10)


def test_a_curator_caps_a_token_by_rest_and_every_way_to_spend_keeps_it(tmp_path: Path) -> None:
    with opened(tmp_path) as place:
        cora, ana = place.browser("cora"), place.program("ana")
        (token,) = cora.get("/api/v1/users/ana/tokens").json()
        address = f"/api/v1/users/ana/tokens/{token['id']}/cap"
        assert (
            code(cora.put("/api/v1/users/bob/tokens/" + token["id"] + "/cap", json={"epsilon": "1"})) == "invalid-input"
        )
        assert cora.put(address, json={"epsilon": "3/20"}).json()["cap"] == "3/20"
        assert ana.post("/api/v1/datasets/visits/answers", json=AGES).status_code == 200
        wards = {"kind": "histogram", "axes": [{"attribute": "ward"}]}
        dear = {"query": wards, "accuracy_target": {"epsilon": "1/10"}}
        refused = ana.post("/api/v1/datasets/visits/answers", json=dear)
        assert code(refused) == "token-cap-reached"
        assert "0.05 is left of what this token may spend" in refused.json()["detail"]
        plan = {"questions": [{"query": wards, "accuracy_target": {"alpha": "20"}}]}
        assert code(ana.post("/api/v1/datasets/visits/plans/answers", json=plan)) == "token-cap-reached"
        releases = {"releases": [dear, {**dear, "query": {**wards, "axes": [{"attribute": "cost"}]}}]}
        assert code(ana.post("/api/v1/datasets/visits/plans/answers", json=releases)) == "token-cap-reached"
        # What was answered is free, and she may spend by other ways: the cap is the token's.
        assert ana.post("/api/v1/datasets/visits/answers", json=AGES).status_code == 200
        assert place.browser("ana").post("/api/v1/datasets/visits/answers", json=dear).status_code == 200
        assert cora.get("/api/v1/users/ana/tokens").json()[0]["spent"] == "1/10"
        assert cora.put(address, json={"epsilon": None}).json()["cap"] is None
        lines = [line for line in place.app_state.audit_log.last() if line.action == "set the cap of a token"]
        assert [line.detail["epsilon"] for line in lines] == ["3/20", None]


def test_the_line_of_a_charge_is_on_disk_before_it_and_that_of_a_replay_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    note, charge = AuditLog.note, Ledger.charge

    def noted(self: AuditLog, who: str, action: str, *rest: Any, durable: bool = True) -> None:
        note(self, who, action, *rest, durable=durable)
        if action == "asked for an answer":
            steps.append("on disk" if durable else "written")

    def charged(self: Ledger, *rest: Any) -> Any:
        steps.append("charge")
        return charge(self, *rest)

    monkeypatch.setattr(AuditLog, "note", noted)
    monkeypatch.setattr(Ledger, "charge", charged)
    with wire_place(tmp_path) as port:
        with port.connect() as connection, pytest.raises(errors.ConfigurationLimitExceeded):
            connection.execute(WARDS.encode())
        assert steps == ["written"]
        with port.connect(spend="1") as connection:
            connection.execute(WARDS.encode())
            assert steps[1:] == ["on disk", "charge"]
            connection.execute(WARDS.encode())
            assert steps[3:] == ["written"]
        log = port.app_state.audit_log
        assert log.first_fault() is None
        assert [line.action for line in log.last()].count("asked for an answer") == 3
