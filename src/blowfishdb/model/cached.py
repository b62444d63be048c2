"""What is made at its first use: attributes, without a lock between instances, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # read as a decorator, beside `property`
    """The attribute that `compute` gives at its first use, kept in the instance; frozen dataclasses may have it.

    That of functools has, up to Python 3.11, one lock per attribute of a class: whoever computes it for one instance
    keeps waiting whoever needs it of any other. Here two threads that need one value at once may both compute it; all
    of them get the one that was kept first.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over arrays through the compiler, which takes about a second to load and once to compile."""
    from numba import njit

    made: Callable[..., Any] = njit(cache=True)(loop)
    return made
