"""Policy documents and configurations from anybody's editor: a document that reads, or a typed error with its place."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import assume, given
from hypothesis import strategies as st

from blowfishdb.catalog.config import Config, read_config
from blowfishdb.catalog.dataset import read_attribute, read_distances, read_edges, read_family
from blowfishdb.errors import BlowfishError, DocumentError
from blowfishdb.model.document import Document, read_document, write_document
from tests.fuzz.documents import DOCUMENT, DOMAIN, NAMES, NUMBER, POLICY
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import bent, bent_object, numbers, texts


def check(found: Document | BlowfishError) -> None:
    """What reads can be written, and reads back to the same; the rest is told as an error of the document."""
    if isinstance(found, Document):
        for form in ("json", "toml"):
            assert read_document(write_document(found, form), form) == found  # type: ignore[arg-type]
    else:
        assert isinstance(found, DocumentError)


def as_toml(content: Any) -> str:
    """The content as TOML, without what TOML cannot hold."""
    try:
        text = tomlkit.dumps(content)
        text.encode()
    except Exception:  # noqa: BLE001  # the writer, not what is tested
        assume(False)
    return text


@given(DOCUMENT)
@effort(40)
def test_json_documents(content: Any) -> None:
    check(outcome(lambda: read_document(json.dumps(content), "json")))


@given(DOCUMENT)
@effort(20)
def test_toml_documents(content: Any) -> None:
    text = as_toml(content)
    check(outcome(lambda: read_document(text, "toml")))


@given(DOCUMENT, st.integers(0, 10**6), texts(), st.sampled_from(["json", "toml"]))
@effort(30)
def test_documents_with_a_piece_torn_out(content: Any, place: int, put: str, form: Any) -> None:
    text = json.dumps(content) if form == "json" else as_toml(content)
    at = place % (len(text) + 1)
    torn = text[:at] + put[:40] + text[at + place % 7 :]
    check(outcome(lambda: read_document(torn, form)))


@pytest.mark.parametrize("form", ["json", "toml"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "x = " + "[" * 100_000,
        "x = " + "{a=" * 5_000,
        "a" + ".a" * 5_000 + " = 1",
        '{"domain":' * 50_000,
        "x = " + "9" * 5_000,
        '{"x": ' + "9" * 5_000 + "}",
        "x = nan",
        "[policy.unit]\nat_most = inf",
        '[domain."\\U0001F600"]\nkind = "integers"\nlow = 0\nhigh = "9"',
        '[domain."a\tb"]\nkind = 1',
        'x = """\n"\\q\n"""',
        '{"domain": {"\\u0000": {"kind": "integers", "low": 0, "high": 9}}}',
        '{"domain": {"\\ud800": {"kind": "integers", "low": 0, "high": 9}}}',
        '{"domain": {"a": {"kind": "bins", "low": 0, "high": "1e999999999", "width": 1}}}',
        '{"domain": {"a": {"kind": "bins", "low": 0, "high": 1, "width": "1e-300"}}}',
        '{"domain": {"a": {"kind": "timestamps", "start": "2024-01-01", "end": "2024-01-02", "zone": "a\\u0000"}}}',
        '{"domain": {"a": {"kind": []}}}',
    ],
    ids=lambda text: repr(text[:30]),
)
def test_documents_that_were_found_to_harm(text: str, form: Any) -> None:
    assert isinstance(outcome(lambda: read_document(text, form)), DocumentError)


DATASET = bent_object(
    {
        "source": st.sampled_from(["rows.csv", "duckdb:///a.duckdb#t", "postgresql://a:b@c/d#e"]) | texts(),
        "domain": DOMAIN,
    },
    {
        "epsilon": NUMBER,
        "per_analyst": NUMBER,
        "accounting": st.sampled_from(["sum", "per-edge", "per-edge by age", "per-edge by"]),
        "policy": POLICY,
        "joins": st.lists(
            bent_object(
                {"table": NAMES, "foreign_key": NAMES, "key": NAMES, "attributes": st.dictionaries(NAMES, NAMES)}, {}
            ),
            max_size=2,
        ),
    },
)
CONFIGURATION = bent_object(
    {},
    {
        "ledger": st.just("sqlite:///blowfish.ledger") | texts(),
        "mark": texts(),
        "datasets": st.dictionaries(NAMES, bent(DATASET), max_size=2),
        "server": st.dictionaries(st.sampled_from(["host", "port", "variables", "x"]), numbers() | texts(), max_size=2),
    },
)


@given(CONFIGURATION)
@effort(20)
def test_configurations(content: Any) -> None:
    text = as_toml(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blowfish.toml"
        path.write_text(text, encoding="utf-8")
        found = outcome(lambda: read_config(path))
    assert isinstance(found, Config | BlowfishError)


@pytest.mark.parametrize(
    "text", ["joins = 1", "joins = [1]", "joins = [{table = 1, foreign_key = 2, key = 3, attributes = {a = 4}}]"]
)
def test_joins_that_were_found_to_harm(tmp_path: Path, text: str) -> None:
    domain = "[datasets.a.domain.b]\nkind = 'integers'\nlow = 0\nhigh = 9\n"
    (tmp_path / "c.toml").write_text(f"[datasets.a]\nsource = 'x.csv'\n{text}\n{domain}")
    assert isinstance(outcome(lambda: read_config(tmp_path / "c.toml")), BlowfishError)


WORDS = ["0..", "..9", " step ", "1/0", "2024-01-01", "T00:00", " by day", " in UTC", "edges ", "@", "@\0", ", ", " < "]
WORDS += [
    " null=",
    "'",
    " outside=cell",
    "within ",
    "cuts ",
    "blocks ",
    "|",
    "edges /",
    "edges \0",
    "distances x within ",
    "9" * 500,
]


@given(st.lists(st.sampled_from(WORDS) | texts().map(lambda text: text[:50]), max_size=5).map("".join))
@effort(60)
def test_domains_and_policies_in_words(words: str) -> None:
    outcome(lambda: read_attribute(words))
    outcome(lambda: read_family(words))


CELLS = st.sampled_from(
    ["", "a", "b", "from", "to", "0", "1", "-1", "nan", "inf", "1e999999999", '"', "\0", "é", "1/2"]
)


@given(
    st.lists(st.lists(CELLS | texts().map(lambda text: text[:9]), max_size=4), max_size=4),
    st.binary(max_size=4),
    NUMBER,
)
@effort(40)
def test_graph_files(rows: list[list[str]], tail: bytes, theta: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.csv"
        path.write_bytes("\n".join(",".join(row) for row in rows).encode(errors="surrogatepass") + tail)
        outcome(lambda: read_edges(path))
        outcome(lambda: read_distances(path, theta))
