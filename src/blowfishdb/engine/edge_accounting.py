"""What a release costs each class of policy edges, for accounts that do not simply add up.

A class is the edges that move one attribute (under `attribute` composition) inside one component of a chosen attribute.
Its loss is the certificate of the same plan on those edges alone. Proof note: docs/proofs/edge-accounting.md.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from blowfishdb.engine.components import kept_components
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.request import Prepared
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.edge_books import SUM, class_start, parallel_attribute
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs.families import public
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import EdgePlan, Plan

PRESENCE = "presence"
RECORD = "record"


def edge_losses(holding: Holding, ready: Payable) -> dict[str, Fraction] | None:
    """What each class of edges loses by this release; None where all of them are to be charged its epsilon."""
    if holding.accounting == SUM or holding.policy.constraints:
        return None
    inner = ready.inner if isinstance(ready, PreparedSynopsis) else ready
    if not isinstance(inner, Prepared | PreparedProgram):
        return None
    plan = inner.best.plan if isinstance(inner, Prepared) else None
    compiled = inner.compiled
    groups = _group_losses(holding.domain, holding.policy, compiled.cells, compiled.query.axes, plan, ready.epsilon)
    parallel = parallel_attribute(holding.accounting)
    if parallel is None:
        return groups
    parts = kept_components(holding.domain, holding.policy, parallel, compiled.cells)
    start = class_start(holding.accounting)
    return {f"{start}{part}: {group}": loss for part in parts for group, loss in groups.items()}


def _group_losses(
    domain: Domain, policy: Policy, cells: Cells, axes: tuple[Axis, ...], plan: Plan | EdgePlan | None, whole: Fraction
) -> dict[str, Fraction]:
    """The loss on the edges that move each attribute the release looks at, and on those to absence."""
    found: dict[str, Fraction] = {}
    if policy.presence != "public":
        found[PRESENCE] = _certified(domain, replace(policy, presence="only"), cells, axes, plan, whole)
    if policy.presence == "only":
        return found
    values = replace(policy, presence="public")
    if policy.composition == "record":
        return {**found, RECORD: _certified(domain, values, cells, axes, plan, whole)}
    for group in policy.factors(cells.attributes):
        others = {name: public() for name in cells.attributes if name not in group}
        # Without its joint thresholds the axes could stand in another order than in the plan.
        alone = None if policy.joint else replace(values, attributes={**values.attributes, **others})
        loss = whole if alone is None else _certified(domain, alone, cells, axes, plan, whole)
        found[_class_of(policy, group[0])] = loss
    return found


def _class_of(policy: Policy, name: str) -> str:
    """The class of the edges that move an attribute: one for all attributes of a joint threshold, asked for or not."""
    grid = policy.grid_of(name)
    return f"moves {name if grid is None else grid.attributes[0]}"


def _certified(
    domain: Domain, policy: Policy, cells: Cells, axes: tuple[Axis, ...], plan: Plan | EdgePlan | None, whole: Fraction
) -> Fraction:
    """The plan's loss on the edges of this policy; all of epsilon where that cannot be told."""
    if plan is None:
        return whole
    try:
        graph = compile_cells(domain, policy, axes, cells.where).graph
        return min(whole, certify(plan, graph).epsilon) if graph.shape == cells.graph.shape else whole
    except BlowfishError:
        return whole
