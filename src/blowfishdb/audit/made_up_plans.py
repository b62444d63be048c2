"""Made-up plans on made-up policies: what the certificate says against every pair of records that a move joins.

No mechanism proposes most of these plans; whatever does propose one is charged what the certificate says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.audit.all_changes import cells_of_records
from blowfishdb.audit.cases import LIMITS, LISTS, limited
from blowfishdb.audit.made_up import made_up, made_up_places, one_of
from blowfishdb.audit.neighbours import Setting, changes, sample_records
from blowfishdb.audit.verdicts import Line, amount, judged
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Identity, Intervals, Prefix, Sparse
from blowfishdb.plan.certificate import calibrate, certify, rescaled
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

PLANS, MOST_RECORDS = 6, 150
WAYS = {"edges listed": (), "by structure": LIMITS, "too large to list": (*LIMITS, *LISTS)}
"""Which limits are taken to be passed, so that small questions are certified as large ones are."""
PRICE = Fraction(3, 7)


def certificate_lines(*, quick: bool, seed: int) -> Iterator[Line]:
    """One line for each way in which plans are certified."""
    settings = 48 if quick else 200
    for number, (way, limits) in enumerate(WAYS.items()):
        random, tried, troubles = np.random.default_rng([seed, number, 23]), 0, list[str]()
        for place in range(settings):
            setting = made_up_places(random) if place % 6 == 0 else made_up(random)
            with limited(limits):
                known = _Known.of(setting, is_listed=not limits)
                if known is None:
                    continue
                for turn in range(PLANS):
                    troubles += known.troubles(random, in_buckets=turn % 3 == 2)
                    tried += 1
                troubles += [*known.exact_troubles(random), *known.leaving_troubles()]
        yield judged("exact", f"certificates of made-up plans, {way}", "every edge", troubles, "none too low", tried)


@dataclass(frozen=True, eq=False)
class _Known:
    """A made-up question: its graph, and the cells between which the records of every hidden change move."""

    setting: Setting
    graph: CellGraph
    steps: list[list[tuple[int, int]]]
    is_plain: bool
    """Whether the graph is the policy itself: nothing filtered, no facts, all records known, all edges listed."""

    @classmethod
    def of(cls, setting: Setting, *, is_listed: bool) -> _Known | None:
        """None where the question is refused."""
        try:
            cells = compile_cells(setting.domain, setting.policy, setting.axes, setting.where)
        except BlowfishError:
            return None
        everyone = sample_records(setting, np.random.default_rng(1), MOST_RECORDS)
        placed = cells_of_records(cells, everyone)
        where = {id(record): cell for record, cell in zip(everyone, placed, strict=True)} | {id(None): -1}
        steps = [
            [(where[id(old)], where[id(new)]) for old, new in zip(change.before, change.after, strict=True)]
            for change in changes(setting, everyone)
        ]
        is_plain = is_listed and setting.where is None and not setting.policy.facts and setting.is_complete(everyone)
        return cls(setting, cells.graph, steps, is_plain)

    def troubles(self, random: np.random.Generator, *, in_buckets: bool) -> Iterator[str]:
        """What is wrong with the certificate of one plan, in cells or in buckets of them."""
        cells = self.graph.cells
        buckets = _buckets(random, cells) if in_buckets else np.arange(cells)
        graph = merge_graph(self.graph, buckets) if in_buckets else self.graph
        plan = Plan(Fraction(1), tuple(_part(random, graph.shape) for _ in range(int(random.integers(1, 3)))))
        true = self._worst(plan, np.append(buckets, graph.cells))
        with suppress(BlowfishError):
            found = certify(plan, graph)
            if found.epsilon < true:
                yield f"a plan that loses {amount(true)} is certified for {amount(found.epsilon)} ({self._said(graph)})"
            if found.is_tight and found.epsilon != true and self.is_plain and not in_buckets:
                yield f"a plan that loses {amount(true)} is said to lose just {amount(found.epsilon)}"
            if found.epsilon:
                scaled, proof = calibrate(plan, graph, PRICE)
                for priced, claimed in ((scaled, proof), rescaled(scaled, proof, PRICE / 3)):
                    if true / priced.unit > claimed.epsilon:
                        yield f"noise is set for {amount(claimed.epsilon)}, the loss is {amount(true / priced.unit)}"

    def leaving_troubles(self) -> Iterator[str]:
        """Cells that a hidden change leaves for what does not count must be known to do so."""
        if self.setting.policy.facts:
            return
        left = {max(step) for steps in self.steps for step in steps if min(step) < 0}
        if not left <= set(np.flatnonzero(self.graph.to_zero).tolist()):
            yield f"a hidden move leads out of a cell that is taken to stay ({self._said(self.graph)})"

    def exact_troubles(self, random: np.random.Generator) -> Iterator[str]:
        """Rows without noise must be refused wherever a hidden change shows in them."""
        for labels in (self.graph.components() + 1, random.integers(0, 2, size=self.graph.cells)):
            plan = Plan(Fraction(1), (), Sparse(labels.reshape(1, -1)))
            with suppress(BlowfishError):
                certify(plan, self.graph)
                if self._worst(replace(plan, parts=(_noisy(plan),)), np.arange(self.graph.cells + 1)):
                    yield f"a row that a hidden move changes may be released exactly ({self._said(self.graph)})"

    def _worst(self, plan: Plan, bucket: Ints) -> Fraction:
        """The loss by the definition: what all rows of a person, or all moves of a change, add up to."""
        columns = np.concatenate([_columns(part) for part in plan.parts], axis=0)
        columns = np.concatenate([columns, np.zeros((columns.shape[0], 1), dtype=np.int64)], axis=1)[:, bucket]
        moved = np.zeros((columns.shape[0], len(self.steps)), dtype=np.int64)
        for turn in range(max(map(len, self.steps), default=0)):
            # Changes of fewer records than others stay where they are.
            ends = np.array([steps[turn] if turn < len(steps) else (0, 0) for steps in self.steps])
            moved += columns[:, ends[:, 1]] - columns[:, ends[:, 0]]
        worst = int((plan.weights @ np.abs(moved)).max(initial=0))
        return Fraction(worst * self.setting.policy.rows_per_person)

    def _said(self, graph: CellGraph) -> str:
        policy = self.setting.policy
        families = {**policy.attributes, **{"+".join(joint.attributes): joint for joint in policy.joint}}
        return f"{graph.shape} cells, {policy.composition}, presence {policy.presence}, {families}"


def _noisy(plan: Plan) -> Measurement:
    """The exact rows of a plan as if they were measured."""
    return Measurement(plan.exact or Identity(plan.cells), np.ones(1, dtype=np.int64))


def _columns(part: Measurement | KroneckerMeasurement) -> Ints:
    factors = part.factors if isinstance(part, KroneckerMeasurement) else (part,)
    whole = factors[0].rows.dense()
    for factor in factors[1:]:
        whole = np.kron(whole, factor.rows.dense())
    return np.asarray(whole, dtype=np.int64)


def _buckets(random: np.random.Generator, cells: int) -> Ints:
    """Runs of cells, or any sets of them."""
    steps = random.integers(0, 2, size=cells)
    steps[0] = 0
    runs = np.cumsum(steps)
    return np.asarray(random.permutation(runs) if random.random() < 0.4 else runs, dtype=np.int64)


def _part(random: np.random.Generator, shape: tuple[int, ...]) -> Measurement | KroneckerMeasurement:
    if len(shape) > 1 and random.random() < 0.8:
        # Products of trees are certified in a way of their own, products of other rows by a bound.
        if random.random() < 0.5:
            return KroneckerMeasurement(tuple(Measurement(_levels(random, size), np.ones(1, int)) for size in shape))
        return KroneckerMeasurement(tuple(_rows(random, size) for size in shape))
    return _rows(random, int(np.prod(shape)))


def _rows(random: np.random.Generator, cells: int) -> Measurement:
    """Rows of one of the kinds that are certified in their own way."""
    ends = np.sort(random.integers(0, cells + 1, size=(int(random.integers(1, 6)), 2)), axis=1)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    ends = ends[ends[:, 1] <= cells] if np.any(ends[:, 1] <= cells) else np.array([[0, cells]])
    peak = np.minimum(np.arange(cells), int(random.integers(1, cells + 1)))
    options: tuple[Rows, ...] = (
        Identity(cells),
        Prefix(cells),
        Intervals(cells, ends[:, 0], ends[:, 1]),
        _levels(random, cells),
        Sparse(np.stack([peak + 1, peak[::-1]])),
        Sparse(random.integers(-2, 4, size=(3, cells))),
    )
    rows = one_of(random, options)
    return Measurement(rows, random.integers(1, 6, size=rows.shape[0]) if random.random() < 0.5 else np.ones(1, int))


def _levels(random: np.random.Generator, cells: int) -> Intervals:
    """Several divisions of the axis into runs, as in a tree."""
    low, high = list[int](), list[int]()
    for _ in range(int(random.integers(1, 4))):
        cuts = [0, *sorted(set(random.integers(1, cells, size=2).tolist())), cells] if cells > 1 else [0, 1]
        low += cuts[:-1]
        high += cuts[1:]
    return Intervals(cells, np.array(low), np.array(high))
