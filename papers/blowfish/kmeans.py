"""Figure 1 of the Blowfish paper: k-means under thresholds, attribute secrets and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.present.chart import INK
from papers.blowfish.clusters import (
    PointSet,
    non_private,
    objective,
    point_set,
    policy_of,
    prepared,
    printed_centers,
    sound_centers,
)
from papers.charts import COLOURS, MARKS, legend_below, lines, plain, simple_ticks
from papers.data import PLACES, given_file
from papers.experiment import (
    Case,
    Picture,
    Procedure,
    Result,
    Row,
    Settings,
    Table,
    Verdict,
    distinct,
    geometric_mean,
    how_it_holds,
    matching,
    number,
    trials_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One piece of the k-means figures: a point set under a policy at an epsilon, the paper's way and ours.

UNITS = {"tweets": " km", "places": "°"}
Policies = Iterable[tuple[str, str]]
"""Kinds of policies, each with its number."""


def epsilons(settings: Settings) -> tuple[str, ...]:
    """The paper's ten, or fewer."""
    return settings.pick(("0.5",), ("0.1", "0.3", "1"), tuple(f"{tenth / 10:g}" for tenth in range(1, 11)))


def repeats(settings: Settings) -> tuple[int, int]:
    """How often the paper's iteration is run, in full as often as in the paper, and our release.

    At the smallest epsilon single objectives of both differ by a fifth and more from their mean.
    """
    return settings.pick((1, 1), (3, 3), (50, 15))


def policy_cases(settings: Settings, names: Iterable[str], policies: Mapping[str, Policies]) -> list[Case]:
    """Every point set under each of its policies at each epsilon."""
    return [(name, *policy, epsilon) for name in names for policy in policies[name] for epsilon in epsilons(settings)]


def thetas(names: Iterable[str], numbers: Mapping[str, Sequence[str]]) -> dict[str, Policies]:
    """The full graph, then thresholds from the widest to the narrowest."""
    return {name: [("full", ""), *(("theta", theta) for theta in numbers[name])] for name in names}


def measure(settings: Settings, case: Case) -> list[Row]:
    """Mean objective over the mean non-private one, with quartiles, as printed and from one certified release.

    `noiseless` is the paper's iteration from the same random centres without any noise: what its start alone costs.
    """
    name, kind, value, epsilon = (str(part) for part in case)
    trials, our_trials = repeats(settings)
    if kind == "cells":
        # Public cells are counted exactly: there is nothing to repeat.
        our_trials = 1
    sets = [point_set(settings, name, repeat) for repeat in range(trials)]
    policy = policy_of(sets[0], kind, value)
    ready = prepared(sets[0], policy, epsilon)
    base, our_base = (float(np.mean([_base(points) for points in sets[:count]])) for count in (trials, our_trials))
    printed = [objective(p, printed_centers(p, seed, kind, value, epsilon)) / base for seed, p in enumerate(sets)]
    own = enumerate(sets[:our_trials])
    ours = [objective(p, sound_centers(p, seed, policy, ready)) / our_base for seed, p in own]
    noiseless = [_without_noise(p, seed) / base for seed, p in enumerate(sets)]
    return [
        {
            "data": sets[0].label,
            "policy": words_of(name, kind, value),
            "epsilon": float(epsilon),
            **_summary("printed", printed),
            **_summary("ours", ours),
            "noiseless": float(np.mean(noiseless)),
            "trials": trials,
            "our_trials": our_trials,
        }
    ]


def words_of(name: str, kind: str, value: str) -> str:
    """The policy as a legend says it."""
    if kind == "theta":
        return f"θ = {value}{UNITS.get(name, '')}"
    if kind == "partition":
        return f"{int(value) ** 2:,} blocks"
    return {"full": "full graph", "attribute": "one attribute at a time", "cells": "each cell by itself"}[kind]


@lru_cache(maxsize=128)
def _base(points: PointSet) -> float:
    return non_private(points)


