"""Learns which attributes a 0/1 label is the parity of, from a synopsis or from records with some labels flipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.errors import InvalidInput, QueryError, TooLarge
from blowfishdb.model.arrays import Floats, Ints

MOST_ATTRIBUTES = 22


@dataclass(frozen=True)
class Parity:
    """The attributes whose sum modulo 2 explains the label best, and the share of records on which it does."""

    attributes: tuple[str, ...]
    agreement: float


def learn_parity(synopsis: Synopsis, label: str) -> Parity:
    """The best of all parities of the other attributes, each of which has two ordinary cells and no other.

    One Walsh-Hadamard transform of the counts gives the agreement of every parity at once: d 2^d steps.
    """
    kept = synopsis.artefact
    if label not in kept.names:
        raise QueryError(f"{label} is not in this synopsis; it has {', '.join(kept.names)}")
    if any(axis.cells.cells != 2 or axis.cells.plain != 2 for axis in kept.axes):
        raise QueryError("parities are learnt of attributes with exactly two values each, NULL and outside excluded")
    if len(kept.axes) > MOST_ATTRIBUTES:
        raise TooLarge("attributes of a parity", len(kept.axes), MOST_ATTRIBUTES, "Publish fewer attributes.")
    counts = np.moveaxis(kept.counts.reshape(kept.shape), kept.names.index(label), -1)
    total = float(counts.sum())
    if total <= 0:
        raise InvalidInput("the counts of this synopsis add up to nothing: there is no parity to learn")
    others = [name for name in kept.names if name != label]
    signed = walsh_hadamard((counts[..., 0] - counts[..., 1]).reshape(-1))
    best = int(np.argmax(signed))
    bits = [best >> (len(others) - 1 - place) & 1 for place in range(len(others))]
    chosen = tuple(name for name, bit in zip(others, bits, strict=True) if bit)
    return Parity(chosen, min(1.0, max(0.0, 0.5 + float(signed[best]) / total / 2)))


def walsh_hadamard(values: Floats) -> Floats:
    """For every set v of bits the sum over x of values[x] (-1)^(number of bits that x and v share)."""
    found = np.asarray(values, dtype=np.float64).copy()
    step = 1
    while step < found.size:
        pairs = found.reshape(-1, 2, step)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        step *= 2
    return found


def eliminate_parity(records: Ints, labels: Ints, rounds: int = 101) -> Ints:
    """The parity vector by elimination and majority (Blum, Kalai, Wasserman), for records whose order is random.

    Each round takes fresh records, adds them up modulo 2 until single bits remain, and votes with their labels. A
    share eta of flipped labels makes a vote right with probability at least (1 + (1 - 2 eta)^d) / 2.
    """
    count, bits = records.shape
    if labels.shape != (count,) or np.any((records | 1) != 1) or np.any((labels | 1) != 1):
        raise InvalidInput("records and labels are made of 0 and 1, one label per record")
    size = 2 * bits + 8
    if count < size:
        raise InvalidInput(f"{bits} attributes need at least {size} records")
    votes, voters = np.zeros(bits), np.zeros(bits)
    for number in range(min(rounds, count // size)):
        part = slice(number * size, (number + 1) * size)
        solved, value = _solve(np.column_stack([records[part], labels[part]]))
        votes[solved] += value
        voters[solved] += 1
    if np.any(voters == 0):
        raise InvalidInput("some attribute never varies by itself in these records, so its part cannot be learnt")
    return (votes > voters / 2).astype(np.int64)


def _solve(system: Ints) -> tuple[Ints, Ints]:
    """Gauss and Jordan modulo 2: the bits that stand alone in some row, and the labels of those rows."""
    rows, bits = system.copy(), system.shape[1] - 1
    top = 0
    for bit in range(bits):
        found = np.flatnonzero(rows[top:, bit])
        if found.size == 0:
            continue
        rows[[top, top + found[0]]] = rows[[top + found[0], top]]
        others = (rows[:, bit] == 1) & (np.arange(rows.shape[0]) != top)
        rows[others] ^= rows[top]
        top += 1
    single = np.flatnonzero(rows[:top, :bits].sum(axis=1) == 1)
    return np.argmax(rows[single, :bits], axis=1), rows[single, bits]
