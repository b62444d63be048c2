"""Audited thresholds on timestamps whose clock changes: times that are near though the clock shows them far apart."""

from __future__ import annotations

from collections.abc import Iterator

from blowfishdb.audit.cases import Case
from blowfishdb.model.domain import domain, timestamps
from blowfishdb.model.graphs.families import threshold
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import query

SPRING = timestamps("2024-03-30 22:00", "2024-03-31 08:00", zone="Europe/Berlin", null="2024-03-30 22:00")
AUTUMN = timestamps(
    "2024-04-07 01:29", "2024-04-07 02:02", "minute", zone="Australia/Lord_Howe", null="2024-04-07 01:29"
)


def changing_clocks() -> Iterator[Case]:
    """An hour that is skipped in Berlin, and half an hour that comes twice on Lord Howe Island."""
    for mechanism in ("ordered", "identity"):
        for season, column, theta in (("spring", SPRING, "10 minutes"), ("autumn", AUTUMN, "2 minutes")):
            policy = Policy({"x": threshold(theta)})
            name = f"{mechanism}, clocks change in {season}"
            yield Case(name, domain({"x": column}), policy, query("cdf", "x"), mechanism=mechanism)
