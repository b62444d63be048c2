"""Graphs from files and metrics: the pairs that are meant, and clear refusals of everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.catalog.dataset import read_distances, read_edges
from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.families import metric, value_graph
from blowfishdb.model.graphs import EdgeGraph

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
