"""Computed from a synopsis, free: OLAP cubes, and the attributes whose parity a label is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import InvalidInput, QueryError, TooLarge
from blowfishdb.model.arguments import checked
from blowfishdb.model.numbers import Floats
from blowfishdb.model.predicate import Axis, Comparison, Predicate, as_axes
from blowfishdb.model.query import Grouped


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class Cube:
    """Counts of a synopsis by some of its attributes, each in groups of some width."""

    synopsis: Synopsis = field(repr=False)
    axes: tuple[Axis, ...] = ()

    def __repr__(self) -> str:
        return f"<Cube by {', '.join(self.names) or 'the total'} of {self.synopsis!r}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that the cube shows."""
        return tuple(axis.attribute for axis in self.axes)

    def roll_up(self, axis: Grouped) -> Cube:
        """Without the named attribute; or, given bins or groups of it, coarser along it."""
        (coarser,) = as_axes([axis])
        name = coarser.attribute
        if name not in self.names:
            raise QueryError(f"the cube does not show {name}; drill_down({name!r}) first")
        return replace(self, axes=self._without(name)) if coarser == Axis(name) else self._with(coarser)

    def drill_down(self, axis: Grouped) -> Cube:
        """With the named attribute besides; an attribute that is there already is shown in the new groups."""
        (finer,) = as_axes([axis])
        if finer.attribute not in self.synopsis.domain:
            known = ", ".join(self.synopsis.domain)
            raise QueryError(f"{finer.attribute} is not in this synopsis, which has {known}")
        return self._with(finer) if finer.attribute in self.names else replace(self, axes=(*self.axes, finer))

    def slice(self, attribute: str, value: object) -> Cube:
        """The records with this value of the attribute, which the cube no longer shows."""
        return Cube(self.synopsis.where(Comparison(attribute, "==", value)), self._without(attribute))

    def dice(self, predicate: Predicate) -> Cube:
        """The records for which the condition is true."""
        return replace(self, synopsis=self.synopsis.where(predicate))

    def answer(self) -> Answer:
        """The counts that the cube shows."""
        return self.synopsis.histogram(*self.axes) if self.axes else self.synopsis.count()

    def _with(self, axis: Axis) -> Cube:
        return replace(self, axes=tuple(axis if each.attribute == axis.attribute else each for each in self.axes))

    def _without(self, name: str) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.attribute != name)


@checked(QueryError)
def cube(synopsis: Synopsis, *axes: Grouped) -> Cube:
    """The cube that shows the given attributes, or all of the synopsis."""
    return Cube(synopsis, as_axes(axes or synopsis.artefact.names))


MOST_ATTRIBUTES = 22


@dataclass(frozen=True)
class Parity:
    """The attributes whose sum modulo 2 explains the label best, and the share of records on which it does."""

    attributes: tuple[str, ...]
    agreement: float


@checked(QueryError)
def learn_parity(synopsis: Synopsis, label: str) -> Parity:
    """The best of all parities of the other attributes, each of which has two ordinary cells and no other.

    One Walsh-Hadamard transform of the counts gives the agreement of every parity at once: d 2^d steps.
    """
    artefact = synopsis.artefact
    if label not in artefact.names:
        raise QueryError(f"{label} is not in this synopsis; it has {', '.join(artefact.names)}")
    if any(axis.cells.cells != 2 or axis.cells.plain != 2 for axis in artefact.axes):
        raise QueryError("a parity needs attributes with exactly two values each, without cells for NULL and outside")
    if len(artefact.axes) > MOST_ATTRIBUTES:
        raise TooLarge("attributes of a parity", len(artefact.axes), MOST_ATTRIBUTES, "Publish fewer attributes.")
    counts = np.moveaxis(artefact.counts.reshape(artefact.shape), artefact.names.index(label), -1)
    total = float(counts.sum())
    if total <= 0:
        raise InvalidInput("the counts of this synopsis add up to nothing: there is no parity to learn")
    others = [name for name in artefact.names if name != label]
    signed = walsh_hadamard((counts[..., 0] - counts[..., 1]).reshape(-1))
    best = int(np.argmax(signed))
    bits = [best >> (len(others) - 1 - place) & 1 for place in range(len(others))]
    chosen = tuple(name for name, bit in zip(others, bits, strict=True) if bit)
    return Parity(chosen, min(1.0, max(0.0, 0.5 + float(signed[best]) / total / 2)))


def walsh_hadamard(values: Floats) -> Floats:
    """For every set v of bits the sum over x of values[x] (-1)^(number of bits that x and v share)."""
    sums = np.asarray(values, dtype=np.float64).copy()
    step = 1
    while step < sums.size:
        pairs = sums.reshape(-1, 2, step)
        sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        step *= 2
    return sums
