"""The study of epsilon_1: which part of epsilon should find the buckets, with and without the transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from blowfishdb.mechanisms.data_aware.dawa_transform import DawaTransform
from blowfishdb.reproduce.baselines.printed_dawa import PrintedDawa
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.dawa.histograms import names, paper_histogram
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import geometric_mean, matching, mean_and_error, number, trials_of
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.thesis.algorithms import (
    BOTH,
    BOTH_PUBLISHED,
    DAWA,
    DAWA_PUBLISHED,
    Cells,
    at_half,
    both_published,
    dawa_published,
    on_the_line,
    squared_error,
)
from blowfishdb.reproduce.thesis.transformed_buckets import PrintedTransform

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (Fraction(1, 100), Fraction(1, 10))
SHARES = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
OURS = "dawa-transform, buckets first (BlowfishDB)"
FORMS: dict[str, Callable[[Fraction], Cells]] = {
    DAWA: lambda share: partial(at_half, PrintedDawa(select_share=share)),
    BOTH: lambda share: partial(on_the_line, PrintedTransform(share)),
    DAWA_PUBLISHED: lambda share: partial(dawa_published, share=share),
    BOTH_PUBLISHED: lambda share: partial(both_published, share=share),
    OURS: lambda share: partial(on_the_line, DawaTransform(share, sums_first=False)),
}


def cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in FORMS for data in names(settings)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The squared error of a cell for each share and epsilon."""
    name, data = str(case[0]), str(case[1])
    found = paper_histogram(settings, data)
    rows: list[Row] = []
    for epsilon in EPSILONS:
        for share in SHARES:
            algorithm = FORMS[name](share)

            def trial(place: int, algorithm: Cells = algorithm, epsilon: Fraction = epsilon) -> float:
                del place
                return squared_error(algorithm, found.counts, epsilon)

            head: Row = {
                "epsilon": float(epsilon),
                "share": float(share),
                "data": found.label,
                "algorithm": name,
            }
            rows.append({**head, **mean_and_error(trial, settings.pick(1, 1, 8))})
    return rows


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether DAWA prefers a quarter and DAWA + Transformed a half."""
    del settings
    means = {
        (name, share): geometric_mean(number(row, "error") for row in matching(rows, algorithm=name, share=share))
        for name in FORMS
        for share in map(float, SHARES)
    }
    gains = {name: means[name, 0.25] / means[name, 0.5] for name in FORMS}
    verdict = Verdict(
        "DAWA does better with a quarter of epsilon for the partition, DAWA + Transformed with a half.",
        how_it_holds([gains[DAWA] < 1, gains[BOTH] > 1]),
        "The error with a quarter over that with a half (geometric mean over histograms and epsilon) is "
        f"{gains[DAWA]:.2f} for DAWA and {gains[BOTH]:.2f} for DAWA + Transformed in sound form, "
        f"{gains[DAWA_PUBLISHED]:.2f} and {gains[BOTH_PUBLISHED]:.2f} with the published code's noise (not private), "
        f"and {gains[OURS]:.2f} for our dawa-transform with buckets first.",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(EPSILONS), sharey=True)
        for place, (axes, epsilon) in enumerate(zip(panels, map(float, EPSILONS), strict=True)):
            label = "" if place else "squared error, geometric mean over histograms"
            plain(axes, "share of epsilon for the partition", label, f"epsilon = {epsilon:g}", log_y=True)
            lines(
                axes,
                {name: [(share, _mean(rows, name, share, epsilon)) for share in map(float, SHARES)] for name in FORMS},
            )
        legend_below(figure, axes, 2)

    title = "Thesis, section 6: the part of epsilon that finds the buckets"
    return Result(
        (Table("errors", "Mean squared error of a cell by share, line policy", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.8)),),
        verdict,
    )


def _mean(rows: Sequence[Row], name: str, share: float, epsilon: float) -> float:
    found = matching(rows, algorithm=name, share=share, epsilon=epsilon)
    return geometric_mean(number(row, "error") for row in found)


PROCEDURE = Procedure(cases, measure, conclude)
