"""Random schedules of processes, connections, threads, forks, deaths and backups: no acknowledged charge is lost."""

from __future__ import annotations

import pytest

from tools.faults.schedules import run_schedules


@pytest.mark.parametrize(("count", "seed"), [(10, 1), pytest.param(200, 2, marks=pytest.mark.nightly)])
def test_every_acknowledged_charge_is_there(count: int, seed: int) -> None:
    found = list(run_schedules(count, seed))
    assert [one for one in found if not one.is_good] == []
    assert len(found) == count
    for kind in ("acknowledged", "deaths", "forks", "backups", "refused"):
        assert sum(getattr(one, kind) for one in found) >= count // 2, kind
