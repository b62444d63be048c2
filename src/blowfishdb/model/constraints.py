"""Public constraints: as values and texts, what they tell records apart by, and whether all can hold at once."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import DomainError, PolicyError, QueryError, TooLarge, plural
from blowfishdb.model.arguments import checked
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.groups import Segments, along, atom_runs, combinations, segments
from blowfishdb.model.numbers import Bools, Ints, exact, row_major
from blowfishdb.model.predicate import (
    PREDICATES,
    Atom,
    Both,
    Comparison,
    Either,
    Member,
    Negation,
    Predicate,
    Truth,
    atoms,
    condition_text,
    name_text,
    truth,
    value_text,
)

MOST_CONDITIONS = 128
MOST_NESTED = 32
"""Less than the parser of conditions bears, from wherever it is called."""
MOST_ROWS = 2**53


@dataclass(frozen=True)
class CountConstraint:
    """How many records meet a condition; `value` where the number itself is given."""

    condition: Predicate
    value: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.condition, PREDICATES):
            raise PolicyError(f"a count is of a condition such as col('age') < 18, not {self.condition!r}")
        object.__setattr__(self, "condition", _plain_condition(self.condition, MOST_CONDITIONS))
        _check_value(self.value)


@dataclass(frozen=True)
class RangeConstraint:
    """How many records have a value from low to high, both included."""

    attribute: str
    low: object
    high: object
    value: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _plain_value(self.low))
        object.__setattr__(self, "high", _plain_value(self.high))
        _check_value(self.value)

    @property
    def condition(self) -> Predicate:
        """The same as a condition."""
        return Both(Comparison(self.attribute, ">=", self.low), Comparison(self.attribute, "<=", self.high))


@dataclass(frozen=True)
class MarginalConstraint:
    """How many records have each combination of values of the attributes, NULL and outside included.

    `values` lists combinations with their counts, where they are given; what is not listed then counts 0. A special
    cell is written by its name, "NULL" or "outside".
    """

    attributes: tuple[str, ...]
    values: tuple[tuple[tuple[object, ...], int], ...] | None = None

    def __post_init__(self) -> None:
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise PolicyError("a marginal is over one attribute or several, each named once")
        if self.values is None:
            return
        object.__setattr__(
            self, "values", tuple((tuple(_plain_value(v) for v in combination), n) for combination, n in self.values)
        )
        seen = set()
        for combination, count in self.values:
            if len(combination) != len(self.attributes):
                values = plural(len(self.attributes), "value")
                raise PolicyError(f"a combination of a marginal has {values}, not {combination!r}")
            if combination in seen:
                raise PolicyError(f"the combination {', '.join(map(str, combination))} is counted twice")
            seen.add(combination)
            _check_value(count)

    @property
    def total(self) -> int | None:
        """The number of rows that the given counts add up to."""
        return None if self.values is None else sum(count for _, count in self.values)


@dataclass(frozen=True)
class RowsConstraint:
    """How many rows there are."""

    value: int | None = None

    def __post_init__(self) -> None:
        _check_value(self.value)

    @property
    def condition(self) -> None:
        """No condition: every row counts."""
        return None


Constraint: TypeAlias = CountConstraint | RangeConstraint | MarginalConstraint | RowsConstraint
CONSTRAINTS = (CountConstraint, RangeConstraint, MarginalConstraint, RowsConstraint)


@checked(PolicyError)
def count_constraint(condition: Predicate, value: int | None = None) -> CountConstraint:
    """The public constraint how many records meet a condition."""
    return CountConstraint(condition, value)


@checked(PolicyError)
def range_constraint(attribute: str, low: object, high: object, value: int | None = None) -> RangeConstraint:
    """The public constraint how many records lie from low to high, both included."""
    return RangeConstraint(attribute, low, high, value)


@checked(PolicyError)
def marginal_constraint(
    *attributes: str, values: Iterable[tuple[Iterable[object], int]] | None = None
) -> MarginalConstraint:
    """The public constraint how many records have each combination of values of the attributes."""
    listed = None if values is None else tuple((tuple(combination), count) for combination, count in values)
    return MarginalConstraint(attributes, listed)


@checked(PolicyError)
def rows_constraint(value: int | None = None) -> RowsConstraint:
    """The public constraint how many rows there are."""
    return RowsConstraint(value)


def numbers_given(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints of which the number itself is given, or the counts of a marginal."""
    return tuple(
        constraint
        for constraint in constraints
        if (constraint.values if isinstance(constraint, MarginalConstraint) else constraint.value) is not None
    )