@lru_cache(maxsize=256)
def _without_noise(points: PointSet, seed: int) -> float:
    """The paper's iteration where every cell is by itself: no noise, whatever epsilon is."""
    return objective(points, printed_centers(points, seed, "cells", "", "1"))


def _summary(name: str, values: list[float]) -> dict[str, float]:
    low, high = np.quantile(values, [0.25, 0.75])
    return {name: float(np.mean(values)), f"{name}_low": float(low), f"{name}_high": float(high)}


# What the k-means figures share: rows by point set and policy, and a pair of panels, as printed and certified.

OBJECTIVE = "objective / non-private"
FULL = "full graph"


def data_of(rows: Sequence[Row]) -> list[str]:
    """The point sets, in the order of the rows."""
    return distinct(rows, "data")


def trials(rows: Sequence[Row]) -> str:
    """How often each was run, for the figure's head."""
    return f"mean of {trials_of(rows)} as printed, {trials_of(rows, 'our_trials')} certified"


def policies_of(rows: Sequence[Row], data: str) -> list[str]:
    """The policies that were tried on a point set."""
    return distinct(matching(rows, data=data), "policy")


def values(rows: Sequence[Row], data: str, policy: str, column: str) -> dict[float, float]:
    """One column by epsilon."""
    return {number(row, "epsilon"): number(row, column) for row in matching(rows, data=data, policy=policy)}


def gain(rows: Sequence[Row], data: str, policy: str, column: str, over: str = "") -> dict[float, float]:
    """By epsilon, how many times smaller the objective is under the policy than under the full graph.

    `over` names the column of the full graph, where it is another one.
    """
    full, own = values(rows, data, FULL, over or column), values(rows, data, policy, column)
    return {epsilon: full[epsilon] / own[epsilon] for epsilon in own}


def draw_pairs(figure: Figure, rows: Sequence[Row]) -> None:
    """A column of panels for each point set: the paper's way above, one certified release below."""
    names = data_of(rows)
    panels = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    for place, data in enumerate(names):
        above, below = panels[:, place]
        start = values(rows, data, FULL, "noiseless")
        above.plot(list(start), list(start.values()), color=INK, linestyle=":", label="as printed, without noise")
        _draw_policies(above, rows, data, "printed")
        _draw_policies(below, rows, data, "ours")
        plain(
            above,
            "",
            OBJECTIVE if place == 0 else "",
            f"{data}, as printed\n(private for the full graph only)",
            log_y=True,
        )
        plain(below, "ε", OBJECTIVE if place == 0 else "", f"{data}, certified")
        simple_ticks(above)
        handles, labels = above.get_legend_handles_labels()
        below.legend(
            handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=7.5
        )


def _draw_policies(axes: Axes, rows: Sequence[Row], data: str, column: str) -> None:
    for look, policy in enumerate(policies_of(rows, data)):
        own = values(rows, data, policy, column)
        low, high = (list(values(rows, data, policy, f"{column}_{end}").values()) for end in ("low", "high"))
        axes.plot(list(own), list(own.values()), color=COLOURS[look], marker=MARKS[look], markersize=4, label=policy)
        axes.fill_between(list(own), low, high, color=COLOURS[look], alpha=0.12, linewidth=0)


# Figures 1(a) to 1(c): k-means under distance thresholds, for tweets, pixels and a synthetic set.

THETAS = {
    "tweets": ("2000", "1000", "500", "100"),
    "skin01": ("256", "128", "64", "32"),
    "synthetic": ("1", "0.5", "0.25", "0.1"),
}
PLACES_THETAS = ("10", "1")
"""Degrees."""
NEAR, FAR = 5.0, 100.0
"""The paper's words: below 5 times the non-private objective, where the Laplace mechanism is up to 100 times away."""
THRESHOLDS_WORTH_IT = 1.1
THRESHOLDS_CLAIM = (
    "Under distance thresholds k-means stays within 5 times the non-private objective, where the Laplace mechanism is "
    "up to 100 times away."
)


