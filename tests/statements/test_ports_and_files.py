"""What is said of joined tables and people, over the PostgreSQL port, in files, to assistants and in notebooks, is so.

All answers here have intervals that fail with probability 10^-11, so that each may be held against the table.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet
import pytest
from mcp.server.mcpserver.exceptions import ToolError

import blowfishdb as bf
from blowfishdb.cli.mcp import Conversation
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import UNREAD
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import SpendingCapReached
from blowfishdb.model.numbers import Floats
from blowfishdb.present.words import note_parts
from blowfishdb.server.pages.history import _family_words
from blowfishdb.server.wire.catalog import listed_datasets
from blowfishdb.server.wire.statements import StatementResult, Statements, read_question
from blowfishdb.session import Session
from blowfishdb.session.session import SpendingCap, stated_question
from blowfishdb.sql import parse
from tests.statements.asking import asked_of
from tests.statements.place import APART, LIMITED, Place, data_name, joined_name
from tests.statements.sentences import ACCURACIES, EPSILON, NUMBER, WAY, Case, Registry, faults, near, number
from tests.statements.world import (
    CAPPED,
    JOINED,
    OF_JOINED,
    OF_PEOPLE,
    QUESTIONS,
    SIDE,
    WORLDS,
    Asked,
    Record,
    people_of,
)

BETA = 1e-11
SURELY = "0.99999999999"
AMOUNT = rf"(?:about )?{NUMBER}"


def handle_of(session: Session, name: str) -> DatasetHandle:
    """A dataset as the engine sees it, without its rows."""
    table = session[name]
    return DatasetHandle(name, table.domain, table.policy, "account", 1, 1, 1, UNREAD)


def is_inside(answer: Answer, truth: Floats) -> bool:
    """Whether every true value lies in its interval, which fails with probability BETA."""
    return bool(np.all(answer.bounds.low - 1e-6 <= truth) and np.all(truth <= answer.bounds.high + 1e-6))


# Joined tables and people.

OF_TABLES = [(policy, title, "") for policy in JOINED for title in OF_JOINED]
OF_PERSONS = [(policy, title, ".people") for policy in JOINED for title in OF_PEOPLE]


@pytest.mark.parametrize(("policy", "title", "suffix"), [*OF_TABLES[::2], *OF_PERSONS[::2]])
@pytest.mark.sampled(3)
def test_sentences_about_joined_tables_and_people_are_so(place: Place, policy: str, title: str, suffix: str) -> None:
    assert wrong_of_joined(place, policy, title, suffix, {"alpha": "20"}) == []


@pytest.mark.nightly
@pytest.mark.parametrize("target", [{"epsilon": "0.5"}, {"alpha": "25"}], ids=str)
@pytest.mark.parametrize(("policy", "title", "suffix"), [*OF_TABLES, *OF_PERSONS])
def test_all_sentences_about_joined_tables_and_people_are_so(
    place: Place, policy: str, title: str, suffix: str, target: dict[str, str]
) -> None:
    assert wrong_of_joined(place, policy, title, suffix, target) == []


def wrong_of_joined(place: Place, policy: str, title: str, suffix: str, target: dict[str, str]) -> list[str]:
    """What is not so of a question about rows or people."""
    name, session = f"{joined_name(policy)}{suffix}", place.session
    asked = (OF_PEOPLE if suffix else OF_JOINED)[title]
    rows, sure = people_of(CAPPED) if suffix else CAPPED, {**target, "beta": str(BETA)}
    case, wrong = asked_of(session, handle_of(session, name), name, asked, rows, sure)
    said = " ".join([*case.preview.notes(), *note_parts(case.answer)])
    # One record is one person, whom nothing but that record tells of.
    wrong += ["rows of people are spoken of"] if suffix and "several rows" in said else []
    return wrong + ([] if is_inside(case.answer, case.truth) else [f"{name} {title}: the truth lies outside"])


# The PostgreSQL port.


@dataclass(frozen=True)
class Signed:
    """Somebody who is signed in at the port."""

    name: str
    of: Session

    @property
    def identity(self) -> SimpleNamespace:
        """They came with a password, not with a token."""
        return SimpleNamespace(token=None)

    def session(self, *_: str) -> Session:
        """What they may ask."""
        return self.of

    def note(self, *words: object, durable: bool = True) -> None:
        """Nothing: what is logged is looked at elsewhere."""


WHERE_NORTH = "JOIN people1 p ON pid = p.id JOIN homes ON p.home = homes.code WHERE p.sex = 'm' AND region = 's'"
STATEMENTS: dict[str, tuple[str, str, Asked]] = {
    "count": ("full", "SELECT COUNT(*) AS n FROM {}", QUESTIONS["count"]),
    "wards": ("person", "SELECT ward, COUNT(*) AS n FROM {} GROUP BY ward", QUESTIONS["wards"]),
    "public wards": ("public ward", "SELECT ward, COUNT(*) AS n FROM {} GROUP BY ward", QUESTIONS["wards"]),
    "sum": ("only", "SELECT SUM(age) AS n FROM {}", QUESTIONS["sum"]),
    "mean": ("secret presence", "SELECT AVG(age) AS n FROM {}", QUESTIONS["mean"]),
    "persons": ("person", "SELECT ward, COUNT(DISTINCT pid) AS n FROM {} GROUP BY ward", OF_JOINED["people by ward"]),
    "public persons": ("joined", "SELECT COUNT(DISTINCT pid) AS n FROM {}", OF_JOINED["people"]),
    "people": ("joined", 'SELECT sex, COUNT(*) AS n FROM "{}.people" GROUP BY sex', OF_PEOPLE["sex"]),
    "joined": (
        "joined, presence secret",
        f"SELECT COUNT(*) AS n FROM {{}} {WHERE_NORTH}",
        Asked(bf.query("count"), lambda rows: [float(sum(row.pid % 3 == 1 and row.pid % 5 in (1, 3) for row in rows))]),
    ),
}


def _notice(case: Case, said: re.Match[str]) -> bool:
    charge = Fraction(0) if said["charge"] is None else case.charged
    is_price = charge == case.charged and (said["charge"] is None or near(said["charge"], charge))
    return is_price and near(said["left"], case.left) and said["dataset"] == case.handle.name and _accuracy(case, said)


def _accuracy(case: Case, said: re.Match[str]) -> bool:
    known = [check(case, words) for pattern, check in ACCURACIES if (words := re.fullmatch(pattern, said["accuracy"]))]
    return known == [True]


def _cap(case: Case, said: re.Match[str]) -> bool:
    return case.policy.rows_per_person == number(said["cap"]) and said["id"] == "pid"


OF_THE_PORT: Registry = (
    (
        rf"(?:charged epsilon (?P<charge>{AMOUNT})|nothing charged); epsilon (?P<left>{AMOUNT}) left of "
        r"(?P<dataset>\S+); (?P<accuracy>.+)",
        _notice,
    ),
    (r"at most (?P<cap>\d+) rows? per (?P<id>\w+) (is|are) counted", _cap),
    (r"Run it with: .+", lambda case, said: case.preview.is_affordable),
)
"""Sentences that stand beside rows at the port."""


@pytest.mark.parametrize("title", STATEMENTS)
@pytest.mark.sampled(3)
def test_notices_plans_and_hints_of_the_port_are_so(place: Place, title: str) -> None:
    policy, text, asked = STATEMENTS[title]
    rows = CAPPED if policy in JOINED else WORLDS[policy].counted
    with bf.connect(place.configuration, analyst=f"wire {title}") as session:
        port = Statements(Signed(session.analyst, session), None)  # type: ignore[arg-type]
        text = text.format(joined_name(policy) if policy in JOINED else data_name(policy))
        for setting in ("epsilon = '0.7'", f"confidence = '{SURELY}'", "intervals = on"):
            port.control(f"SET blowfish.{setting}")
        assert wrong_at_port(session, port, text, asked, rows) == []


def wrong_at_port(session: Session, port: Statements, text: str, asked: Asked, rows: Sequence[Record]) -> list[str]:
    """What is not so in the plan, the refusal with its hint, the notices and the rows of a statement."""
    statement = parse(text)
    name = statement.table
    question = stated_question(session[name], statement)
    before, target = session.budget(name), accuracy_target(epsilon="0.7", beta=Fraction(1, 10**11))
    preview = question.preview(epsilon="0.7", confidence=SURELY)
    plan = port.run(read_question(f"EXPLAIN {text}"))
    lines = [str(row[0]) for row in plan.rows]
    ends = {line.index(" epsilon") + 8 for line in lines if line.startswith("  mechanism")}
    ends |= {match.end(1) for line in lines[2:] if (match := re.match(rf"  [\w-]+ +({NUMBER}) ", line))}
    assert len(ends) == 1, "prices stand below each other"
    hint = hint_of(port, text)
    wrong = [] if hint == ("" if preview.epsilon == 0 else "SET blowfish.spend = '0.7'") else [f"hint: {hint}"]
    assert session.budget(name) == before, "neither plans nor refusals are charged"
    if hint:
        port.control(hint)
    # The plan's last line is the statement to run.
    (run,) = [line.removeprefix("Run it with: ") for line in lines if line.startswith("Run it with: ")]
    result, after = port.run(read_question(run)), session.budget(name)
    newest = session.history(name)[0]
    answer = session.reopen(name, newest.number)
    assert isinstance(answer, Answer)
    truth = np.array(asked.truth(rows))
    case = Case(
        handle_of(session, name),
        question.query,
        target,
        preview,
        answer,
        truth,
        len(rows),
        before.remaining,
        after.spent - before.spent,
        newest.number,
    )
    wrong += [fault for line in lines for fault in faults(case, line, OF_THE_PORT)]
    told = replace(case, left=after.remaining)
    wrong += [fault for notice in result.notices for fault in faults(told, notice, OF_THE_PORT)]
    wrong += [] if is_listed(result, answer, truth) else ["the rows are others, or the truth lies outside"]
    again = replace(told, charged=Fraction(0))
    notices = [*port.run(read_question(run)).notices]
    for form in ("", "WITH (FORMAT csv, HEADER)"):
        copied = port.run(read_question(f"COPY ({run}) TO STDOUT {form}"))
        notices += copied.notices
        wrong += [] if is_copied(copied, result, is_csv=bool(form)) else [f"COPY {form} writes other numbers"]
    return wrong + [fault for notice in notices for fault in faults(again, notice, OF_THE_PORT)]


def is_copied(copied: StatementResult, result: StatementResult, *, is_csv: bool) -> bool:
    """Whether the lines of a COPY hold the rows, and their heading where there is one."""
    lines = "".join(copied.lines or ())
    listed = list(csv.reader(lines.splitlines(), delimiter="," if is_csv else "\t"))
    heading = [column.name for column in result.columns or ()]
    values = [
        ["\\N" if cell is None and not is_csv else "" if cell is None else cell for cell in row] for row in result.rows
    ]
    if is_csv and listed.pop(0) != heading:
        return False
    return len(listed) == len(values) and all(
        text == cell if isinstance(cell, str) else float(text) == cell
        for line, row in zip(listed, values, strict=True)
        for text, cell in zip(line, row, strict=True)
    )


def _noise_alone(case: Case, said: re.Match[str]) -> bool:
    """The width is that of the noise; what else may be wrong with the numbers is said beside it."""
    width = case.answer.widths.simultaneous
    is_sure = near(said["sure"], 100 * (1 - case.answer.beta)) and bool(case.answer.caveat)
    return case.charged == 0 and is_sure and width - 1e-6 <= number(said["width"]) <= width + 1


NOISE = rf"noise within (?P<width>{NUMBER}) \((?P<sure>{NUMBER}) %\)"
OF_SYNOPSES: Registry = (
    (rf".+: read off synopsis (?P<number>\d+), which costs nothing; {NOISE}", _noise_alone),
    (
        r".+: read off synopsis (?P<number>\d+), which costs nothing; (?P<accuracy>.+)",
        lambda case, said: int(said["number"]) == case.entry and _accuracy(case, said),
    ),
    (
        rf"nothing charged; epsilon (?P<left>{AMOUNT}) left of (?P<dataset>\S+); {NOISE}",
        lambda case, said: near(said["left"], case.left) and _noise_alone(case, said),
    ),
    *OF_THE_PORT,
)


@pytest.mark.parametrize(("world", "title"), [("full", "wards"), ("person", "wards"), ("public ward", "public wards")])
def test_what_the_port_reads_off_a_synopsis_is_so(place: Place, world: str, title: str) -> None:
    """The plan and the rows cost nothing, whatever the connection may spend, and the truth lies in the intervals."""
    _, text, asked = STATEMENTS[title]
    name, rows = data_name(world), WORLDS[world].counted
    text = text.format(name)
    with bf.connect(place.configuration, analyst=f"reader of {world}") as session:
        session[name].histogram("ward").publish(epsilon="0.4", mechanism="identity")
        number, before = session.synopses(name)[0].number, session.budget(name)
        port = Statements(Signed(session.analyst, session), None)  # type: ignore[arg-type]
        for setting in (f"synopsis = {number}", f"confidence = '{SURELY}'", "intervals = on"):
            port.control(f"SET blowfish.{setting}")
        question = stated_question(session[name], parse(text))
        answer, truth = session.synopsis(name, number).answer(question.query, BETA), np.array(asked.truth(rows))
        target = accuracy_target(epsilon="0.4", beta=Fraction(1, 10**11))
        preview = question.preview(epsilon="0.4", confidence=SURELY)
        left, handle = before.remaining, handle_of(session, name)
        case = Case(handle, question.query, target, preview, answer, truth, len(rows), left, Fraction(0), number)
        plan, result = port.run(read_question(f"EXPLAIN {text}")), port.run(read_question(text))
        told = [*(str(row[0]) for row in plan.rows), *result.notices]
        wrong = [fault for line in told for fault in faults(case, line, OF_SYNOPSES)]
        assert wrong + ([] if is_listed(result, answer, truth) else ["the rows are others"]) == []
        assert session.budget(name) == before, "neither is charged"
        assert is_copied(port.run(read_question(f"COPY ({text}) TO STDOUT")), result, is_csv=False)


def _column(case: Case, said: re.Match[str]) -> bool:
    """The number of values, and whether NULL is hidden: public only where its count is free."""
    attribute, null = case.handle.domain[said["name"]], said["null"]
    if number(said["values"]) != attribute.size:
        return False
    if null.startswith("counts as"):
        return null == f"counts as {attribute.null}"
    is_free = case.price(bf.query("count", (), bf.col(said["name"]).is_null())) == 0
    return (null == "public") == is_free and (null == "hidden") == (not attribute.null_public and not is_free)


COLUMN = (
    rf"(?P<name>\w+): (?P<values>{NUMBER}) values: \w+ … \w+; NULL (?P<null>counts as \w+|public|hidden[ \w]*)"
    r"(?:, outside counts as \w+)?"
)
LEFT = rf"epsilon (?P<left>{AMOUNT}) left of (?P<limit>{AMOUNT})\."


@pytest.mark.parametrize(
    "world", ["full", "threshold", "partition", "public ward", "person", "secret presence", "line"]
)
@pytest.mark.sampled(3)
def test_comments_of_the_catalog_are_so(place: Place, world: str) -> None:
    name, asked = data_name(world), QUESTIONS["count"]
    with bf.connect(place.configuration, analyst=f"browser of {world}") as session:
        case, wrong = asked_of(
            session, place.handle(world), name, asked, WORLDS[world].counted, {"epsilon": "0.3", "beta": str(BETA)}
        )
        budget = session.budget(name)
        state = SimpleNamespace(
            session_of=lambda identity, scope: session, pauses=SimpleNamespace(check=lambda name: None)
        )
        (listed,) = [one for one in listed_datasets(state, session.analyst) if one.name == name]  # type: ignore[arg-type]
    left: Registry = (
        (LEFT, lambda case, said: near(said["left"], case.left) and near(said["limit"], budget.dataset_limit)),
        (COLUMN, _column),
    )
    wrong += faults(replace(case, left=budget.remaining), listed.comment, left)
    for column, _, comment in listed.columns:
        wrong += faults(case, f"{column}: {comment}", left)
    assert wrong == []


# The ways to an answer, one beside the other.


def ways_of(preview: bf.Preview) -> dict[str, tuple[float, str, float | None]]:
    """The price, the words and the accuracy of each way that a preview lists."""
    lines = [line.removeprefix("Ways to it: ") for line in preview.notes() if line.startswith("Ways to it: ")]
    found = [match for line in lines for match in WAY.finditer(line)]
    assert "".join(match[0] for match in found) == "".join(lines), lines
    return {match[1]: (number(match[2]), match[3], number(match[4]) if match[4] else None) for match in found}


def test_every_way_to_an_answer_costs_what_is_said(place: Place) -> None:
    """The cheapest way is what a release is charged, a fresh one what it costs anew; a synopsis is free and as near."""
    ages, boxes = QUESTIONS["histogram"], QUESTIONS["ranges"]
    with bf.connect(place.configuration, analyst="wanda") as session:
        table = session[APART]
        table.question(ages.query).publish(epsilon="0.2")
        first = table.question(ages.query).release(alpha="60")
        for asked, alpha in ((ages, "30"), (ages, "90"), (boxes, "50"), (boxes, "200")):
            question, truth = table.question(asked.query), np.array(asked.truth(WORLDS["full"].counted))
            preview = question.preview(alpha=alpha)
            ways = ways_of(preview)
            fresh = question.preview(alpha=alpha, fresh=True)
            if "fresh" in ways:
                assert ways["fresh"][0] == pytest.approx(float(fresh.epsilon), rel=1e-3)
            paid = {name: price for name, (price, _, _) in ways.items() if name != "synopsis"}
            if paid:
                assert min(paid.values()) == pytest.approx(float(preview.epsilon), rel=1e-3, abs=1e-12)
            for name, (price, words, within) in ways.items():
                assert within is None or name == "synopsis" or within <= 1.001 * float(alpha)
                if name == "synopsis":
                    answer = session.synopsis(APART, int(words.split()[3])).answer(asked.query)
                    width = float(np.max(answer.bounds.high - answer.bounds.low)) / 2
                    assert price == 0
                    assert within is not None
                    assert width <= within * 1.001
                elif name != "fresh":
                    own = {str(one.number) for one in session.history(APART)}
                    assert set(re.findall(r"\d+", words)) & own == set(re.findall(r"\d+", words)) != set(), words
            before = session.budget(APART).spent
            answer = question.release(alpha=alpha)
            assert session.budget(APART).spent - before == preview.epsilon
            assert np.all(np.isfinite(truth))
            assert answer.values.size == truth.size
        assert first.values.size == 9


def hint_of(port: Statements, text: str) -> str:
    """What a connection that may spend nothing is told; nothing where the answer is free."""
    try:
        port.run(read_question(text))
    except SpendingCapReached as refusal:
        return port.hint(refusal)
    return ""


def is_listed(result: StatementResult, answer: Answer, truth: Floats) -> bool:
    """Whether the rows show the answer and its intervals, and the truth lies in them."""
    names = [column.name for column in result.columns or ()]
    value, low, high = (
        np.array([row[names.index(f"n{end}")] for row in result.rows], dtype=np.float64)
        for end in ("", "_low", "_high")
    )
    is_same = np.array_equal(value, answer.values) and np.array_equal(high, answer.bounds.high)
    return is_same and bool(np.all((low - 1e-6 <= truth) & (truth <= high + 1e-6)))


def test_a_false_notice_is_noticed(place: Place) -> None:
    with bf.connect(place.configuration, analyst="doubter") as session:
        name = data_name("full")
        asked = QUESTIONS["count of A"]
        case, _ = asked_of(session, handle_of(session, name), name, asked, WORLDS["full"].counted, {"epsilon": "0.3"})
    width = int(case.answer.widths.simultaneous) + 1
    good = f"charged epsilon 0.3; epsilon {float(case.left):g} left of {name}; within {width} (95 %)"
    assert faults(case, good, OF_THE_PORT) == []
    for false in (good.replace("0.3", "0.2"), good.replace(f"within {width}", "exact"), f"nothing {good}"):
        assert faults(case, false, OF_THE_PORT), false


# Files.

SAVED = [
    ("full", "histogram2d"),
    ("person", "histogram2d"),
    ("public ward", "wards"),
    ("only", "cdf"),
    ("person", "sum"),
]


@pytest.mark.parametrize(("world", "question"), SAVED)
@pytest.mark.sampled(2)
def test_files_hold_the_numbers_and_words_of_the_answer(
    place: Place, tmp_path: Path, world: str, question: str
) -> None:
    rows, asked = WORLDS[world].counted, QUESTIONS[question]
    with bf.connect(place.configuration, analyst="saver") as session:
        name, target = data_name(world), {"epsilon": "0.6", "beta": str(BETA)}
        case, wrong = asked_of(session, place.handle(world), name, asked, rows, target)
    endings = ("csv", "xlsx", "parquet", *(["geojson"] if question == "histogram2d" else []))
    for ending in endings:
        path = tmp_path / f"answer.{ending}"
        case.answer.save(path)
        table, words = {"csv": csv_of, "xlsx": sheet_of, "parquet": parquet_of, "geojson": map_of}[ending](path)
        wrong += [f"{ending}: {fault}" for fault in wrong_columns(case, table)]
        wrong += [f"{ending}: {fault}" for text in words for fault in faults(case, text, OF_SHEETS)]
    case.answer.save(tmp_path / "answer.json")
    wrong += wrong_document(case, json.loads((tmp_path / "answer.json").read_text()))
    case.answer.interactive().save(tmp_path / "answer.html")
    paragraphs = re.findall(r"<p>(.+?)</p>", (tmp_path / "answer.html").read_text())
    assert paragraphs
    wrong += [f"page: {fault}" for text in paragraphs for fault in faults(case, html.unescape(text))]
    assert wrong == []


def wrong_document(case: Case, content: dict[str, Any]) -> list[str]:
    """What the whole answer as JSON contradicts: the answer, the ledger, or the table's rows."""
    raw, width = np.array(content["raw"]), content["half_width"]
    ends = content["together"] or {"low": raw - width, "high": raw + width}
    low, high = np.array(ends["low"]), np.array(ends["high"])
    wrong = [] if np.array_equal(content["values"], case.answer.values) else ["JSON: other numbers"]
    is_in = np.all((low - 1e-6 <= case.truth) & (case.truth <= high + 1e-6))
    wrong += [] if is_in else ["JSON: the truth lies outside"]
    wrong += [] if Fraction(content["epsilon"]) == case.charged else ["JSON: another price"]
    said = [*content["protected"], *content["unprotected"], content["remark"], content["caveat"]]
    return wrong + [f"JSON: {fault}" for text in said for fault in faults(case, text)]


