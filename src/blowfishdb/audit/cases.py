"""Cases of an audit: a declaration, a query, a price and a mechanism; the built-in battery, and those of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType

from blowfishdb.accuracy.quote import forget
from blowfishdb.audit.definitions import Adjacency
from blowfishdb.audit.scratch import swapped
from blowfishdb.catalog import Dataset, read_config
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import Release
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.ledger.amounts import BY, PER_EDGE, SUM
from blowfishdb.mechanisms.table import DATA_AWARE, MECHANISMS
from blowfishdb.model import graphs, projection
from blowfishdb.model.aggregates import Aggregate, fine_axes
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.domain import Domain, bins, categorical, domain, integers
from blowfishdb.model.graphs import Composition, Metric, Presence
from blowfishdb.model.policy import (
    Family,
    Policy,
    custom,
    full,
    grid,
    joint,
    line,
    metric,
    partition,
    person,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Column, as_axes
from blowfishdb.model.query import Kind, Query, levels_of, query, synopsis_of
from blowfishdb.plan import certificate, loss, program
from blowfishdb.sql import parse, query_of


@dataclass(frozen=True, eq=False)
class Case:
    """A declaration, a query and a price. `by_structure` certifies without listing edges, as for large questions.

    `rows` is the size of the made-up table. `further` are questions that are released as well, for accounts that do
    not simply add up.
    """

    name: str
    domain: Domain
    policy: Policy
    query: Query
    mechanism: str | None = None
    epsilon: Fraction = Fraction(1)
    as_synopsis: bool = False
    by_structure: bool = False
    rows: int = 20
    accounting: str = SUM
    further: tuple[Query, ...] = ()
    within: Fraction | None = None
    """The accuracy that is asked for in place of a price."""
    parameters: str = ""
    """The parameters of the mechanism that are set, as an expert writes them."""

    @cached_property
    def adjacency(self) -> Adjacency:
        """The declaration and the question, for the definitions to work on."""
        is_points, axes = self.query.kind == "points", fine_axes(self.query.axes, self.query.aggregates)
        return Adjacency(self.domain, self.policy, axes, self.query.where, by_value=is_points)


def prepared(case: Case, handle: DatasetHandle, question: Query) -> Release:
    """The release of one query of a case; Declined or InvalidInput where it cannot be."""
    alpha, epsilon = (None, case.epsilon) if case.within is None else (case.within, None)
    target = accuracy_target(alpha, epsilon=epsilon, mechanism=case.mechanism, parameters=case.parameters)
    request = make_request(handle, synopsis_of(question) if case.as_synopsis else question, target)
    return prepare(handle, request)


Limit = tuple[ModuleType, str]
LIMITS: tuple[Limit, ...] = (
    (certificate, "LISTED_EDGES"),
    (loss, "TABLE_CELLS"),
    (loss, "LONG_EDGES"),
    (certificate, "LISTED_PAIRS"),
    (program, "LISTED_EDGES"),
    (projection, "LISTED_LIMIT"),
)
"""Below these numbers edges are compared one by one; above, structure decides."""
LISTS: tuple[Limit, ...] = (
    (graphs, "EDGE_LIMIT"),
    (projection, "FILTER_LIMIT"),
)
"""Below these numbers edges are listed at all, and what a filter rejects is worked out."""


@contextmanager
def limited(limits: Sequence[Limit], to: int = 0) -> Iterator[None]:
    """Small questions dealt with as large ones are, as if these limits were passed: they are `to` meanwhile."""
    with ExitStack() as swaps:
        # What was certified in the other way must not be remembered.
        swaps.callback(forget)
        for module, name in limits:
            swaps.enter_context(swapped(module, name, to))
        forget()
        yield


MOST_CELLS = 4096
MOST_TABLE = 2048
MOST_ATTRIBUTES = 6
MOST_SPENT = Fraction(1)
LOOKED = 256
"""The most values of an attribute on which data-aware mechanisms are audited."""


@dataclass(frozen=True)
class Subject:
    """A dataset of a configuration, and the questions to audit on it as SQL; none means the usual ones."""

    config: Path
    name: str
    questions: tuple[str, ...] = ()


def dataset_cases(subject: Subject) -> list[Case]:
    """The cases of a dataset; only its declaration is read, never its rows nor its ledger."""
    dataset = read_config(subject.config).dataset(subject.name)
    price = min(MOST_SPENT, dataset.epsilon / 4) or MOST_SPENT
    if subject.questions:
        return [_given(dataset, text, price) for text in subject.questions]
    listed = [case for name in dataset.domain.names[:MOST_ATTRIBUTES] for case in _of_attribute(dataset, name, price)]
    return [*listed, *_tables(dataset, price)]


def _given(dataset: Dataset, text: str, price: Fraction) -> Case:
    """The case of an SQL statement."""
    statement = parse(text)
    question, options = query_of(statement, dataset.domain), statement.options
    case = _case(dataset, "", question, options.get("epsilon", price), options.get("mechanism"))
    return replace(case, name=text[:80])


def _of_attribute(dataset: Dataset, name: str, price: Fraction) -> list[Case]:
    """Histogram and running counts of one attribute, and the histogram by a data-aware mechanism where it is short."""
    attribute = dataset.domain[name]
    if attribute.size > MOST_CELLS:
        return []
    histogram = query("histogram", name)
    cases = [_case(dataset, f"histogram of {name}", histogram, price)]
    if attribute.ordered:
        cases.append(_case(dataset, f"cdf of {name}", query("cdf", name), price))
        if 2 <= attribute.total_size <= LOOKED:
            cases.append(_case(dataset, f"histogram of {name} by dawa", histogram, price, "dawa"))
    return cases


def _tables(dataset: Dataset, price: Fraction) -> list[Case]:
    """The histogram of the first two attributes that are small enough together."""
    sizes = {name: dataset.domain[name].total_size for name in dataset.domain.names}
    for one, two in itertools.combinations([name for name, size in sizes.items() if size <= MOST_CELLS], 2):
        if sizes[one] * sizes[two] <= MOST_TABLE:
            return [_case(dataset, f"histogram of {one} and {two}", query("histogram2d", (one, two)), price)]
    return []


def _case(dataset: Dataset, name: str, question: Query, price: Fraction, mechanism: str | None = None) -> Case:
    full_name = f"{dataset.name}: {name}"
    return Case(full_name, dataset.domain, dataset.policy, question, mechanism, price, accounting=dataset.accounting)


LENGTH = 12
ONE = domain({"x": integers(0, LENGTH - 1, null=0)})
TWO = domain({"x": integers(0, 3, null=0), "y": categorical(["a", "b", "c"], null="a", outside="a")})
SPECIAL = domain({"x": integers(0, 5, outside="cell"), "y": categorical(["a", "b"])})
LONG = domain({"x": integers(0, 15, null=0)})
TWO_LONG = domain({"x": integers(0, 15, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
SMALL_SQUARE = domain({"x": integers(0, 3, null=0), "y": integers(0, 3, null=0)})
SQUARE = domain({"x": integers(0, 7, null=0), "y": integers(0, 7, null=0)})


def _squared(one: object, two: object) -> int:
    """A distance that is not a metric; a policy may be made of it nevertheless."""
    return (int(str(one)) - int(str(two))) ** 2


FAMILIES: dict[str, Family] = {
    "full": full(),
    "threshold": threshold(3),
    "partition": partition(cuts=[4, 9]),
    "line": line(),
    "custom": custom([(0, 5), (5, 6), (6, 11), (1, 2), (2, 3), (3, 1), (7, 8), (8, 10), (9, 4)]),
    "metric": metric(list(range(LENGTH)), _squared, theta=4),
}
PAIRS: dict[str, dict[str, Family]] = {
    "full x full": {},
    "line x full": {"x": line()},
    "threshold x custom": {"x": threshold(2), "y": custom([("a", "b"), ("b", "c")])},
    "public x full": {"x": public()},
}
COMPOSITIONS: tuple[Composition, ...] = ("record", "attribute")
PRESENCES: tuple[Presence, ...] = ("secret", "only")
METRICS: tuple[Metric, ...] = ("l1", "l2", "linf")
RANGES = query("ranges", "x")
FEW = query("ranges", "x", boxes=[((0, 5),), ((3, 10),)])
CDF = query("cdf", "x")
HISTOGRAM = query("histogram", "x")
TABLE = query("histogram2d", ("x", "y"))
PAIRWISE = query("marginals", ("x", "y"), ways=1)


TWO_ROWS = person("who", at_most=2, order_by="nr")


def battery(*, quick: bool) -> list[Case]:
    """All cases; the quick ones leave out combinations that go the same way through the code as others do."""
    return [
        *one_axis(quick=quick),
        *two_axes(quick=quick),
        *wide_tables(),
        *joint_graphs(),
        *filters_and_cells(),
        *groups_of_time(),
        *presence_and_people(),
        *public_constraints(),
        *data_aware(quick=quick),
        *data_aware_elsewhere(),
        *with_parameters(),
        *long_axes(),
        *other_releases(),
        *choices(),
        *points(),
        *accounts(),
    ]


def one_axis(*, quick: bool) -> Iterator[Case]:
    """Every mechanism of one axis on every family."""
    usual = [name for name in MECHANISMS if name not in ("kronecker", "marginals", "joint")]
    for place, (family, graph) in enumerate(FAMILIES.items()):
        policy = Policy({"x": graph})
        for number, name in enumerate(usual):
            if name == "identity":
                yield Case(f"{name}, {family}, histogram", ONE, policy, HISTOGRAM, name)
            elif name == "direct":
                yield Case(f"{name}, {family}, two ranges", ONE, policy, FEW, name)
            elif not quick or (place + number) % 2 == 0 or name in ("ordered", "ordered-hierarchical"):
                yield Case(f"{name}, {family}, ranges", ONE, policy, RANGES, name, Fraction(1, 2))
        yield Case(f"the best mechanism, {family}, cdf", ONE, policy, CDF, epsilon=Fraction(1, 3))


def two_axes(*, quick: bool) -> Iterator[Case]:
    """Products of attributes under both compositions, certified by listing edges and by structure."""
    for composition in COMPOSITIONS:
        for families, attributes in PAIRS.items():
            policy = Policy(attributes, composition)
            policies = f"{families} by {composition}"
            yield Case(f"kronecker, {policies}", TWO, policy, TABLE, "kronecker")
            yield Case(f"kronecker by structure, {policies}", TWO, policy, TABLE, "kronecker", by_structure=True)
            yield Case(f"marginals by structure, {policies}", TWO, policy, PAIRWISE, "marginals", by_structure=True)
            if not quick or families != "public x full":
                yield Case(f"edge-transform, {policies}", TWO, policy, PAIRWISE, "edge-transform")
            yield Case(f"marginals, {policies}", TWO, policy, PAIRWISE, "marginals")
            if not quick:
                yield Case(f"identity, {policies}", TWO, policy, TABLE, "identity")
                yield Case(f"optimized, {policies}", TWO, policy, TABLE, "optimized")


def wide_tables() -> Iterator[Case]:
    """Tables so wide that each marginal is measured on its own: there a record that moves in both costs twice."""
    for composition in COMPOSITIONS:
        policy = Policy({"x": full(), "y": line()}, composition)
        yield Case(f"marginals of 8 x 8 by {composition}", SQUARE, policy, PAIRWISE, "marginals")
        name = f"marginals of 8 x 8 by structure, by {composition}"
        yield Case(name, SQUARE, policy, PAIRWISE, "marginals", by_structure=True)
        yield Case(f"direct, two marginals by {composition}", TWO, Policy({}, composition), PAIRWISE, "direct")


def joint_graphs() -> Iterator[Case]:
    """Joint graphs: places within a distance, in each metric; blocks and pairs of combinations."""
    small = domain(
        {"x": integers(0, 4, null=0), "y": bins(0, 5, width=1, null=0), "z": categorical(["a"], outside="a", null="a")}
    )
    filtered = query("histogram", "x", Column("y") >= 3)
    for shape in METRICS:
        policy, near = (Policy(joint=[grid(["x", "y"], theta, shape)]) for theta in (2, 1))
        yield Case(f"identity, joint {shape}", small, policy, TABLE, "identity")
        yield Case(f"kronecker by structure, joint {shape}", small, policy, TABLE, "kronecker", by_structure=True)
        yield Case(f"hierarchy of one side, joint {shape}", small, policy, query("cdf", "x"), "hierarchy")
        yield Case(f"filter on the other side, joint {shape}", small, near, filtered)
    places = list(itertools.product(range(5), range(5)))
    rows = partition([[place for place in places if sum(place) % 3 == rest] for rest in range(3)])
    pairs = custom([((x, y), (x, y + 1)) for x, y in places if y < x])
    for words, graph in {"blocks": joint("xy", rows), "pairs": joint("xy", pairs)}.items():
        policy = Policy(joint=[graph])
        yield Case(f"identity, joint {words}", small, policy, TABLE, "identity")
        yield Case(f"filter on the other side, joint {words}", small, policy, filtered)


def filters_and_cells() -> Iterator[Case]:
    """Filters, the outside cell, NULL, clamped values, bins of unequal width and coarse groups."""
    policy = Policy({"x": threshold(1)})
    x, y, steps = Column("x"), Column("y"), Policy({"x": line()})
    for mechanism in ("ordered", "hierarchy", "identity"):
        elsewhere, here = query("cdf", "x", y == "a"), query("cdf", "x", x >= 4)
        yield Case(f"{mechanism}, filter on another attribute", TWO, policy, elsewhere, mechanism)
        yield Case(f"{mechanism}, filter on the same attribute", ONE, policy, here, mechanism)
    known = Policy({"y": public(), "x": line()})
    yield Case("filter, public attribute", TWO, known, query("cdf", "x", y == "b"))
    mixed = query("histogram", "x", ~(y == "b") | (x < 2))
    yield Case("filter with or and not, NULL hidden", SPECIAL, steps, mixed)
    yield Case("histogram of a filter", TWO, policy, query("histogram", "x", y == "a"), "identity")
    yield Case("count of a filter", SPECIAL, steps, query("count", (), x >= 3))
    for mechanism in ("ordered", "hierarchy", "identity"):
        yield Case(f"{mechanism}, NULL and outside hidden", SPECIAL, steps, CDF, mechanism)
    yield Case("ordered, NULL public", domain({"x": integers(0, 5, null_public=True)}), steps, CDF)
    blocks = Policy({"x": FAMILIES["partition"]})
    yield Case("hierarchy, filter inside a block", ONE, blocks, query("cdf", "x", x >= 2), "hierarchy")
    yield Case("ordered, NULL beyond the filter", SPECIAL, steps, query("cdf", "x", x < 4), "ordered")
    yield Case("is null", SPECIAL, steps, query("histogram", "y", x.is_null()))
    uneven = domain({"x": bins(edges=[0, 1, 3, 4, 8, 9, 20], null=0)})
    yield Case("ordered, uneven bins", uneven, Policy({"x": threshold("2.5")}), CDF, "ordered")
    yield Case("hierarchy, uneven bins", uneven, Policy({"x": threshold(4)}), RANGES, "hierarchy")
    yield Case("ordered, uneven bins at their distance", uneven, Policy({"x": threshold(3)}), CDF, "ordered")
    coarse, wider = Query("cdf", (Axis("x", width=5),)), Query("cdf", (Axis("x", edges=(2, 3, 7, 10)),))
    yield Case("ordered, groups of five", ONE, Policy({"x": threshold(3)}), coarse, "ordered")
    named = Column("x").groups({"low": [0, 2, "NULL"], "high": [4, 5], "other": ["outside"]})
    yield Case("groups that hold NULL", SPECIAL, Policy({"x": partition(cuts=[3])}), query("histogram", named))
    yield Case("hierarchy, groups between edges", ONE, Policy({"x": threshold(3)}), wider, "hierarchy")


def groups_of_time() -> Iterator[Case]:
    """Dates and moments; an hour that is skipped in Berlin, and half an hour that comes twice on Lord Howe Island."""
    weeks = domain({"x": dates("2024-01-30", "2024-05-02", "week", null="2024-02-01")})
    yield Case("ordered, weeks", weeks, Policy({"x": threshold("10 days")}), CDF, "ordered")
    hours = domain({"x": timestamps("2024-02-28 20:00", "2024-02-29 08:00", null="2024-02-28 21:00")})
    for span in ("2 hours", "90 minutes"):
        yield Case(f"ordered, hours within {span}", hours, Policy({"x": threshold(span)}), CDF, "ordered")
    first, second = "2024-03-30 22:00", "2024-04-07 01:29"
    spring = timestamps(first, "2024-03-31 08:00", zone="Europe/Berlin", null=first)
    autumn = timestamps(second, "2024-04-07 02:02", "minute", zone="Australia/Lord_Howe", null=second)
    for mechanism in ("ordered", "identity"):
        for season, column, theta in (("spring", spring, "10 minutes"), ("autumn", autumn, "2 minutes")):
            name, policy = f"{mechanism}, clocks change in {season}", Policy({"x": threshold(theta)})
            yield Case(name, domain({"x": column}), policy, CDF, mechanism)
    days, by_month = dates("2024-02-20", "2024-03-20", null="2024-03-01"), (Axis("x", unit="month"),)
    week = Policy({"x": threshold("7 days")})
    yield Case("hierarchy, days by month", domain({"x": days}), week, Query("histogram", by_month))


def presence_and_people() -> Iterator[Case]:
    """Rows that may be absent, and people with several rows."""
    for presence in PRESENCES:
        near = Policy({"x": threshold(2)}, presence=presence)
        for mechanism in ("identity", "ordered", "hierarchy"):
            yield Case(f"{mechanism}, presence {presence}", ONE, near, CDF, mechanism)
        yield Case(f"histogram, presence {presence}", ONE, near, HISTOGRAM)
        both = Policy({}, "attribute", presence)
        yield Case(f"kronecker by structure, presence {presence}", TWO, both, TABLE, "kronecker", by_structure=True)
    for at_most in (1, 3):
        unit = person("who", at_most=at_most, order_by="nr")
        policy = Policy({"x": threshold(2)}, unit=unit)
        yield Case(f"ordered, {at_most} rows a person", ONE, policy, CDF, "ordered")
        yield Case(f"the best mechanism, {at_most} rows a person", TWO, Policy(unit=unit), TABLE)
    hidden = Policy({"x": line()}, presence="secret", unit=TWO_ROWS)
    yield Case("hierarchy, 2 rows a person, presence secret", ONE, hidden, CDF, "hierarchy")
    yield Case("dawa, 2 rows a person", LONG, Policy({"x": line()}, unit=TWO_ROWS), RANGES, "dawa")


def public_constraints() -> Iterator[Case]:
    """Constraints that tie records together, or that nothing hidden changes."""
    small = domain({"x": integers(0, 2, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
    constraints = {
        "a marginal": ["marginal(y)"],
        "a range": ["range(x, 0, 1)"],
        "overlapping counts": ["marginal(y)", "count(x < 1)"],
        "a count across": ["count(x < 1 and y = 'a')"],
    }
    for label, declared in constraints.items():
        yield Case(f"identity, {label} known", small, Policy({}, constraints=declared), TABLE, "identity")
        yield Case(f"the best mechanism, {label} known", small, Policy({"x": line()}, constraints=declared), CDF)
    free = Policy({"y": public()}, constraints=["marginal(y)"])
    yield Case("a constraint that nothing hidden changes", small, free, TABLE, "identity")
    of_people = replace(free, unit=TWO_ROWS)
    yield Case("a constraint that nothing hidden changes, 2 rows a person", small, of_people, TABLE, "identity")
    hidden = Policy({}, presence="secret", constraints=["count(x < 1)"])
    yield Case("a constraint, presence secret", small, hidden, HISTOGRAM)
    overlapping = Policy({}, presence="secret", constraints=["count(x < 1)", "count(y = 'a')"])
    yield Case("overlapping counts, presence secret", small, overlapping, query("count", ()))
    eight, known = domain({"x": integers(0, 7, null=0)}), Policy(constraints=["range(x, 0, 3)"])
    yield Case("dawa, a marginal known", eight, known, RANGES, "dawa")


def data_aware(*, quick: bool) -> Iterator[Case]:
    """Programs of several stages on one axis and on two."""
    for name in DATA_AWARE:
        policy = Policy({"x": threshold(2)})
        yield Case(f"{name}, threshold", LONG, policy, RANGES, name, Fraction(2), rows=40)
        yield Case(f"{name}, presence only", LONG, Policy(presence="only"), HISTOGRAM, name, Fraction(2), rows=40)
        if not quick:
            yield Case(f"{name}, line, large table", LONG, Policy({"x": line()}), RANGES, name, Fraction(1), rows=400)
        if name != "dawa-bounded":
            square = SMALL_SQUARE if name == "matching-transform" else SQUARE
            yield Case(f"{name}, two axes", square, Policy({"x": line()}), TABLE, name, Fraction(2), rows=40)
    yield Case("auto", LONG, Policy({"x": line()}), RANGES, "auto", Fraction(1))


def data_aware_elsewhere() -> Iterator[Case]:
    """Programs where records leave a filter, where NULL is hidden, for people, and on graphs without windows."""
    filtered = query("histogram", "x", Column("y") == "a")
    for name in ("dawa", "dawa-transform", "kdtree", "matching-transform", "gated"):
        yield Case(f"{name}, filter", TWO_LONG, Policy({"x": line()}), filtered, name, Fraction(2), rows=40)
    with_null = domain({"x": integers(0, 14)})
    yield Case("dawa, NULL hidden", with_null, Policy({"x": line()}), HISTOGRAM, "dawa", Fraction(2), rows=40)
    people = Policy({"x": line()}, unit=TWO_ROWS)
    yield Case("kdtree, 2 rows a person", SMALL_SQUARE, people, TABLE, "kdtree", Fraction(2), rows=40)
    yield Case("gated, 2 rows a person", LONG, people, RANGES, "gated", Fraction(2), rows=40)
    secret = Policy({"x": line()}, presence="secret")
    yield Case("gated, presence secret", SMALL_SQUARE, secret, TABLE, "gated", Fraction(2), rows=40)
    known = Policy(constraints=["range(x, 0, 1)"])
    yield Case("gated, a range known", LONG, known, RANGES, "gated", Fraction(2), rows=40)
    yield Case("kdtree, a range known", SMALL_SQUARE, known, TABLE, "kdtree", Fraction(2), rows=40)
    odd = Policy({"x": custom([(cell, cell + 5) for cell in range(11)])})
    yield Case("dawa, custom", LONG, odd, RANGES, "dawa", Fraction(2), rows=40)
    near = Policy(joint=[grid(["x", "y"], 2, "l1")])
    yield Case("kdtree, joint l1", SMALL_SQUARE, near, TABLE, "kdtree", Fraction(2), rows=40)


SETTINGS = {
    "hierarchy": "fan_out=3",
    "ordered-hierarchical": "fan_out=2, split=0.7",
    "dawa": "split=0.5",
    "dawa-bounded": "split=0.4, bias=0.1",
    "dawa-transform": "split=0.1",
    "matching-transform": "rounds=1, split=0.3, caution=0",
    "adaptive-tree": "growth=0.5, halvings=2, records=1, clearance=1",
    "gated": "split=0.3",
    "kdtree": "split=0.7, boxes=16, clearance=1, records=4",
}
"""Every parameter away from its default."""


def with_parameters() -> Iterator[Case]:
    """Mechanisms whose parameters were all set."""
    policy = Policy({"x": threshold(3)})
    for name, text in SETTINGS.items():
        yield Case(f"{name}, {text}", LONG, policy, RANGES, name, Fraction(2), rows=40, parameters=text)


def long_axes() -> Iterator[Case]:
    """Short axes, certified as long ones are: by sweeping over them instead of listing edges."""
    half = Fraction(1, 2)
    for family in ("threshold", "full", "line"):
        policy = Policy({"x": FAMILIES[family]})
        for name in ("hierarchy", "ordered"):
            yield Case(f"{name} by structure, {family}, ranges", ONE, policy, RANGES, name, half, by_structure=True)
    hidden = Policy({"x": threshold(2)})
    for name in ("hierarchy", "ordered"):
        yield Case(f"{name} by structure, NULL and outside hidden", SPECIAL, hidden, CDF, name, by_structure=True)
    known = Policy(constraints=["range(x, 0, 3)"])
    for name in ("identity", "hierarchy", "ordered"):
        yield Case(f"{name} by structure, a range known", ONE, known, CDF, name, by_structure=True)


def other_releases() -> Iterator[Case]:
    """Sums, means, quantiles, awkward prices and synopses."""
    kinds: tuple[Kind, ...] = ("sum", "mean")
    for kind in kinds:
        yield Case(f"{kind}, threshold", ONE, Policy({"x": threshold(3)}), query(kind, "x"))
        filtered = query(kind, "x", Column("y") == "b")
        yield Case(f"{kind}, filter", TWO, Policy({"x": line()}), filtered)
    awkward = Fraction(333_333_333_331, 10**12)
    yield Case("a price of twelve places", ONE, Policy({"x": threshold(3)}), HISTOGRAM, "identity", awkward)
    yield Case("a tiny price", ONE, Policy({"x": threshold(3)}), RANGES, "hierarchy", Fraction(1, 997))
    yield Case("a large price", ONE, Policy({"x": threshold(3)}), HISTOGRAM, "identity", Fraction(31, 3))
    for name in ("identity", "ordered", "edge-transform"):
        yield Case(f"{name}, an accuracy", ONE, Policy({"x": threshold(3)}), CDF, name, within=Fraction(90))
    median = Query("quantiles", as_axes("x"), levels=levels_of(["0.25", "0.5"]))
    yield Case("quantiles", ONE, Policy({"x": threshold(2)}), median)
    weighted = query("linear", "x", linear=[[2, -1, *[0] * (ONE["x"].size - 2)], list(range(ONE["x"].size))])
    yield Case("weighted sums", ONE, Policy({"x": threshold(2)}), weighted)
    columns = [Aggregate("count"), Aggregate("sum", ("x",)), Aggregate("mean", ("x",)), Aggregate("stddev", ("x",))]
    yield Case("a table of aggregates", ONE, Policy({"x": threshold(2)}), query("table", aggregates=columns))
    by_group = query("table", "y", Column("x") > 0, aggregates=columns[:3])
    yield Case("a table of aggregates by groups", TWO, Policy({"x": line()}), by_group)
    yield Case("synopsis", ONE, Policy({"x": threshold(2)}), HISTOGRAM, as_synopsis=True)
    yield Case("synopsis of parts", ONE, Policy({"x": FAMILIES["partition"]}), HISTOGRAM, as_synopsis=True)
    filtered = query("histogram", "x", Column("x") >= 2)
    yield Case("synopsis of a filter", ONE, Policy({"x": FAMILIES["partition"]}), filtered, as_synopsis=True)
    yield Case("synopsis by dawa", LONG, Policy({"x": threshold(2)}), HISTOGRAM, "dawa", Fraction(2), as_synopsis=True)


def choices() -> Iterator[Case]:
    """Names of groups and quantiles by rank, which are chosen at once."""
    medians = Query("quantiles", as_axes("x"), levels=levels_of(["0.25", "0.5"]))
    by_group = query("table", "y", aggregates=[Aggregate("quantile", ("x",), level=Fraction(1, 2))])
    asked = {
        "the two largest groups": Query("selection", as_axes("x"), most=2),
        "groups above a count": Query("selection", as_axes("x"), above=3),
        "quantiles by rank": medians,
        "quantiles by rank by groups": by_group,
    }
    few = domain({"x": integers(0, 4, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
    hidden = domain({"x": integers(0, 4), "y": categorical(["a", "b"], null="a", outside="a")})
    policies = {
        "line": (few, Policy({"x": line()})),
        "presence secret": (few, Policy({"x": threshold(2)}, presence="secret")),
        "NULL hidden": (hidden, Policy({"x": line()})),
    }
    for (name, question), (label, (declared, policy)) in itertools.product(asked.items(), policies.items()):
        mechanism = None if question.kind == "selection" else "exponential-quantiles"
        yield Case(f"{name}, {label}", declared, policy, question, mechanism)


def points() -> Iterator[Case]:
    """Weights on the points of a grid, for k-means."""
    policies = {
        "threshold": Policy({"x": threshold(2)}),
        "record": Policy({"x": threshold(2), "y": line()}),
        "attribute": Policy({"x": threshold(2), "y": line()}, "attribute"),
        "joint": Policy(joint=[grid(["x", "y"], 2, "l1")]),
        "joint l2": Policy(joint=[grid(["x", "y"], "4.3", "l2")]),
        "presence secret": Policy({"x": threshold(1), "y": threshold(1)}, presence="secret"),
        "partition": Policy({"x": partition(cuts=[4]), "y": line()}),
        "a range known": Policy(constraints=["range(x, 0, 3)"]),
        "people": Policy({"x": line(), "y": line()}, unit=TWO_ROWS),
    }
    for label, policy in policies.items():
        yield Case(f"weights on points, {label}", SQUARE, policy, query("points", ("x", "y"), clusters=2, rows=40))
    filtered = query("points", "x", Column("y") >= 4, clusters=2, rows=40)
    yield Case("weights on points, filter", SQUARE, Policy({"x": line(), "y": line()}), filtered)


def accounts() -> Iterator[Case]:
    """Loss counted per class of edges over several releases."""
    y, kind = Column("y"), query("histogram", "y")
    by_parts = Policy({"y": partition([["a", "b"], ["c"]]), "x": line()})
    of_parts = (
        query("histogram", "x", y.isin(["a", "b"])),
        query("cdf", "x", y == "c"),
        query("count", (), (y == "c") & (Column("x") >= 2)),
        kind,
    )
    by_attribute = Policy({"x": threshold(2)}, "attribute")
    presence = Policy({"x": public(), "y": public()}, "attribute", "secret")
    hidden = Policy({"x": line()}, "attribute", "secret")
    tied = Policy({}, "attribute", constraints=["count(x < 1 and y = 'a')"])
    counts = tuple(query("count", (), y == value) for value in ("a", "b"))
    cases: dict[str, tuple[Policy, str, tuple[Query, ...]]] = {
        "per-edge accounting": (by_attribute, PER_EDGE, (HISTOGRAM, kind, TABLE, CDF)),
        "per-edge by parts": (by_parts, f"{BY}y", (query("histogram", "x", y == "c"), *of_parts)),
        "per-edge, nothing but presence": (presence, PER_EDGE, (HISTOGRAM, kind, TABLE)),
        "per-edge, filters": (by_attribute, PER_EDGE, (kind, *counts)),
        "per-edge, presence secret": (hidden, PER_EDGE, (HISTOGRAM, kind, TABLE)),
        "per-edge, a count known": (tied, PER_EDGE, (HISTOGRAM, kind)),
    }
    for name, (policy, accounting, (first, *further)) in cases.items():
        yield Case(name, TWO, policy, first, "identity", accounting=accounting, further=tuple(further))
