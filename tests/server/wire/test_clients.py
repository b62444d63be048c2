"""Real clients over the PostgreSQL port: psql, psycopg, SQLAlchemy and pandas."""

from __future__ import annotations

import os
import shutil
import subprocess
from fractions import Fraction
from glob import glob
from pathlib import Path

import pandas
import psycopg
import pytest
from psycopg import errors

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.present.export import number_columns
from blowfishdb.session.backend import expect
from tests.server.wire.places import WirePlace, wire_place
from tests.session.places import visits

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
LARGEST = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"


def psql(port: WirePlace, *commands: str) -> str:
    """What psql prints, errors too; it reads no file of whoever runs the tests."""
    program = shutil.which("psql") or glob("/usr/lib/postgresql/*/bin/psql")[0]
    words = [part for command in commands for part in ("-c", command)]
    environment = {**os.environ, "PGPASSWORD": port.secrets["ana"], "PSQL_PAGER": "", "HOME": "/nowhere"}
    done = subprocess.run(
        [program, "-X", "-h", "127.0.0.1", "-p", str(port.port), "-U", "ana", "-d", "blowfish", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.postgres
def test_psql_lists_datasets_and_describes_columns(port: WirePlace) -> None:
    listed = psql(port, r"\dt", r"\d", r"\dt+", r"\dn", r"\l", r"\du", "SELECT version()")
    assert "ERROR" not in listed
    assert "visits" in listed
    assert "any two values are hidden from each other" in listed
    described = psql(port, r"\d visits", r"\d+ visits")
    assert "ERROR" not in described
    for words in ("age", "bigint", "ward", "text", "cost", "double precision", "100 values: 0 … 99"):
        assert words in described


@pytest.mark.postgres
def test_psql_is_told_the_price_and_the_line_that_allows_it(port: WirePlace, tmp_path: Path) -> None:
    question = f"{WARDS} OPTIONS (epsilon = 0.25)"
    refused = psql(port, question)
    assert "not run, nothing charged: this costs epsilon 0.25" in refused
    assert "HINT:  SET blowfish.spend = '0.25'" in refused
    assert "would run" in psql(port, f"EXPLAIN {question}")
    allowed = psql(port, "SET blowfish.spend = '0.25'", question)
    assert "NOTICE:  charged epsilon 0.25; epsilon" in allowed
    assert "(3 rows)" in allowed
    # Without any allowance: it was answered before.
    file = tmp_path / "wards.csv"
    copied = psql(port, "SET blowfish.intervals = on", rf"\copy ({question}) to '{file}' csv header")
    assert "COPY 3" in copied
    lines = file.read_text().splitlines()
    assert lines[0] == "ward,count,count_low,count_high"
    assert [line.partition(",")[0] for line in lines[1:]] == ["A1", "A2", "A3"]


def test_psycopg_asks_and_replays_and_charges_no_more_than_allowed(port: WirePlace) -> None:
    question = f"{WARDS} OPTIONS (epsilon = 0.125)"
    notices: list[str | None] = []
    with port.connect("bob") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        with pytest.raises(errors.ConfigurationLimitExceeded) as refused:
            connection.execute(question.encode())
        hint = refused.value.diag.message_hint
        assert hint == "SET blowfish.spend = '0.125'"
        assert port.app_state.session("bob").budget("visits").spent == 0
        connection.execute(hint.encode())
        rows = connection.execute(question.encode()).fetchall()
        assert [row[0] for row in rows] == ["A1", "A2", "A3"]
        assert connection.cursor(binary=True).execute(question.encode()).fetchall() == rows
        assert str(notices[0]).startswith("charged epsilon 0.125; epsilon ")
        assert str(notices[1]).startswith("nothing charged; ")
        # The cap is for the whole connection, and it is used up.
        with pytest.raises(errors.ConfigurationLimitExceeded) as refused:
            connection.execute(b"SELECT ward, COUNT(*) FROM visits WHERE age < 50 GROUP BY ward OPTIONS (epsilon = 1)")
        assert refused.value.diag.message_hint == "SET blowfish.spend = '1.125'"
    with port.connect("bob") as another:
        assert another.execute(question.encode()).fetchall() == rows
    assert float(port.app_state.session("bob").budget("visits").spent) == 0.125


def test_fresh_noise_is_charged_for_each_statement_and_once_for_a_key(port: WirePlace) -> None:
    question = b"SELECT age, COUNT(*) FROM visits GROUP BY age OPTIONS (epsilon = 0.125)"
    before = port.app_state.session("bob").budget("visits").spent
    with port.connect("bob", spend="5") as connection:

        def ask() -> tuple[tuple[object, ...], ...]:
            return tuple(connection.execute(question).fetchall())

        first = ask()
        connection.execute("SET blowfish.fresh = on")
        drawn = {first, ask(), ask()}
        connection.execute("SET blowfish.key = 'mine'")
        again = {ask(), ask()}
        assert (len(drawn), len(again), len(drawn | again)) == (3, 1, 4)
        with pytest.raises(errors.DatabaseError, match="used for another request"):
            connection.execute(f"{WARDS} OPTIONS (epsilon = 0.125)".encode())
        with pytest.raises(errors.DatabaseError, match="a key is text"):
            connection.execute("SET blowfish.key = ''")
    assert port.app_state.session("bob").budget("visits").spent - before == Fraction(4, 8)


def test_columns_come_as_selected_with_parameters_and_intervals(port: WirePlace) -> None:
    with port.connect(spend="5") as connection:
        connection.execute("SET blowfish.epsilon = '0.1'")
        one = connection.execute(
            "SELECT COUNT(*) AS n, ward AS w FROM public.visits WHERE age >= %s GROUP BY ward", (18,)
        )
        assert [column.name for column in one.description or ()] == ["n", "w"]
        assert [row[1] for row in one.fetchall()] == ["A1", "A2", "A3"]
        connection.execute("SET blowfish.intervals = on")
        two = connection.execute(
            "/* blowfish: epsilon = 0.2 */ SELECT COUNT(*), AVG(cost) FROM visits WHERE ward = %s", ("A1",)
        )
        assert [column.name for column in two.description or ()] == [
            *("count", "count_low", "count_high", "mean_cost", "mean_cost_low", "mean_cost_high")
        ]
        row = two.fetchone() or ()
        same = port.app_state.session("ana").sql(
            "SELECT COUNT(*), AVG(cost) FROM visits WHERE ward = 'A1'", epsilon="0.2"
        )
        assert row == tuple(column[0] for column in number_columns(expect(same, Answer)).values())
        assert len(set(row)) == 6
        connection.execute("SET blowfish.intervals = off")
        three = connection.execute(
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) AS half, "
            "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY cost) AS quarter FROM visits"
        )
        half, quarter = three.fetchone() or ()
        assert quarter < half  # type: ignore[operator]
        four = connection.execute("SELECT CDF(bin(age, 20)) AS below FROM visits")
        assert [column.name for column in four.description or ()] == ["age", "below"]
        assert len(four.fetchall()) == 5


def test_names_of_groups_come_without_counts_and_with_what_the_list_promises(port: WirePlace) -> None:
    notices: list[str | None] = []
    with port.connect(spend="20") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("SET blowfish.epsilon = '2'")
        connection.execute("SET blowfish.intervals = on")
        largest = connection.execute(LARGEST)
        assert [column.name for column in largest.description or ()] == ["ward"]
        assert len(largest.fetchall()) == 1
        above = connection.execute("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 10")
        assert [row[0] for row in above.fetchall()] == ["A1", "A2", "A3"]
        empty = connection.execute("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100000000")
        assert ([column.name for column in empty.description or ()], empty.fetchall()) == (["ward"], [])
    assert sum("names of groups, without counts" in (notice or "") for notice in notices) == 1
    assert sum("of the last that truly belongs in the list" in (notice or "") for notice in notices) == 1
    assert sum("HAVING looks at published numbers" in (notice or "") for notice in notices) == 2


def test_a_cap_on_rows_is_a_sentence_beside_the_numbers(tmp_path: Path) -> None:
    policy = bf.Policy({}, unit=bf.person("patient", at_most=2, order_by="id"))
    notices: list[str | None] = []
    with wire_place(tmp_path, visits(policy)) as port, port.connect(spend="5") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        for statement in (WARDS, "SELECT AVG(age) FROM visits", LARGEST):
            connection.execute(f"{statement} OPTIONS (epsilon = 0.5)".encode())
    assert notices.count("at most 2 rows per patient are counted") == 3


def test_a_published_synopsis_answers_for_nothing(port: WirePlace) -> None:
    session = port.app_state.session("bob")
    session["visits"].histogram("ward", bf.col("age").bins(10)).publish(epsilon=1)
    (published,) = session.synopses("visits")
    before = session.budget("visits").spent
    question = "SELECT ward, COUNT(*) FROM visits WHERE age < 50 GROUP BY ward ORDER BY 2 DESC LIMIT 2"
    with port.connect("bob") as connection:
        plan = connection.execute(f"EXPLAIN {question} OPTIONS (within = 400)".encode()).fetchall()
        assert any(f"synopsis {published.number}" in str(line) for (line,) in plan)
        with pytest.raises(errors.ConfigurationLimitExceeded):
            connection.execute(f"{question} OPTIONS (epsilon = 0.5)".encode())
        connection.execute(f"SET blowfish.synopsis = {published.number}".encode())
        connection.execute("SET blowfish.intervals = on")
        rows = connection.execute(question.encode()).fetchall()
        assert len(rows) == 2
        assert all(low <= count <= high for _, count, low, high in rows)  # type: ignore[operator]
        with pytest.raises(errors.SyntaxError, match="cost is not in this synopsis"):
            connection.execute("SELECT bin(cost, 100), COUNT(*) FROM visits GROUP BY 1")
        with pytest.raises(errors.InvalidParameterValue, match="the number of a published synopsis"):
            connection.execute("SET blowfish.synopsis = 'newest'")
    assert session.budget("visits").spent == before


def test_a_transaction_that_failed_waits_for_its_end(port: WirePlace) -> None:
    with psycopg.connect(port.url()) as connection:
        with pytest.raises(errors.UndefinedTable, match="there is no dataset"):
            connection.execute("SELECT COUNT(*) FROM nowhere OPTIONS (epsilon = 1)")
        with pytest.raises(errors.InFailedSqlTransaction, match="What was charged stays charged"):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1, 'a', true, NULL, 2.5").fetchall() == [(1, "a", True, None, 2.5)]


@pytest.mark.parametrize(
    ("statement", "state", "words"),
    [
        ("SELECT * FROM visits", "42601", "Rows are never shown"),
        ("SELECT COUNT(*) FROM visits", "22023", "how accurate"),
        ("INSERT INTO visits VALUES (1)", "42601", "Only SELECT"),
        ("SELECT COUNT(*) FROM visits JOIN pg_class ON true", "42601", ""),
        ("SELECT read_text('/etc/passwd')", "42601", "read_text is not known"),
        ("SELECT * FROM read_csv('/etc/passwd')", "42601", "FROM is followed by the name of one dataset"),
        ("SELECT * FROM pg_class, read_csv('/etc/passwd')", "42601", "read_csv is not known"),
        ("SELECT getenv('HOME')", "42601", "getenv is not known"),
        ("SELECT * FROM pg_class, '/etc/passwd'", "42P01", "there is no dataset"),
        ("SET blowfish.sped = 1", "22023", "did you mean 'spend'"),
        ("SET blowfish.within = 'much'", "22023", "is a number"),
        ("SET blowfish.fresh = perhaps", "22023", "on or off"),
        ("SHOW blowfish.nothing", "22023", "there is no setting"),
        ("SET client_encoding = 'LATIN1'", "22023", "UTF-8"),
        ("COPY (SELECT 1) TO STDOUT BINARY", "42601", "leave BINARY out"),
        ("COPY visits FROM STDIN", "42601", "Only SELECT"),
        ("SELECT 'open", "42601", "left open"),
        (f"SELECT {'(' * 500}1{')' * 500}", "42601", "nested"),
        ("SELECT no_column FROM pg_class", "42601", "catalog query is not supported"),
    ],
)
def test_what_does_not_work_is_said_in_a_typed_error(port: WirePlace, statement: str, state: str, words: str) -> None:
    with port.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(statement.encode(), prepare=False)
    assert refused.value.sqlstate == state
    assert words in str(refused.value)


def test_settings_are_shown_reset_and_given_with_the_connection(port: WirePlace) -> None:
    with psycopg.connect(port.url(options="?options=-c%20blowfish.spend%3D0.5"), autocommit=True) as connection:
        assert connection.execute("SHOW blowfish.spend").fetchone() == ("0.5",)
        connection.execute("SET blowfish.within TO 50")
        connection.execute("SET blowfish.epsilon = '0.1'")
        # One follows from the other.
        assert connection.execute("SHOW blowfish.within").fetchone() == ("",)
        for back in ("RESET ALL", "SET blowfish.spend = DEFAULT", "RESET blowfish.spend"):
            connection.execute(back.encode())
            assert connection.execute("SHOW blowfish.spend").fetchone() == ("0",)
            # What is shown holds: nothing may be spent any more.
            with pytest.raises(errors.ConfigurationLimitExceeded):
                connection.execute(b"SELECT COUNT(*) FROM visits WHERE age < 31 OPTIONS (epsilon = 0.01)")
            connection.execute("SET blowfish.spend = '0.5'")
        connection.execute("SET blowfish.mechanism = DEFAULT; SET datestyle = 'ISO'; DISCARD ALL")


def test_sqlalchemy_reflects_and_asks_and_pandas_reads(port: WirePlace) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(port.url().replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        assert inspector.get_table_names() == ["visits"]
        assert inspector.get_pk_constraint("visits")["constrained_columns"] == []
        assert inspector.get_indexes("visits") == inspector.get_foreign_keys("visits") == []
        visits = sa.Table("visits", sa.MetaData(), autoload_with=connection)
        assert {column.name: str(column.type) for column in visits.columns} == {
            "age": "BIGINT",
            "ward": "TEXT",
            "cost": "DOUBLE PRECISION",
        }
        assert "hidden from each other" in str(visits.comment)
        connection.execute(sa.text("SET blowfish.spend = '2'"))
        connection.execute(sa.text("SET blowfish.epsilon = '0.3'"))
        where = visits.c.age >= 18, visits.c.ward.in_(["A1", "A2"])
        question = sa.select(sa.func.count().label("n"), visits.c.ward).where(*where).group_by(visits.c.ward)
        rows = connection.execute(question.order_by(sa.desc("n")).limit(1)).all()
        assert len(rows) == 1
        assert rows[0].ward in ("A1", "A2")
        frame = pandas.read_sql(sa.text(f"{WARDS} OPTIONS (epsilon = 0.3)"), connection)
        assert list(frame.columns) == ["ward", "count"]
        assert frame["count"].dtype == "float64"
    engine.dispose()


def test_a_dataset_that_is_refused_does_not_show(tmp_path: Path) -> None:
    with wire_place(tmp_path) as port, port.connect() as connection:
        tables = "SELECT table_name FROM information_schema.tables"
        assert connection.execute(tables).fetchall() == [("visits",)]
        port.app_state.pauses.pause("visits", by="cora", reason="the data is checked")
        assert connection.execute(tables).fetchall() == []
        with pytest.raises(errors.InsufficientPrivilege, match="the data is checked"):
            connection.execute("SELECT COUNT(*) FROM visits OPTIONS (epsilon = 1)")
        port.app_state.pauses.resume("visits")
        assert connection.execute(tables).fetchall() == [("visits",)]


def test_a_name_of_a_prepared_statement_is_free_again_after_deallocate(port: WirePlace) -> None:
    """ODBC's driver names every statement alike."""
    with port.connect() as connection:
        pg = connection.pgconn
        endings = {
            b'DEALLOCATE "one"': b"DEALLOCATE",
            b"deallocate all;": b"DEALLOCATE ALL",
            b"DISCARD ALL": b"DISCARD ALL",
        }
        for ending, tag in endings.items():
            assert pg.prepare(b"one", b"SELECT 1").error_message == b""
            assert b"of that name already" in pg.prepare(b"one", b"SELECT 2").error_message
            assert pg.exec_(ending).command_status == tag
        assert pg.exec_prepared(b"one", []).error_message != b""


def test_what_there_is_none_of_is_empty_however_it_is_asked_for(port: WirePlace) -> None:
    """As JDBC asks for primary keys: a table within a table, by a function that nothing here has."""
    with port.connect() as connection:
        keys = connection.execute(
            "SELECT result.pk_name FROM (SELECT i.relname AS pk_name, (information_schema._pg_expandarray(x.indkey)).n "
            "FROM pg_catalog.pg_class i JOIN pg_catalog.pg_index x ON i.oid = x.indexrelid) result WHERE true"
        )
        assert [column.name for column in keys.description or ()] == ["pk_name"]
        assert keys.fetchall() == []
        assert connection.execute("SELECT setting FROM pg_settings WHERE name = 'max_index_keys'").fetchone() == ("32",)
