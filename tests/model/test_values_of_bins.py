"""Values that bins hold: whole numbers by themselves or points of the line, and the middles that sums count."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from blowfishdb.errors import DomainError
from blowfishdb.model.cells import compile_cells, middles
from blowfishdb.model.domain import Bins, bins, domain
from blowfishdb.model.policy import Policy

BINS = [
    bins(0, 6, width=1),
    bins(0, 6, width=2),
    bins("-2.5", 6, width="1.7"),
    bins("0.5", "4.1", width="0.9"),
    bins("0.5", "5", width="0.9"),
    bins(0, 3, width="0.5"),
    bins("0.5", "0.7", width="0.1"),
    bins(edges=["0.5", "1.5", 7]),
    bins(edges=[-3, "-2.5", "1.5", 7]),
    bins(edges=["0.1", "0.9", 7]),
]


def inside(attribute: Bins, code: int) -> list[int]:
    """The whole numbers in a bin."""
    low, high = attribute.edge(code), attribute.edge(code + 1)
    return [number for number in range(math.floor(low), math.ceil(high) + 1) if low <= number < high]


@pytest.mark.parametrize("attribute", BINS, ids=str)
def test_bins_of_whole_numbers_hold_one_each(attribute: Bins) -> None:
    held = [inside(attribute, code) for code in range(attribute.count)]
    assert attribute.hold_whole_numbers == all(held)


def test_a_million_million_bins_are_looked_at_at_once() -> None:
    assert bins(0, 10**12, width=1, whole=True).hold_whole_numbers
    assert not bins(0, 10**9, width="0.5").hold_whole_numbers


@pytest.mark.parametrize("attribute", BINS, ids=str)
@pytest.mark.parametrize("is_whole", [False, True])
def test_every_value_lies_as_near_to_the_middle_of_its_bin_as_is_said(attribute: Bins, is_whole: bool) -> None:
    if is_whole and not attribute.hold_whole_numbers:
        with pytest.raises(DomainError, match="a whole number in every bin"):
            replace(attribute, whole=True)
        return
    declared = replace(attribute, whole=is_whole)
    cells = compile_cells(domain({"x": declared}), Policy(), ("x",))
    numbers, apart, unit = middles("x", cells.layout["x"])
    for code in range(attribute.count):
        ends = attribute.edge(code), attribute.edge(code + 1)
        values = [Fraction(number) for number in inside(attribute, code)] if is_whole else ends
        away = [abs(value - int(numbers[code]) * unit) for value in values]
        # The furthest is just as far: no interval is wider than it must be.
        assert max(away) == int(apart[code]) * unit
