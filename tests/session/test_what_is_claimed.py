"""Numbers say what they count, exact ones stay exact, and what is free is called free: on every face of an answer."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from matplotlib.text import Text
from pyarrow import parquet
from rich.console import Console

import blowfishdb as bf
from blowfishdb.catalog.record import record_page
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import DocumentError
from blowfishdb.present.words import counted_words, read_counted
from blowfishdb.server.pages.result import promises
from blowfishdb.session import Session
from tests.session.places import configuration, curator, make_fixture, visits

PEOPLE = 600
CAP = "at most 2 rows per patient are counted"
FIRST = "of at most 2 rows per patient"
"""How the first answers had it."""
NULLS = 700


@pytest.fixture(scope="module")
def capped_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 visits of 600 patients, of whom 2 rows each count."""
    policy = bf.Policy({}, unit=bf.person("patient", at_most=2, order_by="id"))
    folder = tmp_path_factory.mktemp("capped")
    make_fixture(folder, visits(policy, epsilon="100000"))
    return folder


@pytest.fixture(scope="module")
def capped(capped_folder: Path) -> Session:
    return bf.connect(configuration(capped_folder), analyst="ana")


@pytest.fixture(scope="module")
def answer(capped: Session) -> bf.Answer:
    return capped["visits"].histogram("ward").release(epsilon=400)


def printed(drawing: object) -> str:
    screen = Console(file=io.StringIO(), width=200)
    screen.print(drawing)
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_cap_on_rows_stands_beside_the_number_on_every_face(answer: bf.Answer) -> None:
    assert answer.values.sum() == pytest.approx(2 * PEOPLE, abs=20), "the intervals are about what is counted"
    faces = {
        "text": repr(answer),
        "notebook": answer._repr_html_(),
        "note": answer.note(),
        "terminal": printed(answer.terminal()),
        "page": answer.interactive().page,
        "plot": " ".join(text.get_text() for text in answer.plot().figure.findobj(Text)),
        "pandas": answer.to_pandas().to_csv(),
        "polars": answer.to_polars().write_csv(),
        "arrow": str(answer.to_arrow().to_pylist()),
    }
    assert [name for name, text in faces.items() if CAP not in " ".join(text.split())] == []
    assert json.loads(answer.to_json())["counted"] == CAP
    assert CAP in repr(Answer.from_json(answer.to_json()))
    assert promises(answer)[1:] == [CAP]
    assert promises(replace(answer, counted=counted_words(bf.person("patient", at_most=1, order_by="id"))))[1:] == [
        "at most 1 row per patient is counted"
    ]
    assert len(promises(replace(answer, counted=""))) == 1


def test_the_record_of_processing_states_the_cap(capped_folder: Path) -> None:
    with curator(capped_folder) as by_cora:
        assert "at most 2 rows of each count" in record_page(by_cora, "visits")


def test_previews_synopses_and_points_say_it_too(capped: Session, tmp_path: Path) -> None:
    question = capped["visits"].histogram("ward")
    preview = question.preview(epsilon=1)
    assert preview.notes()[0] == f"{CAP.capitalize()}."
    assert preview.to_dict()["counted"] == CAP
    assert CAP.capitalize() in preview._repr_html_()
    plan = capped.plan([question, capped["visits"].count()], alpha=5)
    assert plan.notes()[0] == plan.to_dict()["notes"][0] == f"{CAP.capitalize()}."
    assert CAP.capitalize() in str(question.publish_preview(epsilon=1))
    made = question.publish(epsilon=400)
    reopened = bf.open_synopsis(made.save(tmp_path / "visits.parquet"))
    assert CAP in repr(reopened)
    assert CAP in repr(reopened.count())
    stored = json.loads(parquet.read_schema(tmp_path / "visits.parquet").metadata[b"blowfishdb"])
    assert stored["counted"] == CAP


def test_an_answer_stored_before_caps_were_named_names_it_from_its_evidence(answer: bf.Answer) -> None:
    stored = json.loads(answer.to_json())
    del stored["counted"]
    assert CAP in repr(Answer.from_json(json.dumps(stored)))
    assert Answer.from_json(json.dumps(stored | {"counted": FIRST})).counted == CAP
    assert read_counted("of at most 1 row per patient") == "at most 1 row per patient is counted"


