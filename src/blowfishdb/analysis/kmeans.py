"""k-means under a policy: computed from one charged release of node weights, with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.analysis.clustering import Clusters, cluster, distances
from blowfishdb.analysis.density import sharpened
from blowfishdb.engine.demand import Number
from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.errors import InvalidInput, NotRevealed
from blowfishdb.model.arrays import Floats, Ints


class Columns(Protocol):
    """Columns of a dataset as points, perhaps filtered."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in the order in which they were asked for."""
        ...

    def node_weights(
        self, *, epsilon: Number, clusters: int, rows: int | None = None, key: str | None = None
    ) -> NodeWeights:
        """Weights on the nodes of a grid that suits so many clusters, charged."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class KMeans:
    """Cluster centres that were learned under a policy; the same names as in scikit-learn's KMeans after a fit.

    Everything here is computed from `released`. `estimated_inertia_` and `estimated_cluster_sizes_` describe the
    release, not the data; how far the records themselves lie from the centres is not revealed.
    """

    n_clusters: int
    feature_names_in_: tuple[str, ...]
    cluster_centers_: Floats
    estimated_cluster_sizes_: Floats
    estimated_inertia_: float
    released: NodeWeights = field(repr=False)

    @property
    def n_features_in_(self) -> int:
        """How many columns there are."""
        return len(self.feature_names_in_)

    @property
    def epsilon(self) -> Fraction:
        """What the release cost."""
        return self.released.epsilon

    @property
    def inertia_(self) -> float:
        """Never: the summed squared distance of the records was not released."""
        raise NotRevealed("inertia_", "estimated_inertia_, which is computed from the release")

    @property
    def labels_(self) -> Ints:
        """Never: which cluster a record belongs to was not released."""
        raise NotRevealed("labels_", "predict(points) on points of your own")

    def __repr__(self) -> str:
        return f"<{self.n_clusters} centres of {', '.join(self.feature_names_in_)}, from {self.released!r}>"

    def predict(self, points: ArrayLike) -> Ints:
        """The number of the nearest centre for each point (points by columns, in the order of the names)."""
        return np.asarray(self._apart(points).argmin(axis=1), dtype=np.int64)

    def transform(self, points: ArrayLike) -> Floats:
        """The distance of each point to each centre."""
        return np.sqrt(self._apart(points))

    def score(self, points: ArrayLike) -> float:
        """Minus the summed squared distance of the given points to their nearest centres."""
        return -float(self._apart(points).min(axis=1).sum())

    def _apart(self, points: ArrayLike) -> Floats:
        table = np.asarray(points, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_features_in_ or not np.all(np.isfinite(table)):
            raise InvalidInput(f"points are a table of finite numbers with {self.n_features_in_} columns")
        return distances(table, self.cluster_centers_)


def kmeans(
    columns: Columns,
    n_clusters: int,
    *,
    epsilon: Number,
    seed: int = 0,
    rows: int | None = None,
    key: str | None = None,
) -> KMeans:
    """Cluster centres of the columns, for one charge of `epsilon`.

    `rows` is about how many records there are; it steers the grid only, and is looked up where it is public. The same
    question is answered from the stored release, free; another seed starts the search elsewhere on the same release.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidInput("a seed is a whole number")
    released = columns.node_weights(epsilon=epsilon, clusters=n_clusters, rows=rows, key=key)
    return from_weights(released, n_clusters, columns.names, seed)


def from_weights(released: NodeWeights, n_clusters: int, names: tuple[str, ...], seed: int = 0) -> KMeans:
    """Cluster centres from weights that were released before; costs nothing."""
    points, weights = sharpened(released)
    order = [released.names.index(name) for name in names]
    found: Clusters = cluster(points[:, order], weights, n_clusters, seed)
    return KMeans(n_clusters, names, found.centers, found.weights, found.spread, released)
