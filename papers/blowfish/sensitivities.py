"""Sections 5 to 8 of the Blowfish paper: stated sensitivities against the definition, on listed tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

import blowfishdb as bf
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.workload import Identity, Prefix, Rows, Sparse
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from papers.charts import bars, legend_below, plain
from papers.experiment import Case, Picture, Procedure, Result, Row, Settings, Table, Verdict, how_it_holds, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Neighbours under public constraints by Definition 4.1 of the Blowfish paper, on domains small enough to list.
#
# Read literally the definition has no neighbours, because the first table itself lies between any two. Here the table
# between must differ from the first in some secret.

Values = tuple[int, ...]
"""One table: the value of each person."""
Joined = Callable[[int, int], bool]
"""Whether the policy hides two values from each other."""
Constraint = Callable[[int], bool]
"""Whether a value counts for a public count."""


def worlds(cells: int, records: int, constraints: Sequence[Constraint]) -> list[list[Values]]:
    """All tables of so many records, those together of which the constraints say the same."""
    worlds_of: dict[Values, list[Values]] = defaultdict(list)
    for table in product(range(cells), repeat=records):
        worlds_of[tuple(sum(map(constraint, table)) for constraint in constraints)].append(table)
    return list(worlds_of.values())


def are_neighbours(one: Values, two: Values, possible: Iterable[Values], joined: Joined) -> bool:
    """Whether no possible table differs from the first in fewer secrets, or in the same with fewer changes."""
    told, changed = secrets(one, two, joined), changes(one, two)
    if not told:
        return False
    for third in possible:
        between = secrets(one, third, joined)
        if between and between < told:
            return False
        if between == told and changes(one, third) < changed:
            return False
    return True


def histogram_sensitivity(cells: int, records: int, constraints: Sequence[Constraint], joined: Joined) -> int:
    """The largest L1 distance between the histograms of two neighbouring tables of so many records."""
    largest = 0
    for possible in worlds(cells, records, constraints):
        for one, two in permutations(possible, 2):
            apart = histogram_distance(one, two)
            if apart > largest and are_neighbours(one, two, possible, joined):
                largest = apart
    return largest


def pair_distance(one: Values, two: Values, cells: int, constraints: Sequence[Constraint], joined: Joined) -> int:
    """The same for one pair alone: 0 when they are no neighbours, else a lower bound of the sensitivity."""
    possible = next(world for world in worlds(cells, len(one), constraints) if one in world)
    is_pair = two in possible and are_neighbours(one, two, possible, joined)
    return histogram_distance(one, two) if is_pair else 0


def histogram_distance(one: Values, two: Values) -> int:
    """How much the counts of all values change, summed."""
    return sum(abs(one.count(value) - two.count(value)) for value in {*one, *two})


def secrets(one: Values, two: Values, joined: Joined) -> frozenset[tuple[int, int, int]]:
    """Who changes along an edge of the policy, from what to what."""
    return frozenset((who, a, b) for who, (a, b) in enumerate(zip(one, two, strict=True)) if joined(a, b))


def changes(one: Values, two: Values) -> frozenset[tuple[int, int]]:
    """Who has which value in one of the tables alone."""
    both = zip(one, two, strict=True)
    return frozenset((who, value) for who, (a, b) in enumerate(both) if a != b for value in (a, b))


# Sections 5 to 8: the sensitivities that the Blowfish paper states, against listed tables and our certificates.

CLAIM = "The stated sensitivities are upper bounds for the sums, histograms and constraints they are stated for."


@dataclass(frozen=True)
class Statement:
    """What the paper states of an example, and two ways to check it: from the definition, and by our certificate."""

    where: str
    example: str
    stated: int
    listed: Callable[[], int]
    certified: Callable[[], Fraction]


def _line(values: int) -> Domain:
    return bf.domain({"v": bf.integers(0, values - 1, null=0)})


def _loss(domain: Domain, policy: Policy, rows: Rows) -> Fraction:
    """The certified loss of publishing the rows with noise of scale 1 on each."""
    graph = compile_cells(domain, policy, list(domain.names)).graph
    return certify(Plan(Fraction(1), (Measurement(rows, np.array(1)),)), graph).epsilon


def _histogram(domain: Domain, policy: Policy) -> Callable[[], Fraction]:
    cells = int(np.prod([domain[name].size for name in domain.names]))
    return lambda: _loss(domain, policy, Identity(cells))


def _along_line(policy: Policy, rows: Rows) -> Callable[[], Fraction]:
    return lambda: _loss(_line(rows.shape[1]), policy, rows)


def _largest_step(rows: Rows, theta: int) -> Callable[[], int]:
    """Without constraints the neighbours are the moves of one record: the largest L1 change over all of them."""
    columns = rows.dense().T
    pairs = [(a, b) for a in range(len(columns)) for b in range(a + 1, min(len(columns), a + theta + 1))]
    return lambda: max(int(np.abs(columns[a] - columns[b]).sum()) for a, b in pairs)


def _cluster_sums(values: int, centers: tuple[int, int]) -> Sparse:
    """One row for each centre, which sums the values nearest to it."""
    nearest = [min((abs(value - center), place) for place, center in enumerate(centers))[1] for value in range(values)]
    table = np.array([[value * (own == place) for value, own in enumerate(nearest)] for place in (0, 1)])
    return Sparse(table)


def _complete(one: int, two: int) -> bool:
    return one != two


def _next(one: int, two: int) -> bool:
    return abs(one - two) == 1


def _one_bit(one: int, two: int) -> bool:
    return (one ^ two).bit_count() == 1


def _within(low: int, high: int) -> Constraint:
    return lambda value: low <= value <= high


def _bit(place: int, wanted: int) -> Constraint:
    return lambda value: (value >> place & 1) == wanted


def _all(cells: int, records: int, constraints: Sequence[Constraint], joined: Joined) -> Callable[[], int]:
    return lambda: histogram_sensitivity(cells, records, constraints, joined)


def _pair(one: Values, two: Values, cells: int, constraints: Sequence[Constraint], joined: Joined) -> Callable[[], int]:
    return lambda: pair_distance(one, two, cells, constraints, joined)


THETA, LINE = Policy({"v": bf.threshold(3)}), Policy({"v": bf.line()})
SUM = Sparse(np.arange(11)[None, :])
SQUARE = bf.domain({"a": bf.integers(0, 1, null=0), "b": bf.integers(0, 1, null=0)})
CUBE = bf.domain({name: bf.integers(0, 1, null=0) for name in ("c", "b", "a")})
MARGINS = [_bit(0, 0), _bit(0, 1), _bit(1, 0), _bit(1, 1)]
STATEMENTS = (
    Statement("Section 5", "one sum, 0..10, θ = 3", 3, _largest_step(SUM, 3), _along_line(THETA, SUM)),
    Statement("Section 5", "histogram, line of 6", 2, _largest_step(Identity(6), 1), _along_line(LINE, Identity(6))),
    Statement("Section 7", "running sums, line of 6", 1, _largest_step(Prefix(6), 1), _along_line(LINE, Prefix(6))),
    Statement("Section 7", "running sums of 9, θ = 3", 3, _largest_step(Prefix(9), 3), _along_line(THETA, Prefix(9))),
    Statement(
        "Lemma 6.1",
        "cluster sums, 0..10, centres 2 and 7, θ = 1",
        2,
        _largest_step(_cluster_sums(11, (2, 7)), 1),
        _along_line(LINE, _cluster_sums(11, (2, 7))),
    ),
    Statement(
        "Corollary 8.3",
        "4 cells, complete, one range",
        2,
        _all(4, 2, [_within(0, 1)], _complete),
        _histogram(_line(4), Policy(constraints=["range(v, 0, 1)"])),
    ),
    Statement(
        "Theorem 8.4",
        "2 x 2, complete, one margin",
        4,
        _all(4, 3, [_bit(0, 0), _bit(0, 1)], _complete),
        _histogram(SQUARE, Policy(constraints=["marginal(a)"])),
    ),
    Statement(
        "Theorem 8.5",
        "3 bits, one attribute, two margins",
        4,
        _pair((0b000, 0b010, 0b001, 0b111), (0b110, 0b101, 0b011, 0b100), 8, MARGINS, _one_bit),
        _histogram(CUBE, Policy(composition="attribute", constraints=["marginal(a)", "marginal(b)"])),
    ),
    Statement(
        "Theorem 8.6",
        "line of 8, two ranges far apart",
        4,
        _pair((0, 2, 5), (6, 1, 3), 8, [_within(0, 1), _within(5, 6)], _next),
        _histogram(_line(8), Policy({"v": bf.line()}, constraints=["range(v, 0, 1)", "range(v, 5, 6)"])),
    ),
    Statement(
        "Theorem 8.6",
        "6 values, complete, two ranges",
        6,
        _all(6, 3, [_within(0, 1), _within(3, 4)], _complete),
        _histogram(_line(6), Policy(constraints=["range(v, 0, 1)", "range(v, 3, 4)"])),
    ),
)


def cases(settings: Settings) -> list[Case]:
    """One for each statement."""
    del settings
    return [(place,) for place in range(len(STATEMENTS))]


def measure(settings: Settings, case: Case) -> list[Row]:
    """What is stated, what some neighbours really show, and what we certify."""
    del settings
    statement = STATEMENTS[int(str(case[0]))]
    return [
        {
            "statement": statement.where,
            "example": statement.example,
            "stated": statement.stated,
            "listed": statement.listed(),
            "certified": float(statement.certified()),
        }
    ]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("sensitivities", "Sensitivities: stated, found in listed neighbours, and certified", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        groups = [f"{row['statement']}: {row['example']}" for row in rows]
        columns = {"stated in the paper": "stated", "found between neighbours": "listed", "certified": "certified"}
        bars(axes, groups, {words: [number(row, name) for row in rows] for words, name in columns.items()})
        plain(axes, "", "sensitivity (L1)")
        axes.set_xticks(range(len(groups)), groups, rotation=28, ha="right")
        legend_below(figure, axes)

    title = "Blowfish, sections 5 to 8: stated sensitivities against the definition and our certificates"
    return Result((table,), (Picture("sensitivities", title, "without noise", draw, (9.6, 5.4)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether each statement is at least what neighbours show; the certificates must be so in any case."""
    wrong = [row for row in rows if number(row, "stated") < number(row, "listed")]
    unsound = [row for row in rows if number(row, "certified") < number(row, "listed")]
    named = ", ".join(f"{row['statement']} ({row['stated']}, really {row['listed']})" for row in wrong)
    why = f"Too small: {named}; " if wrong else "None is too small here; "
    ours = "our certificates cover every example" if not unsound else f"{len(unsound)} certificates are too small"
    exact = sum(number(row, "stated") == number(row, "listed") for row in rows)
    why += f"{exact} of {len(rows)} are what neighbours really show, and {ours}."
    return Verdict(CLAIM, how_it_holds([number(row, "stated") >= number(row, "listed") for row in rows]), why)


PROCEDURE = Procedure(cases, measure, conclude)
