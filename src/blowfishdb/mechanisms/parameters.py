"""Parameters that an expert may set: what each mechanism takes, in which range, and the one check of what is given.

Parameters come with the request, so they are as public as the question. They shape a plan or a program before it is
certified; no loss is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from blowfishdb.errors import ParameterError, PlanError
from blowfishdb.model.numbers import show, suggest

ParameterValues: TypeAlias = tuple[tuple[str, Fraction], ...]
"""The parameters of one request that were set, in the order of their names."""
FINEST = 1000
"""Values are fractions with denominators up to this one, so that allowances stay short numbers."""


@dataclass(frozen=True)
class Parameter:
    """One number that shapes what a mechanism measures: its name, meaning, range and default.

    `default` is the value that is used where none is given, or None where the mechanism works one out; `usual` says
    in words what is used then. `field` is the argument of the mechanism that the value is for.
    """

    name: str
    meaning: str
    low: Fraction
    high: Fraction
    default: Fraction | None = None
    is_whole: bool = False
    field: str = ""
    worked_out: str = ""

    def __post_init__(self) -> None:
        if not self.low < self.high or not (self.default is None or self.low <= self.default <= self.high):
            raise PlanError(f"the default of parameter {self.name!r} is within its range")
        if (self.default is None) != bool(self.worked_out):
            raise PlanError(f"parameter {self.name!r} has a default, or words for how one is worked out")

    @property
    def range(self) -> str:
        """The least and the greatest value."""
        return f"{show(self.low)} to {show(self.high)}"

    @property
    def kind(self) -> str:
        """What may be given, in words."""
        return f"a {'whole ' if self.is_whole else ''}number from {self.range}"

    @property
    def usual(self) -> str:
        """What is used where nothing is given, in words."""
        return self.worked_out if self.default is None else show(self.default)

    def to_dict(self) -> dict[str, object]:
        """The parameter as plain data."""
        kind = {"low": str(self.low), "high": str(self.high), "whole": self.is_whole, "default": self.usual}
        return {"name": self.name, "meaning": self.meaning, **kind}

    def admits(self, value: Fraction) -> bool:
        """Whether a value is in the range, and short enough."""
        is_short = value.denominator == 1 if self.is_whole else value.denominator <= FINEST
        return is_short and self.low <= value <= self.high

    def argument(self, value: Fraction) -> tuple[str, Fraction | int]:
        """The argument of the mechanism, and its value."""
        return self.field or self.name, int(value) if self.is_whole else value


ParameterTable: TypeAlias = Mapping[str, tuple[Parameter, ...]]
"""The parameters of each mechanism that takes any."""


def check_settings(table: ParameterTable, mechanism: str | None, settings: ParameterValues) -> None:
    """ParameterError for a setting that the mechanism does not take, or that is outside its range."""
    if not settings:
        return
    if mechanism is None or mechanism not in table:
        which = "name the mechanism that they are for" if mechanism is None else f"{mechanism} takes none"
        raise ParameterError(
            f"parameters belong to one mechanism: {which}; those with parameters are {', '.join(table)}"
        )
    known = {one.name: one for one in table[mechanism]}
    taken = ", ".join(f"{one.name} ({one.kind})" for one in table[mechanism])
    for name, value in settings:
        if name not in known:
            others = [other for other, taking in table.items() if any(one.name == name for one in taking)]
            where = f"{name!r} is a parameter of {', '.join(others)}" if others else f"there is no parameter {name!r}"
            hint = where if others else f"{where}; {suggest(name, known)}"
            raise ParameterError(f"{hint}{' ' if hint.endswith('?') else '; '}{mechanism} takes {taken}")
        if not known[name].admits(value):
            digits = "" if known[name].is_whole else f", with a denominator of at most {FINEST}"
            raise ParameterError(f"{name} of {mechanism} is {known[name].kind}{digits}, not {show(value)}")


def arguments(table: ParameterTable, mechanism: str, settings: ParameterValues) -> dict[str, Fraction | int]:
    """The arguments by which a mechanism is made to follow settings that were checked."""
    known = {one.name: one for one in table[mechanism]}
    return dict(known[name].argument(value) for name, value in settings)


def settings_words(settings: ParameterValues) -> str:
    """The settings as an expert writes them: split=0.3, rounds=2."""
    return ", ".join(f"{name}={show(value)}" for name, value in settings)
