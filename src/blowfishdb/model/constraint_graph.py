"""What public constraints do to neighbours: which records change together, and the policy graph under them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from blowfishdb.errors import CannotCertify, PolicyError
from blowfishdb.model.constraints import (
    MANY,
    Atoms,
    Constraint,
    CountConstraint,
    MarginalConstraint,
    RangeConstraint,
    Signatures,
    atoms_of,
    explicit_signatures,
    marginals_of,
    rows_given,
    signature_vectors,
    signatures,
    write_constraint,
)
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import (
    ZERO,
    CellGraph,
    ClassCase,
    CliqueGraph,
    ConstraintMoves,
    Exchanges,
    Factor,
    WindowGraph,
    by_first_appearance,
    collected,
)
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Bools, Ints, row_major
from blowfishdb.model.policy import Person, Policy, ValueWindow
from blowfishdb.model.projection import Verdict, by_cell, evaluate, is_exact, leaving_cells


def changed_constraints(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """The constraints that one hidden move may change, as written; listing too many is sound, too few is not."""
    applied = policy.applied(domain)
    return tuple(
        write_constraint(constraint) for constraint in policy.constraints if _may_change(applied, policy, constraint)
    )


def _may_change(domain: Domain, policy: Policy, constraint: Constraint) -> bool:
    hides_presence = policy.presence != "public"
    if isinstance(constraint, CountConstraint | RangeConstraint):
        signature = signatures(domain, [constraint])
        if hides_presence or not signature.patterns.any():
            return bool(signature.patterns.any())
        verdict = evaluate(policy, constraint.condition, signature.cuts, {})
        return bool(leaving_cells(domain, policy, verdict, {}).any())
    if isinstance(constraint, MarginalConstraint):
        return hides_presence or any(_can_move(domain, policy, name) for name in constraint.attributes)
    return hides_presence


def _can_move(domain: Domain, policy: Policy, name: str) -> bool:
    """Whether some edge of the policy changes the attribute."""
    attribute = domain[name]
    if policy.joint_of(name) is not None or attribute.has_hidden_cell:
        return attribute.total_size > 1
    graph = policy.graph(domain, name)
    return graph.part_count < graph.size if isinstance(graph, ValueWindow) else graph.edge_count > 0


MOST_COLUMNS = 62
MOST_ELEMENTS = 4096
MOST_WORK = 1_000_000_000
"""Elements looked at; a second or two. A limit in time would make a policy's price depend on the machine."""

Vector = tuple[int, ...]


def most_changes(differences: tuple[Vector, ...], most_work: int = MOST_WORK) -> int | None:
    """g: the largest L1 norm in the Graver basis of the given columns, at least 2; None where that is too much work.

    A minimal set of changed records that keeps all constraints has at most g records; without columns it has one
    (proof: docs/proofs/constraints.md).
    """
    if not differences:
        return 1
    basis = graver_basis(differences, most_work)
    if basis is not None:
        return max(2, int(np.abs(basis).sum(axis=1).max(initial=0)))
    return longest_lifted(differences).longest


MOST_LIFTED = 2**15
MOST_LIFTING = 2_000_000_000
"""Pairs and elements looked at: some ten seconds."""


@dataclass(frozen=True)
class Lifting:
    """What lifting found: g, None where it was given up; the elements then, and the longest that is surely minimal."""

    longest: int | None
    elements: int = 0
    at_least: int = 2


@lru_cache(maxsize=64)
def longest_lifted(differences: tuple[Vector, ...]) -> Lifting:
    """The largest L1 norm in the Graver basis of the given columns, found one row of constraints after the other."""
    if len(differences) > MOST_COLUMNS:
        return Lifting(None)
    columns = np.array(differences, dtype=np.int64)
    order = np.argsort(np.abs(columns).sum(axis=1), kind="stable")
    last: list[int] = []
    for place in order.tolist():
        if np.linalg.matrix_rank(columns[[*last, place]]) > len(last):
            last.append(place)
    first = [place for place in range(len(differences)) if place not in last]
    weights = np.rint(columns[first] @ np.linalg.pinv(columns[last].astype(np.float64))).astype(np.int64)
    from blowfishdb.model.kernels import LARGEST, lifted

    # Checked in whole numbers: then the rows span every combination of the columns that cancels.
    if not np.array_equal(weights @ columns[last], columns[first]) or np.abs(weights).max(initial=0) > LARGEST:
        return Lifting(None)

    start = np.concatenate([np.eye(len(first), dtype=np.int64), -weights], axis=1)
    basis, work = lifted(start, MOST_LIFTED, MOST_LIFTING)
    norms = np.abs(basis.astype(np.int64)).sum(axis=1)
    if work >= 0:
        return Lifting(int(norms.max(initial=2)), norms.size)
    places = np.array([*first, *last])
    return Lifting(None, norms.size, max((int(norms[i]) for i in _circuits(basis, columns[places], norms)), default=2))


