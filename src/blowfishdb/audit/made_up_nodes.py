"""Made-up weights on nodes: what the certificate says against every two points that a hidden move joins."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.audit.made_up import made_up, made_up_places, one_of
from blowfishdb.audit.neighbours import Setting, changes, sample_records
from blowfishdb.audit.verdicts import Line, amount, judged
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.points import Points, compile_points
from blowfishdb.plan import node_loss
from blowfishdb.plan.node_plan import NodeAxis, NodePlan

PLANS, MOST_RECORDS = 5, 150


def node_lines(*, quick: bool, seed: int) -> list[Line]:
    """One line: nodes near and far, weights rounded much and not at all, exact counts of blocks that may not be."""
    random, tried, troubles = np.random.default_rng([seed, 29]), 0, list[str]()
    usual = node_loss.SHARES, node_loss.LEAST_SHARES
    for number in range(60 if quick else 200):
        setting = replace(made_up_places(random), by_value=True) if number % 4 == 0 else made_up(random, numeric=True)
        try:
            # A joint threshold is shared out finely, as it is for short columns, or coarsely, as for long ones.
            node_loss.SHARES = node_loss.LEAST_SHARES = (usual[0], 2, 1)[number % 3]
            points = compile_points(setting.domain, setting.policy, setting.axes, setting.where)
            pairs = _moves(setting, points)
            for _ in range(PLANS):
                troubles += _troubles(random, points, pairs)
                tried += 1
        except BlowfishError:
            continue
        finally:
            node_loss.SHARES, node_loss.LEAST_SHARES = usual
    return [judged("exact", "made-up weights on nodes", "every edge", troubles, "none certified too low", tried)]


def _moves(setting: Setting, points: Points) -> list[tuple[Ints | None, Ints | None]]:
    """The points that every hidden change of one record leads from and to; None for what does not count."""
    everyone = sample_records(setting, np.random.default_rng(1), MOST_RECORDS)
    asked = [axis.attribute for axis in setting.axes]
    order = [asked.index(name) for name in points.axes]
    found = []
    for change in changes(setting, everyone):
        ends = [setting.place(record) for record in (change.before[0], change.after[0])]
        one, two = (np.array([place[k] for k in order]) if isinstance(place, tuple) else None for place in ends)
        found.append((one, two))
    return found


def _troubles(random: np.random.Generator, points: Points, pairs: list[tuple[Ints | None, Ints | None]]) -> list[str]:
    plan, each = _plan(random, points.graph.plain), points.graph.rows_per_person
    nothing = np.zeros(plan.nodes + math.prod(plan.block_shape), dtype=np.int64)
    shown: dict[bytes, Ints] = {}
    moved = []
    for ends in pairs:
        one, two = (nothing if end is None else _weights(plan, end, shown) for end in ends)
        moved.append(np.abs(one - two))
    loss = each * max((int(change[: plan.nodes].sum()) for change in moved), default=0)
    tells = any(change[plan.nodes :].any() for change in moved)
    found = list[str]()
    with suppress(BlowfishError):
        priced, proof = node_loss.calibrate_nodes(replace(plan, blocks=()), points.graph, Fraction(1))
        claimed = 0 if priced.unit is None else proof.epsilon * priced.unit
        if claimed < loss:
            found.append(
                f"weights that change by {amount(Fraction(loss))} are certified for {amount(Fraction(claimed))}"
            )
    with suppress(BlowfishError):
        node_loss.certify_nodes(plan.with_unit(Fraction(1)), points.graph)
        if tells:
            found.append("counts of blocks that a hidden move changes may be released exactly")
    return found


def _weights(plan: NodePlan, point: Ints, known: dict[bytes, Ints]) -> Ints:
    """What one point adds to every node, and to the counts of the blocks."""
    key = point.tobytes()
    if key not in known:
        found = np.zeros(plan.nodes + math.prod(plan.block_shape), dtype=np.int64)
        nodes, weights = plan.rows_at(point.reshape(1, -1))
        np.add.at(found, nodes.reshape(-1), weights.reshape(-1))
        found[plan.nodes + int(plan.blocks_at(point.reshape(1, -1))[0])] += 1
        known[key] = found
    return known[key]


def _plan(random: np.random.Generator, plain: tuple[int, ...]) -> NodePlan:
    axes = []
    # Where all values lie between two nodes, a move along two columns loses more than one along one of them.
    is_far = random.random() < 0.4
    for size in plain:
        steps = 60 if is_far else int(one_of(random, (1, 2, 3, 8, 60)))
        places = np.arange(size) if is_far else np.cumsum(random.integers(0, 2 * steps, size=size))
        axes.append(NodeAxis(steps, places - places[0]))
    whole = math.prod(axis.steps for axis in axes)
    totals = [total for total in range(1, whole + 1) if whole % total == 0]
    # Either every label is the same, so that nothing shows, or some differ.
    blocks = tuple(random.integers(0, 2, size=size) * int(random.random() < 0.5) for size in plain)
    return NodePlan(None, tuple(axes), int(one_of(random, totals)), blocks)
