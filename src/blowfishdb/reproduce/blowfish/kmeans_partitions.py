"""Figure 1(f): k-means of tweets when records are hidden within the blocks of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from blowfishdb.reproduce.blowfish import kmeans_runs
from blowfishdb.reproduce.blowfish.kmeans_charts import FULL, data_of, draw_pairs, gain, policies_of, trials, values
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import geometric_mean
from blowfishdb.reproduce.settings import Settings

SIDES = ("2", "10", "20", "100")
"""Blocks along each side of the paper's 400 by 300 cells."""
EXACT = 1.02
CLAIM = "Partitions give smaller objectives than the Laplace mechanism; with each cell by itself clustering is exact."


def cases(settings: Settings) -> list[Case]:
    """The full graph, partitions into more and more blocks, and each cell by itself."""
    sides = settings.pick(SIDES[:1], SIDES[:3], SIDES)
    policies = [("full", ""), *(("partition", side) for side in sides), ("cells", "")]
    return kmeans_runs.cases(settings, ["tweets"], {"tweets": policies})


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("objectives", "Objective over the non-private one, by policy and epsilon", tuple(rows))
    title = "Blowfish, Figure 1(f): k-means under partitions (mean, quartiles shaded)"
    picture = Picture("objectives", title, trials(rows), partial(draw_pairs, rows=rows), (6.4, 6.6))
    return Result((table,), (picture,), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether each partition beats the Laplace mechanism, and whether single cells are clustered exactly."""
    data = data_of(rows)[0]
    *blocks, cells = (policy for policy in policies_of(rows, data) if policy != FULL)
    laplace = min(values(rows, data, FULL, "printed").values())
    worst = max(value for policy in blocks for value in values(rows, data, policy, "ours").values())
    printed = min(g for policy in blocks for g in gain(rows, data, policy, "printed").values())
    own = [geometric_mean(gain(rows, data, policy, "ours").values()) for policy in blocks]
    exact = max(values(rows, data, cells, "ours").values())
    start = max(values(rows, data, cells, "noiseless").values())
    why = (
        f"The certified release, which counts blocks exactly, stays within {worst:.4g} times the non-private "
        f"objective under every partition (the Laplace mechanism: {laplace:.4g} or more), but of that the partition "
        f"itself gives a factor of {min(own):.4g} to {max(own):.4g} only; it is within {exact:.4g} when cells are "
        f"public. The printed iteration, whose noise under a partition is not private, has gains of {printed:.3g} or "
        f"more, and even without noise is {start:.3g} times away, because it starts from random centres."
    )
    return Verdict(CLAIM, how_it_holds([worst < laplace, min(own) >= 1.0, exact <= EXACT]), why)


PROCEDURE = Procedure(cases, kmeans_runs.measure, conclude)
