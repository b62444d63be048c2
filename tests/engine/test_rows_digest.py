"""The digest by which answers that measure the same rows are found: of one analyst alone where sharing is their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from blowfishdb.audit.scratch import scratch
from blowfishdb.engine.compile import ANALYSTS, OWN, DatasetHandle, compile_query
from blowfishdb.engine.sharing import rows_digest
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, line
from blowfishdb.model.query import query

DOMAIN = domain({"x": integers(0, 11, null=0)})
POLICY = Policy({"x": line()})
OTHER_ROWS: dict[str, Callable[[DatasetHandle], DatasetHandle]] = {
    "account": lambda handle: replace(handle, account="another"),
    "policy": lambda handle: replace(handle, policy_version=handle.policy_version + 1),
    "domain": lambda handle: replace(handle, domain_version=handle.domain_version + 1),
    "snapshot": lambda handle: replace(handle, snapshot=handle.snapshot + 1),
    "records": lambda handle: replace(handle, records="people"),
    "sharing": lambda handle: replace(handle, sharing=OWN),
}


def test_each_analyst_has_digests_of_their_own_where_sharing_is() -> None:
    with scratch(DOMAIN, POLICY) as world:
        # The digests of one compiled query are remembered, so whoever asks first must not decide for the others.
        for names in itertools.permutations(("ana", "bob", "eve")):
            compiled = compile_query(DOMAIN, POLICY, query("histogram", "x"))
            own, shared = (replace(world.handle, sharing=sharing) for sharing in (OWN, ANALYSTS))
            assert len({rows_digest(handle, name, compiled) for name in names for handle in (own, shared)}) == 4
            assert len({rows_digest(shared, name, compiled) for name in names}) == 1


@pytest.mark.parametrize("change", OTHER_ROWS)
def test_other_versions_and_other_data_have_other_digests(change: str) -> None:
    with scratch(DOMAIN, POLICY) as world:
        compiled = compile_query(DOMAIN, POLICY, query("histogram", "x"))
        handle = replace(world.handle, sharing=ANALYSTS)
        assert rows_digest(handle, "ana", compiled) != rows_digest(OTHER_ROWS[change](handle), "ana", compiled)


def test_other_cells_have_other_digests() -> None:
    with scratch(DOMAIN, POLICY) as world:
        asked = (query("histogram", "x"), query("cdf", "x"), query("count"))
        digests = [rows_digest(world.handle, "ana", compile_query(DOMAIN, POLICY, one)) for one in asked]
        assert digests[0] == digests[1] != digests[2]
