"""The configuration file: what it says, what it refuses with a place, and that writing it keeps the rest."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.catalog import Dataset, read_config
from blowfishdb.catalog.config import Config, erase_dataset, filled_in, located, write_dataset
from blowfishdb.errors import CatalogError, DocumentError, InvalidInput, UnknownDataset

SMALL = """ledger = "sqlite:///books.ledger"

[datasets.visits]
source = "duckdb:///clinic.duckdb#visits"
epsilon = "1/3"

[datasets.visits.domain.age]
kind = "integers"
low = 0
high = 99
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "blowfish.toml"
    path.write_text(text)
    return path


def dataset(name: str = "visits", **changes: object) -> Dataset:
    fields: dict[str, object] = {"source": "data.parquet", "domain": {"age": bf.integers(0, 9)}, **changes}
    return Dataset(name, **fields)  # type: ignore[arg-type]


def test_a_small_configuration(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, SMALL))
    found = config.dataset("visits")
    assert (found.epsilon, found.per_analyst, found.policy) == (Fraction(1, 3), None, bf.Policy())
    assert config.ledger_url() == f"sqlite:///{tmp_path}/books.ledger"
    assert config.mark_place() is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ledger =", "leger =", "ledger"),
        ("epsilon =", "epsilom =", "epsilon"),
        ('source = "duckdb:///clinic.duckdb#visits"\n', "", "source"),
        ('epsilon = "1/3"', 'epsilon = "much"', "epsilon is a number"),
        ('epsilon = "1/3"', 'epsilon = "-1"', "number"),
        ('kind = "integers"', 'kind = "integer"', "integers"),
        ("high = 99", "high = -1", "high"),
        ("[datasets.visits]", "[datasets.visits", "TOML"),
        ('"sqlite:///books.ledger"', "7", "text"),
        ("duckdb:///", "postgresql://me:hush@", "password"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as mistake:
        read_config(written(tmp_path, SMALL.replace(old, new)))
    assert "hush" not in str(mistake.value)


def test_a_mistake_in_a_domain_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as mistake:
        read_config(written(tmp_path, SMALL.replace('kind = "integers"', 'kind = "integer"')))
    assert mistake.value.line == 8
    assert "datasets.visits.domain.age" in str(mistake.value)


JOINED = (
    SMALL
    + """
[[datasets.visits.joins]]
table = "wards"
foreign_key = "ward_id"
key = "id"
attributes = { ward = "name" }

[server]
port = 8000
"""
)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("ledger =", "leger =", 1, "the configuration has no key 'leger'; did you mean 'ledger'?"),
        ("ledger =", "mark = 7\nledger =", 1, "mark is a text"),
        ("epsilon =", "# a remark\nepsilom =", 6, "datasets.visits has no key 'epsilom'; did you mean 'epsilon'?"),
        ('"1/3"', '"much"', 5, "datasets.visits: epsilon is a number"),
        ('source = "duckdb:///clinic.duckdb#visits"\n', "", 3, "datasets.visits: the key 'source' is missing"),
        ('"1/3"', '"1/3"\npad_to = "100000"', 3, "datasets.visits: "),
        ('"wards"', "['wards']", 13, "datasets.visits.joins[0].table is a text"),
        ("foreign_key", "foreing_key", 14, "datasets.visits.joins[0] has no key 'foreing_key'"),
        ('"name"', "5", 16, "datasets.visits.joins[0].attributes.ward is a text"),
        ("[server]", "[serve]", 18, "the configuration has no key 'serve'; did you mean 'server'?"),
        ("[server]\nport = 8000", "[[server]]\nport = 8000", 18, "server is a table"),
    ],
)
def test_what_is_refused_has_its_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    assert read_config(written(tmp_path, JOINED)).dataset("visits").joins
    with pytest.raises(CatalogError) as mistake:
        read_config(written(tmp_path, JOINED.replace(old, new)))
    assert mistake.value.line == line
    assert str(mistake.value).startswith(f"line {line}: {said}")


def test_no_file_and_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="curator"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(UnknownDataset, match="visits"):
        read_config(written(tmp_path, SMALL)).dataset("visit")


def test_writing_keeps_comments_and_neighbours(tmp_path: Path) -> None:
    path = written(tmp_path, "# ours\n" + SMALL)
    other = dataset("other", policy=bf.Policy({"age": bf.threshold(2)}), epsilon="0.5", per_analyst="0.1")
    write_dataset(path, other)
    config = read_config(path)
    assert path.read_text().startswith("# ours")
    assert list(config.datasets) == ["visits", "other"]
    assert config.dataset("other") == other
    erase_dataset(path, "visits")
    assert list(read_config(path).datasets) == ["other"]


@pytest.mark.parametrize("name", ["a b", "ünï", 'quo"te', "a.b", "[x]", "'"])
def test_odd_names_survive(tmp_path: Path, name: str) -> None:
    path = tmp_path / "blowfish.toml"
    own = dataset(name, domain={name: bf.categorical(["x", 'y"', "z\\"])}, policy=bf.Policy({name: bf.public()}))
    write_dataset(path, own)
    assert read_config(path).dataset(name) == own


