"""Quantiles of a column of Adult under add/remove privacy: mean rank error beside JointExp's, processor seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.harness import Row
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.program import QuantilesRelease
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query, query
from blowfishdb.sources.base import Source

PUBLISHED = {(1000, 1): 1.9, (1000, 9): 5.5, (1000, 29): 10.6, (48_842, 1): 5.3, (48_842, 9): 5.1, (48_842, 29): 7.6}
"""Mean rank errors of JointExp, its authors' code (google-research, dp_multiq), by records and levels at epsilon 1."""
REPEATS = 40


def run(data: Path | None) -> Iterator[Row]:
    """The mean number of records between chosen and true quantiles; the aim is a ratio of at most 1.1, under 1 s."""
    del data
    import pyarrow.parquet

    path = resources.files("blowfishdb") / "data" / "adult.parquet"
    values: Ints = pyarrow.parquet.read_table(str(path), columns=["fnlwgt"])["fnlwgt"].to_numpy().astype(np.int64)
    low, high = int(values.min()), int(values.max())
    declared = domain({"fnlwgt": integers(low, high, null=low)})
    # Neither quotes nor answers read the source: the counts are given.
    handle = DatasetHandle("adult", declared, Policy(presence="only"), "a", 1, 1, 1, cast(Source, None))
    random = np.random.default_rng(1)
    for (rows, levels), published in PUBLISHED.items():
        asked = query("quantiles", "fnlwgt", levels=[Fraction(place, levels + 1) for place in range(1, levels + 1)])
        errors, seconds, mechanisms = [], [], set[str]()
        for _ in range(REPEATS):
            some = values if rows == values.size else random.choice(values, rows, replace=False)
            counts = np.bincount(some - low, minlength=high - low + 1).astype(np.int64)
            start = time.process_time()
            answer = _answered(handle, asked, counts)
            seconds.append(time.process_time() - start)
            errors.append(_rank_error(np.sort(some), answer.values, asked))
            mechanisms.add(answer.mechanism)
        ours, off = float(np.mean(errors)), float(np.std(errors)) / REPEATS**0.5
        note = f"{', '.join(sorted(mechanisms))}; standard error {off:.2f}; slowest {max(seconds[1:]):.2f} s"
        case = f"{rows:,} records, {levels} levels"
        yield Row(case, ours, published, ours / published, float(np.median(seconds)), note=note)


def _answered(handle: DatasetHandle, asked: Query, counts: Ints) -> Answer:
    """The answer by the mechanism that the quote chooses."""
    release = prepare(handle, make_request(handle, asked, accuracy_target(epsilon=1)))
    if not isinstance(release, QuantilesRelease | PlanRelease):
        raise TypeError("quantiles are chosen or read off a CDF")
    return release.answer(counts)


def _rank_error(records: Ints, chosen: Floats, asked: Query) -> float:
    """The mean number of records between each chosen value and the true quantile, as the peer's authors count them."""
    truth = np.quantile(records, [float(level) for level in asked.levels], method="lower")
    ends = [np.searchsorted(records, values, side="right") for values in (truth, chosen)]
    return float(np.mean(np.abs(ends[0] - ends[1])))