def _circuits(basis: Ints, columns: Ints, norms: Ints) -> list[int]:
    """Some of the longest elements that are certainly minimal: no other combination of their columns cancels."""
    return [
        place
        for place in np.argsort(-norms, kind="stable")[:4096].tolist()
        if np.gcd.reduce(basis[place].astype(np.int64)) == 1
        and np.linalg.matrix_rank(columns[basis[place] != 0]) == np.count_nonzero(basis[place]) - 1
    ][:1]


@lru_cache(maxsize=256)
def graver_basis(differences: tuple[Vector, ...], most_work: int = MOST_WORK) -> Ints | None:
    """The Graver basis of the given columns, a line per element and one sign of each; None where it is too much work.

    Columns are the differences of signatures, one of each pair of opposite signs, and none is 0.
    """
    if len(differences) > MOST_COLUMNS:
        return None
    kernel = integer_kernel(differences)
    if kernel.shape[0] == 0:
        return kernel
    # Loaded here: few policies have constraints that overlap, and the compiler takes a second to load.
    from blowfishdb.model.kernels import completed

    basis, work = completed(kernel, MOST_ELEMENTS, most_work)
    return None if work < 0 else minimal(basis)


def integer_kernel(columns: tuple[Vector, ...]) -> Ints:
    """A lattice basis of all whole-number combinations of the columns that cancel, one per row."""
    count, height = len(columns), len(columns[0])
    rows = [[*column, *(int(i == place) for i in range(count))] for place, column in enumerate(columns)]
    done = 0
    for entry in range(height):
        while True:
            left = [row for row in rows[done:] if row[entry]]
            if len(left) <= 1:
                break
            pivot = min(left, key=lambda row: abs(row[entry]))
            for row in left:
                if row is not pivot:
                    times = row[entry] // pivot[entry]
                    row[:] = [a - times * b for a, b in zip(row, pivot, strict=True)]
        if left:
            place = next(i for i in range(done, count) if rows[i] is left[0])
            rows[done], rows[place] = rows[place], rows[done]
            done += 1
    return np.array([row[height:] for row in rows[done:]], dtype=np.int64).reshape(-1, count)


def minimal(basis: Ints) -> Ints:
    """The vectors that hold no other one, sign by sign, in either direction."""
    sizes = np.abs(basis)
    places = []
    for place, vector in enumerate(basis):
        fits = np.all(sizes <= sizes[place], axis=1)
        inside = np.all(basis * vector >= 0, axis=1) | np.all(basis * vector <= 0, axis=1)
        inside &= fits
        inside[place] = False
        if not inside.any():
            places.append(place)
    return basis[places]


MOST_NAMED = 4
MOST_SIGNATURES = 24
MOST_SPELLED_OUT = 2**16


def moves_at_once(domain: Domain, policy: Policy) -> int | None:
    """The most records that change between neighbours; None when no hidden move changes a constraint.

    CannotCertify when no bound is found, PolicyError where only some rows of each person count.
    """
    if not policy.constraints:
        return None
    changed = changed_constraints(domain, policy)
    if not changed:
        return None
    _check_unit(policy, changed)
    absence = policy.presence != "public"
    moves = _moves(policy.applied(domain), policy.constraints, absence)
    rows = None if absence else next((n for n in map(rows_given, policy.constraints) if n is not None), None)
    if moves is None and rows is None:
        applied = policy.applied(domain)
        raise too_many(applied, policy.constraints, _how_far(applied, policy.constraints, absence))
    return max(1, min(number for number in (moves, rows) if number is not None))


