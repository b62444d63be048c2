"""Selections, programs of several stages, and quantiles chosen by one selection.

Each stage of a program has an allowance, is certified when its inputs are public, and stops it when it is exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from blowfishdb.errors import AllowanceExceeded, CannotCertify, DigestMismatch, PlanError
from blowfishdb.model.graphs import AxisGraph, CellGraph, EdgeGraph, GridGraph, WindowGraph, factor_shape
from blowfishdb.model.numbers import Bools, Ints, as_ints, distinct
from blowfishdb.model.serialize import VERSION, digest
from blowfishdb.noise.certified import LawName, Noise
from blowfishdb.plan.certificate import Certificate, bounded, certify
from blowfishdb.plan.plan import EdgePlan, Plan, check_positive, hashed_1

PRECISION = Context(prec=60)
MARGIN = Fraction(1, 10**40)
"""Exponentials are computed to 60 digits; bounds leave this much relative room, far more than any rounding."""


@dataclass(frozen=True, eq=False)
class RefinementNoise:
    """The noise of a refinement, and the rule by which it cuts.

    Level i has `levels[i]` nodes, each with a whole-number score. A node is cut when

        max(score - first - i spacing, -clip) + noise > 0,

    the noise two-sided of scale `unit`. One record that appears or vanishes moves the scores of one node per level, by
    at most 1 each, and no node's score exceeds its parent's; then the loss is at most

        (1 + sum over t >= 1 of g(t spacing - clip)) / unit,    g(x) = q^x / (1 + q - q^x), q = exp(-1 / unit),

    g(x) = 1 for x <= 0, one term per level below the first; twice that for a record that moves
    (proof: docs/proofs/refinement.md).
    """

    unit: Fraction
    levels: Ints
    first: int
    spacing: int
    clip: int
    one_sided: ClassVar[bool] = False
    """Nodes that are kept and nodes that are cut both show."""
    tie_words: ClassVar[int] = 0
    """A comparison has no ties to break."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", as_ints(self.levels))
        check_positive("the unit of a refinement", self.unit)
        if self.levels.ndim != 1 or self.levels.size == 0 or int(self.levels.min()) < 1:
            raise PlanError("a refinement has at least one level, and every level at least one node")
        if self.spacing < 1 or self.clip < 0:
            raise PlanError("thresholds rise by at least 1 a level, and the clip is not negative")

    @property
    def sizes(self) -> Ints:
        """One class of noise variables: the nodes of all levels, the first level first."""
        return np.array([self.levels.sum()])

    @property
    def weights(self) -> Ints:
        """All have noise of the same scale."""
        return np.ones(1, dtype=np.int64)

    def cut(self, level: int, scores: Ints, draws: Ints) -> Bools:
        """The nodes of one level that are cut, as a mask."""
        above = np.maximum(scores - (self.first + level * self.spacing), -self.clip)
        return np.asarray(above + draws > 0)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """A rational bound on the loss of publishing which nodes were cut."""
        rate = 1 / self.unit
        gaps = [level * self.spacing - self.clip for level in range(1, self.levels.size)]
        loss = rate * (1 + sum((_relative_loss(gap, rate) for gap in gaps), Fraction(0)))
        return loss * (2 if graph.has_value_edges else 1) * graph.rows_per_person

    def digest(self) -> str:
        """A hash of everything above."""
        return digest(("refine", self.unit, self.levels, self.first, self.spacing, self.clip))


def _relative_loss(gap: int, rate: Fraction) -> Fraction:
    """At least g(gap)."""
    if gap <= 0:
        return Fraction(1)
    least = _exponential(rate) * (1 - MARGIN)
    most = _exponential(rate * gap) * (1 + MARGIN)
    return most / (1 + least - most)


def _exponential(rate: Fraction) -> Fraction:
    """exp(-rate) to 50 digits."""
    power = PRECISION.divide(Decimal(rate.numerator), Decimal(rate.denominator))
    return Fraction(PRECISION.exp(-power))


WORD_BITS = 62
"""Uniform words that break ties are whole numbers from 0 to 2^62 - 1."""


