"""Matching with a transform: cells with like counts are joined in rounds, near or far, and measured by the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms.data_aware import Script, check_hides, shared_program
from blowfishdb.mechanisms.data_aware.buckets import check_mixed, measured_by_policy
from blowfishdb.mechanisms.parameters import Parameter
from blowfishdb.model.cached import cached_property, compiled
from blowfishdb.model.graphs import CellGraph, by_first_appearance
from blowfishdb.model.numbers import Ints, as_ints
from blowfishdb.model.serialize import digest
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import WORD_BITS, Program, SelectionNoise, StageRequest, merge_graph

MOST_COMPLETE = 256
"""Up to this many buckets every pair is a candidate."""
NEAR = 6
"""Beyond that a bucket may join those up to this many places away."""


def candidate_pairs(buckets: int) -> Ints:
    """The candidates, the lower number first, in an order that depends on the number of buckets alone."""
    if buckets <= MOST_COMPLETE:
        first, second = np.triu_indices(buckets, 1)
        return np.stack([first, second], axis=1).astype(np.int64)
    first = np.repeat(np.arange(buckets), NEAR)
    second = first + np.tile(np.arange(1, NEAR + 1), buckets)
    return np.stack([first, second], axis=1)[second < buckets]


FORBIDDEN = -(2**61)


def best_matching(buckets: int, pairs: Ints, gains: Ints, words: Ints, tie_bits: int) -> Ints:
    """Each bucket's partner, itself when single, over any pairs of few buckets.

    Every item, single or pair, costs a random fraction of a step more, `tie_bits` binary digits of it, so that no two
    matchings are equally good: the answer is a function of gains and words, however the solver proceeds. `words` has
    a column per item.
    """
    # The compiled solver takes 0.1 s to load and only this function needs it.
    from rustworkx import PyGraph, max_weight_matching

    drop = words.shape[0] * WORD_BITS - tie_bits

    def fraction(item: int) -> int:
        high, low = words[:, item].tolist()
        return int((high << WORD_BITS | low) >> drop)

    single = [fraction(bucket) for bucket in range(buckets)]
    edges = []
    # Two fractions less a third are below 2: a pair that gains less than -1 is never worth it.
    for place in np.flatnonzero(gains >= -1).tolist():
        first, second = pairs[place].tolist()
        weight = (int(gains[place]) << tie_bits) + single[first] + single[second] - fraction(buckets + place)
        if weight > 0:
            edges.append((first, second, weight))
    graph: PyGraph[int, int] = PyGraph(multigraph=False)
    graph.add_nodes_from(range(buckets))
    graph.add_edges_from(edges)
    partner = np.arange(buckets)
    for first, second in max_weight_matching(graph, weight_fn=int):
        partner[first], partner[second] = second, first
    return partner


def best_near_matching(buckets: int, pairs: Ints, gains: Ints) -> Ints:
    """Each bucket's partner, itself when single, where pairs are at most NEAR places apart.

    Equal gains go to the first matching in a fixed order: bucket by bucket, single before near before far.
    """
    table = np.full((buckets, NEAR), FORBIDDEN, dtype=np.int64)
    table[pairs[:, 0], pairs[:, 1] - pairs[:, 0] - 1] = gains
    partner = np.arange(buckets)
    step = compiled(decide)(table)
    joined = np.flatnonzero(step > 0)
    partner[joined] = joined + step[joined]
    partner[partner[joined]] = joined
    return partner


def decide(gains: Any) -> Any:
    """How far ahead each bucket's partner is, 0 where it is single or already taken.

    gains[i, k] is what joining bucket i with i + k + 1 gains, far below 0 where that is no candidate. best[t] is the
    greatest gain from bucket i on when t tells which of the buckets i, i + 1, ... are taken; the first of the equal
    choices stays.
    """
    buckets, near = gains.shape
    states = 1 << near
    following = np.zeros(states, dtype=np.int64)
    best = np.empty(states, dtype=np.int64)
    choice = np.zeros((buckets, states), dtype=np.int8)
    for bucket in range(buckets - 1, -1, -1):
        for taken in range(states):
            after = taken >> 1
            gain, chosen = following[after], 0
            if not taken & 1:
                for ahead in range(1, near + 1):
                    bit = 1 << (ahead - 1)
                    if not after & bit:
                        total = gains[bucket, ahead - 1] + following[after | bit]
                        if total > gain:
                            gain, chosen = total, ahead
            best[taken], choice[bucket, taken] = gain, chosen
        following, best = best, following
    steps = np.zeros(buckets, dtype=np.int64)
    taken = 0
    for bucket in range(buckets):
        ahead = choice[bucket, taken]
        steps[bucket] = ahead
        taken >>= 1
        if ahead:
            taken |= 1 << (ahead - 1)
    return steps


GRID = 64
"""Steps per record when buckets of different sizes are compared; equal sizes give whole numbers by themselves."""
LARGEST_BUCKET = 1024
LARGEST_COUNT = 2**43
"""Costs are computed from counts cut at this number, which moves no cost further and keeps int64 from wrapping."""
WEIGHT_STEPS = 2**24
SCORE_BITS = 120
"""What the solver's 128-bit arithmetic leaves for a score and the bits that break ties."""
NOISE_REACH = 128
"""Noise beyond this many scales has a chance below 2^-184 and is cut, so that scores fit their bits."""
TIE_WORDS = 2