def _check_unit(policy: Policy, changed: tuple[str, ...]) -> None:
    """Refuses constraints that a hidden change can touch where people are protected, however few of their rows count.

    Constraints speak of all rows, answers of the first rows of each person: rows that do not count could make up for
    rows that do, so that a person changes alone, keeps every constraint, and shows (proof: docs/proofs/constraints.md).
    """
    if not isinstance(policy.unit, Person):
        return
    named = "; ".join(changed[:MOST_NAMED]) + ("; ..." if len(changed) > MOST_NAMED else "")
    public = ", make the attributes they look at public()" if policy.presence == "public" else ""
    raise PolicyError(
        f"public constraints speak of all rows, answers of each {policy.unit.id}'s first ones alone "
        f"({policy.unit.at_most} at most), and a hidden change can touch {named}. Nothing can be proven of the two "
        f"together: leave these constraints out{public}, or protect each row on its own, without a person"
    )


def is_settled(domain: Domain, policy: Policy) -> bool:
    """Whether the constraints settle how many records each of their atoms has."""
    signature = signatures(policy.applied(domain), policy.constraints)
    return atoms_of(signature, absence=policy.presence != "public").settled


@lru_cache(maxsize=64)
def _moves(domain: Domain, constraints: tuple[Constraint, ...], absence: bool) -> int | None:
    """The bound from the constraints alone; None where none is found."""
    atoms = atoms_of(signatures(domain, constraints), absence=absence)
    if atoms.settled:
        # Absence alone in its atom is one vertex: nothing moves inside it.
        alone = atoms.absent is not None and not bool(np.any(atoms.atom_of == atoms.absent))
        return int(sum(atoms.times.tolist())) - alone
    bound = None if absence else two_marginals(domain, constraints)
    if bound is not None:
        return bound
    differences = signature_differences(domain, constraints, absence)
    searched = None if differences is None else most_changes(differences)
    return marginal_and_count(domain, constraints, absence) if searched is None else searched


TABLES = {(2, 2): 4, (2, 3): 8, (2, 4): 12, (3, 3): 15}
"""g of two marginals by their numbers of cells, as `longest_lifted` computes it; the tests compute them again."""


def two_marginals(domain: Domain, constraints: tuple[Constraint, ...]) -> int | None:
    """A bound on the records that change together under two marginals of different attributes, with presence public.

    Exact for the smallest tables; with 2 and c cells at most c (2c - 1) (proof: docs/proofs/constraints.md).
    """
    signature = signatures(domain, constraints)
    if len(signature.margins) != 2 or set(signature.margins[0]) & set(signature.margins[1]):
        return None
    if signature.patterns.shape[0] > 1:
        return None
    few, many = sorted(math.prod(domain[name].total_size for name in margin) for margin in signature.margins)
    return _beside_two(many) if few == 2 else TABLES.get((few, many))


def marginal_and_count(domain: Domain, constraints: tuple[Constraint, ...], absence: bool) -> int | None:
    """The same bound for one marginal beside a single count, whatever that counts: it has two cells.

    Where presence is hidden, absence is one more cell of the marginal.
    """
    signature = signatures(domain, constraints)
    if len(signature.margins) != 1 or np.count_nonzero(np.ptp(signature.patterns.astype(np.int8), axis=0)) != 1:
        return None
    cells = math.prod(domain[name].total_size for name in signature.margins[0]) + absence
    return _beside_two(cells) if cells > 1 else None


def _beside_two(cells: int) -> int:
    return TABLES.get((2, cells), cells * (2 * cells - 1))


def signature_differences(
    domain: Domain, constraints: tuple[Constraint, ...], absence: bool
) -> tuple[tuple[int, ...], ...] | None:
    """The differences of what constraints say of two records, one of each pair of opposite signs; None if very many."""
    signature = spelled_out(domain, constraints, {})
    if signature is None:
        return None
    vectors = explicit_signatures(signature, absence=absence, limit=MOST_SIGNATURES)
    if vectors is None:
        return None
    nothing = (0,) * len(vectors[0])
    differences = {tuple(a - b for a, b in zip(one, two, strict=True)) for one in vectors for two in vectors}
    return tuple(sorted(difference for difference in differences if difference > nothing))


def spelled_out(domain: Domain, constraints: tuple[Constraint, ...], cuts: Mapping[str, Segments]) -> Signatures | None:
    """Signatures cut at every value of the marginals' attributes, and at the cuts; None where they are very many."""
    names = sorted({name for marginal in marginals_of(constraints) for name in marginal.attributes})
    if math.prod(domain[name].total_size for name in names) > MOST_SPELLED_OUT:
        return None
    every = {name: Segments(domain[name], np.arange(domain[name].size)) for name in names}
    signature = signatures(domain, constraints, {**cuts, **every})
    return None if signature.pattern.size > MOST_SPELLED_OUT else signature


