"""What is audited when no dataset is named: every mechanism on every family of policies, and every special case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from blowfishdb.audit.cases import Case
from blowfishdb.ledger.values import BY, PER_EDGE
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.graphs import Composition, Metric, Presence
from blowfishdb.model.policy import (
    Family,
    Policy,
    custom,
    full,
    grid,
    line,
    metric,
    partition,
    person,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Column, as_axes
from blowfishdb.model.query import Kind, Query, levels_of, query

SPRING = timestamps("2024-03-30 22:00", "2024-03-31 08:00", zone="Europe/Berlin", null="2024-03-30 22:00")
AUTUMN = timestamps(
    "2024-04-07 01:29", "2024-04-07 02:02", "minute", zone="Australia/Lord_Howe", null="2024-04-07 01:29"
)


def changing_clocks() -> Iterator[Case]:
    """An hour that is skipped in Berlin, and half an hour that comes twice on Lord Howe Island."""
    for mechanism in ("ordered", "identity"):
        for season, column, theta in (("spring", SPRING, "10 minutes"), ("autumn", AUTUMN, "2 minutes")):
            policy = Policy({"x": threshold(theta)})
            name = f"{mechanism}, clocks change in {season}"
            yield Case(name, domain({"x": column}), policy, query("cdf", "x"), mechanism)


LENGTH = 12
ONE = domain({"x": integers(0, LENGTH - 1, null=0)})
TWO = domain({"x": integers(0, 3, null=0), "y": categorical(["a", "b", "c"], null="a", outside="a")})
SPECIAL = domain({"x": integers(0, 5, outside="cell"), "y": categorical(["a", "b"])})
LONG = domain({"x": integers(0, 15, null=0)})
TWO_LONG = domain({"x": integers(0, 15, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
SMALL_SQUARE = domain({"x": integers(0, 3, null=0), "y": integers(0, 3, null=0)})
SQUARE = domain({"x": integers(0, 7, null=0), "y": integers(0, 7, null=0)})


def _squared(one: object, two: object) -> int:
    """A distance that is no metric, which a policy may be read off all the same."""
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


def battery(*, quick: bool) -> list[Case]:
    """All cases; the quick ones leave out combinations that go the same way through the code as others do."""
    parts = (
        one_axis(quick=quick),
        two_axes(quick=quick),
        wide_tables(),
        joint(),
        filters_and_cells(),
        presence_and_people(),
        public_constraints(),
        data_aware(quick=quick),
        data_aware_elsewhere(),
        long_axes(),
        other_releases(),
        accounts(),
    )
    return [case for part in parts for case in part]


def one_axis(*, quick: bool) -> Iterator[Case]:
    """Every mechanism of one axis on every family."""
    usual = [name for name in MECHANISMS if name not in ("kronecker", "marginals")]
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
        for families, graphs in PAIRS.items():
            policy = Policy(graphs, composition)
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


def joint() -> Iterator[Case]:
    """Joint thresholds: places within a distance, in each metric."""
    small = domain(
        {"x": integers(0, 4, null=0), "y": bins(0, 5, width=1, null=0), "z": categorical(["a"], outside="a", null="a")}
    )
    for shape in METRICS:
        policy = Policy(joint=[grid(["x", "y"], 2, shape)])
        yield Case(f"identity, joint {shape}", small, policy, TABLE, "identity")
        yield Case(f"kronecker by structure, joint {shape}", small, policy, TABLE, "kronecker", by_structure=True)
        yield Case(f"hierarchy of one side, joint {shape}", small, policy, query("cdf", "x"), "hierarchy")
    filtered = query("histogram", "x", Column("y") >= 3)
    for shape in METRICS:
        near = Policy(joint=[grid(["x", "y"], 1, shape)])
        yield Case(f"filter on the other side, joint {shape}", small, near, filtered)


def filters_and_cells() -> Iterator[Case]:
    """Filters, the outside cell, NULL, clamped values, bins of unequal width, dates and coarse groups."""
    policy = Policy({"x": threshold(1)})
    for mechanism in ("ordered", "hierarchy", "identity"):
        yield Case(
            f"{mechanism}, filter on another attribute", TWO, policy, query("cdf", "x", Column("y") == "a"), mechanism
        )
        yield Case(
            f"{mechanism}, filter on the same attribute", ONE, policy, query("cdf", "x", Column("x") >= 4), mechanism
        )
    yield Case(
        "filter, public attribute", TWO, Policy({"y": public(), "x": line()}), query("cdf", "x", Column("y") == "b")
    )
    mixed = ~(Column("y") == "b") | (Column("x") < 2)
    yield Case("filter with or and not, NULL hidden", SPECIAL, Policy({"x": line()}), query("histogram", "x", mixed))
    yield Case("histogram of a filter", TWO, policy, query("histogram", "x", Column("y") == "a"), "identity")
    yield Case("count of a filter", SPECIAL, Policy({"x": line()}), query("count", (), Column("x") >= 3))
    for mechanism in ("ordered", "hierarchy", "identity"):
        yield Case(f"{mechanism}, NULL and outside hidden", SPECIAL, Policy({"x": line()}), CDF, mechanism)
    yield Case("ordered, NULL public", domain({"x": integers(0, 5, null_public=True)}), Policy({"x": line()}), CDF)
    upper = query("cdf", "x", Column("x") >= 2)
    yield Case("hierarchy, filter inside a block", ONE, Policy({"x": FAMILIES["partition"]}), upper, "hierarchy")
    low = query("cdf", "x", Column("x") < 4)
    yield Case("ordered, NULL beyond the filter", SPECIAL, Policy({"x": line()}), low, "ordered")
    yield Case("is null", SPECIAL, Policy({"x": line()}), query("histogram", "y", Column("x").is_null()))
    uneven = domain({"x": bins(edges=[0, 1, 3, 4, 8, 9, 20], null=0)})
    yield Case("ordered, uneven bins", uneven, Policy({"x": threshold("2.5")}), CDF, "ordered")
    yield Case("hierarchy, uneven bins", uneven, Policy({"x": threshold(4)}), RANGES, "hierarchy")
    yield Case("ordered, uneven bins at their distance", uneven, Policy({"x": threshold(3)}), CDF, "ordered")
    coarse = (Axis("x", width=5),)
    yield Case("ordered, groups of five", ONE, Policy({"x": threshold(3)}), Query("cdf", coarse), "ordered")
    wider = (Axis("x", edges=(2, 3, 7, 10)),)
    yield Case("hierarchy, groups between edges", ONE, Policy({"x": threshold(3)}), Query("cdf", wider), "hierarchy")
    months = domain({"x": dates("2024-01-30", "2024-05-02", "week", null="2024-02-01")})
    yield Case("ordered, weeks", months, Policy({"x": threshold("10 days")}), CDF, "ordered")
    hours = domain({"x": timestamps("2024-02-28 20:00", "2024-02-29 08:00", null="2024-02-28 21:00")})
    for span in ("2 hours", "90 minutes"):
        yield Case(f"ordered, hours within {span}", hours, Policy({"x": threshold(span)}), CDF, "ordered")
    yield from changing_clocks()
    days = domain({"x": dates("2024-02-20", "2024-03-20", null="2024-03-01")})
    yield Case(
        "hierarchy, days by month",
        days,
        Policy({"x": threshold("7 days")}),
        Query("histogram", (Axis("x", unit="month"),)),
    )


def presence_and_people() -> Iterator[Case]:
    """Rows that may be absent, and people with several rows."""
    for presence in PRESENCES:
        for mechanism in ("identity", "ordered", "hierarchy"):
            policy = Policy({"x": threshold(2)}, presence=presence)
            yield Case(f"{mechanism}, presence {presence}", ONE, policy, CDF, mechanism)
        told = Policy({"x": threshold(2)}, presence=presence)
        yield Case(f"histogram, presence {presence}", ONE, told, HISTOGRAM)
        both = Policy({}, "attribute", presence)
        yield Case(f"kronecker by structure, presence {presence}", TWO, both, TABLE, "kronecker", by_structure=True)
    for at_most in (1, 3):
        unit = person("who", at_most=at_most, order_by="nr")
        policy = Policy({"x": threshold(2)}, unit=unit)
        yield Case(f"ordered, {at_most} rows a person", ONE, policy, CDF, "ordered")
        yield Case(f"the best mechanism, {at_most} rows a person", TWO, Policy(unit=unit), TABLE)
    hidden = Policy({"x": line()}, presence="secret", unit=person("who", at_most=2, order_by="nr"))
    yield Case("hierarchy, 2 rows a person, presence secret", ONE, hidden, CDF, "hierarchy")
    yield Case(
        "dawa, 2 rows a person",
        LONG,
        Policy({"x": line()}, unit=person("who", at_most=2, order_by="nr")),
        RANGES,
        "dawa",
    )


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
    of_people = replace(free, unit=person("who", at_most=2, order_by="nr"))
    yield Case("a constraint that nothing hidden changes, 2 rows a person", small, of_people, TABLE, "identity")
    yield Case(
        "a constraint, presence secret", small, Policy({}, presence="secret", constraints=["count(x < 1)"]), HISTOGRAM
    )
    yield Case(
        "dawa, a marginal known",
        domain({"x": integers(0, 7, null=0)}),
        Policy(constraints=["range(x, 0, 3)"]),
        RANGES,
        "dawa",
    )


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
    for name in ("dawa", "dawa-transform", "kdtree", "matching-transform"):
        yield Case(f"{name}, filter", TWO_LONG, Policy({"x": line()}), filtered, name, Fraction(2), rows=40)
    with_null = domain({"x": integers(0, 14)})
    yield Case("dawa, NULL hidden", with_null, Policy({"x": line()}), HISTOGRAM, "dawa", Fraction(2), rows=40)
    people = Policy({"x": line()}, unit=person("who", at_most=2, order_by="nr"))
    yield Case("kdtree, 2 rows a person", SMALL_SQUARE, people, TABLE, "kdtree", Fraction(2), rows=40)
    known = Policy(constraints=["range(x, 0, 1)"])
    yield Case("kdtree, a range known", SMALL_SQUARE, known, TABLE, "kdtree", Fraction(2), rows=40)
    odd = Policy({"x": custom([(cell, cell + 5) for cell in range(11)])})
    yield Case("dawa, custom", LONG, odd, RANGES, "dawa", Fraction(2), rows=40)
    near = Policy(joint=[grid(["x", "y"], 2, "l1")])
    yield Case("kdtree, joint l1", SMALL_SQUARE, near, TABLE, "kdtree", Fraction(2), rows=40)


def long_axes() -> Iterator[Case]:
    """Short axes, certified as long ones are: by sweeping over them instead of listing edges."""
    for family in ("threshold", "full", "line"):
        policy = Policy({"x": FAMILIES[family]})
        for name in ("hierarchy", "ordered"):
            case_name = f"{name} by structure, {family}, ranges"
            yield Case(case_name, ONE, policy, RANGES, name, Fraction(1, 2), by_structure=True)
    hidden = Policy({"x": threshold(2)})
    for name in ("hierarchy", "ordered"):
        yield Case(f"{name} by structure, NULL and outside hidden", SPECIAL, hidden, CDF, name, by_structure=True)
    known = Policy(constraints=["range(x, 0, 3)"])
    for name in ("identity", "hierarchy"):
        yield Case(f"{name} by structure, a range known", ONE, known, CDF, name, by_structure=True)


def other_releases() -> Iterator[Case]:
    """Sums, means, quantiles, synopses and weights for k-means."""
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
    yield Case("synopsis", ONE, Policy({"x": threshold(2)}), HISTOGRAM, as_synopsis=True)
    yield Case("synopsis by dawa", LONG, Policy({"x": threshold(2)}), HISTOGRAM, "dawa", Fraction(2), as_synopsis=True)
    for label, policy in {
        "threshold": Policy({"x": threshold(2)}),
        "record": Policy({"x": threshold(2), "y": line()}),
        "attribute": Policy({"x": threshold(2), "y": line()}, "attribute"),
        "joint": Policy(joint=[grid(["x", "y"], 2, "l1")]),
        "joint l2": Policy(joint=[grid(["x", "y"], "4.3", "l2")]),
        "presence secret": Policy({"x": threshold(1), "y": threshold(1)}, presence="secret"),
        "partition": Policy({"x": partition(cuts=[4]), "y": line()}),
        "a range known": Policy(constraints=["range(x, 0, 3)"]),
        "people": Policy({"x": line(), "y": line()}, unit=person("who", at_most=2, order_by="nr")),
    }.items():
        yield Case(f"weights on points, {label}", SQUARE, policy, query("points", ("x", "y"), clusters=2, rows=40))
    filtered_points = query("points", "x", Column("y") >= 4, clusters=2, rows=40)
    yield Case("weights on points, filter", SQUARE, Policy({"x": line(), "y": line()}), filtered_points)


def accounts() -> Iterator[Case]:
    """Loss counted per class of edges over several releases."""
    other = (query("histogram", "y"), TABLE, query("cdf", "x"))
    by_attribute = Policy({"x": threshold(2)}, "attribute")
    yield Case("per-edge accounting", TWO, by_attribute, HISTOGRAM, "identity", accounting=PER_EDGE, further=other)
    parts = Policy({"y": partition([["a", "b"], ["c"]]), "x": line()})
    only_c = query("histogram", "x", Column("y") == "c")
    only_a = query("histogram", "x", Column("y").isin(["a", "b"]))
    yield Case(
        "per-edge by parts",
        TWO,
        parts,
        only_c,
        "identity",
        accounting=f"{BY}y",
        further=(
            only_a,
            query("cdf", "x", Column("y") == "c"),
            query("count", (), (Column("y") == "c") & (Column("x") >= 2)),
            query("histogram", "y"),
        ),
    )
    nothing_else = Policy({"x": public(), "y": public()}, "attribute", "secret")
    yield Case(
        "per-edge, nothing but presence",
        TWO,
        nothing_else,
        HISTOGRAM,
        "identity",
        accounting=PER_EDGE,
        further=other[:2],
    )
    counts = tuple(query("count", (), Column("y") == value) for value in ("a", "b"))
    kind = query("histogram", "y")
    yield Case("per-edge, filters", TWO, by_attribute, kind, "identity", accounting=PER_EDGE, further=counts)
    hidden = Policy({"x": line()}, "attribute", "secret")
    yield Case("per-edge, presence secret", TWO, hidden, HISTOGRAM, "identity", accounting=PER_EDGE, further=other[:2])
