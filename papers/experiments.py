"""Every experiment, one line each; `blowfish reproduce --list` prints them in this order."""

from __future__ import annotations

from difflib import get_close_matches

from blowfishdb.errors import InvalidInput
from papers.experiment import Experiment

DAWA = "DAWA (Li, Hay, Miklau, Wang 2014)"
BLOWFISH = "Blowfish (He, Machanavajjhala, Ding 2014)"
THESIS = "Data-dependent Blowfish histograms (Anuarbek)"
PARTITIONING = "Multidimensional partitioning (Xiao, Xiong, Yuan)"
DEMO = "BlowfishDB (Liu, Knopf, Tan, Ding, He)"
HERE = "papers"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "dawa-table-1",
        DAWA,
        "Table 1",
        "Buckets of the optimal partition of each histogram",
        f"{HERE}.dawa.partitions:OPTIMAL_PROCEDURE",
    ),
    Experiment(
        "dawa-figure-3",
        DAWA,
        "Figure 3 and Table 2",
        "Error of random intervals against six algorithms, and the ratios",
        f"{HERE}.dawa.comparison:PROCEDURE",
    ),
    Experiment(
        "dawa-figure-4",
        DAWA,
        "Figure 4",
        "Error of each of the two stages on its own",
        f"{HERE}.dawa.stages:ISOLATED_PROCEDURE",
    ),
    Experiment(
        "dawa-figure-5",
        DAWA,
        "Figure 5",
        "Cost of private partitions against the optimal one",
        f"{HERE}.dawa.partitions:COSTS_PROCEDURE",
    ),
    Experiment(
        "dawa-figure-6",
        DAWA,
        "Figure 6",
        "Other ways to measure the buckets, on four workloads",
        f"{HERE}.dawa.stages:SECOND_PROCEDURE",
    ),
    Experiment(
        "dawa-figure-7",
        DAWA,
        "Figure 7",
        "Error of rectangles on maps, against algorithms for two dimensions",
        f"{HERE}.dawa.rectangles:PROCEDURE",
    ),
    Experiment(
        "thesis-figure-4",
        THESIS,
        "Figure 4",
        "Squared error of a histogram under the line policy, four algorithms",
        f"{HERE}.thesis:HISTOGRAMS_PROCEDURE",
    ),
    Experiment(
        "thesis-figure-5",
        THESIS,
        "Figure 5",
        "Matching against the other algorithms on half of Income and simulated counts",
        f"{HERE}.thesis:MATCHED_PROCEDURE",
    ),
    Experiment(
        "thesis-splits",
        THESIS,
        "Section 6",
        "Which part of epsilon should find the buckets",
        f"{HERE}.thesis:SPLITS_PROCEDURE",
    ),
    Experiment(
        "blowfish-figure-1abc",
        BLOWFISH,
        "Figure 1(a-c)",
        "k-means under distance thresholds",
        f"{HERE}.blowfish.kmeans:THRESHOLDS_PROCEDURE",
    ),
    Experiment(
        "blowfish-figure-1d",
        BLOWFISH,
        "Figure 1(d)",
        "k-means under a threshold, by size of the set",
        f"{HERE}.blowfish.kmeans:SIZES_PROCEDURE",
    ),
    Experiment(
        "blowfish-figure-1e",
        BLOWFISH,
        "Figure 1(e)",
        "k-means when one attribute is hidden at a time",
        f"{HERE}.blowfish.kmeans:ATTRIBUTES_PROCEDURE",
    ),
    Experiment(
        "blowfish-figure-1f",
        BLOWFISH,
        "Figure 1(f)",
        "k-means under partitions",
        f"{HERE}.blowfish.kmeans:PARTITIONS_PROCEDURE",
    ),
    Experiment(
        "blowfish-figure-2b",
        BLOWFISH,
        "Figure 2(b)",
        "Error of ranges by threshold, capital loss",
        f"{HERE}.blowfish.ranges:PROCEDURE_B",
    ),
    Experiment(
        "blowfish-figure-2c",
        BLOWFISH,
        "Figure 2(c)",
        "Error of ranges by threshold, latitude",
        f"{HERE}.blowfish.ranges:PROCEDURE_C",
    ),
    Experiment(
        "blowfish-section-8",
        BLOWFISH,
        "Sections 5 to 8",
        "Stated sensitivities, with and without public constraints, against the definition",
        f"{HERE}.blowfish.sensitivities:PROCEDURE",
    ),
    Experiment(
        "partitioning-figure-7",
        PARTITIONING,
        "Figures 3 to 7",
        "Noisy cells, the errors of ranges on them, and bounds",
        f"{HERE}.partitioning.cells:PROCEDURE",
    ),
    Experiment(
        "partitioning-figure-8",
        PARTITIONING,
        "Figure 8",
        "Average queries on released counts",
        f"{HERE}.partitioning.census:PROCEDURE",
    ),
    Experiment(
        "partitioning-figures-9-10",
        PARTITIONING,
        "Figures 9 and 10",
        "Height of the hierarchical kd-tree",
        f"{HERE}.partitioning.kdtrees:HEIGHTS_PROCEDURE",
    ),
    Experiment(
        "partitioning-figures-11-12",
        PARTITIONING,
        "Figures 11 and 12",
        "Thresholds of the kd-tree",
        f"{HERE}.partitioning.kdtrees:THRESHOLDS_PROCEDURE",
    ),
    Experiment(
        "partitioning-figures-13-14",
        PARTITIONING,
        "Figures 13 and 14",
        "Error of rectangles by α",
        f"{HERE}.partitioning.kdtrees:ALPHAS_PROCEDURE",
    ),
    Experiment(
        "partitioning-figures-15-16",
        PARTITIONING,
        "Figures 15 and 16",
        "Number of queries against the interactive model",
        f"{HERE}.partitioning.kdtrees:QUERIES_PROCEDURE",
    ),
    Experiment(
        "partitioning-parity",
        PARTITIONING,
        "Appendix C",
        "Parities learnt from released cells",
        f"{HERE}.partitioning.learning:PARITIES_PROCEDURE",
    ),
    Experiment(
        "partitioning-decision-tree",
        PARTITIONING,
        "Section 4.4",
        "A decision tree learnt from released counts",
        f"{HERE}.partitioning.learning:TREES_PROCEDURE",
    ),
    Experiment(
        "blowfishdb-theta",
        DEMO,
        "Figure 3",
        "Epsilon by threshold for a fixed accuracy",
        f"{HERE}.demonstration:THRESHOLDS_PROCEDURE",
    ),
    Experiment(
        "blowfishdb-projection",
        DEMO,
        "Section 3",
        "Time and memory of a projected policy against the whole one",
        f"{HERE}.demonstration:PROJECTIONS_PROCEDURE",
    ),
    Experiment(
        "blowfishdb-budget",
        DEMO,
        "Section 1",
        "Questions answered within a budget, against an APEx-like system",
        f"{HERE}.demonstration:BUDGETS_PROCEDURE",
    ),
)


def chosen(names: tuple[str, ...]) -> tuple[Experiment, ...]:
    """The experiments with these names, or that begin with one of them; all of them when none is given."""
    if not names:
        return EXPERIMENTS
    for name in names:
        if not any(_fits(one, name) for one in EXPERIMENTS):
            near = get_close_matches(name, [one.name for one in EXPERIMENTS], 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InvalidInput(f"no experiment is called {name!r}; {hint}`blowfish reproduce --list` names them all")
    return tuple(one for one in EXPERIMENTS if any(_fits(one, name) for name in names))


def _fits(experiment: Experiment, name: str) -> bool:
    return experiment.name == name or experiment.name.startswith(f"{name}-")
