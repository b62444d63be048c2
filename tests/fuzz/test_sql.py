"""SQL from anybody's keyboard: the same question as in Python, or a typed error; nothing is ever executed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.engine.postprocess import Selection
from blowfishdb.errors import BlowfishError, InvalidInput
from blowfishdb.sql import names_of, parse, query_of, read_axes, read_where, selection_of
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import texts

ATTRIBUTES = ("age", "ward", "cost", "AGE2", "odd name", "select")
NAME = st.sampled_from(
    ["age", "ward", "cost", '"odd name"', '"select"', "Age", "visits.age", "v.ward", "x", "`age`", "[age]"]
)
NUMBER = st.sampled_from(
    [
        "0",
        "5",
        "-5",
        "+5",
        "--5",
        "1e3",
        "1e999999999",
        "0.1",
        ".5",
        "5.",
        "1_000",
        "0x1F",
        "9" * 50,
        "1e-400",
        "NaN",
        "$1",
        "?",
    ]
)
STRING = st.one_of(
    st.sampled_from(
        ["'A1'", "''", "'it''s'", "E'\\n'", "N'x'", "'\\'", "$$x$$", "x'ff'", "b'1'", '"A1"', "DATE '2024-01-01'"]
    ),
    texts().map(lambda text: "'" + text[:60].replace("'", "''") + "'"),
)
VALUE = st.one_of(
    NUMBER,
    STRING,
    st.sampled_from(
        ["NULL", "TRUE", "CAST('1' AS INT)", "1::int", "now()", "(SELECT 1)", "@@version", "pg_sleep(10)", "ARRAY[1]"]
    ),
)
CONDITION = st.recursive(
    st.one_of(
        st.tuples(NAME, st.sampled_from(["=", "<", "<=", "<>", "!=", "==", " LIKE ", " ~ ", "<=>", " IS "]), VALUE).map(
            "".join
        ),
        st.tuples(NAME, VALUE, VALUE).map(lambda part: f"{part[0]} BETWEEN {part[1]} AND {part[2]}"),
        st.tuples(NAME, st.lists(VALUE, max_size=3)).map(lambda part: f"{part[0]} IN ({', '.join(part[1])})"),
        NAME.map(lambda name: f"{name} IS NOT NULL"),
        NAME.map(lambda name: f"outside({name})"),
        st.sampled_from(
            ["1 = 1", "EXISTS (SELECT 1)", "CASE WHEN age = 1 THEN 1 END = 1", "age IN (SELECT age FROM visits)"]
        ),
    ),
    lambda inner: (
        st.tuples(inner, st.sampled_from([" AND ", " OR ", " XOR "]), inner).map("".join)
        | inner.map(lambda part: f"NOT ({part})")
    ),
    max_leaves=5,
)
GROUP = st.one_of(
    NAME,
    st.tuples(NAME, VALUE).map(lambda part: f"bin({part[0]}, {part[1]})"),
    st.tuples(NAME, st.lists(VALUE, max_size=4)).map(lambda part: f"bin_edges({', '.join([part[0], *part[1]])})"),
    st.tuples(STRING, NAME).map(lambda part: f"DATE_TRUNC({part[0]}, {part[1]})"),
    st.sampled_from(["1", "2", "99", "ALL", "ROLLUP(age)", "GROUPING SETS ((age), ())"]),
)
MEASURE = st.one_of(
    st.just("COUNT(*)"),
    st.tuples(st.sampled_from(["SUM", "AVG", "MIN", "MEDIAN", "CDF", "COUNT", "STDDEV", "load_extension"]), GROUP).map(
        lambda part: f"{part[0]}({part[1]})"
    ),
    st.tuples(NAME, st.lists(NUMBER, max_size=3)).map(lambda part: f"QUANTILES({', '.join([part[0], *part[1]])})"),
    st.sampled_from(["*", "COUNT(DISTINCT age)", "COUNT(*) OVER ()", "COUNT(*) FILTER (WHERE age = 1)", "(SELECT 1)"]),
)
TAIL = st.sampled_from(
    [
        "",
        ";",
        "; DROP TABLE visits",
        " ORDER BY 1",
        " LIMIT 1",
        " HAVING COUNT(*) > 5",
        " -- x",
        " /* x",
        " UNION SELECT 1",
        " FOR UPDATE",
    ]
)
OPTIONS = st.one_of(
    st.just(""),
    st.tuples(
        st.sampled_from(["alpha", "epsilon", "beta", "mechanism", "x", ""]), st.sampled_from(["=", " ", "=="]), VALUE
    ).map(lambda part: f" OPTIONS ({''.join(part)})"),
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A SELECT that is often right."""
    groups = draw(st.lists(GROUP, max_size=2))
    selected = ", ".join([*groups, draw(MEASURE)])
    source = draw(
        st.sampled_from(["visits", "visits v", '"visits"', "visits, wards", "main.visits", "read_csv('/etc/passwd')"])
    )
    where = draw(st.just("") | CONDITION.map(lambda text: f" WHERE {text}"))
    grouped = (
        f" GROUP BY {', '.join(groups)}" if groups else draw(st.sampled_from(["", " GROUP BY ALL", " GROUP BY 1"]))
    )
    start = draw(
        st.sampled_from(["SELECT ", "EXPLAIN SELECT ", "select ", "SELECT DISTINCT ", "WITH x AS (SELECT 1) SELECT "])
    )
    return f"{start}{selected} FROM {source}{where}{grouped}{draw(TAIL)}{draw(OPTIONS)}"


