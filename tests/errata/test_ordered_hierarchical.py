"""Blowfish paper, Theorem 7.2: the budget split of the ordered hierarchical mechanism."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.errata.exact import NoisyRow, as_plan, interval, on_edges, within, worst

ONE = Fraction(1)


def balanced_nodes(low: int, high: int, fan_out: int) -> list[tuple[int, int]]:
    """All nodes below the root of a tree on [low, high) whose size is a power of the fan-out."""
    if high - low == 1:
        return []
    step = (high - low) // fan_out
    parts = [(start, start + step) for start in range(low, high, step)]
    return parts + [node for part in parts for node in balanced_nodes(*part, fan_out)]


def printed_nodes(low: int, high: int, fan_out: int) -> list[tuple[int, int]]:
    """The same with the child intervals as section 7.2 writes them: the last one is counted from the end."""
    if high - low == 1:
        return []
    step = math.ceil((high - low) / fan_out)
    parts = [(low + i * step, low + (i + 1) * step) for i in range(fan_out - 1)] + [(high - step, high)]
    return parts + [node for part in parts for node in printed_nodes(*part, fan_out)]


def printed_split(blocks: int, theta: int, fan_out: int, share: Fraction) -> list[NoisyRow]:
    """The paper's release at epsilon 1: the first block's tree and s_1 get the whole epsilon."""
    cells, height = blocks * theta, round(math.log(theta, fan_out))
    first = Fraction(2 * height)
    rows: list[NoisyRow] = [(interval(cells, 0, theta), first)]
    rows += [(interval(cells, *node), first) for node in balanced_nodes(0, theta, fan_out)]
    for block in range(1, blocks):
        start = block * theta
        rows.append((interval(cells, 0, start + theta), 1 / share))
        nodes = balanced_nodes(start, start + theta, fan_out)
        rows += [(interval(cells, *node), 2 * height / (1 - share)) for node in nodes]
    return rows


def sound_split(blocks: int, theta: int, fan_out: int, share: Fraction) -> list[NoisyRow]:
    """Every s_i, the first one too, at 1/eps_S; every tree, the first one too, at 2h/eps_H."""
    cells, height = blocks * theta, round(math.log(theta, fan_out))
    rows: list[NoisyRow] = []
    for start in range(0, cells, theta):
        rows.append((interval(cells, 0, start + theta), 1 / share))
        nodes = balanced_nodes(start, start + theta, fan_out)
        rows += [(interval(cells, *node), 2 * height / (1 - share)) for node in nodes]
    return rows


GRID = [(f, h, Fraction(i, 10)) for f in (2, 3, 4) for h in (1, 2, 3) if f**h <= 16 for i in range(1, 10)]


def test_printed_split_costs_more_than_epsilon_exactly_when_the_share_is_below_one_over_the_height() -> None:
    unsound = 0
    for fan_out, height, share in GRID:
        theta = fan_out**height
        spent = worst(printed_split(3, theta, fan_out, share), within(3 * theta, theta))
        crossing = Fraction(1, 2) + Fraction(1, 2 * height) + (1 - share) / 2
        assert spent == max(ONE, crossing)
        unsound += spent > 1
    assert (unsound, len(GRID)) == (42, 63)


def test_sound_split_costs_exactly_epsilon() -> None:
    for fan_out, height, share in GRID:
        theta = fan_out**height
        rows = sound_split(3, theta, fan_out, share)
        assert worst(rows, within(3 * theta, theta)) == 1
    assert certify(as_plan(rows), on_edges(3 * theta, within(3 * theta, theta))).epsilon == 1


def best_share(cells: int, theta: int, fan_out: int) -> float:
    """The share eps_S / eps that the paper recommends below its equation (14)."""
    levels = math.log(theta, fan_out)
    c1 = 4 * (cells - theta) / (cells + 1)
    c2 = 8 * (fan_out - 1) * levels**3 * cells / (cells + 1)
    return c1 ** (1 / 3) / (c1 ** (1 / 3) + c2 ** (1 / 3))


def test_the_share_that_the_paper_recommends_is_never_sound() -> None:
    for theta in range(2, 65):
        for fan_out in range(2, 18):
            height = next(h for h in range(1, 7) if fan_out**h >= theta)
            assert best_share(4357, theta, fan_out) < 1 / height


def adult_plan(share: Fraction, first_leaf: Fraction, first_total: Fraction) -> tuple[Plan, CellGraph]:
    """Capital loss with 4357 values, theta 10, fan-out 16: one level of leaves, as in the paper's figure 2(b)."""
    cells, theta = 4357, 10
    ends = np.append(np.arange(theta, cells, theta), cells)
    low = np.concatenate([np.zeros(ends.size, dtype=np.int64), np.arange(cells)])
    high = np.concatenate([ends, np.arange(1, cells + 1)])
    inverse = np.full(low.size, (1 - share) / 2, dtype=object)
    inverse[: ends.size] = share
    inverse[0] = 1 / first_total
    inverse[ends.size : ends.size + theta] = 1 / first_leaf
    unit = 2000
    plan = Plan(Fraction(unit), (Measurement(Intervals(cells, low, high), (inverse * unit).astype(np.int64)),))
    reach = np.minimum(np.arange(cells) + theta, cells - 1)
    axis = WindowGraph(reach, np.array([], dtype=np.int64))
    return plan, CellGraph((axis,), "record", np.zeros(cells, dtype=np.bool_), "public")


