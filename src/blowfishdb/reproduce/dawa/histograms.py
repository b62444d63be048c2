"""The seven histograms of the DAWA paper, in its order from easy to hard, and those that the user adds."""

from __future__ import annotations

import numpy as np

from blowfishdb.reproduce.data import Histogram, histogram
from blowfishdb.reproduce.given_data import others
from blowfishdb.reproduce.settings import Settings

NAMES = ("NETTRACE", "ADULT", "MEDCOST", "SEARCHLOGS", "INCOME", "PATENT", "HEPTH")
"""The paper calls the last one HepPh."""
EASY, HARD = NAMES[:3], NAMES[4:]
TINY = 64


def names(settings: Settings) -> tuple[str, ...]:
    """All of them and the user's own; the paper's first and last in a tiny run."""
    return (*settings.pick((NAMES[0], NAMES[-1]), NAMES, NAMES), *others(settings, axes=1))


def all_names(settings: Settings) -> tuple[str, ...]:
    """All of them and the user's own, in a tiny run too."""
    return (*NAMES, *others(settings, axes=1))


def paper_histogram(settings: Settings, name: str) -> Histogram:
    """One of them; a tiny run keeps the few cells with the most records."""
    found = histogram(settings, name)
    if settings.size == "tiny":
        length = min(TINY, found.counts.size)
        stretches = found.counts[: found.counts.size // length * length].reshape(-1, length)
        return Histogram(name, stretches[np.argmax(stretches.sum(axis=1))].copy(), found.origin)
    return found