def thresholds_cases(settings: Settings) -> list[Case]:
    """Three point sets, the full graph and some thresholds each; a full run adds the world's towns if given."""
    names = settings.pick(["synthetic"], list(THETAS), list(THETAS))
    few = {name: settings.pick(each[-1:], (each[0], *each[2:]), each) for name, each in THETAS.items()}
    if settings.size == "full" and given_file(settings, PLACES) is not None:
        names, few = [*names, "places"], {**few, "places": PLACES_THETAS}
    return policy_cases(settings, names, thetas(names, few))


def thresholds_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("objectives", "Objective over the non-private one, by point set, policy and epsilon", tuple(rows))
    title = "Blowfish, Figure 1(a-c): k-means under distance thresholds (mean, quartiles shaded)"
    picture = Picture(
        "objectives", title, trials(rows), partial(draw_pairs, rows=rows), (3.2 * len(data_of(rows)), 6.4)
    )
    return Result((table,), (picture,), thresholds_judge(rows))


def thresholds_judge(rows: Sequence[Row]) -> Verdict:
    """Whether the sound mechanism keeps what the paper promises of the unsound one."""
    laplace = max(value for data in data_of(rows) for value in values(rows, data, FULL, "printed").values())
    under = [(data, policy) for data in data_of(rows) for policy in policies_of(rows, data) if policy != FULL]
    printed = max(g for data, policy in under for g in gain(rows, data, policy, "printed").values())
    sound = max(g for data, policy in under for g in gain(rows, data, policy, "ours").values())
    worst = max(value for data, policy in under for value in values(rows, data, policy, "ours").values())
    against = max(g for data, policy in under for g in gain(rows, data, policy, "ours", over="printed").values())
    why = (
        f"The Laplace mechanism is at most {laplace:.3g} times away here; the printed noise gains up to {printed:.3g} "
        "times from a threshold, but it is too small to be private, since a record that changes cluster moves the sums "
        f"by its whole value and not by θ (Lemma 6.1 fails). One certified release stays within {worst:.3g} times "
        f"under every threshold, gains up to {sound:.3g} times from one, and is up to {against:.3g} times better than "
        "the Laplace mechanism."
    )
    return Verdict(
        THRESHOLDS_CLAIM, how_it_holds([worst < NEAR, sound >= THRESHOLDS_WORTH_IT, laplace >= FAR / 2]), why
    )


THRESHOLDS_PROCEDURE = Procedure(thresholds_cases, measure, thresholds_conclude)


# Figure 1(d): what a threshold of 128 gains over the Laplace mechanism, for three sizes of the pixel set.

SETS = ("skin", "skin10", "skin01")
THETA = "128"
SIZES_WORTH_IT = 1.01
SIZES_CLAIM = (
    "A threshold of 128 improves on the Laplace mechanism for every size of the set, and most for the smallest."
)
GAINS = {
    "printed": "as printed: Laplace / θ (not private)",
    "certified": "certified: full graph / θ",
    "both": "Laplace as printed / certified θ",
}


def sizes_cases(settings: Settings) -> list[Case]:
    """The full graph and one threshold, for each size."""
    names = settings.pick(SETS[2:], SETS, SETS)
    return policy_cases(settings, names, thetas(names, dict.fromkeys(SETS, (THETA,))))


def sizes_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    gains = gains_of(rows)
    tables = (
        Table("gains", "How many times smaller the objective is under the threshold", tuple(gains)),
        Table("objectives", "Objective over the non-private one", tuple(rows)),
    )

    def draw(figure: Figure) -> None:
        names = data_of(rows)
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, data in zip(panels, names, strict=True):
            own = matching(gains, data=data)
            lines(
                axes,
                {words: [(number(row, "epsilon"), number(row, name)) for row in own] for name, words in GAINS.items()},
            )
            plain(axes, "ε", "times smaller objective" if axes is panels[0] else "", data, log_y=True)
            simple_ticks(axes)
        legend_below(figure, panels[0], columns=3)

    title = "Blowfish, Figure 1(d): what θ = 128 gains, by size of the set"
    return Result(tables, (Picture("gains", title, trials(rows), draw, (9.0, 3.6)),), sizes_judge(gains))