class Stage(Protocol):
    """One access to the data whose output is public to the stages after it."""

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of this stage on the graph of the cells it reads."""
        ...

    def digest(self) -> str:
        """A hash of everything the loss and the noise depend on."""
        ...


@dataclass(frozen=True, eq=False)
class MeasurementStage:
    """Publishes the noisy rows of a plan."""

    plan: Plan | EdgePlan

    @property
    def cells(self) -> int:
        return self.plan.cells

    def epsilon(self, graph: CellGraph) -> Fraction:
        return certify(self.plan, graph).epsilon

    def digest(self) -> str:
        return digest(("measure", self.plan.digest()))


@dataclass(frozen=True, eq=False)
class Measured:
    """The public outcome: noisy rows and exact rows of a plan; for an edge plan, its finished answers in `noisy`."""

    noisy: Ints
    exact: Ints


@dataclass(frozen=True, eq=False)
class SelectionNoise:
    """The noise of a selection, by classes of items that are alike.

    A candidate is a set of items (the buckets of a partition); its score is the sum of its items' whole-number costs
    less noise on each item: class c has `sizes[c]` items with noise of scale unit / weights[c], two-sided, or
    `one_sided` (never negative). `sensitivities` bound how far one record that appears or vanishes moves each item's
    cost, and such a record touches at most one item of each candidate: then item b costs (max sensitivity + its own)
    / scale, and a record that moves does it twice (proof: docs/proofs/selection.md). A selection whose solver could
    break ties by looking at the scores asks for `tie_words` uniform words of WORD_BITS bits per item beside its noise.
    """

    unit: Fraction
    weights: Ints
    sensitivities: Ints
    sizes: Ints
    one_sided: bool
    tie_words: int = 0

    def __post_init__(self) -> None:
        for name in ("weights", "sensitivities", "sizes"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        check_positive("the unit of a selection", self.unit)
        if self.weights.size == 0 or not self.weights.shape == self.sensitivities.shape == self.sizes.shape:
            raise PlanError("a selection needs one weight, one sensitivity and one size per class of items")
        if int(self.weights.min()) < 1 or int(self.sensitivities.min()) < 0 or int(self.sizes.min()) < 0:
            raise PlanError("weights are positive, sensitivities and sizes not negative")
        if self.tie_words < 0:
            raise PlanError("the number of words that break ties is not negative")

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the best candidate, nothing else."""
        largest = int(self.sensitivities.max())
        worst = max(
            int(weight) * (largest + int(sensitivity))
            for weight, sensitivity in zip(self.weights, self.sensitivities, strict=True)
        )
        touched = 2 if graph.has_value_edges else 1
        return Fraction(worst * touched * graph.rows_per_person) / self.unit

    def digest(self) -> str:
        """A hash of everything above."""
        content = (self.unit, self.weights, self.sensitivities, self.sizes, self.one_sided, self.tie_words)
        return digest(("select", *content))


def stage_noise(noise: SelectionNoise | RefinementNoise) -> tuple[Noise, ...]:
    """The noise of a selection as it is drawn: on its items, class by class, then the words that break ties."""
    law: LawName = "geometric" if noise.one_sided else "laplace"
    classes = zip(noise.weights, noise.sizes, strict=True)
    words = noise.tie_words * int(noise.sizes.sum())
    ties = (Noise("words", Fraction(1), WORD_BITS, words),) if words else ()
    return (*(Noise(law, noise.unit, int(weight), int(size)) for weight, size in classes), *ties)


class SelectionStage(Stage, Protocol):
    """A stage that publishes the candidate with the least noisy score, and nothing else.

    Its class derives the noise from the shape of the candidates, never from a caller's claim about sensitivities.
    """

    @property
    def cells(self) -> int:
        """The number of counts it reads."""
        ...

    @property
    def noise(self) -> SelectionNoise | RefinementNoise:
        """The noise to draw, one variable per item, class by class in order; then the words that break ties."""
        ...

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The winner, as whole numbers; ties go to the first in an order fixed beforehand."""
        ...


@dataclass(frozen=True, eq=False)
class StageRequest:
    """One access to the data that a script asks for: a stage over buckets of the cells, or over the cells themselves.

    `buckets` names the bucket of each cell, 0 to the number of buckets less 1; it is made of public things only.
    `instead_of` names the stages just before this one that will not run; this stage may spend what they were allowed.
    """

    name: str
    stage: MeasurementStage | SelectionStage
    buckets: Ints | None = None
    instead_of: tuple[str, ...] = ()


Reply: TypeAlias = Measured | Ints
"""The answer of the data's side: measured rows or the selected candidate. Both are public from then on."""


@dataclass(frozen=True)
class Allowance:
    """The budget of one stage of a program."""

    stage: str
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or self.epsilon < 0:
            raise PlanError("an allowance is a Fraction that is not negative")


