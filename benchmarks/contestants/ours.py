"""BlowfishDB through its Python session: quoted, durably charged, counted in DuckDB, noised, recorded.

Under `only` neighbours add or remove a row, as with the peers; under `replace`, our default, a row changes its values.
`threshold` hides less: values are hidden among those at most 100 apart (8 on the grid).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp

import blowfishdb as bf
from benchmarks.contestants.common import CELLS, SIDE, Job, Values, compete
from blowfishdb.session import Question
from blowfishdb.session.table import Table

POLICIES = {
    "only": bf.Policy(presence="only"),
    "replace": bf.Policy(),
    "threshold": bf.Policy({"x": bf.threshold(100), "a": bf.threshold(8), "b": bf.threshold(8)}),
}
BUDGET = 1000


def prepare(job: Job) -> Callable[[int], Values]:
    """A dataset over the rows, under the policy of the job."""
    config = Path(mkdtemp()) / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    domain = {
        "x": bf.integers(0, CELLS - 1, null=0),
        "a": bf.integers(0, SIDE - 1, null=0),
        "b": bf.integers(0, SIDE - 1, null=0),
    }
    source = f"duckdb:///{job.folder / 'rows.duckdb'}#rows"
    with bf.curate(config) as curator:
        curator.add(bf.Dataset("rows", source=source, domain=domain, policy=POLICIES[job.policy], epsilon=BUDGET))

    def release(trial: int) -> Values:
        # Somebody else each time: the same analyst would be given the same answer again, free.
        with bf.connect(config, analyst=f"analyst {trial}") as session:
            return question(job, session["rows"]).release(epsilon=Decimal(str(job.epsilon))).values

    release(-1)
    return release


def question(job: Job, table: Table) -> Question:
    """The question of a job."""
    match job.name:
        case "line":
            return table.histogram("x")
        case "cdf":
            return table.cdf("x")
        case "ranges":
            return table.ranges("x", [(int(low), int(high)) for low, high in job.wanted("ranges")])
        case "grid":
            return table.histogram2d("a", "b")
        case _:
            boxes = [((int(a), int(b)), (int(c), int(d))) for a, b, c, d in job.wanted("boxes")]
            return table.rectangles(["a", "b"], boxes)


if __name__ == "__main__":
    compete(prepare)