def gains_of(rows: Sequence[Row]) -> list[Row]:
    """By set and epsilon: the gain as printed, of the certified release, and of that over the Laplace mechanism."""
    gains: list[Row] = []
    for data in data_of(rows):
        theta = policies_of(rows, data)[1]
        columns = {
            "printed": gain(rows, data, theta, "printed"),
            "certified": gain(rows, data, theta, "ours"),
            "both": gain(rows, data, theta, "ours", over="printed"),
        }
        for epsilon in columns["printed"]:
            gains.append({"data": data, "epsilon": epsilon, **{name: each[epsilon] for name, each in columns.items()}})
    return gains


def sizes_judge(gains: Sequence[Row]) -> Verdict:
    """Whether every size gains from the threshold, beats the Laplace mechanism, and small sets more than large."""
    least = {name: min(number(row, name) for row in gains) for name in GAINS}
    sizes = distinct(gains, "data")
    by_size = [max(number(row, "both") for row in matching(gains, data=data)) for data in sizes]
    grows = all(a <= b for a, b in pairwise(by_size))
    why = (
        f"The printed noise, too small to be private, gains a factor of {least['printed']:.3g} or more; the certified "
        f"release is {least['both']:.3g} to {max(by_size):.3g} times better than the Laplace mechanism, but of that "
        f"the threshold itself gives a factor of {least['certified']:.3g} to "
        f"{max(number(row, 'certified') for row in gains):.3g} only."
    )
    return Verdict(
        SIZES_CLAIM, how_it_holds([least["certified"] >= SIZES_WORTH_IT, least["both"] >= SIZES_WORTH_IT, grows]), why
    )


SIZES_PROCEDURE = Procedure(sizes_cases, measure, sizes_conclude)


# Figure 1(e): k-means when one attribute is hidden at a time, over the Laplace mechanism.

SMALL, LARGE = ("skin01", "synthetic"), "tweets"
MUCH, LITTLE = 5.0, 1.5
"""About an order of magnitude, and little."""
ATTRIBUTES_CLAIM = (
    "When one attribute is hidden at a time the objective falls by an order of magnitude for the small sets of 3 and 4 "
    "dimensions, and hardly for the large one of 2."
)


def attributes_cases(settings: Settings) -> list[Case]:
    """The full graphs, moved together and one at a time, for each set."""
    names = settings.pick(("synthetic", LARGE), (*SMALL, LARGE), (*SMALL, LARGE))
    return policy_cases(settings, names, dict.fromkeys(names, (("full", ""), ("attribute", ""))))


def attributes_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        words = ("as printed (not private)", "certified")
        for axes, column, title in zip(panels, ("printed", "ours"), words, strict=True):
            lines(axes, {data: list(_gain(rows, data, column).items()) for data in data_of(rows)})
            axes.axhline(1.0, color="#5f6c7b", linewidth=0.8, linestyle=":")
            plain(axes, "ε", "full graph / one attribute" if axes is panels[0] else "", title)
        legend_below(figure, panels[0])

    table = Table("objectives", "Objective over the non-private one, by point set, policy and epsilon", tuple(rows))
    title = "Blowfish, Figure 1(e): how many times smaller the objective is when one attribute is hidden at a time"
    return Result((table,), (Picture("gains", title, trials(rows), draw, (8.0, 3.6)),), attributes_judge(rows))


def _gain(rows: Sequence[Row], data: str, column: str) -> dict[float, float]:
    return gain(rows, data, policies_of(rows, data)[1], column)


