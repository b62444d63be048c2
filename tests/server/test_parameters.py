"""Parameters of a mechanism by REST, the Python client, the PostgreSQL port and the page: the same, and recorded."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import psycopg
import pytest

import blowfishdb as bf
from blowfishdb.errors import ParameterError
from blowfishdb.server.pages.explore import runnable_query
from blowfishdb.server.pages.query_draft import AccuracyDraft, AxisDraft, QueryDraft, QuestionDraft
from tests.server.places import AGES, Place, code, opened
from tests.server.wire.places import wire_place
from tests.session.places import visits

ROOT = "/api/v1/datasets/visits"
TARGET = {"epsilon": "1/5", "mechanism": "dawa", "parameters": {"split": "0.3"}}
SETTINGS = (("split", Fraction(3, 10)),)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("clinic"), visits(epsilon="10", per_analyst="5")) as running:
        yield running


def test_rest_takes_them_and_refuses_others(place: Place) -> None:
    ana = place.program("ana")
    preview = ana.post(f"{ROOT}/previews", json={**AGES, "accuracy_target": TARGET}).json()
    assert "with split=0.3" in preview["why"]
    answer = ana.post(f"{ROOT}/answers", json={**AGES, "accuracy_target": TARGET}).json()
    assert answer["parameters"] == {"split": "3/10"}
    for wrong in ({"split": "0.9"}, {"rounds": 1}, {"split": "x"}, "split", ["split"], {"split": [1]}):
        refused = ana.post(f"{ROOT}/answers", json={**AGES, "accuracy_target": {**TARGET, "parameters": wrong}})
        assert (refused.status_code, code(refused)) == (422, "invalid-parameter")


def test_the_client_asks_as_a_local_session_does(place: Place) -> None:
    with bf.connect(place.address, token=place.secrets["ana"]) as db:
        far, near = (one["visits"].histogram("age") for one in (db, place.app_state.session("ana")))
        options = {"epsilon": "0.1", "mechanism": "hierarchy", "parameters": {"fan_out": 4}}
        assert str(far.preview(**options)) == str(near.preview(**options))
        answer = far.release(**options)
        assert answer.parameters == (("fan_out", Fraction(4)),)
        answer.certificate.verify()
        assert np.array_equal(near.release(**options).raw, answer.raw)
        with pytest.raises(ParameterError, match="from 2 to 1024"):
            far.release(**{**options, "parameters": {"fan_out": 1}})


def test_the_port_takes_them_as_a_setting_and_in_the_statement(tmp_path: Path) -> None:
    text = "SELECT age, COUNT(*) FROM visits GROUP BY age"
    with wire_place(tmp_path) as port, port.connect() as connection:
        for setting in ("epsilon = '0.1'", "mechanism = 'dawa'", "parameters = 'split=0.3'"):
            connection.execute(f"SET blowfish.{setting}".encode())
        shown = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {text}".encode()).fetchall())
        assert "dawa was asked for with split=0.3" in shown
        assert "parameters = 'split=0.3'" in shown, "the statement to run says so too"
        # A statement that names another mechanism has the parameters that it gives, or none.
        other = f"EXPLAIN {text} OPTIONS (mechanism = 'hierarchy', parameters = 'fan_out=2')"
        assert "with fan_out=2" in str(connection.execute(other.encode()).fetchall())
        assert "identity was asked for." in str(
            connection.execute(f"EXPLAIN {text} OPTIONS (mechanism = 'identity')".encode()).fetchall()
        )
        with pytest.raises(psycopg.Error, match="name=value"):
            connection.execute("SET blowfish.parameters = 'much'")
        connection.execute("SET blowfish.parameters = 'split=0.95'")
        with pytest.raises(psycopg.Error, match=r"from 0\.01 to 0\.8"):
            connection.execute(text.encode())
        assert port.app_state.session("ana").budget("visits").spent == 0


def test_the_page_asks_with_them_and_shows_them_as_python(place: Place) -> None:
    session, draft = place.app_state.session("ana"), QueryDraft("visits", "histogram", (AxisDraft("age"),))
    accuracy = AccuracyDraft("budget", mechanism="dawa", parameters=(("split", "0.3"),))
    runnable = runnable_query(session, QuestionDraft(draft, accuracy), place.address)
    assert runnable.target.parameters == SETTINGS
    assert "mechanism='dawa', parameters={'split': '0.3'}" in runnable.code
    stated = "SELECT age, COUNT(*) FROM visits GROUP BY age OPTIONS (mechanism = 'identity')"
    statement = QuestionDraft(QueryDraft("visits", "sql"), accuracy, stated)
    assert not runnable_query(session, statement, "").target.parameters
    unread = AccuracyDraft("budget", mechanism="dawa", parameters=(("split", "x"),))
    with pytest.raises(ParameterError, match="is a number"):
        runnable_query(session, QuestionDraft(draft, unread), "")
