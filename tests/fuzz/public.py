"""What is public of the package, found from what it exports and from what its functions say that they give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, get_args, get_origin

import blowfishdb as bf
from blowfishdb import analysis
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.model.arguments import OPERATORS, resolved
from blowfishdb.model.policy import ValueWindow
from blowfishdb.session import Session
from tools.docs_site.reference import MORE

INSIDE = (
    *("catalog.config", "ledger", "mechanisms", "model.calendar", "model.domain", "model.graphs"),
    *("plan.plan", "present.chart", "sources"),
)
"""Modules of objects that a user meets only inside of others: cells, graphs, strategies, the ledger itself."""
NOT_FOR_USERS = {Compiled, ValueWindow}
MADE_FOR_USERS = {Answer, Preview, Session, Synopsis}
"""Classes whose constructors are for the package: its functions give these objects."""


@dataclass(frozen=True)
class Face:
    """One function, constructor or method, under the name that users know, and whose method it is."""

    name: str
    function: FunctionType
    owner: type | None = None

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What a caller gives."""
        listed = list(inspect.signature(self.function).parameters.values())
        is_bound = self.owner is not None and not self.is_static
        return listed[1:] if is_bound else listed

    @property
    def is_static(self) -> bool:
        """Whether it needs no object of its class."""
        return isinstance(self.member, staticmethod)

    @property
    def member(self) -> object:
        """The method as its class has it."""
        return None if self.owner is None else inspect.getattr_static(self.owner, self.function.__name__)

    def kind_of(self, parameter: inspect.Parameter) -> Any:
        """The type of an argument."""
        return resolved(parameter.annotation, self.function.__module__)


def _classes(hint: Any) -> Iterator[type]:
    for kind in (hint, get_origin(hint)):
        if isinstance(kind, type):
            yield kind
    for inner in get_args(hint):
        yield from _classes(inner)


def _given(function: Callable[..., Any]) -> Iterator[type]:
    """The classes of the package that a function gives to users."""
    for kind in _classes(resolved(function.__annotations__.get("return"), function.__module__)):
        room = kind.__module__.removeprefix("blowfishdb.")
        if room != kind.__module__ and not room.startswith(INSIDE):
            yield kind


def _members(kind: type) -> Iterator[tuple[str, FunctionType, bool]]:
    """The public methods, operators and properties of a class that are its own or those of its bases here."""
    for base in kind.__mro__:
        if not base.__module__.startswith("blowfishdb."):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") and name not in OPERATORS:
                continue
            is_property = isinstance(member, property)
            inner = member.fget if is_property else getattr(member, "__func__", member)
            if isinstance(inner, FunctionType) and inner.__qualname__ == f"{base.__qualname__}.{name}":
                yield name, inner, is_property


def classes_and_functions() -> tuple[list[type], list[tuple[str, FunctionType]]]:
    """The public classes and functions; classes are also those of the objects that these give."""
    exported = [(name, getattr(bf, name)) for name in bf.__all__]
    exported += [(f"analysis.{name}", getattr(analysis, name)) for name in analysis.__all__]
    functions = [(name, thing) for name, thing in exported if isinstance(thing, FunctionType)]
    waiting = [thing for _, thing in exported if isinstance(thing, type)] + list(MORE)
    waiting += [kind for _, function in functions for kind in _given(function)]
    classes: dict[type, None] = {}
    while waiting:
        kind = waiting.pop()
        if kind in classes or kind in NOT_FOR_USERS:
            continue
        classes[kind] = None
        waiting += [given for _, function, _ in _members(kind) for given in _given(function)]
    return sorted(classes, key=lambda kind: kind.__qualname__), functions


def faces() -> list[Face]:
    """Everything public that takes arguments."""
    classes, functions = classes_and_functions()
    found = [Face(name, function) for name, function in functions]
    exported = {getattr(bf, name) for name in bf.__all__ if isinstance(getattr(bf, name), type)}
    for kind in classes:
        if kind in exported - MADE_FOR_USERS:
            found.append(Face(kind.__name__, kind.__init__, kind))
        known = set[str]()
        for name, function, is_property in _members(kind):
            is_generated = not function.__annotations__ or (
                name == "__eq__" and "other" not in function.__annotations__
            )
            if name not in known and not is_property and not is_generated:
                found.append(Face(f"{kind.__name__}.{name}", function, kind))
            known.add(name)
    return [face for face in found if face.parameters]
