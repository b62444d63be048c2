"""Which answers of a question public facts tell already, so that the consistent ones meet them exactly."""

from __future__ import annotations

import numpy as np

from blowfishdb.engine.compiled import Compiled
from blowfishdb.inference.consistent import NOTHING_KNOWN, Known
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.known_parts import NO_PART, KnownParts

MOST_ENTRIES = 2**24
"""Answers, or cells, times known parts, up to which it is looked for answers that are sums of parts."""


def known_answers(compiled: Compiled) -> Known:
    """The answers that add up whole known parts and nothing else; rows of 0 and 1 only."""
    known, rows = compiled.known, compiled.problem.workload
    if known is None or compiled.measure is not None or max(rows.shape) * (known.count + 1) > MOST_ENTRIES:
        return NOTHING_KNOWN
    member = np.zeros((known.labels.size, known.count + 1), dtype=np.int64)
    # The last column gathers the cells that are in no part.
    member[np.arange(known.labels.size), known.labels] = 1
    held = rows.dot(member)
    whole = (held == 0) | (held == member.sum(axis=0))
    told = np.flatnonzero(np.all(whole, axis=1) & (held[:, NO_PART] == 0))
    taken = (held[told, :-1] > 0).astype(np.float64)
    return Known(told, taken @ known.totals.astype(np.float64))


def chosen(known: Known, start: int, stop: int) -> Known:
    """The known ones among the answers [start, stop), numbered from start."""
    own = (known.places >= start) & (known.places < stop)
    return Known(known.places[own] - start, known.values[own])


def with_total(known: KnownParts, total: float | None) -> tuple[Ints, Floats]:
    """Labels and totals of the parts; with a known total the cells in no part are one more."""
    totals = known.totals.astype(np.float64)
    free = known.labels == NO_PART
    if total is None or not free.any():
        return known.labels, totals
    return np.where(free, known.count, known.labels), np.append(totals, max(0.0, total - float(totals.sum())))