@dataclass(frozen=True)
class Program:
    """The stages a mechanism will run, in order; the receipt covers all of them before the first one starts."""

    mechanism: str
    allowances: tuple[Allowance, ...]
    parameters: tuple[tuple[str, Fraction], ...] = ()
    """The parameters that were set: they shape the stages, and the receipt covers them too."""

    def __post_init__(self) -> None:
        if not self.allowances:
            raise PlanError("a program has at least one stage")

    @property
    def epsilon(self) -> Fraction:
        """The charge of the whole program: the sum over its stages."""
        return sum((allowance.epsilon for allowance in self.allowances), Fraction(0))

    def digest(self) -> str:
        """A hash of the mechanism, the stages and their allowances, and the parameters where some were set."""
        stages = tuple((allowance.stage, allowance.epsilon) for allowance in self.allowances)
        return digest(("program", self.mechanism, stages, *([self.parameters] if self.parameters else [])))

    def digest_1(self) -> str:
        """The same in the first encoding, for what was stored in it."""
        stages = (f"{allowance.stage} {allowance.epsilon}".encode() for allowance in self.allowances)
        settings = (f"{name}={value}".encode() for name, value in self.parameters)
        return hashed_1([b"program", self.mechanism.encode(), *stages, *settings])


@dataclass(frozen=True)
class ProgramRun:
    """The progress of a program. Each admitted stage gives the next value; nothing is ever admitted twice."""

    program: Program
    receipt_digest: str
    admitted: tuple[str, ...] = ()
    spent: Fraction = Fraction(0)
    """The loss of all stages so far."""

    def __post_init__(self) -> None:
        if self.receipt_digest != self.program.digest():
            raise DigestMismatch("the receipt was written for another program")

    def admit(self, name: str, stage: Stage, graph: CellGraph, instead_of: tuple[str, ...] = ()) -> ProgramRun:
        """The run after this stage; AllowanceExceeded stops the program, and what was charged stays charged.

        Stages may depend on what earlier ones published, as long as all together never spend more than the program
        is charged: so a stage may take over the allowances of those it runs instead of.
        """
        if len(self.admitted) == len(self.program.allowances):
            raise CannotCertify("every stage of this program has run")
        names = (*instead_of, name)
        allowances = self.program.allowances[len(self.admitted) : len(self.admitted) + len(names)]
        if tuple(allowance.stage for allowance in allowances) != names:
            expected = self.program.allowances[len(self.admitted)].stage
            raise CannotCertify(f"the next stage of this program is {expected!r}, not {names[0]!r}")
        needed, allowed = stage.epsilon(graph), sum((allowance.epsilon for allowance in allowances), Fraction(0))
        if needed > allowed:
            raise AllowanceExceeded(name, needed, allowed)
        return ProgramRun(self.program, self.receipt_digest, (*self.admitted, *names), self.spent + needed)


def certify_program(program: Program, graph: CellGraph, version: int = VERSION) -> Certificate:
    """The certificate of a program: what it may spend in all; its digests in the given version of their encoding."""
    program_digest = program.digest() if version == VERSION else program.digest_1()
    return bounded(program.epsilon, program_digest, graph, version)


LISTED_EDGES = 2_000_000
"""Up to this many edges are looked at one by one; a graph with more joins every bucket to every other."""


def merge_graph(graph: CellGraph, buckets: Ints) -> CellGraph:
    """The graph of the buckets, as one axis, with the same presence and privacy unit."""
    count = bucket_count(graph.cells, buckets)
    outside: Bools = np.zeros(count, dtype=np.bool_)
    outside[buckets[graph.outside]] = True
    constraint_moves = None if graph.constraint_moves is None else graph.constraint_moves.merged(buckets)
    axis = _axis(graph, buckets, count)
    return CellGraph(
        (axis,), "record", outside, graph.presence, graph.rows_per_person, constraint_moves, is_exact=graph.is_exact
    )


def merge_counts(counts: Ints, buckets: Ints) -> Ints:
    """The exact count of each bucket."""
    merged = np.zeros(bucket_count(counts.size, buckets), dtype=np.int64)
    np.add.at(merged, buckets, counts)
    return merged


def bucket_count(cells: int, buckets: Ints) -> int:
    """The number of buckets; PlanError unless they are numbered 0, 1, ... with none left out."""
    if buckets.shape != (cells,) or buckets.dtype != np.int64:
        raise PlanError(f"buckets are one whole number for each of {cells} cells")
    if int(buckets.min()) < 0 or int(buckets.max()) >= cells or np.any(np.bincount(buckets) == 0):
        raise PlanError("buckets are numbered from 0 with none left out")
    return int(buckets.max()) + 1


