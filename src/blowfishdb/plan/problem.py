"""The problem a mechanism solves: cells, the policy graph on them, and the queries to answer."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.errors import PlanError
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest, encode
from blowfishdb.model.rows import Rows


@dataclass(frozen=True, eq=False)
class Problem:
    """What is asked of the counts over the cells of `graph`, in row-major order."""

    graph: CellGraph
    workload: Rows

    def __post_init__(self) -> None:
        if self.workload.shape[1] != self.graph.cells:
            raise PlanError(f"the workload is over {self.workload.shape[1]} cells, the graph has {self.graph.cells}")
        if self.workload.shape[0] == 0:
            raise PlanError("a workload asks at least one query")

    def fingerprint(self) -> bytes:
        """Bytes that determine graph and workload, for digests and for caches that compare values."""
        return encode(("problem", self.graph.fingerprint(), self.workload.fingerprint()))

    def digest(self) -> str:
        """A hash of graph and workload; simulations are seeded by it."""
        return digest(self.fingerprint())
