"""Domains and policies in a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.catalog.dataset import (
    attribute_words,
    family_words,
    named,
    read_attribute,
    read_distances,
    read_edges,
    read_family,
)
from blowfishdb.errors import BlowfishError, DomainError, PolicyError, TooLarge
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.domain import Attribute, bins, categorical, integers
from blowfishdb.model.graphs import EdgeGraph
from blowfishdb.model.policy import Family, full, line, metric, partition, public, threshold, value_graph
from blowfishdb.sources.base import ColumnKind


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("0..110", integers(0, 110)),
        (" -5 .. 5 null=0", integers(-5, 5, null=0)),
        ("0..110 null=public", integers(0, 110, null_public=True)),
        ("0..110 null=3 outside=cell", integers(0, 110, null=3, outside="cell")),
        ("0..50000 step 100", bins(0, 50000, width=100)),
        ("0.5..2.5 step 0.25", bins("0.5", "2.5", width="0.25")),
        ("edges 0, 10, 100", bins(edges=[0, 10, 100])),
        ("2024-01-01..2025-12-31", dates("2024-01-01", "2025-12-31")),
        ("2024-01-01..2025-12-31 by month", dates("2024-01-01", "2025-12-31", "month")),
        (
            "2024-01-01T00:00..2024-02-01T00:00 by hour in Europe/Zurich",
            timestamps("2024-01-01T00:00", "2024-02-01T00:00", "hour", zone="Europe/Zurich"),
        ),
        ("NC, VA", categorical(["NC", "VA"])),
        ("NC, VA, other outside=other null='other'", categorical(["NC", "VA", "other"], outside="other", null="other")),
        ("low < mid < high", categorical(["low", "mid", "high"], ordered=True)),
    ],
)
def test_words_of_a_domain(words: str, expected: Attribute) -> None:
    assert read_attribute(words) == expected


def test_the_kind_of_the_column_types_listed_values() -> None:
    assert read_attribute("1, 2", ColumnKind.INTEGER) == categorical([1, 2])
    assert read_attribute("false, true", ColumnKind.BOOLEAN) == categorical([False, True])
    assert read_attribute("1, 2", ColumnKind.TEXT) == categorical(["1", "2"])


def test_values_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "wards.txt").write_text("A1\n\nA 2\nB,1\n")
    assert read_attribute("@wards.txt", folder=tmp_path) == categorical(["A1", "A 2", "B,1"])
    assert read_attribute("from file wards.txt", folder=tmp_path) == categorical(["A1", "A 2", "B,1"])
    with pytest.raises(DomainError, match="cannot be read"):
        read_attribute("@nothing.txt", folder=tmp_path)


@pytest.mark.parametrize(
    "words", ["", "  ", "people", "1..", "5..1", "0..1 step 0", "0..1 null=7", "a, a", "2024-13-01..2025-01-01"]
)
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(BlowfishError):
        read_attribute(words)


@pytest.mark.parametrize(
    ("words", "expected", "shown"),
    [
        ("full", full(), "everything secret"),
        ("public", public(), "public"),
        ("line", line(), "neighbours only"),
        ("within 5", threshold(5), "within 5"),
        ("within 7 days", threshold("7 days"), "within 7 days"),
        ("cuts 18, 65", partition(cuts=["18", "65"]), "cuts 18, 65"),
        ("blocks a, b | c", partition([["a", "b"], ["c"]]), "blocks a, b | c"),
    ],
)
def test_words_of_a_policy(words: str, expected: Family, shown: str) -> None:
    assert read_family(words) == expected
    assert family_words(expected) == shown


def test_other_policies_are_refused() -> None:
    for words in ("", "within", "near 5", "threshold x"):
        with pytest.raises(PolicyError):
            read_family(words)


def test_names_and_words() -> None:
    assert named(["a=1..2", "b= x = y"], "--domain") == {"a": "1..2", "b": " x = y"}
    for wrong in (["a"], ["=x"], ["a=1", "a=2"]):
        with pytest.raises(DomainError):
            named(wrong, "--domain")


def test_a_declared_attribute_in_words() -> None:
    assert attribute_words(integers(0, 9, null=0), full()) == "10 values: 0 … 9; NULL counts as 0"
    assert attribute_words(categorical(["a", "b"]), full()) == "2 values: a, b; NULL hidden, outside hidden"
    assert "NULL public, outside public" in attribute_words(categorical(["a", "b"]), public())
    assert "NULL hidden by presence alone" in attribute_words(categorical(["a", "b"]), public(), "secret")


LEVELS = bf.categorical([1, 2, 3], null=1, outside=1)


def test_pairs_from_a_file_name_declared_values(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("\ufefffrom,to\n1, 2\n\n3,2\n", encoding="utf-8")
    family = read_edges(tmp_path / "pairs.csv", LEVELS)
    graph = value_graph(family, LEVELS)
    assert isinstance(graph, EdgeGraph)
    assert graph.pairs.tolist() == [[0, 1], [1, 2]]
    assert read_edges(tmp_path / "pairs.csv").edges == (("1", "2"), ("3", "2"))
    ages = bf.integers(0, 9, null=0)
    assert value_graph(read_edges(tmp_path / "pairs.csv", ages), ages).pairs.tolist() == [[1, 2], [2, 3]]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["a,b,c\n", "a\n", '"a\n'])
def test_files_that_hold_no_pairs_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(PolicyError):
        read_edges(tmp_path / "pairs.csv")
    with pytest.raises(PolicyError):
        read_edges(tmp_path / "none.csv")


def test_a_table_of_distances_and_a_function_give_the_same_graph(tmp_path: Path) -> None:
    places = {"a": 0, "b": 3, "c": 10}
    rows = [",a,b,c", *(f"{one}," + ",".join(str(abs(x - y)) for y in places.values()) for one, x in places.items())]
    (tmp_path / "far.csv").write_text("\n".join(rows))
    found = read_distances(tmp_path / "far.csv", 7)
    by_function = metric(places, lambda one, two: abs(places[str(one)] - places[str(two)]), 7)
    assert found == by_function
    assert found.edges == (("a", "b"), ("b", "c"))
    (tmp_path / "far.csv").write_text(",a,b\nb,0,1\na,1,0\n")
    with pytest.raises(PolicyError):
        read_distances(tmp_path / "far.csv", 7)


def test_what_is_no_metric_is_refused() -> None:
    wrong: list[tuple[list[object], object, object]] = [
        ([], [], 1),
        (["a", "a"], [[0, 1], [1, 0]], 1),
        (["a", "b"], [[0, 1], [2, 0]], 1),
        (["a", "b"], [[0, -1], [-1, 0]], 1),
        (["a", "b"], [[1, 1], [1, 0]], 1),
        (["a", "b"], [[0, 1]], 1),
        (["a", "b"], [[0, "near"], ["near", 0]], 1),
        (["a", "b"], [[0, 1], [1, 0]], 0),
    ]
    for values, matrix, theta in wrong:
        with pytest.raises(PolicyError):
            metric(values, matrix, theta)  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        metric(range(2001), lambda one, two: 0, 1)