def marginals_of(constraints: Iterable[Constraint]) -> list[MarginalConstraint]:
    """The marginals among the constraints."""
    return [constraint for constraint in constraints if isinstance(constraint, MarginalConstraint)]


def counts_of(constraints: Iterable[Constraint]) -> list[CountConstraint | RangeConstraint | RowsConstraint]:
    """The constraints on one number each."""
    return [constraint for constraint in constraints if not isinstance(constraint, MarginalConstraint)]


def rows_given(constraint: Constraint) -> int | None:
    """The number of rows that the constraint gives."""
    if isinstance(constraint, MarginalConstraint):
        return constraint.total
    return constraint.value if isinstance(constraint, RowsConstraint) else None


def without_values(constraint: Constraint) -> Constraint:
    """What is known, without the number itself."""
    if isinstance(constraint, MarginalConstraint):
        return replace(constraint, values=None)
    return replace(constraint, value=None)


def _check_value(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ROWS:
        raise PolicyError(f"a public count is a whole number of records, 0 or more, not {value!r}")


def _plain_value(value: object) -> object:
    """Numbers exact, dates as text: then a constraint reads back from its text as it was."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float | Decimal | Fraction):
        number = exact(value, "a value", PolicyError)
        return int(number) if number.denominator == 1 else number
    if isinstance(value, str | int):
        return value
    raise PolicyError(f"a constraint compares with numbers, texts, truth values and dates, not with {value!r}")


def _plain_condition(condition: Predicate, depth: int, nested: int = 0) -> Predicate:
    """The condition with plain values; refused where its text could not be read back."""
    if depth == 0:
        raise PolicyError(f"a condition is nested at most {MOST_CONDITIONS} deep")
    if nested > MOST_NESTED:
        raise PolicyError(f"a condition has at most {MOST_NESTED} brackets or NOTs around each other")
    match condition:
        case Both(first, second) | Either(first, second):
            # A run such as "a and b and c" leans to the left and needs no brackets.
            run = nested + (type(first) is not type(condition))
            return type(condition)(
                _plain_condition(first, depth - 1, run), _plain_condition(second, depth - 1, nested + 1)
            )
        case Negation(inner):
            return Negation(_plain_condition(inner, depth - 1, nested + 1))
        case Comparison(attribute, op, value):
            return Comparison(attribute, op, _plain_value(value))
        case Member(attribute, ()):
            raise PolicyError(f"a list of values of {attribute} is empty; leave the constraint out")
        case Member(attribute, values):
            return Member(attribute, tuple(_plain_value(value) for value in values))
    return condition


LONGEST = 20_000
KINDS = ("count", "range", "marginal", "rows")
HELP = "write count(sex = 'F' and age < 18), range(age, 18, 64), marginal(sex, state) or rows, each with = 120 if known"


def write_constraint(constraint: Constraint) -> str:
    """The text that reads back to the constraint; a marginal's values are not part of it."""
    if isinstance(constraint, MarginalConstraint):
        return f"marginal({', '.join(name_text(name) for name in constraint.attributes)})"
    known = "" if constraint.value is None else f" = {constraint.value}"
    match constraint:
        case CountConstraint(condition):
            return f"count({condition_text(condition)}){known}"
        case RangeConstraint(attribute, low, high):
            return f"range({name_text(attribute)}, {value_text(low)}, {value_text(high)}){known}"
        case RowsConstraint():
            return f"rows{known}"


def read_constraint(text: str) -> Constraint:
    """The constraint that the text writes."""
    if not isinstance(text, str):
        raise PolicyError(f"a constraint is a text, not {text!r}; {HELP}")
    if len(text) > LONGEST:
        raise PolicyError(f"a written constraint has at most {LONGEST:,} characters, not {len(text):,}")
    # Loaded here: only who reads constraints waits for the parser.
    from blowfishdb.model.conditions import condition_of, name_in, read_call, value_in

    try:
        kind, arguments, known = read_call(text)
        if kind not in KINDS:
            raise QueryError(f"{kind!r} is not a kind of constraint")
        value = value_in(known) if known else None
        match kind, arguments:
            case "rows", []:
                return RowsConstraint(_count(value))
            case "count", [condition]:
                return CountConstraint(condition_of(condition), _count(value))
            case "range", [name, low, high]:
                return RangeConstraint(name_in(name), value_in(low), value_in(high), _count(value))
            case "marginal", [_, *_] if value is None:
                return MarginalConstraint(tuple(name_in(name) for name in arguments))
    except QueryError as error:
        raise PolicyError(f"{error}; {HELP}") from None
    raise PolicyError(f"{kind} is not written this way; {HELP}")


def _count(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PolicyError(f"a public count is a whole number of records, not {value}")
    return value


def marginal_counts(domain: Domain, constraint: MarginalConstraint) -> tuple[Ints, Ints]:
    """The given counts of a marginal: value codes of each listed combination, and their counts."""
    attributes = [(name, domain.find(name, PolicyError)) for name in constraint.attributes]
    listed = constraint.values or ()
    codes = [
        [_code_of(attribute, value, name) for (name, attribute), value in zip(attributes, combination, strict=True)]
        for combination, _ in listed
    ]
    counts = np.array([count for _, count in listed], dtype=np.int64)
    return np.array(codes, dtype=np.int64).reshape(-1, len(constraint.attributes)), counts


def _code_of(attribute: Attribute, value: object, name: str) -> int:
    try:
        return attribute.code_of(value)
    except DomainError as error:
        raise PolicyError(f"a public constraint: {name}: {error}") from None


MOST_COMBINATIONS = 2**22
MOST_TRUTHS = 2**26
BITS = 32
"""Counts told apart at once: with the numbers of at most 2^22 combinations they fit in one int64."""
MANY = 2**61
"""Stands for any number of atoms that is at least this large; no price is computed with it."""
ADVICE = "Declare constraints over fewer attributes, or with fewer different conditions."


@dataclass(frozen=True, eq=False)
class Signatures:
    """The attributes of constraints, cut so finely that every counted condition is constant on each combination.

    `pattern[combination]` is a row of `patterns`: which of the counts hold there. `margins` are the marginals that no
    other one contains; their attributes are not cut value by value: `lengths` tells how many values a segment holds.
    """

    names: tuple[str, ...]
    cuts: Mapping[str, Segments]
    margins: tuple[tuple[str, ...], ...]
    counts: tuple[CountConstraint | RangeConstraint | RowsConstraint, ...]
    pattern: Ints
    patterns: Bools

    def lengths(self, name: str) -> Ints:
        """How many values of the attribute each segment holds."""
        cut = self.cuts[name]
        return np.concatenate([cut.stops - cut.starts, np.ones(len(cut.slots), dtype=np.int64)])

    def along(self, name: str, values: Ints) -> Ints:
        """The values of the attribute's segments, shaped to spread over all combinations."""
        return along(self.names, name, values)

    def margin(self, names: Iterable[str]) -> Ints:
        """For each combination its cell in the table of the named attributes' segments."""
        counts = {name: self.cuts[name].count for name in names}
        cell = row_major((self.along(name, np.arange(count)) for name, count in counts.items()), counts.values())
        return np.broadcast_to(cell, self.pattern.shape)


def signatures(
    domain: Domain, constraints: Sequence[Constraint], cuts: Mapping[str, Segments] | None = None
) -> Signatures:
    """What the constraints tell apart, at least as finely as the cuts; PolicyError where the domain does not fit."""
    counts = tuple(counts_of(constraints))
    margins = _maximal([marginal.attributes for marginal in marginals_of(constraints)])
    conditions = [constraint.condition for constraint in counts]
    used = [atom for condition in conditions for atom in atoms(condition)]
    names = tuple(dict.fromkeys([*(name for margin in margins for name in margin), *(a.attribute for a in used)]))
    finer: dict[str, Segments] = {}
    for name in names:
        starts = [_starts(domain, atom) for atom in dict.fromkeys(used) if atom.attribute == name]
        if cuts is not None and name in cuts:
            starts.append(cuts[name].starts)
        finer[name] = segments(domain.find(name, PolicyError), starts)
    shape = tuple(finer[name].count for name in names)
    if math.prod(shape) > MOST_COMBINATIONS:
        raise TooLarge("combinations that public constraints tell apart", math.prod(shape), MOST_COMBINATIONS, ADVICE)
    pattern, patterns = _patterns(names, finer, conditions, shape)
    return Signatures(names, finer, margins, counts, pattern, patterns)


def _maximal(margins: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The marginals that no other one contains, each once: a marginal tells all its parts."""
    sets = list(dict.fromkeys(frozenset(margin) for margin in margins))
    maximal = [one for one in sets if not any(one < other for other in sets)]
    named = {frozenset(margin): margin for margin in reversed(margins)}
    return tuple(named[one] for one in maximal)


def _starts(domain: Domain, atom: Atom) -> Ints:
    try:
        return atom_runs(atom, domain.find(atom.attribute, PolicyError)).starts
    except QueryError as error:
        raise PolicyError(f"a public constraint: {error}") from None


def _patterns(
    names: tuple[str, ...],
    cuts: Mapping[str, Segments],
    conditions: Sequence[Predicate | None],
    shape: tuple[int, ...],
) -> tuple[Ints, Bools]:
    if math.prod(shape) * len(conditions) > MOST_TRUTHS:
        what = "combinations that public constraints tell apart, times constraints"
        raise TooLarge(what, math.prod(shape) * len(conditions), MOST_TRUTHS, ADVICE)

    holds = np.ones((math.prod(shape), len(conditions)), dtype=np.bool_)
    for place, condition in enumerate(conditions):
        if condition is not None:
            holds[:, place] = np.broadcast_to(combinations(condition, names, cuts), shape).reshape(-1)
    numbers, first = np.zeros(holds.shape[0], dtype=np.int64), np.zeros(1, dtype=np.int64)
    for start in range(0, len(conditions), BITS):
        some = holds[:, start : start + BITS]
        keys = (numbers << BITS) + some @ (1 << np.arange(some.shape[1], dtype=np.int64))
        _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.reshape(shape), holds[first]


PRIME = 2_147_483_629
MOST_ELIMINATED = 1024
"""Vectors that are eliminated at most; more count as dependent, which is refused or bounded later."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """`atom_of` numbers each combination's atom; behind number a stand `times[a]` atoms that are alike.

    `absent` is the number of the atom of a record that is not there, where absence is hidden.
    """

    atom_of: Ints
    times: Ints
    absent: int | None
    settled: bool

    @property
    def count(self) -> int:
        """How many different numbers there are."""
        return int(self.times.size)


def atoms_of(signatures: Signatures, *, absence: bool) -> Atoms:
    """The atoms, and `settled`: whether the counts of all atoms follow from the constraints and the number of records.

    Only one marginal can be settled; several are left to the general case, and their atoms are listed by the first.
    """
    margin = signatures.margins[0] if signatures.margins else ()
    shape = signatures.pattern.shape
    behind = np.ones((1,) * len(shape), dtype=np.float64)
    for name in margin:
        behind = behind * signatures.along(name, signatures.lengths(name))
    cell = signatures.margin(margin)
    cells = int(cell.max()) + 1
    width = signatures.patterns.shape[0] + 1
    keys = cell * width + signatures.pattern
    patterns = np.concatenate([signatures.patterns, np.zeros((1, signatures.patterns.shape[1]), dtype=np.bool_)])
    nothing = int(np.flatnonzero(~patterns.any(axis=1))[0])
    absent_key = cells * width + nothing if margin else nothing
    every = np.append(keys.reshape(-1), absent_key) if absence else keys.reshape(-1)
    atom_keys, first, numbers = np.unique(every, return_index=True, return_inverse=True)
    spread = np.append(np.broadcast_to(behind, shape).reshape(-1), 1.0)
    times = np.where(spread[first] < MANY, spread[first], MANY).astype(np.int64)
    settled = len(signatures.margins) <= 1 and _is_settled(atom_keys // width, patterns[atom_keys % width], times)
    atom_of = numbers[: keys.size].reshape(shape).astype(np.int64)
    return Atoms(atom_of, times, int(numbers[-1]) if absence else None, settled)


def _is_settled(cells: Ints, patterns: Bools, times: Ints) -> bool:
    """Whether the signatures are affinely independent (proof: docs/proofs/constraints.md).

    Within each cell of the marginal the patterns count against the first one there; these differences must be
    linearly independent, over all cells together.
    """
    first_here = np.concatenate([[True], cells[1:] != cells[:-1]])
    others = ~first_here
    if not others.any():
        return True
    many = float(times[others].astype(np.float64).sum())
    if many > patterns.shape[1] or np.any(times[others] > 1):
        return False
    reference = np.maximum.accumulate(np.where(first_here, np.arange(cells.size), 0))
    differences = patterns[others].astype(np.int64) - patterns[reference[others]].astype(np.int64)
    return _independent(differences)


def _independent(vectors: Ints) -> bool:
    """Whether the rows are linearly independent: never said of dependent ones."""
    rows = vectors.copy()
    while rows.shape[0]:
        # A column that only one row uses settles that row.
        used = np.count_nonzero(rows, axis=0)
        single = np.flatnonzero(used == 1)
        if single.size == 0:
            break
        settled = np.zeros(rows.shape[0], dtype=np.bool_)
        settled[np.abs(rows[:, single]).argmax(axis=0)] = True
        rows = rows[~settled]
    if rows.shape[0] == 0:
        return True
    return bool(rows.shape[0] <= MOST_ELIMINATED and _rank_modulo(rows % PRIME) == rows.shape[0])


def _rank_modulo(rows: Ints) -> int:
    """The rank modulo a prime, which is at most the rank."""
    rank = 0
    for column in range(rows.shape[1]):
        used = rank + np.flatnonzero(rows[rank:, column])
        if used.size == 0:
            continue
        rows[[rank, used[0]]] = rows[[used[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        others = used[1:]
        rows[others] = (rows[others] - rows[others, column : column + 1] * rows[rank] % PRIME) % PRIME
        rank += 1
        if rank == rows.shape[0]:
            break
    return rank


def explicit_signatures(signatures: Signatures, *, absence: bool, limit: int) -> tuple[tuple[int, ...], ...] | None:
    """Every different signature as a vector of whole numbers; None where there are more than `limit`."""
    if any(math.prod(signatures.cuts[name].count for name in margin) > limit for margin in signatures.margins):
        return None
    matrix = signature_vectors(signatures)
    if absence:
        matrix = np.concatenate([matrix, np.zeros((1, matrix.shape[1]), dtype=np.int64)])
    distinct = {tuple(int(x) for x in row) for row in np.unique(matrix, axis=0)}
    return tuple(sorted(distinct)) if len(distinct) <= limit else None


def signature_vectors(signatures: Signatures) -> Ints:
    """The signature of each combination: its counts, then a 1 in the cell of every marginal.

    Only for signatures cut at every value of the marginals' attributes.
    """
    columns = [signatures.patterns[signatures.pattern.reshape(-1)].astype(np.int64)]
    for margin in signatures.margins:
        size = math.prod(signatures.cuts[name].count for name in margin)
        flat = signatures.margin(margin).reshape(-1)
        columns.append((flat[:, None] == np.arange(size)[None, :]).astype(np.int64))
    return np.concatenate(columns, axis=1)


MOST_KINDS = 4096
"""Kinds of records, told apart by the given constraints, up to which a table is searched for."""
MOST_POINTS = 1000
"""Branches of the search among whole numbers; a table that is not found to be impossible within these is accepted."""


def is_possible(domain: Domain, constraints: Sequence[Constraint], total: int | None) -> bool:
    """False where no table has all the given counts, and `total` rows if known; True also where that is not found."""
    given = counts_of(numbers_given(constraints))
    margins = marginals_of(numbers_given(constraints)) if given else []
    if math.prod(domain[name].total_size for constraint in margins for name in constraint.attributes) > MOST_KINDS:
        margins = []
    names = {name for constraint in margins for name in constraint.attributes}
    cuts = {name: Segments(domain[name], np.arange(domain[name].size)) for name in names}
    signature = signatures(domain, [*given, *margins], cuts)
    columns = [
        signature.patterns[signature.pattern.reshape(-1)].astype(np.int64),
        *(signature.margin(marginal.attributes).reshape(-1, 1) for marginal in margins),
    ]
    kinds = np.unique(np.concatenate(columns, axis=1), axis=0)
    if kinds.shape[0] > MOST_KINDS or not given:
        return True
    aims = [float(constraint.value or 0) for constraint in given]
    rows = [kinds[:, : len(given)].T]
    for place, constraint in enumerate(margins):
        expected = _expected(domain, signature, constraint)
        aims += expected.tolist()
        rows.append((kinds[:, len(given) + place][None, :] == np.arange(expected.size)[:, None]).astype(np.int64))
    if total is not None:
        aims.append(float(total))
        rows.append(np.ones((1, kinds.shape[0]), dtype=np.int64))
    return _has_solution(np.concatenate(rows), np.array(aims))


def _expected(domain: Domain, signature: Signatures, constraint: MarginalConstraint) -> Ints:
    """The given count of each cell of the marginal; cells that are not listed count 0."""
    sizes = [signature.cuts[name].count for name in constraint.attributes]
    expected = np.zeros(math.prod(sizes), dtype=np.int64)
    codes, counts = marginal_counts(domain, constraint)
    places = (signature.cuts[name].of(code) for name, code in zip(constraint.attributes, codes.T, strict=True))
    expected[row_major(places, sizes)] = counts
    return expected


def _has_solution(rows: Ints, aims: np.ndarray) -> bool:
    # Loaded here: few policies give several counts, and the solver takes its time to load.
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    kinds = rows.shape[1]
    solution = milp(
        np.zeros(kinds),
        constraints=LinearConstraint(csr_array(rows.astype(np.float64)), aims, aims),
        integrality=np.ones(kinds),
        options={"node_limit": MOST_POINTS},
    )
    return bool(solution.status != 2)


MOST_CONSTRAINTS = 4096


def as_constraints(declared: Iterable[str | Constraint]) -> tuple[Constraint, ...]:
    """Constraints from texts and values, each once; PolicyError where one is given two different counts."""
    if isinstance(declared, str):
        raise PolicyError("constraints are a list of constraints, such as ['rows', 'marginal(sex, state)']")
    known: dict[Constraint, Constraint] = {}
    for item in declared:
        constraint = read_constraint(item) if isinstance(item, str) else item
        if not isinstance(constraint, CONSTRAINTS):
            raise PolicyError(f"a constraint is a text such as \"count(sex = 'F')\" or known_count(...), not {item!r}")
        bare = without_values(constraint)
        earlier = known.setdefault(bare, constraint)
        if earlier == bare:
            known[bare] = constraint
        elif constraint not in (bare, earlier):
            raise PolicyError(f"two different counts are given for {write_constraint(bare)}")
    if len(known) > MOST_CONSTRAINTS:
        raise TooLarge(
            "constraints of one policy", len(known), MOST_CONSTRAINTS, "Declare a marginal instead of its counts."
        )
    return tuple(known.values())


@lru_cache(maxsize=64)
def check_constraints(domain: Domain, constraints: tuple[Constraint, ...]) -> None:
    """PolicyError for unknown attributes or values, and for counts that no table can have together."""
    for marginal in marginals_of(constraints):
        marginal_counts(domain, marginal)
    signatures(domain, constraints)
    total = _total(constraints)
    for constraint in counts_of(constraints):
        if constraint.value is not None and total is not None and constraint.value > total:
            rows = plural(total, "row")
            raise PolicyError(f"{write_constraint(constraint)} contradicts the {rows} of other constraints")
    _check_marginals(domain, constraints)
    _check_counts_against_marginals(domain, constraints)
    if not is_possible(domain, constraints, total):
        given = [write_constraint(f) for f in constraints if isinstance(f, MarginalConstraint) or f.value is not None]
        raise PolicyError(f"no table has all these counts: {'; '.join(given[:8])}{'; ...' if len(given) > 8 else ''}")


def _total(constraints: Sequence[Constraint]) -> int | None:
    """The number of rows that the constraints give; PolicyError where they give several."""
    given: dict[int, Constraint] = {}
    for constraint in constraints:
        rows = rows_given(constraint)
        if rows is not None:
            given.setdefault(rows, constraint)
    if len(given) > 1:
        (one, first), (two, second) = list(given.items())[:2]
        number = plural(one, "row")
        raise PolicyError(f"{write_constraint(first)} counts {number}, and {write_constraint(second)} of {two:,}")
    return next(iter(given), None)


def _check_marginals(domain: Domain, constraints: Sequence[Constraint]) -> None:
    """Two given marginals must agree on the attributes they share."""
    given = marginals_of(numbers_given(constraints))
    for place, one in enumerate(given):
        for two in given[place + 1 :]:
            shared = [name for name in one.attributes if name in two.attributes]
            if shared and _summed(domain, one, shared) != _summed(domain, two, shared):
                raise PolicyError(
                    f"{write_constraint(one)} and {write_constraint(two)} disagree about {', '.join(shared)}"
                )


def _summed(domain: Domain, constraint: MarginalConstraint, names: Sequence[str]) -> Counter[tuple[int, ...]]:
    codes, counts = marginal_counts(domain, constraint)
    places = [constraint.attributes.index(name) for name in names]
    sums = Counter[tuple[int, ...]]()
    for key, count in zip(map(tuple, codes[:, places].tolist()), counts.tolist(), strict=True):
        sums[key] += count
    return +sums


def _check_counts_against_marginals(domain: Domain, constraints: Sequence[Constraint]) -> None:
    """A given count lies between what a given marginal makes certain and what it makes possible."""
    given = numbers_given(constraints)
    for marginal in marginals_of(given):
        codes, counts = marginal_counts(domain, marginal)
        for constraint in counts_of(given):
            if isinstance(constraint, RowsConstraint) or constraint.value is None:
                continue
            least, most = _bounds(domain, constraint, marginal, codes, counts)
            if not least <= constraint.value <= most:
                raise PolicyError(
                    f"{write_constraint(constraint)} contradicts {write_constraint(marginal)}, "
                    f"which leaves {least:,} to {most:,} records"
                )


def _bounds(
    domain: Domain,
    constraint: CountConstraint | RangeConstraint,
    marginal: MarginalConstraint,
    codes: Ints,
    counts: Ints,
) -> tuple[int, int]:
    """How many records of the marginal certainly meet the condition, and how many may: attribute by attribute."""

    def by_record(atom: Atom) -> Truth:
        if atom.attribute not in marginal.attributes:
            unknown = np.zeros(counts.size, dtype=np.bool_)
            return unknown, unknown
        fine = signatures(domain, [CountConstraint(atom)]).cuts[atom.attribute]
        place = fine.of(codes[:, marginal.attributes.index(atom.attribute)])
        yes, no = fine.truth(atom)
        return yes[place], no[place]

    yes, no = truth(constraint.condition, by_record)
    return int(counts[yes].sum()), int(counts[~no].sum())