@dataclass(frozen=True, eq=False)
class MatchingPartition:
    """Joins buckets in pairs. `cells_of` says how many cells each bucket holds, `saving` what a join is worth.

    Joining b and c costs the L1 distance that appears when both take their common average,
    2 |c's cells x b's count - b's cells x c's count| / (cells of both); staying single costs nothing. Up to 256 buckets
    every pair is a candidate, beyond that every pair of near ones. `saving`, in records, is public and may be negative.
    """

    cells_of: Ints
    saving: Fraction
    unit: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells_of", as_ints(self.cells_of))
        if self.cells_of.ndim != 1 or self.cells_of.size < 2 or int(self.cells_of.min()) < 1:
            raise PlanError("a matching needs at least two buckets, each of at least one cell")
        if int(self.cells_of.max()) > LARGEST_BUCKET:
            raise PlanError(f"a matching joins buckets of at most {LARGEST_BUCKET} cells")
        if not isinstance(self.unit, Fraction) or self.unit <= 0:
            raise PlanError("the unit of a selection is a positive Fraction")
        if self.is_complete and self.tie_bits < WORD_BITS:
            raise PlanError("the noise of this matching is too large for its solver; use more epsilon")

    @property
    def cells(self) -> int:
        return int(self.cells_of.size)

    @property
    def is_complete(self) -> bool:
        """Whether every pair of buckets is a candidate."""
        return self.cells <= MOST_COMPLETE

    @property
    def grid(self) -> int:
        """Steps per record in which costs are counted."""
        return 1 if int(self.cells_of.min()) == int(self.cells_of.max()) else GRID

    @cached_property
    def pairs(self) -> Ints:
        """The candidate pairs, those of one class of noise together."""
        pairs = candidate_pairs(self.cells)
        return pairs[np.argsort(self._pair_sensitivity(pairs), kind="stable")]

    @cached_property
    def noise(self) -> SelectionNoise:
        """Single buckets first, which cost nothing whatever the data; then pairs by their sensitivity."""
        of_pairs, sizes = np.unique(self._pair_sensitivity(self.pairs), return_counts=True)
        sensitivities = np.concatenate([[0], of_pairs])
        weights = WEIGHT_STEPS // (int(sensitivities.max()) + sensitivities)
        words = TIE_WORDS if self.is_complete else 0
        counts = np.concatenate([[self.cells], sizes])
        return SelectionNoise(self.unit, weights, sensitivities, counts, True, words)

    @property
    def tie_bits(self) -> int:
        """How many random bits break ties; two optimal matchings tie with a chance of at most items / 2^bits."""
        return min(TIE_WORDS * WORD_BITS, SCORE_BITS - (2 * self._largest_gain).bit_length())

    def epsilon(self, graph: CellGraph) -> Fraction:
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        return digest(("matching", self.saving, self.grid, self.cells_of, self.noise.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """For each bucket the number of its new one, numbered by first appearance."""
        gains = np.minimum(self._gains(counts, draws), self._largest_gain)
        if self.is_complete:
            items = self.cells + self.pairs.shape[0]
            words = draws[items:].reshape(TIE_WORDS, items)
            partner = best_matching(self.cells, self.pairs, gains, words, self.tie_bits)
        else:
            partner = best_near_matching(self.cells, self.pairs, gains)
        return by_first_appearance(np.minimum(partner, np.arange(self.cells)))

    def _gains(self, counts: Ints, draws: Ints) -> Ints:
        """What each candidate pair improves on its two buckets staying single, in grid steps."""
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        single, joint = draws[: self.cells], draws[self.cells : self.cells + self.pairs.shape[0]]
        saving = round(self.saving * self.grid)
        return saving - self.costs(counts) + joint - single[first] - single[second]

    def costs(self, counts: Ints) -> Ints:
        """The cost of each pair in grid steps, rounded to the nearest."""
        capped = np.minimum(counts, LARGEST_COUNT)
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        both = self.cells_of[first] + self.cells_of[second]
        apart = np.abs(self.cells_of[second] * capped[first] - self.cells_of[first] * capped[second])
        return np.asarray((4 * self.grid * apart + both) // (2 * both))

    def _pair_sensitivity(self, pairs: Ints) -> Ints:
        one, other = self.cells_of[pairs[:, 0]], self.cells_of[pairs[:, 1]]
        return np.asarray(-(-2 * self.grid * np.maximum(one, other) // (one + other)))

    @cached_property
    def _largest_gain(self) -> int:
        scale = self.unit / int(self.noise.weights.min())
        return abs(round(self.saving * self.grid)) + int(3 * NOISE_REACH * scale) + 1


def matching_partition(cells_of: Ints, saving: Fraction, graph: CellGraph, epsilon: Fraction) -> MatchingPartition:
    """The matching whose noise costs exactly epsilon on this graph of the buckets."""
    coarse = MatchingPartition(cells_of, saving, Fraction(WEIGHT_STEPS))
    return replace(coarse, unit=coarse.unit * coarse.epsilon(graph) / epsilon)


NAME = "matching-transform"
MATCH, MEASURE = "matching", "buckets"
ROUNDS, SELECT_SHARE, CAUTION = 3, Fraction(1, 2), Fraction(3)
PARAMETERS = (
    Parameter(
        "rounds",
        "In how many rounds cells are joined, each of which may double the buckets.",
        Fraction(1),
        Fraction(10),
        Fraction(ROUNDS),
        is_whole=True,
    ),
    Parameter(
        "split",
        "The part of epsilon that all rounds together get; the counts of the buckets get the rest.",
        Fraction(1, 100),
        Fraction(9, 10),
        SELECT_SHARE,
        field="select_share",
    ),
    Parameter(
        "caution",
        "How many scales of the noise of a round a join must be worth beyond the error that it saves.",
        Fraction(0),
        Fraction(20),
        CAUTION,
    ),
)


@dataclass(frozen=True)
class MatchingTransform:
    """Serves every policy. Each of up to `rounds` rounds may double the buckets; together they get `select_share`.

    `caution` is how many scales of its own noise a pair must be worth beyond the error it saves: without it the
    luckiest of many pairs would win.
    """

    name: ClassVar[str] = NAME
    rounds: int = ROUNDS
    select_share: Fraction = SELECT_SHARE
    caution: Fraction = CAUTION

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The rounds and the measurement, together exactly epsilon."""
        graph = problem.graph
        check_hides(NAME, graph)
        if graph.cells < 2:
            raise Declined(NAME, "there is nothing to join in a single cell")
        check_mixed(NAME, problem)
        rounds = min(self.rounds, int(math.log2(graph.cells)))
        stages = [(f"{MATCH} {number + 1}", self.select_share / rounds) for number in range(rounds)]
        return shared_program(NAME, epsilon, [*stages, (MEASURE, 1 - self.select_share)])

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes a matching of the current buckets in each round, then the measured buckets."""
        graph, of_cells = problem.graph, np.arange(problem.graph.cells)
        *rounds, measure = program.allowances
        for number, allowance in enumerate(rounds):
            merged = merge_graph(graph, of_cells) if number else graph
            cells_of = np.bincount(of_cells).astype(np.int64)
            stage = matching_partition(cells_of, Fraction(0), merged, allowance.epsilon)
            scale = stage.unit / int(stage.noise.weights.min()) / stage.grid
            stage = replace(stage, saving=2 / measure.epsilon - self.caution * scale)
            chosen = yield StageRequest(allowance.stage, stage, of_cells if number else None)
            of_cells = np.asarray(chosen)[of_cells]
        return (yield from measured_by_policy(problem, of_cells, [measure], with_own=True))