OF_SHEETS: Registry = (
    (r"Accuracy: (?P<accuracy>.+)", _accuracy),
    (r"Counted: at most (?P<cap>\d+) rows? per (?P<id>\w+) (?:is|are) counted", _cap),
    (rf"Epsilon: {EPSILON}", lambda case, said: near(said["epsilon"].removeprefix("≈ "), case.charged)),
    (r"Released: (?P<at>\S+)", lambda case, said: said["at"] == case.answer.released),
    (r"Dataset: (?P<dataset>\S+)", lambda case, said: said["dataset"] == case.handle.name),
    (r"Answer: (?P<title>.+)", lambda case, said: said["title"] == case.answer.title),
)
"""The lines of the sheet that says what the numbers mean."""
Table = dict[str, list[Any]]


def csv_of(path: Path) -> tuple[Table, list[str]]:
    with path.open(newline="") as file:
        heading, *lines = csv.reader(file)
    return {name: list(column) for name, column in zip(heading, zip(*lines, strict=True), strict=True)}, []


def sheet_of(path: Path) -> tuple[Table, list[str]]:
    book = openpyxl.load_workbook(path)
    heading, *lines = book["Numbers"].iter_rows(values_only=True)
    about = {str(what): str(words) for what, words in book["What it means"].iter_rows(values_only=True)}
    note, mechanism = about.pop("Note"), about.pop("Mechanism")
    assert mechanism in note or "cost nothing" in note
    columns = zip(*lines, strict=True)
    return {str(name): list(column) for name, column in zip(heading, columns, strict=True)}, [
        note,
        *(f"{what}: {words}" for what, words in about.items()),
    ]


