"""OLAP on a synopsis: roll up, drill down, slice and dice. Every step is a new cube and costs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.synopsis.synopsis import Grouped, Synopsis
from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, Comparison, Predicate, as_axes


@dataclass(frozen=True, eq=False, repr=False)
class Cube:
    """A synopsis seen by some of its attributes, each at some width."""

    synopsis: Synopsis = field(repr=False)
    axes: tuple[Axis, ...] = ()

    def __repr__(self) -> str:
        seen = ", ".join(axis.attribute for axis in self.axes) or "the total"
        return f"<Cube by {seen} of {self.synopsis!r}>"

    def roll_up(self, axis: Grouped) -> Cube:
        """Without the named attribute; or, given bins or groups of it, coarser along it."""
        (wanted,) = as_axes([axis])
        self._seen(wanted.attribute)
        if wanted == Axis(wanted.attribute):
            return replace(self, axes=tuple(own for own in self.axes if own.attribute != wanted.attribute))
        return self._with(wanted)

    def drill_down(self, axis: Grouped) -> Cube:
        """With the named attribute besides; or, where it is there already, as finely as is now given."""
        (wanted,) = as_axes([axis])
        if wanted.attribute not in self.synopsis.domain:
            known = ", ".join(self.synopsis.domain)
            raise QueryError(f"{wanted.attribute} is not in this synopsis, which has {known}")
        if wanted.attribute in [own.attribute for own in self.axes]:
            return self._with(wanted)
        return replace(self, axes=(*self.axes, wanted))

    def slice(self, attribute: str, value: object) -> Cube:
        """The records with this value of the attribute, which is seen no more."""
        kept = tuple(own for own in self.axes if own.attribute != attribute)
        return Cube(self.synopsis.where(Comparison(attribute, "==", value)), kept)

    def dice(self, predicate: Predicate) -> Cube:
        """The records for which the condition is true."""
        return replace(self, synopsis=self.synopsis.where(predicate))

    def answer(self) -> Answer:
        """The counts that the cube shows."""
        return self.synopsis.histogram(*self.axes) if self.axes else self.synopsis.count()

    def _seen(self, name: str) -> None:
        if name not in [own.attribute for own in self.axes]:
            raise QueryError(f"the cube does not show {name}; drill_down({name!r}) first")

    def _with(self, wanted: Axis) -> Cube:
        self._seen(wanted.attribute)
        return replace(self, axes=tuple(wanted if own.attribute == wanted.attribute else own for own in self.axes))


def cube(synopsis: Synopsis, *axes: Grouped) -> Cube:
    """The cube that shows the given attributes, or all of the synopsis."""
    return Cube(synopsis, as_axes(axes or synopsis.artefact.names))
