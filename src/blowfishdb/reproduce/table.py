"""Every experiment, one line each; `blowfish reproduce --list` prints them in this order."""

from __future__ import annotations

from blowfishdb.errors import InvalidInput
from blowfishdb.reproduce.experiment import Experiment

DAWA = "DAWA (Li, Hay, Miklau, Wang 2014)"
BLOWFISH = "Blowfish (He, Machanavajjhala, Ding 2014)"
THESIS = "Data-dependent Blowfish histograms (Anuarbek)"
PARTITIONING = "Multidimensional partitioning (Xiao, Xiong, Yuan)"
DEMO = "BlowfishDB (Liu, Knopf, Tan, Ding, He)"
HERE = "blowfishdb.reproduce"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "dawa-table-1",
        DAWA,
        "Table 1",
        "Buckets of the optimal partition of each histogram",
        f"{HERE}.dawa.optimal_buckets:PROCEDURE",
    ),
)


def chosen(names: tuple[str, ...]) -> tuple[Experiment, ...]:
    """The experiments with these names, or that begin with one of them; all of them when none is given."""
    if not names:
        return EXPERIMENTS
    for name in names:
        if not any(_fits(one, name) for one in EXPERIMENTS):
            raise InvalidInput(f"no experiment is called {name!r}; `blowfish reproduce --list` names them all")
    return tuple(one for one in EXPERIMENTS if any(_fits(one, name) for name in names))


def _fits(experiment: Experiment, name: str) -> bool:
    return experiment.name == name or experiment.name.startswith(f"{name}-")