def _axis(graph: CellGraph, buckets: Ints, count: int) -> AxisGraph:
    everybody = WindowGraph(np.full(count, count - 1), np.empty(0, dtype=np.int64))
    if not graph.has_value_edges or _is_complete(graph):
        return everybody
    single = graph.factors[0]
    if len(graph.factors) == 1 and isinstance(single, WindowGraph) and not single.universal.size:
        steps = np.diff(buckets)
        if np.all((steps == 0) | (steps == 1)):
            lasts = np.append(np.flatnonzero(steps), buckets.size - 1)
            return WindowGraph(buckets[single.reach[lasts]], single.universal)
    if graph.value_edge_bound > LISTED_EDGES:
        return everybody
    pairs = buckets[graph.value_edges()]
    keys = distinct(pairs.min(axis=1) * count + pairs.max(axis=1))
    joined = np.stack(np.divmod(keys, count), axis=1)
    return EdgeGraph(count, joined[joined[:, 0] != joined[:, 1]])


def _is_complete(graph: CellGraph) -> bool:
    """Whether every two cells are joined: complete graphs on all factors, which may move at once."""
    if len(graph.factors) > 1 and graph.composition != "record":
        return False
    return all(isinstance(f, WindowGraph) and int(f.reach[0]) == f.size - 1 for f in graph.factors)


GROUP_SELECTION = "group-selection"


@dataclass(frozen=True)
class GroupSelection:
    """Publishes which groups have the most records, the largest first, or which have at least `above`; no counts.

    `most` rounds each publish the group whose count plus one-sided noise of scale `unit` is the largest of those that
    are left. With `above`, each group is listed whose count plus two-sided noise of that scale reaches it. Ties go to
    the group that is declared first. The proof is docs/proofs/selection.md.
    """

    unit: Fraction
    groups: int
    most: int | None = None
    above: int | None = None

    def __post_init__(self) -> None:
        check_positive("the unit of a selection of groups", self.unit)
        if (self.most is None) == (self.above is None):
            raise PlanError("groups are chosen by their place or by a least count, one of the two")
        if self.groups < 1 or (self.most is not None and not 1 <= self.most <= self.groups):
            raise PlanError("at least one group is chosen, and no more than there are")

    @property
    def noise(self) -> tuple[Noise, ...]:
        """One variable for each group and round; a list shows the groups below the least count, so it is two-sided."""
        if self.most is None:
            return (Noise("laplace", self.unit, 1, self.groups),)
        return (Noise("geometric", self.unit, 1, self.groups * self.most),)

    def digest(self) -> str:
        """A hash of everything above."""
        return digest(("groups", self.unit, self.groups, self.most, self.above))

    def loss(self, graph: CellGraph) -> Fraction:
        """At least the loss on every edge: a record that comes or goes changes one count, one that moves two."""
        if graph.cells != self.groups:
            raise PlanError(f"the selection is among {self.groups} groups, the policy graph has {graph.cells} cells")
        moves = graph.value_edge_bound > 0 or graph.constraint_moves is not None
        changes = 2 if moves else 1 if bool(np.any(graph.to_zero)) else 0
        return Fraction(changes * (self.most or 1) * graph.rows_per_person) / self.unit

    def choose(self, counts: Ints, noise: Ints) -> Ints:
        """The places of the chosen groups, in the order in which they are published."""
        if self.above is not None:
            return np.flatnonzero(counts + noise >= self.above)
        left = np.ones(self.groups, dtype=np.bool_)
        chosen = []
        for draws in noise.reshape(-1, self.groups):
            place = np.flatnonzero(left)
            best = int(place[np.argmax((counts + draws)[place])])
            left[best] = False
            chosen.append(best)
        return np.array(chosen, dtype=np.int64)


def certify_selection(plan: GroupSelection, graph: CellGraph) -> Certificate:
    """The certificate of a selection of groups; CannotCertify where nothing is hidden, and so nothing is to be paid."""
    loss = plan.loss(graph)
    if loss == 0:
        raise CannotCertify("no hidden move changes these counts: release them exactly, at no cost")
    return bounded(loss, plan.digest(), graph)


EXPONENTIAL_QUANTILES = "exponential-quantiles"
POSITIONS = 2**16
"""Each cell has this many positions; its records are spread evenly over them, so that equal values break no order."""


