"""Several tables as one dataset: JOIN in SQL, people in place of rows, and declarations that cannot be sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.catalog.catalog import LiveCatalog
from blowfishdb.catalog.config import read_config
from blowfishdb.catalog.dataset import join_words, read_join
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import BlowfishError, CatalogError, DatasetPaused, QueryError, SourceError, UnknownDataset
from blowfishdb.model.query import Query
from blowfishdb.session.backend import ReleaseRequest
from blowfishdb.session.local import local_backend
from examples.patients_and_visits import clinic

PUBLIC = bf.Policy(
    {"ward": bf.public(), "sex": bf.public(), "region": bf.public(), "age": bf.public()},
    unit=bf.person("patient", at_most=5, order_by="visit_id"),
)
"""Nothing but the order is hidden, so every count is exact and free."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clinic")
    (place / "blowfish.toml").write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    with bf.curate(place / "blowfish.toml", by="cora") as curator:
        curator.add(replace(clinic(place), policy=PUBLIC))
    return place


@pytest.fixture
def db(folder: Path) -> Iterator[bf.Session]:
    with bf.connect(folder / "blowfish.toml", analyst="ana") as session:
        yield session


def truth(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "clinic.duckdb"), read_only=True) as connection:
        return connection.execute(sql).fetchall()


KEPT = "(SELECT * FROM visits QUALIFY row_number() OVER (PARTITION BY patient ORDER BY visit_id) <= 5) v"
BOTH = "LEFT JOIN patients p ON v.patient = p.id LEFT JOIN postcodes c ON p.postcode = c.code"
DIRECT = "SELECT region, COUNT(*) FROM visits WHERE sex = 'f' GROUP BY region"