def parquet_of(path: Path) -> tuple[Table, list[str]]:
    return pyarrow.parquet.read_table(path).to_pydict(), []


def map_of(path: Path) -> tuple[Table, list[str]]:
    content = json.loads(path.read_text())
    for feature in content["features"]:
        ring, labels = np.array(feature["geometry"]["coordinates"][0]), feature["properties"]
        assert ring.mean(axis=0)[0] < ring.max(axis=0)[0]
        assert [(ring.min(axis=0) + ring.max(axis=0)).tolist()] == [[2 * int(labels["x"]), 2 * int(labels["y"])]]
    assert len(content["features"]) == SIDE * SIDE
    listed = [feature["properties"] for feature in content["features"]]
    return {name: [one[name] for one in listed] for name in listed[0]}, [content["note"]]


def wrong_columns(case: Case, table: Table) -> list[str]:
    """What a file's columns contradict: the answer, the table's rows, or the cap on rows."""
    answer = case.answer
    shown = [np.array(table[name], dtype=np.float64) for name in (answer.value_name, "low", "high")]
    cap = f"at most {case.policy.rows_per_person} rows per pid are counted" if answer.counted else None
    wrong = [] if set(table.get("counted", [None])) == {cap} else ["what is counted is not said in every line"]
    for numbers, kept in zip(shown, (answer.values, answer.bounds.low, answer.bounds.high), strict=True):
        # A sheet has sixteen digits.
        wrong += [] if np.allclose(numbers, kept, rtol=1e-15, atol=0.0) else ["other numbers"]
    is_in = np.all((shown[1] - 1e-6 <= case.truth) & (case.truth <= shown[2] + 1e-6))
    if "age_from" in table:
        pairs = zip(table["age_from"], table["age_to"], strict=True)
        ends = [(float(low), float(high)) for low, high in pairs if low not in (None, "")]
        wrong += [] if ends == [(age, age + 1) for age in range(len(ends))] else [f"ends {ends}"]
    return wrong + ([] if is_in else ["the truth lies outside"])