def test_where_every_row_counts_no_cap_is_named(tmp_path: Path) -> None:
    answer = bf.connect(make_fixture(tmp_path), analyst="ana")["visits"].histogram("ward").release(epsilon=1)
    assert "counted" not in answer.to_pandas()
    assert "rows per" not in repr(answer) + answer.note() + answer.to_json().partition('"evidence"')[0]


@pytest.fixture(scope="module")
def nulls(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Ages with a public NULL cell of 700 rows among 3,000."""
    folder = tmp_path_factory.mktemp("nulls")
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        age = f"CASE WHEN range < {NULLS} THEN NULL ELSE range % 64 END"
        connection.execute(f"CREATE TABLE visits AS SELECT range AS id, {age} AS age FROM range(3000)")
    declared = bf.integers(0, 63, null="cell", null_public=True)
    dataset = bf.Dataset(
        "visits",
        source="duckdb:///clinic.duckdb#visits",
        domain={"age": declared},
        policy=bf.Policy({"age": bf.threshold(5)}),
        epsilon="1000",
    )
    with curator(folder) as keeper:
        keeper.add(dataset)
    return bf.connect(configuration(folder), analyst="ana")


MECHANISMS = ["identity", "hierarchy", "optimized", "ordered-hierarchical", "edge-transform", "dawa"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_consistency_moves_no_exact_value(nulls: Session, mechanism: str) -> None:
    for name in ("histogram", "cdf"):
        question = getattr(nulls["visits"], name)("age")
        answer = question.release(epsilon="0.02", mechanism=mechanism)
        last = [answer.values[-1], answer.raw[-1], answer.bounds.low[-1], answer.bounds.high[-1]]
        assert last == [NULLS] * 4, name
        if answer.consistent.feasible:
            assert np.all(answer.bounds.low <= answer.values)
            assert np.all(answer.values <= answer.bounds.high)
        else:
            # One answer in twenty may contradict what is public: measured values are shown, and the answer says so.
            assert answer.values.tolist() == answer.raw.tolist()
            assert answer.consistent.note
        assert Answer.from_json(answer.to_json()).bounds.high[-1] == NULLS


def test_running_counts_end_at_their_public_total(nulls: Session) -> None:
    answer = nulls["visits"].cdf("age").release(epsilon="0.02", mechanism="hierarchy")
    assert [answer.values[63], answer.bounds.low[63], answer.bounds.high[63]] == [3000 - NULLS] * 3


def test_a_synopsis_knows_what_is_exact_and_free(nulls: Session) -> None:
    question = nulls["visits"].histogram("age")
    expected = {one.question: one for one in question.publish_preview(epsilon="0.02").errors}
    assert expected["Number of records"].within == 0
    assert "exact" in str(question.publish_preview(epsilon="0.02"))
    made = question.publish(epsilon="0.02")
    count = made.count()
    assert ([count.raw[0], count.bounds.low[0], count.bounds.high[0]], "exact" in repr(count)) == ([3000.0] * 3, True)
    is_null = made.where(bf.col("age").is_null()).count()
    assert [is_null.values[0], is_null.bounds.high[0]] == [NULLS, NULLS]
    part = made.where(bf.col("age") < 32).count()
    assert part.bounds.low[0] < part.bounds.high[0], "half of the ages is no public number"
    cells = made.histogram("age")
    assert [cells.values[-1], cells.bounds.low[-1], cells.bounds.high[-1]] == [NULLS] * 3


def test_a_synopsis_with_another_total_is_refused(nulls: Session, tmp_path: Path) -> None:
    path = nulls["visits"].histogram("age").publish(epsilon="0.02").save(tmp_path / "visits.parquet")
    table = parquet.read_table(path)
    description = json.loads(table.schema.metadata[b"blowfishdb"])
    description["totals"][0] += 1
    parquet.write_table(table.replace_schema_metadata({"blowfishdb": json.dumps(description)}), path)
    with pytest.raises(DocumentError, match="changed"):
        bf.open_synopsis(path)
