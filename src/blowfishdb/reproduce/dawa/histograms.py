"""The seven histograms of the DAWA paper, in its order: from easy to hard."""

from __future__ import annotations

from blowfishdb.reproduce.data import Histogram, histogram
from blowfishdb.reproduce.settings import Settings

NAMES = ("NETTRACE", "ADULT", "MEDCOST", "SEARCHLOGS", "INCOME", "PATENT", "HEPTH")
"""The paper calls the last one HepPh."""
EASY, HARD = NAMES[:3], NAMES[4:]
TINY = 64


def paper_histogram(settings: Settings, name: str) -> Histogram:
    """One of them; a tiny run keeps a stretch of few cells."""
    found = histogram(settings, name)
    if settings.size == "tiny":
        return Histogram(name, found.counts[-TINY:].copy(), found.origin)
    return found
