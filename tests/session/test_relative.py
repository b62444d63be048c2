"""Accuracies in percent: of a group's own size from a size on, else of the public total, and said so."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import Preview, quotes_for
from blowfishdb.engine.request import Relative, accuracy_target, target_options
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.session.session import Session
from blowfishdb.session.table import declared_ends

DOMAIN = bf.domain(
    {
        "ward": bf.categorical(["A", "B"], null="A", outside="A"),
        "cost": bf.integers(-5, 94, null=0),
        "rate": bf.integers(0, 2, null=0),
    }
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("relative")
    with duckdb.connect(str(folder / "v.duckdb")) as engine:
        engine.execute(
            "CREATE TABLE visits AS SELECT ['A', 'B'][1 + i % 2] AS ward, i % 90 AS cost, i % 3 AS rate "
            "FROM range(4000) t(i)"
        )
        engine.execute("CREATE TABLE secret AS FROM visits")
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///b.ledger"\nmark = "b.mark"\n', encoding="utf-8")
    with bf.curate(config, by="cora") as curator:
        for name, policy in (("visits", bf.Policy()), ("secret", bf.Policy(presence="secret"))):
            source = f"duckdb:///{folder / 'v.duckdb'}#{name}"
            curator.add(bf.Dataset(name, source=source, domain=DOMAIN, policy=policy, epsilon="900"))
    return bf.connect(config, analyst="ana")


def preview(session: Session, text: str) -> Preview:
    shown = session.sql(f"EXPLAIN {text}")
    assert isinstance(shown, Preview)
    return shown


CASES = [
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward OPTIONS (within = '5 %')", 200, "5 % of all 4,000 records"),
    (
        "SELECT COUNT(*) FROM visits WHERE cost > 5 OPTIONS (alpha = '1%', rows = 500)",
        5,
        "of its own size for every group",
    ),
    ("SELECT AVG(cost) FROM visits OPTIONS (within = '2 %')", Fraction(198, 100), "the width of the declared values"),
    ("SELECT SUM(cost) FROM visits OPTIONS (within = '1 %')", 3760, "the most that all 4,000 records"),
    ("SELECT SUM(cost) FROM visits OPTIONS (within = '1 %', rows = 50)", 47, "the most that 50 records can add up to"),
    ("SELECT MEDIAN(cost) FROM visits OPTIONS (within = '1 %')", 40, "all 4,000 records"),
]


@pytest.mark.parametrize(("text", "alpha", "words"), CASES)
def test_a_percentage_becomes_a_number_and_says_of_what(session: Session, text: str, alpha: float, words: str) -> None:
    shown = preview(session, text)
    assert shown.accuracy_target.alpha == alpha
    assert words in shown.relative and shown.relative in shown.notes()
    assert "%'" in shown.statement


def test_columns_may_have_percentages_and_numbers_beside_each_other(session: Session) -> None:
    text = (
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS m, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct, SUM(cost) AS s, "
        "VARIANCE(rate) AS v, STDDEV(rate) AS d FROM visits GROUP BY ward OPTIONS (within_n = '10 %', within_m = 9, "
        "within_pct = '4 %', within_s = '10 %', within_v = '50 %', within_d = '50 %', rows = 1000)"
    )
    columns = preview(session, text).columns
    limits = {"n": 100, "m": 9, "pct": 4, "s": 9400, "v": 2, "d": 1}
    assert all((columns[name] or 0) <= limit for name, limit in limits.items())
    answer = session.sql(text)
    assert isinstance(answer, Answer)
    assert "pct: within 4 percentage points." in answer.consistent.note
    assert "m:" not in answer.consistent.note


def test_one_percentage_for_all_columns(session: Session) -> None:
    text = "SELECT ward, COUNT(*) AS n, SUM(cost * rate) AS s FROM visits GROUP BY ward"
    shown = preview(session, f"{text} OPTIONS (within = '10 %', within_n = 7)")
    assert shown.columns["n"] is not None and shown.columns["n"] <= 7
    assert shown.relative == "s: within 10 % of 752000, the most that all 4,000 records can add up to."
    alone = preview(session, f"{text} OPTIONS (within_n = '1 %', within_s = '10 %')")
    assert alone.accuracy_target.alpha == 40


def test_python_says_from_which_size_on(session: Session) -> None:
    question = session["visits"].histogram("ward")
    assert question.for_groups_of(500).preview(alpha="5 %").accuracy_target.alpha == 25
    assert question.for_groups_of(500).release(epsilon=1).epsilon == 1
    plain = question.preview(alpha="5%", confidence="0.9")
    assert plain.accuracy_target.alpha == 200


def test_what_has_no_percentage_is_refused(session: Session) -> None:
    for wrong in ("0 %", "101 %", "x %"):
        with pytest.raises(AccuracyError):
            target_options(alpha=wrong)
    with pytest.raises(QueryError, match="secret here"):
        session["secret"].count().preview(alpha="5 %")
    with pytest.raises(AccuracyError, match="weighted sums"):
        session["visits"].linear([[1, 2]], "ward").preview(alpha="5 %")
    with pytest.raises(QueryError, match="no declared numbers"):
        declared_ends(DOMAIN, ("ward",))
    compiled = compile_query(DOMAIN, bf.Policy(), bf.query("histogram", "ward"))
    with pytest.raises(AccuracyError, match="here alpha is a number"):
        quotes_for(compiled, accuracy_target(alpha="5 %"))
    assert str(Relative(Fraction(1, 20))) == "5 %"
    assert declared_ends(bf.domain({"x": bf.bins(0, 10, width=2)}), ("x",)) == (0, 10)
