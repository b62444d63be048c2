"""Declared columns and tables."""

from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Slot
from blowfishdb.model.domain.bins import Bins, bins
from blowfishdb.model.domain.categorical import Categorical, categorical
from blowfishdb.model.domain.dates import Dates, dates
from blowfishdb.model.domain.domain import Domain, domain
from blowfishdb.model.domain.integers import Integers, integers
from blowfishdb.model.domain.timestamps import Timestamps, timestamps

__all__ = [
    "CELL",
    "CLAMP",
    "Attribute",
    "Bins",
    "Categorical",
    "Dates",
    "Domain",
    "Integers",
    "Slot",
    "Timestamps",
    "bins",
    "categorical",
    "dates",
    "domain",
    "integers",
    "timestamps",
]
