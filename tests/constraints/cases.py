"""Small random domains with policies of every family, public constraints, queries and plans; the same for a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.constraints import (
    Constraint,
    CountConstraint,
    MarginalConstraint,
    RangeConstraint,
    RowsConstraint,
)
from blowfishdb.model.domain import Attribute, Categorical, Domain, Integers, categorical, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Family, Policy, custom, full, grid, line, partition, public, threshold
from blowfishdb.model.predicate import Axis, Both, Comparison, Either, IsNull, Member, Negation, Predicate
from blowfishdb.model.workload import Identity, Prefix, Rows, Sparse

SHAPES = [(2,), (3,), (4,), (5,), (2, 2), (2, 2), (2, 3), (3, 2), (2, 2, 2)]


@dataclass(frozen=True, eq=False)
class Case:
    domain: Domain
    policy: Policy
    axes: tuple[Axis, ...]
    where: Predicate | None

    def cells(self) -> Cells:
        return compile_cells(self.domain, self.policy, self.axes, self.where)


class Drawn:
    """Draws cases from one generator."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def pick(self, *options: object) -> object:
        return options[int(self.random.integers(len(options)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def subset(self, size: int, least: int = 1) -> list[int]:
        count = int(self.random.integers(least, size + 1))
        return sorted(int(i) for i in self.random.permutation(size)[:count])

    def case(self) -> Case:
        shape = SHAPES[int(self.random.integers(len(SHAPES)))]
        names = ("x", "y", "z")[: len(shape)]
        domain = Domain(tuple((name, self.attribute(size)) for name, size in zip(names, shape, strict=True)))
        policy = replace(self.policy(domain), constraints=self.constraints(domain))
        axes = [self.axis(name, domain[name]) for name in names if self.chance(0.6)]
        where = self.condition(domain, 2) if self.chance(0.35) else None
        return Case(domain, policy, tuple(axes), where)

    def attribute(self, size: int) -> Attribute:
        special = size > 2 and self.chance(0.25)
        size -= special
        hidden = not self.chance(0.4)
        if self.chance(0.3):
            values = ["a", "b", "c", "d", "e", "f"][:size]
            null = "cell" if special else "a"
            return categorical(values, null=null, outside="a", null_public=special and not hidden)
        return integers(0, size - 1, null="cell" if special else 0, null_public=special and not hidden)

    def policy(self, domain: Domain) -> Policy:
        presence = self.pick("public", "public", "public", "secret", "only")
        composition = self.pick("record", "attribute")
        numeric = [name for name in domain if isinstance(domain[name], Integers)]
        joint = []
        if len(numeric) >= 2 and self.chance(0.3):
            joint = [grid(numeric[:2], int(self.random.integers(1, 3)), str(self.pick("l1", "l2", "linf")))]  # type: ignore[arg-type]
        alone = [name for name in domain if not joint or name not in numeric[:2]]
        families = {name: self.family(domain[name]) for name in alone}
        return Policy(families, composition, presence, joint=joint)  # type: ignore[arg-type]

    def family(self, attribute: Attribute) -> Family:
        size = attribute.size
        kinds = ["full", "public", "blocks", "custom"]
        if attribute.ordered:
            kinds += ["line", "threshold", "cuts"]
        kind = self.pick(*kinds)
        if kind == "threshold":
            return threshold(int(self.random.integers(1, 3)))
        if kind == "cuts" and size > 1:
            return partition(cuts=[self.value(attribute, i + 1) for i in self.subset(size - 1)])
        if kind == "blocks":
            label = self.random.integers(0, 2, size)
            blocks = [[self.value(attribute, i) for i in range(size) if label[i] == k] for k in (0, 1)]
            return partition([block for block in blocks if block])
        if kind == "custom":
            pairs = self.random.integers(0, size, (2, 2)).tolist()
            return custom([[self.value(attribute, a), self.value(attribute, b)] for a, b in pairs])
        return {"public": public(), "line": line()}.get(str(kind), full())

    @staticmethod
    def value(attribute: Attribute, code: int) -> object:
        if isinstance(attribute, Categorical):
            return attribute.values[code]
        assert isinstance(attribute, Integers)
        return attribute.low + code

    def constraints(self, domain: Domain) -> tuple[Constraint, ...]:
        found: dict[Constraint, None] = {}
        for _ in range(int(self.random.integers(1, 5))):
            found[self.constraint(domain)] = None
        if self.chance(0.25) and RowsConstraint() not in found:
            found[RowsConstraint(int(self.random.integers(1, 5)))] = None
        return tuple(found)

    def constraint(self, domain: Domain) -> Constraint:
        kind = self.pick("count", "count", "count", "range", "marginal", "rows")
        name = str(self.pick(*domain.names))
        attribute = domain[name]
        if kind == "marginal":
            return MarginalConstraint(tuple(domain.names[i] for i in self.subset(len(domain.names))))
        if kind == "range" and attribute.ordered:
            low, high = sorted(self.random.integers(0, attribute.size, 2).tolist())
            return RangeConstraint(name, self.value(attribute, low), self.value(attribute, high))
        return RowsConstraint() if kind == "rows" else CountConstraint(self.condition(domain, 2))

    def condition(self, domain: Domain, depth: int) -> Predicate:
        kind = self.pick("atom", "atom", "both", "either", "not")
        if depth and kind in ("both", "either"):
            one, two = self.condition(domain, depth - 1), self.condition(domain, depth - 1)
            return Both(one, two) if kind == "both" else Either(one, two)
        if depth and kind == "not":
            return Negation(self.condition(domain, depth - 1))
        name = str(self.pick(*domain.names))
        attribute = domain[name]
        if attribute.slots and self.chance(0.2):
            return IsNull(name)
        if attribute.ordered and self.chance(0.5):
            op = self.pick("<", "<=", ">", ">=")
            return Comparison(name, op, self.value(attribute, int(self.random.integers(attribute.size))))  # type: ignore[arg-type]
        return Member(name, tuple(self.value(attribute, i) for i in self.subset(attribute.size)))

    def axis(self, name: str, attribute: Attribute) -> Axis:
        if attribute.ordered and self.chance(0.3):
            return Axis(name, width=2)
        if attribute.ordered and attribute.size > 2 and self.chance(0.15):
            return Axis(name, edges=(self.value(attribute, 0), self.value(attribute, 2)))
        return Axis(name)

    def rows(self, cells: int) -> tuple[Rows, Ints]:
        kind = self.pick("identity", "prefix", "any")
        rows: Rows = Sparse(self.random.integers(-2, 3, (int(self.random.integers(1, 4)), cells)))
        if kind != "any":
            rows = Identity(cells) if kind == "identity" else Prefix(cells)
        return rows, self.random.integers(1, 4, rows.shape[0])


def compiled(case: Case) -> Cells | None:
    """The cells, or None where the filter leaves nothing to count."""
    try:
        return case.cells()
    except QueryError:
        return None