# Assistants.


def test_what_an_assistant_is_told_is_so(place: Place) -> None:
    with bf.connect(place.configuration, analyst="mia") as session:
        talk = Conversation(session, SpendingCap(Fraction(1)))
        for world, sql, asked in (
            ("person", "SELECT ward, COUNT(*) FROM {} GROUP BY ward", QUESTIONS["wards"]),
            ("public ward", "SELECT ward, COUNT(*) FROM {} GROUP BY ward", QUESTIONS["wards"]),
            ("line", "SELECT COUNT(*) FROM {} WHERE ward = 'A'", QUESTIONS["count of A"]),
        ):
            assert wrong_in_talk(session, talk, world, sql.format(data_name(world)), asked) == []
        left = talk.cap.left
        with pytest.raises(ToolError) as refused:
            talk.release(f"SELECT age, COUNT(*) FROM {data_name('full')} GROUP BY age", epsilon="0.9")
        said = re.match(rf".*costs epsilon ({AMOUNT}), and ({AMOUNT}) may be spent", str(refused.value))
        assert said, refused.value
        assert (near(said[1], Fraction("0.9")), near(said[2], left), talk.cap.left) == (True, True, left)


def wrong_in_talk(session: Session, talk: Conversation, world: str, sql: str, asked: Asked) -> list[str]:
    """What is not so in the tools' replies about a statement."""
    name, rows = data_name(world), WORLDS[world].counted
    before, cap = session.budget(name), talk.cap.left
    (listed,) = [one for one in talk.datasets()["datasets"] if one["name"] == name]
    preview, question = talk.preview(sql, epsilon="0.4", confidence=SURELY), stated_question(session[name], parse(sql))
    prices = question.preview(epsilon="0.4", confidence=SURELY)
    reply = talk.release(sql, epsilon="0.4", confidence=SURELY)
    again, after = talk.release(sql, epsilon="0.4", confidence=SURELY), session.budget(name)
    past = talk.history(name)["answers"][0]
    answer = session.reopen(name, past["number"])
    assert isinstance(answer, Answer)
    charged, truth = after.spent - before.spent, np.array(asked.truth(rows))
    target = accuracy_target(epsilon="0.4", beta=Fraction(1, 10**11))
    case = Case(
        *(handle_of(session, name), question.query, target, prices, answer, truth),
        *(len(rows), before.remaining, charged, past["number"]),
    )
    texts = [preview["text"], reply["note"], *listed["policy"]]
    wrong = [fault for text in texts for fault in faults(case, text, OF_THE_PORT)]
    told = {
        "budget": (listed["budget_left"], before.remaining),
        "price": (preview["epsilon"], charged),
        "released": (reply["epsilon"], charged),
        "charged": (reply["charged"], charged),
        "charged again": (again["charged"], 0),
        "history": (past["epsilon"], charged),
        "cap": (reply["cap_left"], cap - charged),
        "cap after a preview": (preview["cap_left"], cap),
    }
    wrong += [f"{what}: {said}, not {true}" for what, (said, true) in told.items() if Fraction(said) != true]
    opened = talk.answer(name, past["number"])
    wrong += [] if (opened["rows"], opened["note"]) == (reply["rows"], reply["note"]) else ["it opens differently"]
    value = answer.value_name
    inside = [row["low"] <= row[value] <= row["high"] for row in reply["rows"]]
    wrong += [] if all(inside) and len(inside) == truth.size and is_inside(answer, truth) else ["outside"]
    return wrong + ([] if (answer.counted != "") == all("counted" in row for row in reply["rows"]) else ["the cap"])


