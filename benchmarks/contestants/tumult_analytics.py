"""Tumult Analytics on a local Spark: a grouped count with a public key set."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import numpy as np
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

from benchmarks.contestants.common import CELLS, Job, Values, compete


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in Spark, cached; one release first, because Spark's first statement takes long."""
    # Spark's workers are Pythons of their own, and need the same packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(job.folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    np.savetxt(job.folder / "tumult.csv", job.codes(), fmt="%d", header="cell", comments="")
    frame = spark.read.csv(str(job.folder / "tumult.csv"), header=True, schema="cell BIGINT").cache()
    frame.count()
    keys = KeySet.from_dict({"cell": list(range(CELLS))})

    def release(trial: int) -> Values:
        del trial
        budget = PureDPBudget(job.epsilon)
        session = Session.from_dataframe(budget, "rows", frame, protected_change=AddOneRow())
        found = session.evaluate(QueryBuilder("rows").groupby(keys).count(), budget).toPandas()
        values = np.zeros(CELLS)
        values[found["cell"].to_numpy()] = found["count"].to_numpy()
        return values

    release(-1)
    return release


if __name__ == "__main__":
    compete(prepare)