def _how_far(domain: Domain, constraints: tuple[Constraint, ...], absence: bool) -> str:
    """How far the search for a bound got, in words."""
    differences = signature_differences(domain, constraints, absence)
    if differences is None:
        return f"they tell more than {MOST_SIGNATURES} kinds of records apart, too many to search"
    lifting = longest_lifted(differences)
    if not lifting.elements:
        return f"they tell records apart in {len(differences)} ways, too many to search"
    return (
        f"the search was given up after {lifting.elements:,} sets of changes, the longest of {lifting.at_least} records"
    )


def _special_cells(domain: Domain, constraints: tuple[Constraint, ...]) -> str:
    """What NULL and outside add to the tables of marginals, and how to do without, in words."""
    margins = signatures(domain, constraints).margins
    sizes = [[domain[name].size for name in margin] for margin in margins]
    with_special = [[domain[name].total_size for name in margin] for margin in margins]
    if sizes == with_special:
        return ""
    much, little = (" x ".join(f"{math.prod(size):,}" for size in each) for each in (with_special, sizes))
    return (
        f" NULL and values outside are cells of their own here ({much} cells, {little} without them): where a column "
        "has neither, let both count as one of its values (null=..., outside=...)."
    )


def too_many(domain: Domain, constraints: tuple[Constraint, ...], how_far: str) -> CannotCertify:
    """The refusal of constraints that overlap in too many ways, with the nearest declaration that works."""
    margins = [marginal.attributes for marginal in marginals_of(constraints)]
    joint = ", ".join(dict.fromkeys(name for margin in margins for name in margin))
    if len(margins) > 1:
        nearest = f"If the joint table marginal({joint}) is public as well, declare that instead of its parts"
    elif margins:
        nearest = f"If the counts within each cell of marginal({joint}) are public, declare those"
    else:
        nearest = "If the counts of the pieces into which they cut each other are public, declare those"
    return CannotCertify(
        "these public constraints overlap in too many ways: no bound was found on how many records must change "
        f"together: {how_far}. {nearest}; constraints that split the records into separate parts always work, and with "
        "public presence so do any constraints with the number of rows given (rows = ...)."
        f"{_special_cells(domain, constraints)} Otherwise leave out what is not public in truth."
    )


@dataclass(frozen=True, eq=False)
class Pieces:
    """`piece_of` numbers, for each combination of the constraints' segments, the set of cells its records may be in.

    Piece p is the cells `index[place[p]][masks[mask[p]]]` (none where place is -1), and `zero[p]` tells that some of
    its records do not count.
    """

    piece_of: Ints
    place: Ints
    mask: Ints
    zero: Bools
    index: Ints
    masks: Bools

    @property
    def count(self) -> int:
        return int(self.place.size)

    def cells(self, piece: int) -> Ints:
        """The flat cells of a piece."""
        if self.place[piece] < 0:
            return np.empty(0, dtype=np.int64)
        return np.asarray(self.index[self.place[piece]][self.masks[self.mask[piece]]].reshape(-1), dtype=np.int64)


