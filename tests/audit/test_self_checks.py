"""What `blowfish audit` does not need on a user's machine: made-up policies, plans, tables, sessions and ledgers.

None of it depends on a declared dataset. `make nightly` runs all of it, the long forms included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from blowfishdb.audit.report import Line
from tests.audit.chains import chain_drill_lines, chain_lines, session_chain_lines
from tests.audit.counting import counting_lines
from tests.audit.digests import digest_lines, process_lines
from tests.audit.ledger_drills import ledger_lines
from tests.audit.random_cases import (
    WAYS,
    account_lines,
    certificate_checks,
    certificate_lines,
    declaration_lines,
    edge_lines,
    graph_lines,
    people_constraint_lines,
    point_lines,
)
from tests.audit.sessions import joined_lines, session_lines
from tests.audit.truths import truth_lines

pytestmark = pytest.mark.audit
Sized = Callable[..., Iterable[Line]]
"""Lines of checks, given `quick` and `seed`."""
FIXED: dict[str, Callable[[], Iterable[Line]]] = {
    "the ledger": ledger_lines,
    "sessions": session_lines,
    "shared noise": chain_drill_lines,
    "joined tables": joined_lines,
    "levels that share noise": chain_lines,
    "digests": digest_lines,
    "several datasets in one process": process_lines,
    "constraints and people": people_constraint_lines,
}
SIZED: dict[str, Sized] = {
    "sessions that share noise": session_chain_lines,
    "answers without noise": truth_lines,
    "made-up tables": counting_lines,
    **{f"made-up plans, {way}": partial(certificate_lines, way) for way in WAYS},
    **{f"plans on small graphs, {way}": partial(edge_lines, way) for way in WAYS},
    **{f"made-up graphs, {way}": partial(graph_lines, way) for way in WAYS},
    "made-up declarations": declaration_lines,
    "made-up points": point_lines,
    "made-up accounts": account_lines,
}
SLOW = "several datasets in one process"


def unclean(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.verdict != "clean"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly) if n == SLOW else n for n in FIXED])
def test_nothing_is_violated(name: str) -> None:
    assert unclean(FIXED[name]()) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", SIZED)
def test_nothing_made_up_is_violated(name: str) -> None:
    assert unclean(SIZED[name](quick=False, seed=1)) == []


def test_no_made_up_account_is_charged_too_little() -> None:
    assert unclean(account_lines(quick=True, seed=2)) == []


@pytest.mark.parametrize("settings", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_no_made_up_plan_is_certified_too_low(settings: int) -> None:
    assert not any(faults_of for way in WAYS for faults_of in certificate_checks(way, settings, seed=2))


@pytest.mark.parametrize("way", WAYS)
def test_no_made_up_graph_is_projected_too_small(way: str) -> None:
    assert unclean(graph_lines(way, quick=True, seed=2)) == []
