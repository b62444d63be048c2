"""Plans are made without a source and travel between processes: what comes back is charged and answered the same."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import blowfishdb as bf
import blowfishdb.server.heavy_work  # teaches pickle the fixed mappings of domains
from blowfishdb.engine.charge import UNREAD, plan_request
from blowfishdb.engine.compile import query_effort
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import AccuracyTarget, accuracy_target
from blowfishdb.model.query import Query
from tests.engine.held import bench

AGES = bf.query("histogram", "age")
CASES: dict[str, tuple[Query, AccuracyTarget]] = {
    "a plan": (AGES, accuracy_target(alpha=50, beta=0.05)),
    "a program": (AGES, accuracy_target(epsilon="1/2", mechanism="dawa")),
    "a synopsis": (bf.query("synopsis", "age"), accuracy_target(epsilon="1/2")),
    "a synopsis by a program": (bf.query("synopsis", "age"), accuracy_target(epsilon="1/2", mechanism="dawa")),
    "quantiles": (bf.query("quantiles", "age", levels=["1/2"]), accuracy_target(epsilon="1/2")),
    "a mean": (bf.query("mean", "age"), accuracy_target(epsilon="1/2")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_travels_and_is_the_same_afterwards(tmp_path: Path, name: str) -> None:
    held = bench(tmp_path)
    query, target = CASES[name]
    handle = replace(held.handle, source=UNREAD)
    planned = plan_request(handle, make_request(handle, query, target), True)
    copy = pickle.loads(pickle.dumps(planned))
    assert (copy.release.digest, copy.release.epsilon) == (planned.release.digest, planned.release.epsilon)
    assert copy.release.document() == planned.release.document()
    assert planned.preview is not None
    assert copy.preview.to_dict() == planned.preview.to_dict()
    counts = copy.release.counting(held.handle).run()
    assert copy.release.payload(counts, held.handle)


def test_effort_is_known_before_and_grows_with_cells_answers_and_attributes(tmp_path: Path) -> None:
    held = bench(tmp_path)

    def effort(query: Query) -> int:
        return query_effort(held.handle.domain, held.handle.policy, query)

    assert effort(bf.query("count")) == 1
    assert effort(bf.query("count")) < effort(AGES) < effort(bf.query("ranges", "age"))
    assert effort(bf.query("synopsis", "age")) == effort(AGES)
    assert effort(bf.query("histogram", "no such attribute")) == 1