def attributes_judge(rows: Sequence[Row]) -> Verdict:
    """Whether the policy gains much on small sets and little on the large one, as printed and when certified."""
    most = {
        column: {data: max(_gain(rows, data, column).values()) for data in data_of(rows)}
        for column in ("printed", "ours")
    }
    small = {column: max(g for data, g in each.items() if not data.startswith(LARGE)) for column, each in most.items()}
    large = {column: max(g for data, g in each.items() if data.startswith(LARGE)) for column, each in most.items()}
    worst = max(value for data in data_of(rows) for value in values(rows, data, FULL, "ours").values())
    why = (
        f"As printed, with noise too small to be private, the small sets gain up to {small['printed']:.3g} times and "
        f"the large one {large['printed']:.3g}; the certified release gains {small['ours']:.3g} and "
        f"{large['ours']:.3g} times at most, being within {worst:.3g} times the non-private objective under the full "
        "graph already, and a record that changes in d attributes is left with d times the loss."
    )
    return Verdict(
        ATTRIBUTES_CLAIM, how_it_holds([small["ours"] >= MUCH, small["printed"] >= MUCH, large["ours"] <= LITTLE]), why
    )


ATTRIBUTES_PROCEDURE = Procedure(attributes_cases, measure, attributes_conclude)


# Figure 1(f): k-means of tweets when records are hidden within the blocks of a partition.

SIDES = ("2", "10", "20", "100")
"""Blocks along each side of the paper's 400 by 300 cells."""
EXACT = 1.02
PARTITIONS_CLAIM = (
    "Partitions give smaller objectives than the Laplace mechanism; with each cell by itself clustering is exact."
)


def partitions_cases(settings: Settings) -> list[Case]:
    """The full graph, partitions into more and more blocks, and each cell by itself."""
    sides = settings.pick(SIDES[:1], SIDES[:3], SIDES)
    policies = [("full", ""), *(("partition", side) for side in sides), ("cells", "")]
    return policy_cases(settings, ["tweets"], {"tweets": policies})


def partitions_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("objectives", "Objective over the non-private one, by policy and epsilon", tuple(rows))
    title = "Blowfish, Figure 1(f): k-means under partitions (mean, quartiles shaded)"
    picture = Picture("objectives", title, trials(rows), partial(draw_pairs, rows=rows), (6.4, 6.6))
    return Result((table,), (picture,), partitions_judge(rows))


def partitions_judge(rows: Sequence[Row]) -> Verdict:
    """Whether each partition beats the Laplace mechanism, and whether single cells are clustered exactly."""
    data = data_of(rows)[0]
    *blocks, cells = (policy for policy in policies_of(rows, data) if policy != FULL)
    laplace = min(values(rows, data, FULL, "printed").values())
    worst = max(value for policy in blocks for value in values(rows, data, policy, "ours").values())
    printed = min(g for policy in blocks for g in gain(rows, data, policy, "printed").values())
    own = [geometric_mean(gain(rows, data, policy, "ours").values()) for policy in blocks]
    exact = max(values(rows, data, cells, "ours").values())
    start = max(values(rows, data, cells, "noiseless").values())
    why = (
        f"The certified release, which counts blocks exactly, stays within {worst:.4g} times the non-private "
        f"objective under every partition (the Laplace mechanism: {laplace:.4g} or more), but of that the partition "
        f"itself gives a factor of {min(own):.4g} to {max(own):.4g} only; it is within {exact:.4g} when cells are "
        f"public. The printed iteration, whose noise under a partition is not private, has gains of {printed:.3g} or "
        f"more, and even without noise is {start:.3g} times away, because it starts from random centres."
    )
    return Verdict(PARTITIONS_CLAIM, how_it_holds([worst < laplace, min(own) >= 1.0, exact <= EXACT]), why)


PARTITIONS_PROCEDURE = Procedure(partitions_cases, measure, partitions_conclude)