def test_adult_at_theta_ten_really_costs_1_36_epsilon() -> None:
    share = Fraction(279, 1000)
    assert best_share(4357, 10, 16) == pytest.approx(float(share), abs=2e-4)
    assert certify(*adult_plan(share, Fraction(2), Fraction(2))).epsilon == Fraction(2721, 2000)
    assert certify(*adult_plan(share, 2 / (1 - share), 1 / share)).epsilon == 1


def test_the_excess_approaches_one_half_but_no_more() -> None:
    spent = worst(printed_split(3, 2, 2, Fraction(1, 1000)), within(6, 2))
    assert Fraction(149, 100) < spent < Fraction(3, 2)


def test_at_theta_one_the_printed_formula_publishes_the_first_count_exactly() -> None:
    height = math.ceil(math.log(1, 16))
    rows: list[NoisyRow] = [(interval(4, 0, 1), Fraction(2 * height))]
    rows += [(interval(4, 0, end), ONE) for end in (2, 3, 4)]
    assert worst(rows, within(4, 1)) == math.inf
    ordered: list[NoisyRow] = [(interval(4, 0, end), ONE) for end in (1, 2, 3, 4)]
    assert worst(ordered, within(4, 1)) == 1


def test_overlapping_child_intervals_double_the_cost_of_the_trees() -> None:
    theta, cells, share, height = 3, 6, Fraction(1, 4), 2
    assert printed_nodes(0, 3, 2) == [(0, 2), (1, 3), (0, 1), (1, 2), (1, 2), (2, 3)]
    rows: list[NoisyRow] = [(interval(cells, 0, end), 1 / share) for end in (3, 6)]
    for start in (0, theta):
        nodes = printed_nodes(start, start + theta, 2)
        rows += [(interval(cells, *node), 2 * height / (1 - share)) for node in nodes]
    assert worst(rows, within(cells, theta)) == share + 2 * (1 - share)
    disjoint: list[NoisyRow] = [(interval(cells, 0, end), 1 / share) for end in (3, 6)]
    for start in (0, theta):
        nodes = [(start, start + 2), (start + 2, start + 3), (start, start + 1), (start + 1, start + 2)]
        disjoint += [(interval(cells, *node), 2 * height / (1 - share)) for node in nodes]
    assert worst(disjoint, within(cells, theta)) <= 1
