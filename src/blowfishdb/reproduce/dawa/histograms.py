"""The seven histograms of the DAWA paper, in its order: from easy to hard."""

from __future__ import annotations

import numpy as np

from blowfishdb.reproduce.data import Histogram, histogram
from blowfishdb.reproduce.settings import Settings

NAMES = ("NETTRACE", "ADULT", "MEDCOST", "SEARCHLOGS", "INCOME", "PATENT", "HEPTH")
"""The paper calls the last one HepPh."""
EASY, HARD = NAMES[:3], NAMES[4:]
TINY = 64


def names(settings: Settings) -> tuple[str, ...]:
    """All of them; the first and the last in a tiny run."""
    return settings.pick((NAMES[0], NAMES[-1]), NAMES, NAMES)


def paper_histogram(settings: Settings, name: str) -> Histogram:
    """One of them; a tiny run keeps the few cells with the most records."""
    found = histogram(settings, name)
    if settings.size == "tiny":
        stretches = found.counts[: found.counts.size // TINY * TINY].reshape(-1, TINY)
        return Histogram(name, stretches[np.argmax(stretches.sum(axis=1))].copy(), found.origin)
    return found
