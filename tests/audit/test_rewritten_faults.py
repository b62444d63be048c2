"""One place of the source at a time is rewritten so that something is unsound; the audit's own checks notice each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType

import pytest

from blowfishdb.audit.counting import counting_lines
from blowfishdb.audit.drills import session_lines
from blowfishdb.audit.ledger_drills import ledger_lines
from blowfishdb.audit.random_cases import (
    account_lines,
    certificate_checks,
    declaration_lines,
    graph_checks,
    point_lines,
)
from blowfishdb.audit.report import Line
from blowfishdb.audit.selections import cost_lines
from blowfishdb.catalog import stretch
from blowfishdb.engine import charge
from blowfishdb.ledger import charges, curation, mark, sqlite
from blowfishdb.ledger import values as ledger_values
from blowfishdb.mechanisms.data_aware import partition
from blowfishdb.model import constraint_graph, constraints, graphs, policy, projection
from blowfishdb.plan import certificate, loss, points
from blowfishdb.session import local
from blowfishdb.sources import keys, number_keys, statement
from tests.audit.rewritten import rewrite

pytestmark = pytest.mark.audit
Checks = Callable[[], Iterable[object]]
"""Checks of the audit, the faults they find one after the other."""


def found(lines: Callable[[], Iterable[Line]]) -> Checks:
    return lambda: (line for line in lines() if line.is_violation)


def plans(way: str) -> Checks:
    return lambda: itertools.chain.from_iterable(certificate_checks(way, 120, 1))


def moves(way: str) -> Checks:
    return lambda: itertools.chain.from_iterable(graph_checks(way, 600, 1))


LISTED, STRUCTURE, LARGE = "edges listed", "by structure", "too large to list"
LEDGER, SESSIONS = found(ledger_lines), found(session_lines)
POINTS, ACCOUNTS, PAST = (
    found(partial(lines, quick=True, seed=1)) for lines in (point_lines, account_lines, declaration_lines)
)
COSTS = found(cost_lines)
TABLES = found(partial(counting_lines, quick=True, seed=1))
FAULTS: dict[str, tuple[ModuleType, str, str, str, Checks]] = {
    "any count bounds the records": (
        constraints,
        "rows_given",
        "constraint.value if isinstance(constraint, RowsConstraint) else None",
        "constraint.value",
        plans(LARGE),
    ),
    "noise of tiny prices": (
        certificate,
        "rescaled",
        "certificate.epsilon / epsilon)",
        "certificate.epsilon / max(epsilon, Fraction(1, 2000)))",
        plans(LISTED),
    ),
    "units rounded": (
        certificate,
        "calibrate",
        "plan.with_unit(Fraction(worst.loss) / epsilon)",
        "plan.with_unit((Fraction(worst.loss) / epsilon).limit_denominator(1000))",
        plans(LISTED),
    ),
    "NULL charged to no part": (
        charge,
        "_components",
        ".components(), codes",
        ".components()[: values.size], values",
        ACCOUNTS,
    ),
    "anybody opens an answer": (local, "local_backend", "charge.analyst == analyst", "True", SESSIONS),
    "the last edge of weights on points": (
        points,
        "_least_on_axis",
        "edges = graph.edges()\n",
        "edges = graph.edges()[:-1]\n",
        POINTS,
    ),
    "only the first clique of weights on points": (
        points,
        "_least_on_axis",
        "axis.kept(first, plain - 1 - last)",
        "axis.kept(first[:1], plain - 1 - last[:1])",
        POINTS,
    ),
    "the last clique of weights on points": (
        points,
        "_least_on_axis",
        "axis.kept(first, plain - 1 - last).min()",
        "axis.kept(first[:-1], plain - 1 - last[:-1]).min(initial=axis.steps)",
        POINTS,
    ),
    "swept groups one short": (
        certificate,
        "_swept",
        "reach[members] = members[-1]",
        "reach[members] = np.maximum(members, members[-1] - 1)",
        plans(STRUCTURE),
    ),
    "pairs of a group one short": (
        certificate,
        "_pairs",
        "sizes) - place - 1",
        "sizes) - place - 1 - (np.repeat(sizes, sizes) > 2) * (place + 1 < np.repeat(moves.starts[1:], sizes))",
        plans(LISTED),
    ),
    "changes of several kinds forgotten": (
        loss,
        "exchange_loss",
        "for element in exchanges.elements.tolist():",
        "for element in exchanges.elements.tolist()[:0]:",
        plans(LISTED),
    ),
    "an edge of a filter counted twice": (
        statement,
        "_segment",
        "high = line.value < line.edge(edges[after])",
        "high = line.value <= line.edge(edges[after])",
        TABLES,
    ),
    "a row too many of each person": (
        statement,
        "_bounded",
        'ranked["rank"] <= unit.at_most',
        'ranked["rank"] <= unit.at_most + 1',
        TABLES,
    ),
    "not a number is above all": (
        number_keys,
        "Number.guarded",
        "[(self.value.isnan(), ibis.null(whole))] if self.nan else []",
        "[]",
        TABLES,
    ),
    "nothing listed is NULL": (
        keys,
        "category_key",
        "is_null = np.array(fetched[1], dtype=np.bool_)",
        "is_null = np.zeros(len(fetched[1]), dtype=np.bool_)",
        TABLES,
    ),
    "clocks turned the other way": (keys, "_wall_seconds", "second + choice", "second - choice", TABLES),
    "arithmetic that is never corrected": (
        number_keys,
        "_corrected",
        "near + (below if power == 1 else floor(below / whole_double(power)))",
        "near",
        TABLES,
    ),
    "leaving forgotten on long axes": (
        certificate,
        "_swept",
        "members if with_zero else members[:0]",
        "members[:0]",
        plans(LARGE),
    ),
    "a day too short": (policy, "_dates_within", "starts[1:] - 1 +", "starts[1:] - 2 +", moves(LISTED)),
    "short blocks scored twice": (
        partition,
        "deviations",
        "sums.append(upper - ordered[:, :half].sum(axis=1))",
        "sums.append((upper - ordered[:, :half].sum(axis=1)) * (1 + (part.shape[1] < size)))",
        COSTS,
    ),
    "constraints that come": (
        stretch,
        "_constraints_stretch",
        "Stretch(steps.factor * after,",
        "Stretch(steps.factor,",
        PAST,
    ),
    "more records that change": (
        stretch,
        "_constraints_stretch",
        "Stretch(Fraction(after, before),",
        "Stretch(Fraction(1),",
        PAST,
    ),
    "another analyst's answer": (
        charges,
        "Charging.replay",
        "and analyst in (None, receipt.charge.analyst)",
        "and True",
        LEDGER,
    ),
    "charges in memory": (sqlite, "_connect", "synchronous = FULL", "synchronous = OFF", LEDGER),
    "marks in memory": (mark, "_write", "    _sync_content(descriptor)\n", "", LEDGER),
    "forged receipts": (charges, "_answer", "_receipt_at(cursor, receipt.sequence) != receipt", "False", LEDGER),
    "classes of another accounting": (
        ledger_values,
        "in_classes",
        "return losses if all(name.startswith(start or INSIDE) == bool(start) for name in losses) else None",
        "return losses",
        LEDGER,
    ),
    "exact releases forgotten": (curation, "_version_change", "known.charges == 0", "known.spent == 0", LEDGER),
    "NULL beside outside": (
        graphs,
        "WindowGraph.edges",
        "index[~mask | (index > universal_vertex)]",
        "index[~mask]",
        moves(LISTED),
    ),
    "L2 one short": (graphs, "GridGraph.edges", "near = total <= limit", "near = total < limit", moves(LISTED)),
    "leaving by two attributes": (
        projection,
        "_reached",
        'source = reached if policy.composition == "record" else rejected',
        "source = rejected",
        moves(LISTED),
    ),
    "leaving by NULL": (
        projection,
        "_dilate_windows",
        "        reached |= mask[graph.universal].any(axis=0)\n",
        "",
        moves(LISTED),
    ),
    "leaving along one axis": (
        projection,
        "_dilate_cube",
        "for axis in range(len(graph.shape)):",
        "for axis in range(1):",
        moves(STRUCTURE),
    ),
    "theta rounded": (projection, "project_joint", "int(grid.theta * scale)", "int(grid.theta) * scale", moves(LISTED)),
    "records that change together": (
        constraint_graph,
        "_groups",
        "zero = absent or bool(pieces.zero[numbers].any())",
        "zero = absent",
        plans(LISTED),
    ),
}


SHORT = ("noise of tiny prices", "a day too short", "short blocks scored twice", "charges in memory")
"""Those that show soonest; the others are for the long run."""


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.nightly) for name in FAULTS]
)
def test_a_rewritten_place_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, old, new, checks = FAULTS[name]
    rewrite(monkeypatch, module, function, old, new)
    assert next(iter(checks()), None) is not None
