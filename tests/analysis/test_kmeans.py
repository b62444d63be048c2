"""k-means from one charged release: charged first, replayed free, near the truth, and nothing of the data beside it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.kmeans import cleaned, cluster, from_weights, sharpened
from blowfishdb.engine.points import PointWeights
from blowfishdb.errors import BlowfishError, BudgetExceeded, DocumentError, InvalidInput, NotRevealed, QueryError
from blowfishdb.session import Session
from tests.session.places import configuration

CENTERS = np.array([[20.0, 20.0], [80.0, 30.0], [50.0, 80.0]])
RANDOM = np.random.default_rng(5)
POINTS = np.clip(np.floor(np.repeat(CENTERS, 400, axis=0) + RANDOM.normal(0, 5, (1200, 2))), 0, 99).astype(np.int64)


def opened(folder: Path, policy: bf.Policy, epsilon: str = "50") -> Session:
    listed = ", ".join(f"({i}, {x}, {y}, '{'ab'[i % 2]}')" for i, (x, y) in enumerate(POINTS))
    with duckdb.connect(str(folder / "points.duckdb")) as connection:
        connection.execute(f"CREATE TABLE points AS SELECT * FROM (VALUES {listed}) AS t(id, x, y, kind)")
    config = configuration(folder)
    dataset = bf.Dataset(
        "points",
        source="duckdb:///points.duckdb#points",
        domain={
            "x": bf.integers(0, 99, null=0),
            "y": bf.integers(0, 99, null=0),
            "kind": bf.categorical(["a", "b"], null="a", outside="a"),
        },
        policy=policy,
        epsilon=epsilon,
    )
    with bf.curate(config, by="cora") as keeper:
        keeper.add(dataset)
    return bf.connect(config, analyst="ana")


NEAR = bf.Policy(joint=[bf.grid(["x", "y"], 5, "l1")])


def furthest(centers: np.ndarray) -> float:
    """How far the worst true centre is from the nearest one found."""
    return float(np.sqrt(((CENTERS[:, None] - centers[None]) ** 2).sum(axis=2)).min(axis=1).max())


def test_centres_are_found_charged_once_and_replayed_free(tmp_path: Path) -> None:
    with opened(tmp_path, NEAR) as db:
        found = bf.analysis.kmeans(db["points"].columns(["y", "x"]), 3, epsilon="0.5", seed=1)
        assert found.cluster_centers_.shape == (3, 2)
        assert furthest(found.cluster_centers_[:, ::-1]) < 5
        assert db.budget("points").spent == Fraction(1, 2) == found.epsilon
        again = bf.analysis.kmeans(db["points"].columns(["y", "x"]), 3, epsilon="0.5", seed=1)
        assert again.cluster_centers_.tolist() == found.cluster_centers_.tolist()
        assert db.budget("points").spent == Fraction(1, 2)
        assert found.released.block_counts is not None
        assert float(found.released.block_counts.sum()) == 1200


def test_the_result_speaks_as_scikit_learn_does_and_keeps_the_rest_to_itself(tmp_path: Path) -> None:
    with opened(tmp_path, NEAR) as db:
        found = bf.analysis.kmeans(db["points"].columns(["x", "y"]), 3, epsilon=1)
    assert (found.n_clusters, found.n_features_in_, found.feature_names_in_) == (3, 2, ("x", "y"))
    labels = found.predict(CENTERS)
    assert sorted(labels.tolist()) == [0, 1, 2]
    assert found.transform(CENTERS).shape == (3, 3)
    assert found.score(found.cluster_centers_) == pytest.approx(0.0, abs=1e-6)
    assert found.estimated_cluster_sizes_.sum() == pytest.approx(1200)
    for hidden in ("inertia_", "labels_"):
        assert not hasattr(found, hidden)
        with pytest.raises(NotRevealed):
            getattr(found, hidden)
    with pytest.raises(InvalidInput):
        found.predict([[1.0, 2.0, 3.0]])
    assert "epsilon 1" in repr(found)


@pytest.mark.parametrize(
    "policy",
    [
        bf.Policy(),
        bf.Policy({"x": bf.threshold(5), "y": bf.threshold(5)}, composition="attribute"),
        bf.Policy({"x": bf.partition(cuts=[50]), "y": bf.full()}),
        bf.Policy({"x": bf.line(), "y": bf.line()}, presence="secret"),
        bf.Policy(presence="only"),
        bf.Policy(joint=[bf.grid(["x", "y"], 5, "l2")]),
        bf.Policy(joint=[bf.grid(["x", "y"], 5, "linf")], unit=bf.person("id", at_most=2, order_by="id")),
    ],
)
@pytest.mark.sampled(3)
def test_every_policy_is_served(tmp_path: Path, policy: bf.Policy) -> None:
    with opened(tmp_path, policy) as db:
        found = bf.analysis.kmeans(db["points"].columns(["x", "y"]), 3, epsilon=5, rows=1200)
        assert db.budget("points").spent == 5
    assert furthest(found.cluster_centers_) < 12


def test_blocks_that_nobody_leaves_are_counted_exactly_and_cost_nothing(tmp_path: Path) -> None:
    cuts = bf.partition(cuts=list(range(5, 100, 5)))
    with opened(tmp_path, bf.Policy({"x": cuts, "y": cuts})) as db:
        columns = db["points"].columns(["x", "y"])
        assert columns.preview(epsilon=1, clusters=3).others
        released = columns.point_weights(epsilon="0.01", clusters=3, rows=100)
        assert (released.epsilon, db.budget("points").spent, released.scale) == (0, 0, 0.0)
        assert released.block_counts is not None
        table, _, _ = np.histogram2d(POINTS[:, 0] // 5, POINTS[:, 1] // 5, bins=(range(21), range(21)))
        assert released.block_counts.tolist() == table.tolist()
        assert cleaned(released).sum() == pytest.approx(1200)
    public = bf.Policy({"x": bf.public(), "y": bf.public()})
    (tmp_path / "open").mkdir()
    with opened(tmp_path / "open", public) as db:
        found = bf.analysis.kmeans(db["points"].columns(["x", "y"]), 3, epsilon=1)
        assert (found.epsilon, db.budget("points").spent, found.released.scale) == (0, 0, 0.0)
        best = cluster(POINTS.astype(np.float64), np.ones(1200), 3, seed=0)
        assert found.cluster_centers_ == pytest.approx(best.centers, abs=1.5)


def test_filters_and_refusals(tmp_path: Path) -> None:
    with opened(tmp_path, NEAR, epsilon="1") as db:
        table = db["points"].where(bf.col("kind") == "a")
        released = table.columns(["x", "y"]).point_weights(epsilon="0.5", clusters=3, rows=600)
        assert released.block_counts is None
        assert "where kind = 'a'" in released.title
        assert float(released.weights.sum()) == pytest.approx(600, abs=300)
        with pytest.raises(BudgetExceeded):
            bf.analysis.kmeans(db["points"].columns(["x", "y"]), 3, epsilon=2)
        spent = db.budget("points").spent
        for columns, clusters in ((["kind"], 3), (["x", "x"], 3), (["x", "y"], 0), ([], 3)):
            with pytest.raises(QueryError):
                bf.analysis.kmeans(db["points"].columns(columns), clusters, epsilon="0.1")
        with pytest.raises(BlowfishError):
            bf.analysis.kmeans(db["points"].columns(["x"]), 2, epsilon="0.1", seed=0.5)  # type: ignore[arg-type]
        with pytest.raises(BlowfishError):
            bf.analysis.kmeans(db["points"].columns(["x"]), 2, epsilon=0)
        assert db.budget("points").spent == spent


def test_weights_read_back_as_they_were_written(tmp_path: Path) -> None:
    with opened(tmp_path, NEAR) as db:
        released = db["points"].columns(["x", "y"]).point_weights(epsilon=1, clusters=3)
    again = PointWeights.from_json(released.to_json())
    assert again.to_json() == released.to_json()
    points, weights = sharpened(again)
    assert points.shape == (weights.size, 2)
    assert from_weights(again, 2, ("x", "y")).cluster_centers_.shape == (2, 2)
    longer = released.to_json().replace('"weights":[', '"weights":[1,')
    for broken in (
        "{}",
        "[",
        '{"schema": "blowfishdb-answer/1"}',
        released.to_json().replace('"scale":', '"scaled":'),
        longer,
    ):
        with pytest.raises(DocumentError):
            PointWeights.from_json(broken)


def test_sharpening_gives_the_weights_back() -> None:
    """Without noise, the points that are found explain the released weights."""
    from papers.blowfish.clusters import prepared, synthetic, weights_of

    table = synthetic(1)
    released = weights_of(table, bf.Policy(), prepared(table, bf.Policy(), "1000"))
    points, weights = sharpened(released)
    grid_points = np.stack(
        np.meshgrid(*(column.grid_points for column in released.columns), indexing="ij"), axis=-1
    ).reshape(-1, 4)
    assert weights.sum() == pytest.approx(1000)
    middle = (cleaned(released).ravel() @ grid_points) / 1000
    assert (weights @ points) / weights.sum() == pytest.approx(middle, abs=0.02)


def test_few_points_and_equal_points_do_not_stop_the_search() -> None:
    found = cluster(np.array([[1.0], [1.0], [4.0]]), np.array([1.0, 1.0, 2.0]), 3, seed=2)
    assert found.spread == pytest.approx(0.0)
    assert cluster(np.zeros((1, 2)), np.zeros(1), 2, seed=0).centers.tolist() == [[0.0, 0.0], [0.0, 0.0]]
