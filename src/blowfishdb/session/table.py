"""A dataset to ask questions of, and a question to preview for free and release; columns as points; sizes of groups."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress, Released, Run
from blowfishdb.engine.points import PointPreview, PointWeights
from blowfishdb.engine.postprocess import EVERYTHING, ColumnThreshold, Selection, SortKey, select_rows
from blowfishdb.engine.preview import AnyPreview, Preview
from blowfishdb.engine.request import AccuracyTarget, Number, Parameters, accuracy_target, spending_cap
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.engine.synopsis_release import SynopsisPreview
from blowfishdb.errors import AccuracyError, Declined, QueryError, plural
from blowfishdb.model.aggregates import UNCHANGED, Affine, Aggregate
from blowfishdb.model.arguments import checked
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.explain import explain
from blowfishdb.model.groups import atom_runs
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import ATOMS, Axis, Predicate, atoms, condition_words
from blowfishdb.model.query import Grouped, Query, Questions, grouped, query, synopsis_of
from blowfishdb.present.words import question_words
from blowfishdb.session.backend import Backend, ReleaseRequest, expect
from blowfishdb.sources.base import Join

if TYPE_CHECKING:
    from blowfishdb.session.widget import QuestionWidget

USUAL_ROWS = 10_000
"""Where nobody says about how many records there are, and nobody may count them."""


SMALL_GROUP = 10
"""Where groups or a filter divide the records, accuracy is promised from a tenth of an average group on."""
SIZED = ("mean", "variance", "variance_pop", "stddev", "stddev_pop", "share")


def sized_request(backend: Backend, request: ReleaseRequest) -> tuple[ReleaseRequest, str]:
    """The request with the number of records for which an accuracy of its means, spreads and shares is promised.

    Where it is not given it follows from the number of rows, if that is public: it is then counted first, also for a
    preview, exactly, recorded, and free. Nothing secret is read. An accuracy in percent becomes one in numbers, and the
    text says what it is a share of.
    """
    query, domain, target = request.query, request.domain, request.target
    is_relative = target.relative is not None or any(part.relative is not None for part in query.aggregates)
    needs_size = query.kind == "mean" or any(part.function in SIZED for part in query.aggregates)
    given = query.rows
    if target.epsilon is None and given is None and (needs_size or is_relative):
        total = _public_total(backend, request.dataset, domain)
        rows, groups = total, query.axes if query.kind == "table" else ()
        if groups or query.where is not None:
            policy = backend.declared(request.dataset)[1]
            rows = max(1, rows // (SMALL_GROUP * math.prod(compile_cells(domain, policy, groups).graph.shape)))
        query = replace(query, rows=rows if needs_size else None)
    elif query.kind not in ("mean", "table", "points"):
        query = replace(query, rows=None)
    if target.epsilon is not None or not is_relative:
        return replace(request, query=query), ""
    base = RelativeBase(domain, total if given is None else given, is_total=given is None)
    return base.resolved(replace(request, query=query))


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
    count = ReleaseRequest(dataset, Query("count", (), where), domain, accuracy_target(epsilon=1))
    if not expect(backend.preview(count), Preview).is_exact:
        return None
    answer = expect(backend.release(count, Run()), Answer)
    return max(1, round(float(answer.values[0])))


@dataclass(frozen=True, eq=False)
class RelativeBase:
    """What an accuracy in percent is of: a group's own size from `size` records on, or all `size` records."""

    domain: Domain
    size: int
    is_total: bool

    def resolved(self, request: ReleaseRequest) -> tuple[ReleaseRequest, str]:
        """The request with accuracies in numbers, and in words what they are shares of."""
        query, target = request.query, request.target
        whole = None if target.relative is None else target.relative.share
        if query.kind != "table":
            names = tuple(axis.attribute for axis in query.axes)
            alpha, words = self._tolerance(query.kind, names, 1, Fraction(whole or 0))
            resolved = replace(request, target=replace(target, alpha=alpha, relative=None))
            return resolved, f"{words[0].upper()}{words[1:]}."
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
        target = replace(target, alpha=alpha, relative=None)
        return replace(request, query=replace(query, aggregates=tuple(columns)), target=target), " ".join(notes)

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


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Numeric attributes of one dataset, perhaps filtered; nothing is read before something is released."""

    dataset: str
    axes: tuple[Axis, ...]
    filter: Predicate | None
    domain: Domain = field(repr=False)
    _backend: Backend = field(repr=False)

    def __repr__(self) -> str:
        where = "" if self.filter is None else f" where {condition_words(self.filter)}"
        return f"<Columns {', '.join(self.names)} of {self.dataset}{where}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in the order in which they were asked for."""
        return tuple(axis.attribute for axis in self.axes)

    def preview(self, *, epsilon: Number, clusters: int, rows: int | None = None) -> PointPreview:
        """The grid that `point_weights` would measure, and the others; reads no data, charges nothing.

        `rows` says about how many records there are (10 000 unless said); a release without it counts them first where
        their number is public, so it may choose another grid.
        """
        request = self._request(clusters, USUAL_ROWS if rows is None else rows, epsilon)
        return expect(self._backend.preview(request), PointPreview)

    def point_weights(
        self, *, epsilon: Number, clusters: int, rows: int | None = None, key: str | None = None
    ) -> PointWeights:
        """Weights on the points of a grid that suits the clusters: charged before any data is read, then stored.

        Without `rows` the number of records is released first where it is public: an exact count, recorded, for 0.
        """
        if rows is None:
            rows = public_rows(self._backend, self.dataset, self.domain, self.filter) or USUAL_ROWS
        return expect(self._backend.release(self._request(clusters, rows, epsilon), Run(key)), PointWeights)

    def _request(self, clusters: int, rows: int, epsilon: Number) -> ReleaseRequest:
        points = query("points", self.axes, self.filter, clusters=clusters, rows=rows)
        return ReleaseRequest(self.dataset, points, self.domain, accuracy_target(epsilon=epsilon))