@pytest.mark.parametrize(
    "joins",
    [
        "v JOIN patients p ON v.patient = p.id JOIN postcodes c ON p.postcode = c.code",
        "v LEFT JOIN patients p ON p.id = v.patient LEFT OUTER JOIN postcodes c ON c.code = p.postcode",
        "v INNER JOIN patients AS p ON (patient = p.id) JOIN postcodes c ON (postcode) = (c.code)",
        "v JOIN patients p ON patient = id JOIN Postcodes c ON visits.postcode = C.CODE",
    ],
)
def test_a_declared_join_asks_the_dataset(db: bf.Session, folder: Path, joins: str) -> None:
    answer = db.sql(f"SELECT c.region, COUNT(*) FROM visits {joins} WHERE p.sex = 'f' GROUP BY c.region", epsilon="1")
    assert answer.values.tolist() == db.sql(DIRECT, epsilon="1").values.tolist()
    counted = f"SELECT coalesce(region, 'unknown'), count(*) FROM {KEPT} {BOTH} WHERE sex = 'f' GROUP BY ALL"
    wanted = dict(truth(folder, counted))
    assert answer.values.tolist() == [wanted.get(region, 0) for region in ("north", "south", "unknown")]
    assert wanted["unknown"] > 0
    assert answer.counted == "at most 5 rows per patient are counted"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT(*) FROM visits JOIN doctors USING (id)", "not joined to visits.*JOIN patients ON patient = pat"),
        ("SELECT COUNT(*) FROM visits JOIN patients USING (id)", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN patients ON visit_id = patients.id", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN patients ON patient > patients.id", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN patients ON patient = 7", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN patients ON patients.patient = patients.id", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN patients", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits RIGHT JOIN patients ON patient = id", "JOIN table USING"),
        ("SELECT COUNT(*) FROM visits NATURAL JOIN patients", "JOIN table USING"),
        ("SELECT COUNT(*) FROM visits CROSS JOIN patients", "JOIN table USING"),
        ("SELECT COUNT(*) FROM visits, patients", "joined by other keys"),
        ("SELECT COUNT(*) FROM visits JOIN (SELECT * FROM patients) p ON patient = p.id", "JOIN table USING"),
        ("SELECT COUNT(*) FROM visits JOIN patients p ON patient = p.id WHERE p.salary > 1", "p gives no 'salary'"),
        ("SELECT COUNT(*) FROM visits JOIN patients AS p(id, age, sex) ON patient = p.id", "one name"),
        ("SELECT COUNT(*) FROM visits JOIN patients@v1 ON patient = id", "one name"),
        ("SELECT COUNT(*) FROM visits.people JOIN doctors USING (id)", "not joined to visits.people"),
        ("SELECT COUNT(*) FROM a.visits", "one name without dots"),
    ],
)
def test_other_joins_are_refused_with_what_is_declared(db: bf.Session, text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        db.sql(text, epsilon="1")


def test_people_are_asked_about_in_place_of_rows(db: bf.Session, folder: Path) -> None:
    (patients,) = truth(folder, "SELECT count(DISTINCT patient) FROM visits")[0]
    assert db.sql("SELECT COUNT(*) FROM visits.people", epsilon="1").values.tolist() == [patients]
    # The same question of the rows is another one, and neither replays the other.
    (rows,) = truth(folder, f"SELECT count(*) FROM {KEPT}")[0]
    assert db.sql("SELECT COUNT(*) FROM visits", epsilon="1").values.tolist() == [rows]
    over = db.sql("SELECT COUNT(*), SUM(rows) FROM visits.people p WHERE p.rows > 5", epsilon="1")
    wanted = truth(folder, "SELECT count(*), sum(n) FROM (SELECT count(*) n FROM visits GROUP BY patient) WHERE n > 5")
    assert over.values.tolist() == list(map(float, wanted[0]))
    people = db["visits.people"]
    assert list(people.domain) == ["rows", "age", "sex", "region"]
    by_sex = people.where(bf.col("rows") <= 2).histogram("sex", "region").release(epsilon="1")
    listed = truth(
        folder,
        "SELECT sex, coalesce(region, 'unknown') FROM patients p LEFT JOIN postcodes ON postcode = code "
        "WHERE (SELECT count(*) FROM visits WHERE patient = p.id) <= 2",
    )
    numbers = Counter(listed)
    assert by_sex.values.tolist() == [numbers[one, two] for one in "fm" for two in ("north", "south", "unknown")]
    assert by_sex.dataset == "visits.people"
    assert db.budget("visits.people") == replace(db.budget("visits"), dataset="visits.people")


def test_people_cost_what_one_person_changes_and_pay_from_the_same_account(tmp_path: Path) -> None:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    with bf.curate(config, by="cora") as curator:
        curator.add(clinic(tmp_path))
        with bf.connect(config, analyst="ana") as db:
            one, rows = (db[name].count().preview(alpha=30).epsilon for name in ("visits.people", "visits"))
            # A patient is one record there, and up to five here; prices are rounded up to short numbers.
            assert 4.9 * one < rows < 5.1 * one
            db["visits.people"].histogram("rows").release(epsilon="1")
            assert curator.account("visits").spent == 1
            words = " ".join(db["visits.people"].policy_words())
            assert "Whether a record is there is hidden" in words
        assert curator.verify().is_sound


def test_a_paused_dataset_has_no_people_to_ask(folder: Path) -> None:
    def gate(name: str) -> None:
        if name == "visits":
            raise DatasetPaused("visits", "for a test")

    live = LiveCatalog(folder / "blowfish.toml")
    backend = local_backend(live.now, "ana", gate)
    domain, _ = backend.declared("visits.people")
    with pytest.raises(DatasetPaused):
        backend.preview(ReleaseRequest("visits.people", Query("count"), domain, accuracy_target(epsilon=1)))
    live.close()


def test_rows_without_people_have_none(tmp_path: Path) -> None:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    with bf.curate(config, by="cora") as curator:
        curator.add(replace(clinic(tmp_path), policy=bf.Policy()))
        with pytest.raises(CatalogError, match="protects rows, not people"):
            curator.look_at_caps("visits", [1])
        unit = bf.person("patient", at_most=1, order_by="visit_id")
        seen = curator.look_at_caps("visits", [9, 1, 9], unit)
        assert [(cap.at_most, seen.dropped(cap)) for cap in seen.caps] == [(1, seen.rows - 400), (9, 0)]
        for caps in ([], [0], [True], ["2"], range(1, 40)):
            with pytest.raises(CatalogError, match=r"caps (are|of look_at_caps is)"):
                curator.look_at_caps("visits", caps, unit)
    with bf.connect(config, analyst="ana") as db, pytest.raises(CatalogError, match="only a policy with a person"):
        db["visits.people"]
    with bf.connect(config, analyst="ana") as db, pytest.raises(UnknownDataset):
        db["nothing.people"]


def declared(folder: Path, name: str, table: str, joins: list[bf.Join], unit: str = "") -> bf.Dataset:
    columns = duckdb.connect(str(folder / "clinic.duckdb"), read_only=True).execute(f"DESCRIBE {table}").fetchall()
    attributes = (
        [column[0] for column in columns] if not joins else [name for join in joins for name in join.attributes]
    )
    numbers = {
        "age": bf.integers(0, 99),
        "ward": ["A1"],
        "sex": ["f"],
        "region": ["north"],
        "postcode": bf.integers(0, 9),
    }
    chosen = {name: numbers[name] for name in attributes if name in numbers}
    person = {"unit": bf.person(unit, at_most=2, order_by="visit_id")} if unit else {}
    return bf.Dataset(
        name, source=f"duckdb:///clinic.duckdb#{table}", domain=chosen, joins=joins, policy=bf.Policy(**person)
    )


OF_PATIENTS = bf.Join("patients", "patient", "id", ["age"])


def test_a_protected_table_is_known_behind_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    clinic(tmp_path)
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE purchases AS SELECT visit_id, patient, ward FROM visits")
    monkeypatch.setenv("CLINIC", "duckdb:///clinic.duckdb")
    main = bf.Join("main.patients", "patient", "id", ["age"])
    visits = replace(declared(tmp_path, "visits", "visits", [main], "patient"), source="${CLINIC}#visits")
    with bf.curate(config, by="cora") as curator:
        curator.add(visits)
        with pytest.raises(CatalogError, match="reads the same table"):
            curator.add(declared(tmp_path, "patients", "patients", []))
        monkeypatch.delenv("CLINIC")
        with pytest.raises(CatalogError, match="CLINIC"):
            curator.add(declared(tmp_path, "purchases", "purchases", [OF_PATIENTS], "patient"))
    monkeypatch.setenv("CLINIC", "duckdb:///clinic.duckdb")
    with bf.connect(config, analyst="ana") as session:
        # A table of a database is shown by its whole name, a file without folder and ending.
        assert [join.table for join in session["visits"].joins] == ["main.patients"]
        assert session["visits"].histogram("age").release(epsilon="0.5").epsilon == Fraction(1, 2)


def test_a_protected_table_belongs_to_one_dataset(tmp_path: Path) -> None:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    clinic(tmp_path)
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE purchases AS SELECT visit_id, patient, ward FROM visits")
        connection.execute("CREATE TABLE stays AS SELECT * FROM visits")
        connection.execute("CREATE TABLE wards AS SELECT 'A1' AS name, 7 AS age UNION ALL SELECT 'A1', 8")
    visits = declared(tmp_path, "visits", "visits", [OF_PATIENTS], "patient")
    again = declared(tmp_path, "purchases", "purchases", [OF_PATIENTS], "patient")
    public = declared(tmp_path, "purchases", "purchases", [OF_PATIENTS])
    own = declared(tmp_path, "patients", "patients", [])
    with bf.curate(config, by="cora") as curator:
        twice = bf.Join("wards", "ward", "name", ["age"])
        with pytest.raises(SourceError, match="occurs more than once in wards"):
            curator.add(declared(tmp_path, "stays", "stays", [twice]))
        curator.add(visits)
        for other in (again, public, own):
            with pytest.raises(CatalogError, match="reads the same table"):
                curator.add(other)
        curator.remove("visits")
        curator.add(public)
        # As a public table it may be read twice; protected in one of the two, it may not.
        curator.add(declared(tmp_path, "stays", "stays", [bf.Join("patients", "patient", "id", ["sex"])]))
        with pytest.raises(CatalogError, match="reads the same table"):
            curator.set_policy("stays", visits.policy, reason="people")
        with pytest.raises(CatalogError, match="reads the same table"):
            curator.set_domain(
                "stays",
                {"age": bf.integers(0, 9)},
                reason="itself",
                joins=[bf.Join("purchases", "visit_id", "visit_id", {"age": "patient"})],
            )
        for name in ("stays", "purchases"):
            curator.remove(name)
        curator.add(own)
        with bf.connect(config, analyst="ana") as db:
            db["patients"].count().release(epsilon="0.1")
        curator.remove("patients")
        with pytest.raises(CatalogError, match="account of their own"):
            curator.add(public)


def test_joins_are_declared_in_words_and_in_the_file(tmp_path: Path) -> None:
    join = read_join("patients on patient = id gives age, sex = gender")
    assert join == bf.Join("patients", "patient", "id", {"age": "age", "sex": "gender"})
    assert read_join(join_words(join)) == join
    for words in (
        "patients",
        "patients on patient gives age",
        "patients on a = b gives age, age",
        "t on a = b gives ,",
    ):
        with pytest.raises(BlowfishError):
            read_join(words)
    text = """ledger = "sqlite:///a.ledger"
[datasets.visits]
source = "duckdb:///clinic.duckdb#visits"
domain.age = {kind = "integers", low = 0, high = 9}
[[datasets.visits.joins]]
table = "patients"
foreign_key = "patient"
key = "id"
attributes = ["age"]
"""
    (tmp_path / "blowfish.toml").write_text(text)
    assert read_config(tmp_path / "blowfish.toml").dataset("visits").joins == (OF_PATIENTS,)
    (tmp_path / "blowfish.toml").write_text(text.replace('["age"]', "[]"))
    with pytest.raises(CatalogError, match=r"joins\[0\].*gives no attribute"):
        read_config(tmp_path / "blowfish.toml")


def in_files(folder: Path, ending: str) -> bf.Dataset:
    """The clinic with a file for each table, beside the database."""
    dataset = clinic(folder)
    (folder / "people").mkdir()
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        for table in ("visits", "people/patients", "postcodes"):
            connection.execute(f"COPY {Path(table).name} TO '{folder / table}.{ending}'")
    patients, postcodes = dataset.joins
    joins = (
        bf.Join(f"people/patients.{ending}", "patient", "id", patients.attributes),
        bf.Join(str(folder / f"postcodes.{ending}"), "postcode", "code", postcodes.attributes),
    )
    return replace(dataset, source=f"visits.{ending}", joins=joins, policy=PUBLIC)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_joined_to_files(tmp_path: Path, ending: str) -> None:
    dataset, config = in_files(tmp_path, ending), tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    with bf.curate(config, by="cora") as curator:
        curator.add(dataset)
        # A file of protected rows belongs to one dataset, by whatever pattern another one would read it.
        for pattern, column in (("people/pat*", {"age": bf.integers(0, 99)}), ("postcodes", {"region": ["north"]})):
            with pytest.raises(CatalogError, match="reads the same table"):
                curator.add(bf.Dataset("own", source=f"{pattern}.{ending}", domain=column))
    with bf.connect(config, analyst="ana") as db:
        assert [join.table for join in db["visits"].joins] == ["patients", "postcodes"]
        written = "FROM visits v JOIN patients p ON v.patient = p.id JOIN postcodes c ON p.postcode = c.code"
        answer = db.sql(f"SELECT c.region, COUNT(*) {written} WHERE p.sex = 'f' GROUP BY c.region", epsilon="1")
        counted = f"SELECT coalesce(region, 'unknown'), count(*) FROM {KEPT} {BOTH} WHERE sex = 'f' GROUP BY ALL"
        wanted = dict(truth(tmp_path, counted))
        assert answer.values.tolist() == [wanted.get(region, 0) for region in ("north", "south", "unknown")]
        assert answer.counted == "at most 5 rows per patient are counted"
        (patients,) = truth(tmp_path, "SELECT count(DISTINCT patient) FROM visits")[0]
        assert db.sql("SELECT COUNT(*) FROM visits.people", epsilon="1").values.tolist() == [patients]
    # A joined file that changed is another content: nothing that was measured before is taken to be of the same rows.
    source = read_config(config).open(dataset.source, dataset.joins)
    before = source.content()
    assert before is not None
    assert before != read_config(config).open(dataset.source).content()
    with duckdb.connect() as connection:
        table = f"'{tmp_path / 'people'}/patients.{ending}'"
        connection.execute(f"CREATE TABLE fewer AS FROM {table} LIMIT 7; COPY fewer TO {table}")
    assert source.content() not in (before, None)


def test_files_that_cannot_be_joined_are_refused(tmp_path: Path) -> None:
    dataset, config = in_files(tmp_path, "csv"), tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(f"COPY patients TO '{tmp_path}/people/patients.parquet'")
    patients, postcodes = dataset.joins

    def joined(table: str, key: str = "id", columns: dict[str, str] | None = None) -> bf.Dataset:
        attributes = patients.attributes if columns is None else columns
        return replace(dataset, joins=(bf.Join(table, "patient", key, attributes), postcodes))

    with bf.curate(config, by="cora") as curator:
        for wrong, reason in (
            (joined("people/*.csv"), "one CSV or Parquet file"),
            (joined("duckdb:///clinic.duckdb#patients"), "one CSV or Parquet file"),
            (joined("patients"), "a file of rows ends in"),
            (joined("people/nobody.csv"), "no file matches 'nobody.csv'"),
            (joined("./people/../visits.csv", "patient", {"age": "ward"}), "visits.csv is the table itself"),
            (joined("people/patients.csv", "name"), "patients.csv has no column 'name'"),
            # A number is not compared with the text of a number.
            (joined("people/patients.parquet"), "patient is VARCHAR, but id is BIGINT"),
            (
                replace(dataset, policy=bf.Policy(), joins=(bf.Join("visits2.csv", "patient", "patient", ["age"]),)),
                "no file matches",
            ),
        ):
            with pytest.raises(SourceError, match=reason):
                curator.add(wrong)
        with pytest.raises(CatalogError, match="its own records"):
            curator.add(joined("clinic.ledger"))
    assert str(tmp_path) not in str(joined("people/patients.csv").joins[0].name)