# Notebooks.


def _widget_price(case: Case, said: re.Match[str]) -> bool:
    if said["price"] is None:
        return case.preview.epsilon == 0
    is_price = near(said["price"], case.preview.epsilon) and near(said["left"], case.left)
    return is_price and not faults(case, said["head"])


OF_WIDGETS: Registry = (
    (rf"(?P<head>.+): this costs (?:nothing|epsilon (?P<price>{NUMBER}) of (?P<left>{AMOUNT}) left)\.", _widget_price),
    (r"This is more than is left\.", lambda case, said: case.preview.epsilon > case.left),
)
"""The lines of a widget."""


def text_of(markup: str) -> str:
    """The words of a piece of HTML, an element a line."""
    return html.unescape(re.sub(r"<[^>]+>", "\n", markup))


@pytest.mark.parametrize(
    ("world", "question"), [("person", "histogram"), ("full", "mean"), ("public ward", "wards"), ("line", "quantiles")]
)
@pytest.mark.sampled(2)
def test_a_widget_says_what_is_charged(place: Place, world: str, question: str) -> None:
    name, rows, asked = data_name(world), WORLDS[world].counted, QUESTIONS[question]
    with bf.connect(place.configuration, analyst="nora") as session:
        widget = session[name].question(asked.query).widget(alpha=40, confidence=SURELY)
        before, target = session.budget(name), accuracy_target(alpha=40, beta=Fraction(1, 10**11))
        preview, line = session[name].question(asked.query).preview(alpha=40, confidence=SURELY), widget.price.value
        widget.release_button.click()
        assert session.budget(name) == before
        button = widget.charge_button.description
        widget.charge_button.click()
        answer, after = widget.answer, session.budget(name)
        assert answer is not None
        case = Case(
            *(place.handle(world), asked.query, target, preview, answer, np.array(asked.truth(rows))),
            *(len(rows), before.remaining, after.spent - before.spent),
        )
        assert faults(case, text_of(line), OF_WIDGETS) == []
        assert case.charged == answer.epsilon == preview.epsilon
        said = re.fullmatch(rf"Charge epsilon ({NUMBER})", button)
        assert near(said[1], case.charged) if said else button == "" and case.charged == 0
        assert is_inside(answer, case.truth)
        again = replace(case, preview=session[name].question(asked.query).preview(alpha=40, confidence=SURELY))
        assert faults(again, text_of(widget.price.value), OF_WIDGETS) == []
        assert "this costs nothing" in widget.price.value
        widget.release_button.click()
        assert session.budget(name) == after
    with bf.connect(place.configuration, analyst="nora") as session:
        ages = session[LIMITED].histogram("age")
        case = replace(case, preview=ages.preview(alpha="0.5"), left=session.budget(LIMITED).remaining)
        costly = ages.widget(alpha="0.5")
        assert costly.release_button.disabled
        assert "This is more than is left." in text_of(costly.price.value)
        assert case.preview.epsilon > case.left