def test_everything_that_can_be_declared_survives(tmp_path: Path) -> None:
    own = bf.Dataset(
        "all",
        source="postgresql://me:${SECRET}@host/db#visits",
        domain={
            "age": bf.integers(0, 99, null=0),
            "cost": bf.bins(0, 10, width="0.1"),
            "when": bf.dates("2024-01-01", "2024-12-31", by="week"),
            "at": bf.timestamps("2024-01-01", "2024-02-01", by="hour"),
            "x": bf.integers(0, 9),
            "y": bf.integers(0, 9),
            "region": bf.categorical(["N", "S"], null_public=True, outside_public=True),
        },
        policy=bf.Policy(
            {"age": bf.threshold(5), "cost": bf.partition(cuts=[5]), "when": bf.threshold("14 days")},
            "attribute",
            "secret",
            bf.person("patient", at_most=5, order_by="key"),
            [bf.grid(["x", "y"], "2.5", "l1")],
        ),
        epsilon="2",
        per_analyst="1/7",
        joins=[bf.Join("wards", "ward", "id", {"region": "area"})],
    )
    path = tmp_path / "blowfish.toml"
    write_dataset(path, own)
    found = read_config(path).dataset("all")
    assert found == own
    assert (found.policy_document, found.domain_document) == (own.policy_document, own.domain_document)


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC_PASSWORD", "hush")
    assert filled_in("postgresql://me:${CLINIC_PASSWORD}@host/db#t") == "postgresql://me:hush@host/db#t"
    with pytest.raises(CatalogError, match="NOT_SET"):
        filled_in("postgresql://me:${NOT_SET}@host/db#t")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("data/*.parquet", "/here/data/*.parquet"),
        ("/abs/x.csv", "/abs/x.csv"),
        ("duckdb:///a b.duckdb#t", "duckdb:////here/a%20b.duckdb#t"),
        ("duckdb:////abs/x.duckdb#t", "duckdb:////abs/x.duckdb#t"),
        ("sqlite:///x.db#t", "sqlite:////here/x.db#t"),
        ("postgresql://host/db#t", "postgresql://host/db#t"),
    ],
)
def test_relative_files_are_beside_the_configuration(address: str, found: str) -> None:
    assert located(address, Path("/here")) == found


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1},
        {"epsilon": float("inf")},
        {"per_analyst": "-0.5"},
        {"source": ""},
        {"source": "mysql://a:b@h/d#t"},
        {"domain": {}},
        {"policy": bf.Policy({"nobody": bf.full()})},
    ],
)
def test_datasets_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        dataset(**wrong)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "blowfish.toml"
    names = [f"d{number}" for number in range(12)]
    makers = [threading.Thread(target=write_dataset, args=(path, dataset(name))) for name in names]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert sorted(read_config(path).datasets) == sorted(names)


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///blowfish.ledger#entry",
        "duckdb:///./blowfish.users#person",
        "blowfish.users",
        "sqlite:///elsewhere/../blowfish.ledger#account",
        "postgresql://u@host/db#blowfish_users.users",
        "postgresql://u@host/db#blowfish%5Fusers.users",
        "postgresql://u@host/db?options=-csearch_path%3DBlowfish%255FUsers#users",
        "SQLITE:///{folder}/blowfish.users#person",
        "sqlite:///{folder}/blowfish.users?mode=ro#person",
        "sqlite://{folder}/blowfish.users#person",
    ],
)
def test_own_records_are_no_dataset(tmp_path: Path, address: str) -> None:
    address = address.replace("{folder}", str(tmp_path))
    (tmp_path / "blowfish.users").touch()
    with pytest.raises(CatalogError, match="own records"):
        Config(tmp_path / "blowfish.toml").reachable(address)
    assert Config(tmp_path / "blowfish.toml").reachable("shop.duckdb").endswith("shop.duckdb")


def test_own_records_are_known_where_a_variable_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(tmp_path / "blowfish.toml", server={"users": "sqlite:///${BLOWFISH_PLACE}/people.sqlite"})
    address = f"sqlite:///{tmp_path}/people.sqlite#users"
    assert config.reachable(address)  # nobody can tell here, and the server is not run here
    monkeypatch.setenv("BLOWFISH_PLACE", str(tmp_path))
    with pytest.raises(CatalogError, match="own records"):
        config.reachable(address)


def test_secrets_of_the_server_itself_are_sent_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOWFISH_LEDGER", "BLOWFISH_SIGN_IN", "BLOWFISH_CLINIC"):
        monkeypatch.setenv(name, "hush")
    config = Config(
        tmp_path / "blowfish.toml",
        ledger="sqlite:///${BLOWFISH_LEDGER}.ledger",
        server={"oidc_secret": "${BLOWFISH_SIGN_IN}"},
        variables=(),
    )
    for name in ("BLOWFISH_LEDGER", "BLOWFISH_SIGN_IN"):
        with pytest.raises(CatalogError, match="the server itself needs") as told:
            config.reachable(f"postgresql://x:${{{name}}}@elsewhere/db#t")
        assert "hush" not in str(told.value)
    assert config.reachable("postgresql://x:${BLOWFISH_CLINIC}@elsewhere/db#t") == "postgresql://x:hush@elsewhere/db#t"


def test_long_lists_are_written_as_short_ones_are(tmp_path: Path) -> None:
    odd = ['a"b', "tab\tback\\slash", "\x7f", "\x01", "é😀", "'", "line\nend"]
    names = [*odd, *(f"v{number}" for number in range(600))]
    pairs = list(itertools.pairwise(names))
    path = tmp_path / "blowfish.toml"
    sizes = {}
    for name, kept in (("short", 20), ("long", len(names))):
        declared = bf.Dataset(
            name,
            source="rows.csv",
            domain={"x": names[:kept]},
            policy=bf.Policy({"x": bf.custom(pairs[: kept - 1])}),
            epsilon=1,
        )
        write_dataset(path, declared)
        read = read_config(path).datasets[name]
        assert (read.domain, read.policy) == (declared.domain, declared.policy)
        sizes[name] = len(path.read_text(encoding="utf-8"))
    assert sizes["long"] > sizes["short"]
    write_dataset(path, declared)
    assert len(path.read_text(encoding="utf-8")) == sizes["long"]