def pieces_of(signature: Signatures, verdict: Verdict, layout: Mapping[str, AxisCells]) -> Pieces:
    """The pieces of a query's cells under the constraints; attributes of the query alone may take any value."""
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    axes = list(layout)
    shared = [name for name in signature.names if name in verdict.cuts]
    segment = {name: verdict.cuts[name].of(signature.cuts[name].codes) for name in shared}
    bound = [name for name in axes if name in shared]
    filtered = [name for name in verdict.names if name not in shared and name in layout]
    rest = [name for name in axes if name not in bound and name not in filtered]
    order = [axes.index(name) for name in (*bound, *filtered, *rest)]
    sizes = [math.prod(layout[name].cells for name in names) for names in (bound, filtered, rest)]
    index = np.arange(math.prod(shape)).reshape(shape).transpose(order or None).reshape(sizes)
    masks, zeros, key = _by_filter(signature, verdict, shared, segment, layout)
    place = np.zeros((1,) * len(signature.names), dtype=np.int64)
    is_cell = np.ones((1,) * len(signature.names), dtype=np.bool_)
    for name in bound:
        axis_cell = layout[name].cell_of[segment[name]]
        place = place * layout[name].cells + signature.along(name, np.maximum(axis_cell, 0))
        is_cell = is_cell & (signature.along(name, axis_cell) >= 0)
    different, which = np.unique(masks, axis=0, return_inverse=True)
    mask = which.reshape(-1)[key]
    is_cell = is_cell & np.asarray(different.any(axis=1))[mask]
    keys = np.where(is_cell, place * different.shape[0] + mask, -1) * 2 + zeros[key]
    distinct_keys, numbers = np.unique(keys, return_inverse=True)
    pair = distinct_keys // 2
    return Pieces(
        piece_of=np.broadcast_to(numbers.reshape(keys.shape), signature.pattern.shape),
        place=np.where(pair < 0, -1, pair // different.shape[0]),
        mask=np.where(pair < 0, 0, pair % different.shape[0]),
        zero=distinct_keys % 2 == 1,
        index=index,
        masks=different,
    )


def _by_filter(
    signature: Signatures,
    verdict: Verdict,
    shared: list[str],
    segment: Mapping[str, Ints],
    layout: Mapping[str, AxisCells],
) -> tuple[Bools, Bools, Ints]:
    """What the filter lets through, row by row of the shared attributes it looks at.

    For each row: which cells of the filter's own axes can be reached, and whether a record can be rejected; then the
    row of each combination.
    """
    key = np.zeros((1,) * len(signature.names), dtype=np.int64)
    sizes = [layout[name].cells for name in verdict.names if name not in shared and name in layout]
    if verdict.accepted is None:
        return np.ones((1, math.prod(sizes)), dtype=np.bool_), np.ones(1, dtype=np.bool_), key
    first = [name for name in verdict.names if name in shared]
    places = [verdict.names.index(name) for name in first]
    accepted = np.moveaxis(verdict.accepted, places, range(len(places)))
    rejected = ~accepted.reshape(*accepted.shape[: len(first)], -1)
    zeros = rejected.any(axis=-1).reshape(-1)
    accepted = by_cell(accepted, (name for name in verdict.names if name not in shared), layout, len(first))
    counts = (verdict.accepted.shape[place] for place in places)
    key = key + row_major((signature.along(name, segment[name]) for name in first), counts)
    return accepted.reshape(zeros.size, -1), zeros, key


MOST_MEMBERS = 2**24
"""Groups that would list more cells than this in all are put together to one group of all cells."""


def constrained_graph(
    domain: Domain, policy: Policy, verdict: Verdict, layout: Mapping[str, AxisCells]
) -> CellGraph | None:
    """The graph of a query's cells under the policy's constraints; None when no hidden move changes a constraint.

    Records make up for each other by changes of any kind, so all pairs of cells that some atom holds are joined,
    whatever the policy's own graphs say (proof: docs/proofs/constraints.md).
    """
    most = moves_at_once(domain, policy)
    if most is None:
        return None
    cells = math.prod(axis.cells for axis in layout.values())
    signature = signatures(domain, policy.constraints, verdict.cuts)
    absence = policy.presence != "public"
    atoms = atoms_of(signature, absence=absence)
    if atoms.settled:
        moves = _groups(atoms, pieces_of(signature, verdict, layout), cells, most)
    else:
        rejects = verdict.accepted is None or not bool(verdict.accepted.all())
        moves = _everything("general", cells, rejects or absence, most)
        moves = replace(moves, exchanges=_exchanges(domain, policy, verdict, layout))
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    outside: Bools = np.zeros(cells, dtype=np.bool_)
    outside[moves.members[np.repeat(moves.with_zero, np.diff(moves.starts))]] = True
    # Atoms that hold too many cells to be listed are put together, and then hold more than their own.
    is_own = atoms.settled and moves.members.size < MOST_MEMBERS // max(1, atoms.count)
    factors = _factors(moves, shape)
    exact = is_own and is_exact(policy, verdict, factors, layout)
    return CellGraph(factors, "record", outside, "public", moves.most, moves, is_exact=exact)


MOST_EXCHANGED = 2**14
"""The most moves, of all kinds together, of which exchanges are told."""


def _exchanges(domain: Domain, policy: Policy, verdict: Verdict, layout: Mapping[str, AxisCells]) -> Exchanges | None:
    """The minimal changes of overlapping constraints as a query sees them; None where they are too many to list."""
    absence = policy.presence != "public"
    differences = signature_differences(domain, policy.constraints, absence)
    elements = None if differences is None else graver_basis(differences)
    signature = spelled_out(domain, policy.constraints, verdict.cuts)
    if differences is None or elements is None or signature is None:
        return None
    pieces = pieces_of(signature, verdict, layout)
    vectors = signature_vectors(signature)
    known = np.unique(np.column_stack([vectors, pieces.piece_of.reshape(-1)]), axis=0)
    vertices: dict[Vector, set[int]] = {(0,) * vectors.shape[1]: {ZERO}} if absence else {}
    for *vector, piece in known.tolist():
        here = vertices.setdefault(tuple(vector), set())
        here.update(pieces.cells(piece).tolist(), [ZERO] if pieces.zero[piece] else [])
    if sum(map(len, vertices.values())) ** 2 > MOST_EXCHANGED:
        return None
    kinds: dict[Vector, set[tuple[int, int]]] = {
        (0,) * vectors.shape[1]: set(),
        **{each: set() for each in differences},
    }
    for (one, before), (two, after) in itertools.product(vertices.items(), repeat=2):
        kind = kinds.get(tuple(b - a for a, b in zip(one, two, strict=True)))
        if kind is not None:
            kind.update(itertools.product(before, after))
    pairs = [pair for kind in kinds.values() for pair in sorted(kind)]
    starts = np.cumsum([0, *map(len, kinds.values())], dtype=np.int64)
    return Exchanges(starts, np.array(pairs, dtype=np.int64).reshape(-1, 2), elements)


def _everything(case: ClassCase, cells: int, with_zero: bool, most: int) -> ConstraintMoves:
    """One group of all cells."""
    members = np.arange(cells)
    whole = ConstraintMoves(case, np.array([0, cells]), members, np.array([with_zero]), np.array([most]), most)
    return collected(whole, np.zeros(cells, dtype=np.int64), members)


def _groups(atoms: Atoms, pieces: Pieces, cells: int, most: int) -> ConstraintMoves:
    """Atoms with the same reachable vertices as one group each."""
    keys = np.unique(atoms.atom_of * pieces.count + pieces.piece_of)
    atom, piece = keys // pieces.count, keys % pieces.count
    starts = np.searchsorted(atom, np.arange(atoms.count + 1))
    alike: dict[tuple[bytes, bool], int] = {}
    for number, times in enumerate(atoms.times.tolist()):
        key = (piece[starts[number] : starts[number + 1]].tobytes(), number == atoms.absent)
        alike[key] = min(MANY, alike.get(key, 0) + times)
    groups: dict[tuple[bytes, bool], int] = {}
    listed = 0
    for (held, absent), times in alike.items():
        numbers = np.frombuffer(held, dtype=np.int64)
        parts = [pieces.cells(int(number)) for number in numbers]
        members = parts[0] if len(parts) == 1 else np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        zero = absent or bool(pieces.zero[numbers].any())
        if members.size + zero < 2:
            continue
        same = (members.tobytes(), zero)
        listed += 0 if same in groups else int(members.size)
        groups[same] = min(MANY, groups.get(same, 0) + times)
        if listed > MOST_MEMBERS:
            return _everything("atoms", cells, True, most)
    members_of = [np.frombuffer(held, dtype=np.int64) for held, _ in groups]
    return ConstraintMoves(
        "atoms",
        np.concatenate([[0], np.cumsum([m.size for m in members_of], dtype=np.int64)]),
        np.concatenate([np.empty(0, dtype=np.int64), *members_of]),
        np.array([zero for _, zero in groups], dtype=np.bool_),
        np.array(list(groups.values()), dtype=np.int64),
        max(1, min(most, sum(groups.values()))),
    )


def _factors(moves: ConstraintMoves, shape: tuple[int, ...]) -> tuple[Factor, ...]:
    """For each axis, places that some group holds both of are joined, and so is whatever these join."""
    places = np.unravel_index(moves.members, shape)
    group = np.repeat(np.arange(moves.groups), np.diff(moves.starts))
    return tuple(_cliques(place, group, moves.groups, size) for place, size in zip(places, shape, strict=True))


def _cliques(place: Ints, group: Ints, groups: int, size: int) -> Factor:
    ones = np.ones(place.size, dtype=np.int8)
    links = coo_array((ones, (place, size + group)), shape=(size + groups, size + groups))
    labels = by_first_appearance(connected_components(links, directed=False)[1][:size].astype(np.int64))
    if bool(np.all(np.diff(labels) >= 0)):
        ends = np.append(np.flatnonzero(np.diff(labels)), size - 1)
        return WindowGraph(ends[labels], np.empty(0, dtype=np.int64))
    return CliqueGraph(labels)
