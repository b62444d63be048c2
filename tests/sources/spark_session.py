"""A small Spark session for tests, local or on a cluster: loopback only, no pages, few partitions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tools.spark_cluster import ON_LOOPBACK, QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    **ON_LOOPBACK,
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Compiling each small statement takes longer than running it; a test switches it on for some.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK,
}
ON_A_CLUSTER = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    # One for each worker, or a test would kill the one that has nothing to do.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


@contextmanager
def running_spark(
    folder: Path, master: str = "local[2]", settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session that is active within the block."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Python's own warnings about sockets of the gateway are none of ours.
        warnings.simplefilter("ignore", ResourceWarning)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()