@dataclass(frozen=True)
class QuantilePlan:
    """Publishes positions o_1 <= ... <= o_m with P(o) ~ exp(-penalty(o) / unit), and of each position only its cell.

    The penalty is half the sum over the intervals between neighbouring positions, of how far the number of records in
    it is from its share of all. `shares` are those of the m + 1 intervals. With a `count_unit` the number of records is
    published first, with noise of that scale, and the shares are shares of the published number. `cells` is the number
    of cells in order; what else is counted, NULL or outside, stands beside the order and has no rank. Each of the
    `groups`, the cells along all axes but `axis`, has a choice of its own. The proof is docs/proofs/quantiles.md.
    """

    unit: Fraction
    shares: tuple[Fraction, ...]
    cells: int
    count_unit: Fraction | None = None
    groups: int = 1
    axis: int = 0

    def __post_init__(self) -> None:
        check_positive("the unit of a choice of quantiles", self.unit)
        if self.count_unit is not None:
            check_positive("the unit of the number of records", self.count_unit)
        if len(self.shares) < 2 or sum(self.shares) != 1 or min(self.shares) <= 0:
            raise PlanError("quantiles cut the records into at least two positive shares that add up to 1")
        if self.cells < 1 or self.groups < 1 or self.axis < 0:
            raise PlanError("quantiles need at least one cell in order, and at least one group")

    @property
    def levels(self) -> int:
        """The number of quantiles."""
        return len(self.shares) - 1

    def digest(self) -> str:
        """A hash of everything above."""
        grouped = () if self.groups == 1 else (self.groups, self.axis)
        return digest(("quantiles", self.unit, self.shares, self.cells, self.count_unit, POSITIONS, *grouped))

    @property
    def count_noise(self) -> tuple[Noise, ...]:
        """The noise of the numbers of records, where those are published first."""
        return () if self.count_unit is None else (Noise("laplace", self.count_unit, 1, self.groups),)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """All that is drawn: the noise of the numbers of records, then a choice for each group."""
        return (*self.count_noise, *[Noise("quantiles", self.unit, 1, self.levels)] * self.groups)

    def gaps(self, total: int) -> tuple[Fraction, ...]:
        """The number of records wanted in each interval, when there are `total`, or so many were published."""
        return tuple(share * max(0, total) for share in self.shares)

    def by_group(self, counts: Ints, graph: CellGraph) -> Ints:
        """The counts of the cells in order, a row for each group."""
        rows = np.moveaxis(counts.reshape(graph.shape), self.axis, -1)
        return np.ascontiguousarray(rows.reshape(self.groups, -1)[:, : self.cells])

    def loss(self, graph: CellGraph) -> Fraction:
        """At least the loss on every edge of a graph whose first `cells` places along the axis are those in order.

        A record that moves within the order changes the penalty by at most 1, either way; one that enters or leaves it
        by 1 - min(shares), or by 1/2 where the shares are of a published number, whose own loss is added. The log-odds
        range is twice that. One that moves to another group leaves one order and enters another. All that constraints
        move together, or a person's rows, count one by one.
        """
        shape = graph.shape
        in_order = shape[self.axis] if self.axis < len(shape) else 0
        if in_order < self.cells or graph.cells != in_order * self.groups:
            raise PlanError(f"the plan is over {self.cells} cells of one axis, the policy graph over {shape}")
        leaves = bool(np.any(graph.to_zero)) or graph.constraint_moves is not None
        moves = graph.value_edge_bound > 0 or graph.constraint_moves is not None
        losses = [Fraction(0)]
        if moves:
            losses.append(2 / self.unit)
        # Without a published number the shares of all intervals shrink or grow with the one that changes.
        enters = 2 * (1 - min(self.shares)) / self.unit
        enters = enters if self.count_unit is None else 1 / self.unit + 1 / self.count_unit
        if leaves or (moves and in_order > self.cells):
            losses.append(enters)
        if moves and self.groups > 1 and self._crosses(graph):
            losses.append(2 * enters)
        return max(losses) * graph.rows_per_person

    def _crosses(self, graph: CellGraph) -> bool:
        """Whether a hidden move may lead from one group to another."""
        if graph.constraint_moves is not None:
            return True
        axis = 0
        for factor in graph.factors:
            axes = len(factor_shape(factor))
            is_ordered = axes == 1 and axis == self.axis
            if not is_ordered and (isinstance(factor, GridGraph) or factor.edge_count > 0):
                return True
            axis += axes
        return False


def certify_quantiles(plan: QuantilePlan, graph: CellGraph) -> Certificate:
    """The certificate of a plan of quantiles; CannotCertify where nothing is hidden, and so nothing is to be paid."""
    loss = plan.loss(graph)
    if loss == 0:
        raise CannotCertify("no hidden move changes these counts: release them exactly, at no cost")
    return bounded(loss, plan.digest(), graph)
