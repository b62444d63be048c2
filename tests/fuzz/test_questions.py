"""Questions from anybody's program: an answer that is charged as quoted, or a typed error that costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import AccuracyTarget, read_query, read_target, write_query
from blowfishdb.errors import AccuracyError, BlowfishError, QueryError
from blowfishdb.model.query import Query
from blowfishdb.session.backend import Backend, ReleaseRequest
from blowfishdb.session.local import open_local
from tests.fuzz.effort import effort, outcome
from tests.fuzz.questions import ANY_TARGET, ANYTHING, QUESTION
from tests.session.places import configuration, make_fixture, make_table, visits


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    folder = tmp_path_factory.mktemp("fuzz")
    make_fixture(folder, visits(epsilon="1000000000"))
    opened = open_local(configuration(folder), "ana")
    yield opened
    opened.close()


@given(QUESTION | ANYTHING)
@effort(240)
def test_questions_read_back_or_are_refused(written: Any) -> None:
    found = outcome(lambda: read_query(written))
    if isinstance(found, Query):
        assert read_query(write_query(found)) == found or "nan" in str(write_query(found)).lower()
    else:
        assert isinstance(found, QueryError)


@given(ANY_TARGET | ANYTHING)
@effort(240)
def test_demands_read_back_or_are_refused(written: Any) -> None:
    found = outcome(lambda: read_target(written))
    if isinstance(found, AccuracyTarget):
        assert read_target(found.to_dict()) == found
    else:
        assert isinstance(found, AccuracyError)


@given(QUESTION, ANY_TARGET)
@effort(12)
def test_previews_cost_nothing_and_quote_what_is_charged(backend: Backend, written: Any, wanted: Any) -> None:
    domain, _ = backend.declared("visits")
    before = backend.budget("visits").spent

    def asked() -> tuple[Query, AccuracyTarget]:
        return read_query(written), read_target(wanted)

    read = outcome(asked)
    if isinstance(read, BlowfishError):
        return
    request = ReleaseRequest("visits", read[0], domain, read[1])
    quoted = outcome(lambda: backend.preview(request))
    assert backend.budget("visits").spent == before
    answered = outcome(lambda: backend.release(request, Run()))
    spent = backend.budget("visits").spent - before
    if isinstance(answered, BlowfishError):
        assert spent == 0
        assert isinstance(quoted, BlowfishError) or answered.code == "budget-exceeded"
        return
    assert isinstance(answered, Answer)
    assert isinstance(quoted, Preview)
    assert spent in (Fraction(0), quoted.epsilon)


@pytest.mark.parametrize("depth", [10, 500, 100_000])
def test_bottomless_conditions_are_refused(depth: int) -> None:
    where: list[Any] = ["==", "age", 5]
    for _ in range(depth):
        where = ["Negation", where]
    found = outcome(lambda: read_query({"kind": "count", "where": where}))
    assert isinstance(found, Query) == (depth == 10)


@given(st.data())
@effort(2)
def test_no_refusal_depends_on_the_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Two tables that share a declaration and nothing else refuse and quote in the same words."""
    folders = [tmp_path_factory.mktemp("rows") for _ in range(2)]
    said: list[list[str]] = []
    questions = data.draw(st.lists(st.tuples(QUESTION, ANY_TARGET), min_size=3, max_size=6))
    for folder, rows in zip(folders, (3000, 7), strict=True):
        make_fixture(Path(folder), visits(epsilon="1000000000"))
        make_table(Path(folder), rows)
        own = open_local(configuration(Path(folder)), "ana")
        said.append([_said(own, written, wanted) for written, wanted in questions])
        own.close()
    assert said[0] == said[1]


def _said(backend: Backend, written: Any, wanted: Any) -> str:
    domain, _ = backend.declared("visits")

    def request() -> ReleaseRequest:
        return ReleaseRequest("visits", read_query(written), domain, read_target(wanted))

    found = outcome(lambda: backend.preview(request()))
    if isinstance(found, BlowfishError):
        refused = outcome(lambda: backend.release(request(), Run()))
        assert isinstance(refused, BlowfishError)
        return f"{found.code}: {found.message}; {refused.code}: {refused.message}"
    return str(found.to_dict())