def read(text: str) -> Selection:
    """What is shown of the answer to a statement that is no error."""
    statement = parse(text)
    return selection_of(statement, names_of(statement, ATTRIBUTES), query_of(statement, ATTRIBUTES))


def check(text: str) -> Selection | BlowfishError:
    found = outcome(lambda: read(text))
    assert isinstance(found, Selection | InvalidInput)
    return found


@given(statements())
@effort(320)
def test_statements_that_are_often_right(text: str) -> None:
    found = check(text)
    if isinstance(found, Selection):
        bare = re.sub(r"'(?:[^']|'')*'|--.*", "", text)
        assert not any(word in bare for word in ("SELECT 1", "DROP", "passwd", "load_extension", "pg_sleep"))
        assert ("HAVING" in bare) == (found.having is not None)


@given(statements(), st.integers(0, 10**6), texts())
@effort(240)
def test_statements_with_a_piece_torn_out(text: str, place: int, put: str) -> None:
    at = place % (len(text) + 1)
    check(text[:at] + put[:40] + text[at + place % 9 :])


@given(
    st.lists(
        texts() | st.sampled_from(["SELECT", "FROM", "(", ")", ",", "'", "--", "/*", ";", "::", "$", "@", "{", "["])
    )
)
@effort(160)
def test_words_in_any_order(words: list[str]) -> None:
    check(" ".join(words))


@given(CONDITION | texts(), GROUP | texts())
@effort(160)
def test_pieces_of_the_command_line(where: str, groups: str) -> None:
    outcome(lambda: read_where(where, ATTRIBUTES))
    outcome(lambda: read_axes(groups, ATTRIBUTES))


DEEP = 60_000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits WHERE " + "(" * DEEP + "age = 1" + ")" * DEEP,
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 4_000 + "age = 1",
        "SELECT COUNT(*) FROM visits WHERE " + "age = 1 AND " * 1_500 + "age = 1",
        "SELECT COUNT(*) FROM visits WHERE " + "age = 1 OR (" * 39 + "age = 1" + ")" * 39,
        "SELECT " + "-" * 10_000 + "1 FROM visits",
        "SELECT " + "CASE WHEN " * 3_000,
        "SELECT " + "a." * 9_000 + "a FROM visits",
        "SELECT COUNT(*) FROM visits WHERE age IN (" + "1," * 9_000 + "1)",
        "SELECT COUNT(*) FROM visits WHERE age = " + "1+" * 9_000 + "1",
        "SELECT COUNT(*) FROM visits WHERE age = " + "1::" * 6_000 + "int",
        "SELECT COUNT(*) FROM visits WHERE age = 1" + "[1]" * 6_000,
        "SELECT " + "f(" * 30 + ")" * 30 + " FROM visits",
        "SELECT COUNT(*) FROM visits" + " JOIN visits" * 1_500,
        "SELECT 1" + " UNION SELECT 1" * 1_200,
        "SELECT COUNT(*) FROM visits WHERE age = 1e999999999",
        "\0",
        "SELECT \ud800 FROM visits",
    ],
    ids=lambda text: repr(text[:48]),
)
@pytest.mark.sampled(3)
def test_statements_that_were_meant_to_harm(text: str) -> None:
    check(text)
