"""The conformance suite on Spark, in one test: a session is dear, and each worker would start its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources import stores
from tests.sources.cases import CASES
from tests.sources.spark_session import running_spark
from tests.sources.tables import SAMPLES
from tests.sources.test_conformance import check


@pytest.mark.java
def test_spark_counts_like_every_other_engine(tmp_path: Path) -> None:
    with running_spark(tmp_path) as session:
        stores.load_duckdb(tmp_path / "samples.duckdb", SAMPLES)
        url = stores.load_spark(tmp_path / "samples.duckdb", tmp_path, SAMPLES)
        wrong = {}
        for number, case in enumerate(CASES):
            session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if number % 8 else "CODEGEN_ONLY")
            try:
                check(url, case)
            except AssertionError as difference:
                wrong[case.name] = str(difference)
        assert wrong == {}