# Plans of several questions, and what the history says of answers that rest on others.


def test_a_plan_says_what_its_questions_cost_and_are_charged(place: Place) -> None:
    """Each price alone is that of the question's own preview, shares add up, and the total is charged."""
    asked = [QUESTIONS[name] for name in ("histogram", "cdf", "count of A")]
    with bf.connect(place.configuration, analyst="petra") as session:
        table, name = session[data_name("full")], data_name("full")
        questions = [table.question(one.query) for one in asked]
        plan = session.plan(questions, alpha="40", confidence=SURELY)
        before, lines = session.budget(name), str(plan).splitlines()
        assert lines[0] == f"3 questions of {name}"
        rows = [re.split(r"\s{3,}", line.strip()) for line in lines[2:6]]
        for row, question in zip(rows[:3], questions, strict=True):
            assert near(row[2], question.preview(alpha="40", confidence=SURELY).epsilon)
            assert row[1] == "within 40 (99.999999999 %)"
        assert sum(number(row[3]) for row in rows[:3]) == pytest.approx(number(rows[3][2]), rel=2e-3)
        assert near(rows[3][1], plan.one_by_one)
        assert near(rows[3][2], plan.total)
        said = re.fullmatch(rf"You have ({AMOUNT}) left; this leaves ({AMOUNT})\.", lines[-1])
        assert said, lines[-1]
        assert near(said[1], before.remaining)
        assert near(said[2], before.remaining - plan.total)
        answers = plan.release()
        assert session.budget(name).spent - before.spent == plan.total
        for answer, one in zip(answers, asked, strict=True):
            assert is_inside(answer, np.array(one.truth(WORLDS["full"].counted)))
            assert np.all(answer.widths.per_answer <= 40 + 1e-6)


def test_the_history_names_the_answers_that_rest_on_others(place: Place) -> None:
    with bf.connect(place.configuration, analyst="hugo") as session:
        question = session[APART].question(QUESTIONS["histogram"].query)
        for epsilon in ("0.2", "0.5", "0.3"):
            question.release(epsilon=epsilon, mechanism="identity")
        session[APART].question(QUESTIONS["wards"].query).release(epsilon="0.2", mechanism="identity")
        listed = session.history(APART)
        words = {past.number: _family_words(past) for past in listed}
    alone, *chain = (past.number for past in listed)
    oldest = chain[-1]
    assert words[alone] == ""
    assert words[oldest] == f"Entry {oldest}; others rest on it."
    rests = {entry: re.fullmatch(r"Entry (\d+); rests on entry (.+)\.", words[entry]) for entry in chain[:-1]}
    for entry, said in rests.items():
        assert said, words[entry]
        assert int(said[1]) == entry
        assert {int(one) for one in said[2].split(", ")} <= {other for other in chain if other < entry}
    assert any(said and oldest in map(int, said[2].split(", ")) for said in rests.values())