def with_note(answer: Answer, note: str) -> Answer:
    """The answer with a remark on what was promised."""
    if not note:
        return answer
    whole = " ".join(part for part in (answer.consistent.note, note) if part)
    return replace(answer, consistent=replace(answer.consistent, note=whole))


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """One question of one dataset, without its accuracy."""

    dataset: str
    query: Query
    domain: Domain = field(repr=False)
    _backend: Backend = field(repr=False)
    selection: Selection = EVERYTHING
    """What is done to the answer before it is shown."""
    names_only: bool = False
    """Whether the names of the chosen groups are enough: a certified selection may then give the list."""

    @property
    def listing(self) -> Query | None:
        """The largest groups, or those above a least count, as a selection of its own; None for other choices of rows.

        As the query of a question it gives the same list without counts.
        """
        if self.query.kind != "histogram":
            return None
        match self.selection:
            case Selection(None, (SortKey("count", True),), int(most), 0) if most > 0:
                return replace(self.query, kind="selection", rows=None, most=most)
            case Selection(ColumnThreshold("count", ">" | ">=" as op, value), (), None, 0) if value >= 1:
                least = math.floor(value) + 1 if op == ">" else math.ceil(value)
                return replace(self.query, kind="selection", rows=None, above=least)
        return None

    @property
    def title(self) -> str:
        """The question in one line, with the rows of its answer that are shown where these are not all."""
        words = question_words(self.listing or self.query)
        return words if self.listing is not None or self.selection.is_everything else f"{words}, {self.selection.words}"

    def request(self, target: AccuracyTarget) -> ReleaseRequest:
        """What the backend is asked for."""
        return ReleaseRequest(self.dataset, self.query, self.domain, target)

    def shown(self, answer: Answer) -> Answer:
        """The rows of an answer that are asked for, under a title that says so."""
        if self.selection.is_everything:
            return answer
        return replace(select_rows(answer, self.selection), title=self.title)

    def __repr__(self) -> str:
        return f"<{self.title} of {self.dataset}: preview(alpha=...) is free, release(...) answers>"

    def preview(
        self,
        alpha: Number | None = None,
        beta: Number | None = None,
        *,
        epsilon: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        mechanism: str | None = None,
        parameters: Parameters | None = None,
        per_query: bool = False,
        fresh: bool = False,
    ) -> Preview:
        """What a release would cost or how accurate it would be, by every mechanism: free, and reads nothing secret.

        Give `alpha` (all answers within alpha, except with probability `beta`, usually 0.05) or `epsilon`;
        `accuracy` is another name for alpha, `confidence` for 1 - beta. With `per_query` each answer alone keeps alpha.
        `mechanism` names the one to use, and `parameters` sets what it takes, such as {"split": "0.3"} of `dawa`.
        What an earlier answer to the same rows paid is not paid again, unless the noise is to be `fresh`. No row is
        read, with one exception: the accuracy of a mean, a spread or a share, an accuracy in percent and the mechanism
        `auto` need the number of records. Where that is public and `rows` is not given, it is counted.
        """
        target = accuracy_target(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query, fresh, parameters)
        return expect(self.preview_at(target), Preview)

    quote = preview

    def preview_at(self, target: AccuracyTarget) -> AnyPreview:
        """What a release at a target would cost or bring, for a query of any kind."""
        if self._is_listed(target):
            return self._listed().preview_at(target)
        request, note = sized_request(self._backend, self.request(target))
        preview = self._backend.preview(request)
        if not isinstance(preview, Preview):
            return preview
        title = preview.title if self.selection.is_everything else self.title
        return replace(preview, relative=note, title=title)

    def release(
        self,
        alpha: Number | None = None,
        beta: Number | None = None,
        *,
        epsilon: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        mechanism: str | None = None,
        parameters: Parameters | None = None,
        per_query: bool = False,
        fresh: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
        spend: Number | None = None,
    ) -> Answer:
        """The answer: charged before any data is read, stored, and replayed free when the same is asked again.

        `key` names this request; without one the request's own digest is its key. `progress` hears the name of each
        step. After `deadline` seconds of waiting and planning nothing is charged any more, and what was charged runs to
        its end. A price above `spend` is refused.
        """
        target = accuracy_target(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query, fresh, parameters)
        return expect(self.release_at(target, Run(key, progress, deadline, spending_cap(spend))), Answer)

    def release_at(self, target: AccuracyTarget, run: Run) -> Released:
        """What a query of any kind gives at a target, charged."""
        if self._is_listed(target):
            return self._listed().release_at(target, run)
        request, note = sized_request(self._backend, self.request(target))
        released = self._backend.release(request, run)
        return self.shown(with_note(released, note)) if isinstance(released, Answer) else released

    def payload_at(self, target: AccuracyTarget, run: Run) -> bytes | Released:
        """What `release_at` gives, as it is stored where nothing else is shown of it."""
        if self.names_only or not self.selection.is_everything:
            return self.release_at(target, run)
        request, note = sized_request(self._backend, self.request(target))
        if note:
            return self.release_at(target, run)
        return self._backend.payload(request, run)

    def _listed(self) -> Question:
        return replace(self, query=self.listing or self.query, selection=EVERYTHING, names_only=False)

    def _is_listed(self, target: AccuracyTarget) -> bool:
        """Whether the names of groups are chosen without counts: where that costs less, or promises a better list."""
        if not self.names_only or self.listing is None or target.mechanism is not None:
            return False
        try:
            names = expect(self._listed().preview_at(target), Preview)
        except Declined:
            return False
        counts = expect(replace(self, names_only=False).preview_at(target), Preview)
        if target.epsilon is None or counts.is_exact or counts.alpha is None or names.alpha is None:
            return names.epsilon < counts.epsilon
        return names.alpha < counts.alpha

    def widget(self, alpha: Number, confidence: Number = "0.95") -> QuestionWidget:
        """For a notebook: a slider around alpha with the live price, a button that asks before it charges, a chart."""
        from blowfishdb.session.widget import QuestionWidget

        return QuestionWidget(self, self._backend, alpha, confidence)

    def chosen(self, selection: Selection, *, names_only: bool = False) -> Question:
        """The same question, of whose answer some rows are shown, or only the names of groups."""
        return replace(self, selection=selection, names_only=names_only)

    def for_groups_of(self, rows: int) -> Question:
        """The same question, whose accuracy of means, shares and in percent is promised from this many records on."""
        return replace(self, query=replace(self.query, rows=rows))

    def publish_preview(
        self, *, epsilon: Number, mechanism: str | None = None, parameters: Parameters | None = None
    ) -> SynopsisPreview:
        """What a synopsis would answer and how far off, where that is known without data; costs nothing."""
        target = accuracy_target(epsilon=epsilon, mechanism=mechanism, parameters=parameters)
        return expect(self._backend.preview(self._synopsis_request(target)), SynopsisPreview)

    def publish(
        self,
        *,
        epsilon: Number,
        mechanism: str | None = None,
        parameters: Parameters | None = None,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
        spend: Number | None = None,
    ) -> Synopsis:
        """A synopsis of this histogram: charged once, then free to ask; `save` writes it to a file."""
        target = accuracy_target(epsilon=epsilon, mechanism=mechanism, parameters=parameters)
        run = Run(key, progress, deadline, spending_cap(spend))
        return expect(self._backend.release(self._synopsis_request(target), run), Synopsis)

    def _synopsis_request(self, target: AccuracyTarget) -> ReleaseRequest:
        return replace(self.request(target), query=synopsis_of(self.query))


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class Table(Questions[Question]):
    """A dataset, perhaps filtered. `domain` is what is declared of it; rows are never shown."""

    name: str
    domain: Domain
    _backend: Backend = field(repr=False)
    most_boxes: ClassVar[float] = 20_000

    def __repr__(self) -> str:
        return f"<Table {self.name}{self._filter_words()}: {', '.join(self.domain)}>"

    @property
    def policy(self) -> Policy:
        """What is hidden about a record, as declared."""
        return self._backend.declared(self.name)[1]

    @property
    def joins(self) -> tuple[Join, ...]:
        """The tables that the curator joined to this one, whose attributes belong to it."""
        return self._backend.joins(self.name)

    def policy_words(self) -> tuple[str, ...]:
        """What is hidden about a record, and what is not, in words."""
        return explain(*self._backend.declared(self.name))

    def where(self, predicate: Predicate) -> Self:
        """The records for which the condition is true; several conditions hold together."""
        table = super().where(predicate)
        for atom in atoms(predicate):
            # Whatever merely looks like a comparison is refused when it is asked.
            if type(atom) in ATOMS:
                atom_runs(atom, self.domain.find(atom.attribute))
        return table

    def columns(self, names: Iterable[Grouped]) -> Columns:
        """Numeric attributes as points, for analyses such as bf.analysis.kmeans; reads nothing."""
        return Columns(self.name, grouped(names), self.filter, self.domain, self._backend)

    def aggregate(self, *aggregates: Aggregate, by: Iterable[Grouped] = (), rows: int | None = None) -> Question:
        """Several aggregates of every group in one release: `bf.Aggregate("mean", ("cost",))`, by groups or of all.

        Means, spreads and shares keep an accuracy for groups of at least `rows` records.
        """
        return self._ask(query("table", grouped(by), self.filter, aggregates=aggregates, rows=rows))

    def linear(self, workload: Any, *axes: Grouped) -> Question:
        """Weighted sums of the counts of cells, one for each row of a matrix of whole numbers (numpy, scipy or lists).

        Columns are the cells in the order of `histogram(*axes)`; every row gets an interval.
        """
        question = self._ask(query("linear", grouped(axes), self.filter, linear=workload))
        cells = self._cells(question.query.axes).graph.cells
        shape = workload.shape if issparse(workload) else np.atleast_2d(np.asarray(workload)).shape
        if shape[1] != cells:
            raise QueryError(
                f"each row of the workload has a weight for each of {cells:,} cells, in the order of histogram(...), "
                f"not {shape[1]:,}"
            )
        return question

    def people(self, *axes: Grouped) -> Question:
        """How many different persons have a record, of all or in each group; where the policy protects persons."""
        unit = self.policy.unit
        if not isinstance(unit, Person):
            raise QueryError("persons are counted where the policy protects them; here each row is on its own: count()")
        return self.aggregate(Aggregate("people", (unit.id,), name="people"), by=axes)

    def top(self, most: int, *axes: Grouped, names_only: bool = False) -> Question:
        """The groups with the most records: all are counted, and the `most` largest counts are shown.

        With `names_only` the groups may be chosen without counting the others, where that costs less.
        """
        if type(most) is not int or most < 1:
            raise QueryError("a top list has at least one group: top(10, 'ward')")
        selection = Selection(order=(SortKey("count", True),), limit=most)
        return self.histogram(*axes).chosen(selection, names_only=names_only)

    def question(self, query: Query, selection: Selection = EVERYTHING, *, names_only: bool = False) -> Question:
        """The question that a query asks of these records; its condition is added to the filter."""
        table = self if query.where is None else self.where(query.where)
        return table._ask(replace(query, where=table.filter)).chosen(selection, names_only=names_only)

    def _ask(self, query: Query) -> Question:
        factors = (name for part in query.aggregates if part.function != "people" for name in part.factors)
        for name in (*(axis.attribute for axis in query.axes), *factors):
            self.domain.find(name)
        return Question(self.name, query, self.domain, self._backend)

    def _cells(self, axes: tuple[Axis, ...]) -> Cells:
        return compile_cells(self.domain, self.policy, axes, self.filter)
