"""Figure 5: what the partitions of different algorithms cost, against the optimal one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.model.arrays import Ints
from blowfishdb.model.workload import total
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.baselines.php import php_starts
from blowfishdb.reproduce.baselines.printed_dawa import First, PrintedDawa
from blowfishdb.reproduce.charts import dots, legend_below, plain, width_for
from blowfishdb.reproduce.dawa.histograms import EASY, all_names, paper_histogram
from blowfishdb.reproduce.dawa.partitions import optimal_starts, partition_cost
from blowfishdb.reproduce.dawa.published_noise import published_starts
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.releasing import one_record, release
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, mean_and_error, mean_ratio, one, trials_of, without
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECT = Fraction(1, 10)
COUNT = Fraction(1, 10)
"""Each algorithm spends 0.1 to select; 1/0.1 is what a bucket's count adds to its cost."""
OPTIMAL, EVERY, SUBSET = "optimal (not private)", "DAWA-all, sound", "DAWA-subset, sound"
PUBLISHED, PHP, OURS = "DAWA-subset, published noise (not private)", "P-HP", "dawa (BlowfishDB)"
CLOSE = 2.0
ALIKE = 1.5
FAR = 10.0
FAR_ON = ("INCOME", "PATENT")


def private_starts(first: First) -> Callable[[Ints], Ints]:
    """The partition of one of the forms of DAWA: half of twice the epsilon selects it, the rest is not looked at."""

    def starts(counts: Ints) -> Ints:
        mechanism = PrintedDawa(first, "laplace", Fraction(1, 2))
        found = release(mechanism, Problem(one_record(counts.size), total(counts.size)), 2 * SELECT, counts)
        return np.flatnonzero(np.diff(found.buckets, prepend=-1))

    return starts


ALGORITHMS: dict[str, Callable[[Ints], Ints]] = {
    EVERY: private_starts("all"),
    SUBSET: private_starts("powers"),
    PUBLISHED: lambda counts: published_starts(counts, SELECT, COUNT),
    PHP: lambda counts: php_starts(counts, SELECT, 1 / float(COUNT)),
    OURS: private_starts("ours"),
    OPTIMAL: lambda counts: optimal_starts(counts, COUNT),
}


def cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram, slow ones first."""
    return [(name, data) for name in ALGORITHMS for data in all_names(settings)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """Definition 5's cost."""
    name, data = str(case[0]), str(case[1])
    found = paper_histogram(settings, data)

    def trial(place: int) -> float:
        del place
        return partition_cost(found.counts, ALGORITHMS[name](found.counts), COUNT)

    trials = 1 if name == OPTIMAL else settings.pick(1, 1 if name == EVERY else 2, 5 if name == EVERY else 15)
    figures = mean_and_error(trial, trials)
    figures["cost"] = figures.pop("error")
    return [{"data": found.label, "set": data, "algorithm": name, **figures}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether all intervals come close to the optimum, the subset is as good, and P-HP is far off on hard data."""
    del settings
    ratio, sets = partial(mean_ratio, rows, "cost"), distinct(rows, "set")
    close, alike, far = ratio(EVERY, OPTIMAL, sets), ratio(SUBSET, EVERY, sets), ratio(PHP, SUBSET, FAR_ON)
    verdict = Verdict(
        "DAWA-all is close to optimal, DAWA-subset is about as good, and P-HP's partitions cost orders of magnitude "
        "more on Income and Patents.",
        how_it_holds([close <= CLOSE, alike <= ALIKE, far >= FAR]),
        f"With the noise that the proof needs DAWA-all costs {close:.1f} times the optimum (geometric mean; "
        f"{ratio(EVERY, OPTIMAL, EASY):.1f} on easy histograms), DAWA-subset {alike:.2f} times DAWA-all, and P-HP "
        f"{far:.0f} times DAWA-subset on Income and Patents; the published code's noise, which is not private, gives "
        f"{ratio(PUBLISHED, OPTIMAL, sets):.1f} times the optimum, our dawa {ratio(OURS, OPTIMAL, sets):.1f}.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        data = distinct(rows, "data")
        plain(axes, "", "partition cost (records)", log_y=True)
        dots(axes, data, {name: [one(rows, "cost", data=each, algorithm=name) for each in data] for name in ALGORITHMS})
        legend_below(figure, axes, 3)

    title = "DAWA Figure 5: cost of the partition, epsilon 0.1"
    trials = f"mean of {trials_of(row for row in rows if row['algorithm'] != OPTIMAL)}"
    return Result(
        (Table("costs", "Cost of the partition, 0.1 spent to select it", without(rows, "set")),),
        (Picture("costs", title, trials, draw, (width_for(sets, 9.0), 4.8)),),
        verdict,
    )


PROCEDURE = Procedure(cases, measure, conclude)
