"""Sizes of groups for which an accuracy is promised, and accuracies in percent as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.target import AccuracyTarget, accuracy_target
from blowfishdb.errors import AccuracyError, QueryError, plural
from blowfishdb.model.aggregates import UNCHANGED, Affine
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import Query
from blowfishdb.session.backend import Backend, expect

SMALL_GROUP = 10
"""Where groups or a filter divide the records, accuracy is promised from a tenth of an average group on."""
SIZED = ("mean", "variance", "variance_pop", "stddev", "stddev_pop", "share")


@dataclass(frozen=True, eq=False)
class SizedQuestion:
    """A query with the number of records for which its accuracy is promised, and its target as a plain number."""

    query: Query
    target: AccuracyTarget
    note: str = ""
    """What an accuracy in percent was taken of, in words."""


def sized_question(
    backend: Backend, dataset: str, query: Query, domain: Domain, target: AccuracyTarget
) -> SizedQuestion:
    """The query with the number of records for which an accuracy of its means, spreads and shares is promised.

    Where it is not given it follows from the number of rows, if that is public: it is then counted first, also for a
    preview, exactly, recorded, and free. Nothing secret is read. An accuracy in percent becomes one in numbers.
    """
    is_relative = target.relative is not None or any(part.relative is not None for part in query.aggregates)
    needs_size = query.kind == "mean" or any(part.function in SIZED for part in query.aggregates)
    given = query.rows
    if target.epsilon is None and given is None and (needs_size or is_relative):
        total = _public_total(backend, dataset, domain)
        rows, groups = total, query.axes if query.kind == "table" else ()
        if groups or query.where is not None:
            policy = backend.declared(dataset)[1]
            rows = max(1, rows // (SMALL_GROUP * math.prod(compile_cells(domain, policy, groups).graph.shape)))
        query = replace(query, rows=rows if needs_size else None)
    elif query.kind not in ("mean", "table", "points"):
        query = replace(query, rows=None)
    if target.epsilon is not None or not is_relative:
        return SizedQuestion(query, target)
    base = RelativeBase(domain, total if given is None else given, is_total=given is None)
    return base.resolved(query, target)


def _public_total(backend: Backend, dataset: str, domain: Domain) -> int:
    """The number of records, where it is public; QueryError where it is secret."""
    total = public_rows(backend, dataset, domain)
    if total is None:
        raise QueryError(
            "how far off a mean, a spread or a share is, and what a percentage is of, depends on the number of "
            "records, which is secret here: say rows=..., the size of the smallest group that must keep the accuracy, "
            "or give epsilon"
        )
    return total


def public_rows(backend: Backend, dataset: str, domain: Domain, where: Predicate | None = None) -> int | None:
    """The number of records that meet a condition, at least 1: counted exactly, recorded, free; None where secret."""
    count, free = Query("count", (), where), accuracy_target(epsilon=1)
    if not expect(backend.preview(dataset, count, domain, free), Preview).is_exact:
        return None
    answer = expect(backend.release(dataset, count, domain, free, Run()), Answer)
    return max(1, round(float(answer.values[0])))


@dataclass(frozen=True, eq=False)
class RelativeBase:
    """What an accuracy in percent is of: a group's own size from `size` records on, or all `size` records."""

    domain: Domain
    size: int
    is_total: bool

    def resolved(self, query: Query, target: AccuracyTarget) -> SizedQuestion:
        """The question with accuracies in numbers, and in words what they are shares of."""
        whole = None if target.relative is None else target.relative.share
        if query.kind != "table":
            names = tuple(axis.attribute for axis in query.axes)
            alpha, words = self._tolerance(query.kind, names, 1, Fraction(whole or 0))
            return SizedQuestion(query, replace(target, alpha=alpha, relative=None), f"{words[0].upper()}{words[1:]}.")
        columns, notes = [], []
        for part in query.aggregates:
            share = whole if part.relative is None and part.tolerance is None else part.relative
            if share is None:
                columns.append(part)
                continue
            tolerance, words = self._tolerance(part.function, part.factors, part.times, share, part.affine)
            columns.append(replace(part, tolerance=tolerance, relative=None))
            notes.append(f"{part.title}: {words}.")
        alpha = min(part.tolerance for part in columns if part.tolerance is not None)
        alpha = alpha if target.alpha is None else target.alpha
        resolved = replace(target, alpha=alpha, relative=None)
        return SizedQuestion(replace(query, aggregates=tuple(columns)), resolved, " ".join(notes))

    def _tolerance(
        self, function: str, names: tuple[str, ...], times: int, share: Fraction, affine: tuple[Affine, ...] = ()
    ) -> tuple[Fraction, str]:
        """How far off an aggregate may be, and what that is a share of."""
        percent = f"within {show(100 * share)} %"
        if function == "linear":
            raise AccuracyError("weighted sums have no size of their own: alpha is a number in the units of the rows")
        if function == "share":
            return share * times, f"within {show(100 * share)} percentage points"
        if function in ("sum", "mean", "variance", "variance_pop", "stddev", "stddev_pop"):
            low, high = declared_ends(self.domain, names, affine)
            if function == "sum":
                most = max(abs(low), abs(high)) * self.size
                records = f"{'all ' if self.is_total else ''}{plural(self.size, 'record')}"
                return share * most, f"{percent} of {show(most)}, the most that {records} can add up to"
            width = high - low
            if function.startswith("variance"):
                return share * width**2, f"{percent} of {show(width**2)}, the squared width of the declared values"
            return share * width, f"{percent} of {show(width)}, the width of the declared values"
        if self.is_total:
            whole = f"all {plural(self.size, 'record')}, not of each group"
            return share * self.size, f"{percent} of {whole} (rows=... promises it of those from a size on)"
        return share * self.size, f"{percent} of its own size for every group of at least {plural(self.size, 'record')}"


def declared_ends(domain: Domain, names: tuple[str, ...], affine: tuple[Affine, ...] = ()) -> tuple[Fraction, Fraction]:
    """The least and the greatest product of declared values of numeric attributes."""
    products = [Fraction(1)]
    for name, (scale, more) in zip(names, affine or (UNCHANGED,) * len(names), strict=True):
        attribute = domain.find(name)
        if isinstance(attribute, Integers):
            ends = Fraction(attribute.low), Fraction(attribute.high)
        elif isinstance(attribute, Bins):
            ends = attribute.edge(0), attribute.edge(attribute.size)
        else:
            raise QueryError(f"{name} has no declared numbers, so nothing is a share of them")
        products = [product * (scale * end + more) for product in products for end in ends]
    return min(products), max(products)
