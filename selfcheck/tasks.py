"""The tasks that the self-check adds to an audit, by section."""

from __future__ import annotations

from functools import partial

from blowfishdb.audit.run import AuditPlan, CheckWorks
from selfcheck.chains import chain_drill_lines, chain_lines, session_chain_lines
from selfcheck.core import (
    choice_lines,
    cost_lines,
    refinement_lines,
    refusal_lines,
    residuals,
    selections,
    threshold_lines,
)
from selfcheck.counting import counting_lines, truth_lines
from selfcheck.digests import digest_lines, process_lines
from selfcheck.ledger_drills import ledger_lines
from selfcheck.random_cases import (
    WAYS,
    account_lines,
    certificate_lines,
    declaration_lines,
    edge_lines,
    graph_lines,
    people_constraint_lines,
    point_lines,
)
from selfcheck.session_drills import joined_lines, session_lines


def self_check_works(plan: AuditPlan) -> CheckWorks:
    """Random cases against the definitions, checks of the core, and drills of the ledger, sessions and shared noise."""
    quick, seed = plan.quick, plan.seed
    works: CheckWorks = {
        "replay": [
            ("drills: the ledger", ledger_lines),
            ("drills: shared noise", chain_drill_lines),
            ("drills: sessions", session_lines),
            ("joined tables", joined_lines),
        ],
        "exact": [
            ("costs of selections", cost_lines),
            ("winners of selections", choice_lines),
            ("cuts of refinements", refinement_lines),
            ("refusals", refusal_lines),
            ("joint thresholds", threshold_lines),
            ("levels that share noise", chain_lines),
            ("digests", digest_lines),
            ("several datasets in one process", process_lines),
            ("constraints and people", people_constraint_lines),
            *((f"made-up plans, {way}", partial(certificate_lines, way, quick=quick, seed=seed)) for way in WAYS),
            *((f"plans on small graphs, {way}", partial(edge_lines, way, quick=quick, seed=seed)) for way in WAYS),
            *((f"made-up graphs, {way}", partial(graph_lines, way, quick=quick, seed=seed)) for way in WAYS),
            ("made-up declarations", partial(declaration_lines, quick=quick, seed=seed)),
            ("made-up points", partial(point_lines, quick=quick, seed=seed)),
            ("made-up accounts", partial(account_lines, quick=quick, seed=seed)),
        ],
        "statistical": [
            ("noise on rows", partial(residuals, quick=quick)),
            ("selections", partial(selections, quick=quick)),
        ],
    }
    if plan.subject is None:
        # These have tables of their own, and tell nothing about a declared dataset.
        works["replay"] += [
            ("sessions that share noise", partial(session_chain_lines, quick=quick, seed=seed)),
            ("answers without noise", partial(truth_lines, quick=quick, seed=seed)),
            ("made-up tables", partial(counting_lines, quick=quick, seed=seed)),
        ]
    return works
