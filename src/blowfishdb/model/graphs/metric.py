"""A policy from a metric: values at most theta apart, by any distance a curator can write down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.graphs.families import Custom
from blowfishdb.model.numbers import exact

MOST_VALUES = 2000

Distance = Callable[[object, object], object]
Matrix = Sequence[Sequence[object]]


def metric(values: Iterable[object], distance: Distance | Matrix, theta: object) -> Custom:
    """Hides values at most theta apart, by a function of two values or by a matrix in the order of the values."""
    listed = list(values)
    if len(listed) > MOST_VALUES:
        raise TooLarge("values of a metric", len(listed), MOST_VALUES, "Use threshold() or partition().")
    if len(set(listed)) != len(listed) or not listed:
        raise PolicyError("a metric is about one or more different values")
    radius = exact(theta, "theta", PolicyError)
    if radius <= 0:
        raise PolicyError("theta must be positive; to hide nothing, declare the attribute public()")
    measured = _by_matrix(distance, len(listed)) if not callable(distance) else _by_function(distance, listed)
    pairs = []
    for first, one in enumerate(listed):
        if exact(measured(first, first), "a distance", PolicyError) != 0:
            raise PolicyError(f"the distance of {one!r} to itself is 0 in a metric")
        for second in range(first):
            apart = exact(measured(first, second), "a distance", PolicyError)
            if apart < 0 or apart != exact(measured(second, first), "a distance", PolicyError):
                raise PolicyError(f"{one!r} and {listed[second]!r}: a distance is not negative, and the same both ways")
            if apart <= radius:
                pairs.append((listed[second], one))
    return Custom(tuple(pairs))


def _by_function(distance: Distance, values: list[object]) -> Callable[[int, int], object]:
    return lambda first, second: distance(values[first], values[second])


def _by_matrix(matrix: Matrix, size: int) -> Callable[[int, int], object]:
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise PolicyError(f"a matrix of distances has {size} rows and {size} columns, one for each value")
    return lambda first, second: matrix[first][second]
