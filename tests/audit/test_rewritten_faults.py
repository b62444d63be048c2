"""One place of the source at a time is rewritten so that something is unsound; the audit's own checks notice each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType

import pytest
from ibis.common.exceptions import IbisError

from blowfishdb.audit.cases import battery
from blowfishdb.audit.exact import people_lines
from blowfishdb.audit.noise import edge_violations, float_violations, levels_line, quantiles_line
from blowfishdb.audit.replay import drills
from blowfishdb.audit.report import CheckLine
from blowfishdb.audit.run import DRILLED
from blowfishdb.catalog import policy_change
from blowfishdb.engine import charge, combination, joint_release, release, sharing
from blowfishdb.ledger import amounts, charges, ledger, mark, store, verification, watch
from blowfishdb.mechanisms.data_aware import partition
from blowfishdb.model import constraint_graph, constraints, graphs, groups, policy, projection
from blowfishdb.noise import coupling, quantile_sampler, sampler
from blowfishdb.plan import certificate, loss, points
from blowfishdb.session import local
from blowfishdb.sources import duckdb, irregular, keys, statement, steps
from selfcheck.chains import chain_drill_lines
from selfcheck.core import cost_lines, refusal_lines
from selfcheck.counting import counting_lines, truth_lines
from selfcheck.digests import digest_lines
from selfcheck.ledger_drills import ledger_lines
from selfcheck.random_cases import (
    WAYS,
    account_lines,
    certificate_checks,
    declaration_lines,
    edge_lines,
    graph_checks,
    point_lines,
)
from selfcheck.session_drills import joined_lines, session_lines
from tests.audit.rewritten import rewrite

pytestmark = pytest.mark.audit
Checks = Callable[[], Iterable[object]]
"""Checks of the audit, the faults they find one after the other."""


def found(lines: Callable[[], Iterable[CheckLine]]) -> Checks:
    return lambda: (line for line in lines() if line.is_violation)


def stopped(lines: Callable[[], Iterable[CheckLine]]) -> Checks:
    """For faults that end the checks: what cannot be audited is a violation, as `run_task` says."""

    def checks() -> Iterable[object]:
        try:
            yield from found(lines)()
        except IbisError as failure:
            yield failure

    return checks


def plans(way: str) -> Checks:
    return lambda: (line for seed in (1, 2) for checks in certificate_checks(way, 120, seed) for line in checks)


def moves(way: str) -> Checks:
    return lambda: itertools.chain.from_iterable(graph_checks(way, 600, 1))


LISTED, STRUCTURE, LARGE = "edges listed", "by structure", "too large to list"
LEDGER, SESSIONS = found(ledger_lines), found(session_lines)
POINTS, ACCOUNTS, PAST = (
    found(partial(lines, quick=True, seed=1)) for lines in (point_lines, account_lines, declaration_lines)
)
COSTS = found(cost_lines)
SHARED, TRUTHS, PERSONS, REFUSALS, FEW = (
    found(lines)
    for lines in (
        chain_drill_lines,
        partial(truth_lines, quick=True, seed=1),
        people_lines,
        refusal_lines,
        lambda: (line for way in WAYS for line in edge_lines(way, quick=True, seed=1)),
    )
)
SAMPLER = found(lambda: [levels_line(150_000), quantiles_line(1500)])
HEADS: Checks = lambda: itertools.chain(edge_violations(), float_violations())  # noqa: E731
RECEIPTS = found(lambda: drills(next(case for case in battery(quick=True) if case.name in DRILLED), 1))
DIGESTS = found(digest_lines)
TABLES, JOINS = found(partial(counting_lines, quick=True, seed=1)), found(joined_lines)
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
    "there and back": (
        loss,
        "exchange_loss",
        ", *([(kind, 1), (kind, -1)] for kind in kinds[1:])",
        "",
        plans(LISTED),
    ),
    "changes of three records": (
        loss,
        "exchange_loss",
        "for element in exchanges.elements.tolist():",
        "for element in [each for each in exchanges.elements.tolist() if sum(map(abs, each)) != 3]:",
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
        irregular,
        "RangedNumber.guarded",
        "[(self.value.isnan(), ibis().null(whole))] if self.nan else []",
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
    "unknown is false": (
        statement,
        "_holds",
        "passing(predicate, cuts, {name: places})",
        "passing(part, cuts, {name: places}) == wanted",
        TABLES,
    ),
    "both for either": (
        statement,
        "_holds",
        "if isinstance(part, Both) == wanted",
        "if isinstance(part, Both)",
        TABLES,
    ),
    "not a number is in no list": (
        statement,
        "_union",
        "[line.value.isnull()] + ([line.value.isnan()] if line.nan else [])",
        "[line.value.isnull()]",
        TABLES,
    ),
    "long decimals are doubles": (
        keys,
        "_is_read_by_proxy",
        "return kind.kind == ColumnKind.DECIMAL and (kind.digits is None or kind.digits > limit)",
        "return False",
        TABLES,
    ),
    "persons past the cap": (
        statement,
        "people_statement",
        "_rows(tables, homes, unit, engine)",
        "_rows(tables, homes, replace(unit, at_most=10**6), engine)",
        TABLES,
    ),
    "a file under two names": (
        duckdb,
        "matched",
        "files = {os.path.realpath(name): name for",
        "files = {name: name for",
        TABLES,
    ),
    "a table found by nothing": (
        statement,
        "_used",
        "            wanted.add(join.foreign_key)\n",
        "",
        stopped(joined_lines),
    ),
    "nobody is a person": (statement, "_people", "ids.filter(ids.person.notnull())", "ids", JOINS),
    "clocks turned the other way": (keys, "_wall_seconds", "second + choice", "second - choice", TABLES),
    "arithmetic that is never corrected": (
        steps,
        "_corrected",
        "return below if power == 1 else floor(below / whole_double(power))",
        "return below * whole_double(0)",
        TABLES,
    ),
    "edges that neither rounding tells": (
        steps,
        "_two_roundings",
        "np.all(rises | other_rises)",
        "np.any(rises | other_rises)",
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
    "running totals counted twice": (
        partition,
        "_least_spreads",
        "spread[~is_open] // q[~is_open]",
        "2 * spread[~is_open] // q[~is_open]",
        COSTS,
    ),
    "constraints that come": (
        policy_change,
        "_constraints_stretch",
        "Stretch(steps.factor * after,",
        "Stretch(steps.factor,",
        PAST,
    ),
    "more records that change": (
        policy_change,
        "_constraints_stretch",
        "Stretch(Fraction(after, before),",
        "Stretch(Fraction(1),",
        PAST,
    ),
    "another analyst's answer": (
        charges,
        "Charging.replay",
        "if analyst is not None:",
        "if False:",
        LEDGER,
    ),
    "charges in memory": (store, "_prepare_writer", "synchronous = FULL", "synchronous = OFF", LEDGER),
    "marks in memory": (mark, "_write", "    _sync_content(descriptor)\n", "", LEDGER),
    "forged receipts": (charges, "_answer", "_receipt_at(cursor, receipt.sequence) != receipt", "False", LEDGER),
    "classes of another accounting": (
        amounts,
        "in_classes",
        "return losses if all(name.startswith(start or INSIDE) == bool(start) for name in losses) else None",
        "return losses",
        LEDGER,
    ),
    "exact releases forgotten": (ledger, "_version_change", "known.charges == 0", "known.spent == 0", LEDGER),
    "one charge of several": (
        charges,
        "Charging.charge_all",
        "for charge in charges:",
        "for charge in charges[:1]:",
        LEDGER,
    ),
    "a copy that went on": (
        mark,
        "check_not_rolled_back",
        "mark.sequence > 0 and hash_of(mark.sequence) != mark.hash",
        "False",
        LEDGER,
    ),
    "a difference pays for noise of its own": (charge, "check_receipt", " or shares != (link is not None)", "", SHARED),
    "failures leave at once": (
        charge,
        "padded",
        "        _hold(began, float(step), clock)\n        raise",
        "        raise",
        SESSIONS,
    ),
    "measurements of another policy": (
        combination,
        "MeasurementCache.of",
        "if known is None or known[:2] != (handle.domain, handle.policy):",
        "if known is None:",
        DIGESTS,
    ),
    "a joint threshold below one hides nothing": (policy, "Policy.axis_family", "else NO_PAIRS", "else Public()", PAST),
    "a mark that guards nothing": (
        ledger,
        "open_ledger",
        "            check_guard(cursor.guard(), high_water.identity(), head)\n",
        "",
        LEDGER,
    ),
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
        "reached",
        'source = near if policy.composition == "record" else rejected',
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
    "leaving a listed joint graph": (
        projection,
        "_dilate_groups",
        "    np.logical_or.at(reached, cells, by_group[groups])\n",
        "",
        moves(LISTED),
    ),
    "moves of a listed joint graph that a filter cuts": (
        projection,
        "meetings_that_count",
        "verdict.accepted.any(axis=others)",
        "verdict.accepted.all(axis=others)",
        moves(LISTED),
    ),
    "NULL in a group of values": (
        groups,
        "AxisCells.universal",
        "if not slot.public",
        "if not slot.public and cell >= self.plain",
        moves(LISTED),
    ),
    "theta rounded": (projection, "project_joint", "int(grid.theta * scale)", "int(grid.theta) * scale", moves(LISTED)),
    "records that change together": (
        constraint_graph,
        "_groups",
        "zero = absent or bool(pieces.zero[numbers].any())",
        "zero = absent",
        plans(LISTED),
    ),
    "questions told apart by their groups alone": (
        sharing,
        "_rows_digest",
        '"where": {plain(where)}',
        '"where": null',
        TRUTHS,
    ),
    "another question's total": (
        joint_release,
        "JointRelease.answer_of",
        "rows.total if part.counts_all else None",
        "rows.total",
        TRUTHS,
    ),
    "rows that change while they are counted": (
        sharing,
        "draw",
        "{before, after} != {sharing.mark}",
        "before != sharing.mark",
        SHARED,
    ),
    "rows that changed while they were counted": (
        sharing,
        "draw",
        "given, before if before == after else UNPROVEN",
        "given, before",
        SHARED,
    ),
    "a part pays for the whole": (
        sharing,
        "draw",
        "finer is None and coarser is None and receipt.charge.epsilon != sharing.link.level",
        "False",
        SHARED,
    ),
    "failed draws are forgotten": (
        sharing,
        "failed_publication",
        "return Publication(frozenset(past.charge for past in sharing.published), BROKEN)",
        "return None",
        SHARED,
    ),
    "draws although another failed": (
        sharing,
        "draw",
        "is_barred = finer is None and not sharing.may_count",
        "is_barred = False",
        SHARED,
    ),
    "others' answers are quicker": (
        sharing,
        "reads_data",
        "finer is None or finer.analyst != analyst",
        "finer is None",
        SHARED,
    ),
    "a receipt pays for another plan": (charge, "check_receipt", "paid != digest or level", "level", RECEIPTS),
    "parts charged as their worst": (
        release,
        "PartsRelease.certificate",
        "sum((proof.epsilon for proof in proofs), Fraction(0))",
        "max(proof.epsilon for proof in proofs)",
        PERSONS,
    ),
    "the last universal vertex": (
        loss,
        "_worst_window_edge",
        "in graph.universal.tolist():",
        "in graph.universal.tolist()[:-1]:",
        FEW,
    ),
    "a decoder of one answer": (
        loss,
        "_check_decoder",
        "range(0, answers, step)",
        "range(0, answers - 1, step)",
        REFUSALS,
    ),
    "signs of noise on edges": (loss, "worst_noised_edge", "abs(plan.strategy).T", "plan.strategy.T", REFUSALS),
    "levels by another weight": (
        coupling,
        "draw_between",
        "sample_geometric(1 / right.fall, weights)",
        "sample_geometric(1 / right.fall, np.full_like(weights, weights.max()))",
        SAMPLER,
    ),
    "quantiles twice as sharp": (quantile_sampler, "penalty", "Fraction(0)) / 2", "Fraction(0))", SAMPLER),
    "choices in order that are not uniform": (
        quantile_sampler,
        "ordered_choice",
        "last if drawn in members else drawn",
        "last",
        SAMPLER,
    ),
    "floats of few bits": (
        sampler,
        "_float_exp",
        "low, _ = enclose_exp(rate, 64)\n    return low / 2**64",
        "low, _ = enclose_exp(rate, 32)\n    return low / 2**32",
        HEADS,
    ),
    "the newer mark overwritten": (mark, "_older_slot", "return 1 if known", "return 0 if known", LEDGER),
    "balances changed by hand": (
        watch,
        "LedgerWatch._follows",
        "fault = fault_of(partial(check_spender, cursor, account, state, analyst))",
        "fault = None",
        LEDGER,
    ),
    "lines that stop a count": (duckdb, "_csv_reader", "strict_mode = false, ignore_errors = true, ", "", TABLES),
    "counts in half a word": (
        statement,
        "_counted",
        "aggregate(n=placed.count())",
        'aggregate(n=placed.count().cast("int32"))',
        TABLES,
    ),
    "persons per class of edges": (
        charge,
        "edge_losses",
        "compiled.table is not None and compiled.table.counts_people",
        "False",
        PERSONS,
    ),
    "chains changed by hand": (
        verification,
        "_check_balances",
        "not _is_linked(cursor, name, account)",
        "False",
        LEDGER,
    ),
}


SHORT = (
    "noise of tiny prices",
    "a day too short",
    "short blocks scored twice",
    "floats of few bits",
    "persons per class of edges",
)
"""Those that show soonest; the others are for the long run."""


def test_every_place_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, function, old, new, _ in FAULTS.values():
        with monkeypatch.context() as patch:
            rewrite(patch, module, function, old, new)


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.nightly) for name in FAULTS]
)
def test_a_rewritten_place_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, old, new, checks = FAULTS[name]
    rewrite(monkeypatch, module, function, old, new)
    assert next(iter(checks()), None) is not None


@pytest.mark.nightly
def test_what_two_places_hold_apart_is_noticed_once_both_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Own sharing is kept apart twice: by the digest of rows, and where chains are looked at."""
    rewrite(monkeypatch, sharing, "rows_digest", "analyst if handle.sharing == OWN else None", "None")
    assert next(iter(SHARED()), None) is None
    rewrite(monkeypatch, sharing, "_Offers._is_possible", "self.handle.sharing == OWN or ", "")
    assert next(iter(SHARED()), None) is not None
