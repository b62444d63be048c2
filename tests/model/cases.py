"""Random small domains, policies and queries."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import assume
from hypothesis import strategies as st

from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers, bins, categorical, integers
from blowfishdb.model.policy import (
    Family,
    Grid,
    Joint,
    Policy,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Both, Comparison, Either, IsNull, IsOutside, Member, Negation, Predicate


@st.composite
def attributes(draw: st.DrawFn, numeric: bool = False, most: int = 6) -> Attribute:
    kind = draw(st.sampled_from(["integers", "regular", "irregular"] + ([] if numeric else ["names", "ordered"])))
    size = draw(st.integers(1, most))
    null = draw(st.sampled_from(["none", "universal", "public"]))
    outside = draw(st.sampled_from(["none", "universal", "public"] if null == "none" else ["none", null]))
    has = {"null_public": null == "public", "outside_public": outside == "public"}
    if kind in ("names", "ordered"):
        names = ["a", "b", "c", "d", "e", "f"][:size]
        target = "cell" if null != "none" else names[0]
        other = "cell" if outside != "none" else names[-1]
        return categorical(names, kind == "ordered", null=target, outside=other, **has)
    where = "cell" if outside != "none" else "clamp"
    if kind == "integers":
        low = draw(st.integers(-3, 3))
        return integers(low, low + size - 1, null="cell" if null != "none" else low, outside=where, **has)
    if kind == "regular":
        return bins(0, Fraction(size, 2), width="0.5", null="cell" if null != "none" else 0, outside=where, **has)
    gaps = draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    edges = [Fraction(sum(gaps[:k]), 2) for k in range(size + 1)]
    return bins(edges=edges, null="cell" if null != "none" else edges[0], outside=where, **has)


def a_value(attribute: Attribute, code: int) -> object:
    """A value the attribute's index_of or locate understands."""
    if isinstance(attribute, Categorical):
        return attribute.values[code]
    if isinstance(attribute, Integers):
        return attribute.low + code
    assert isinstance(attribute, Bins)
    return attribute.edge(code)


@st.composite
def families(draw: st.DrawFn, attribute: Attribute) -> Family:
    kinds = ["full", "public", "blocks", "custom"]
    if attribute.ordered:
        kinds += ["line", "threshold", "cuts", "threshold"]
    kind = draw(st.sampled_from(kinds))
    size = attribute.size
    if kind == "threshold":
        exact = st.fractions(Fraction(1, 8), 4, max_denominator=8)
        return threshold(draw(exact if isinstance(attribute, Bins) else st.integers(1, 4)))
    if kind == "cuts" and size > 1:
        cuts = draw(st.sets(st.integers(1, size - 1), min_size=1))
        return partition(cuts=[a_value(attribute, cut) for cut in sorted(cuts)])
    if kind == "blocks":
        labels = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        return partition([[a_value(attribute, i) for i in range(size) if labels[i] == k] for k in sorted(set(labels))])
    if kind == "custom":
        ends = st.integers(0, size - 1)
        pairs = draw(st.lists(st.tuples(ends, ends), max_size=5))
        return custom([[a_value(attribute, a), a_value(attribute, b)] for a, b in pairs])
    return {"public": public(), "line": line()}.get(kind, full())


def listed_joint(draw: st.DrawFn, domain: Domain) -> Joint:
    """Blocks of combinations of x and y, or a few pairs of them."""
    places = list(itertools.product(*(range(domain[name].size) for name in "xy")))
    combinations = [tuple(a_value(domain[name], i) for name, i in zip("xy", place, strict=True)) for place in places]
    if draw(st.booleans()):
        labels = draw(st.lists(st.integers(0, 2), min_size=len(places), max_size=len(places)))
        named = list(zip(combinations, labels, strict=True))
        return joint("xy", partition([[one for one, label in named if label == k] for k in sorted(set(labels))]))
    ends = st.sampled_from(combinations)
    return joint("xy", custom(draw(st.lists(st.tuples(ends, ends), max_size=5))))


@st.composite
def settings_of(draw: st.DrawFn, most_records: int = 48) -> tuple[Domain, Policy]:
    """A domain of few records and a policy for it."""
    is_joint = draw(st.booleans())
    count = draw(st.integers(2 if is_joint else 1, 3))
    declared = [draw(attributes(numeric=is_joint and place < 2, most=6 if count < 3 else 3)) for place in range(count)]
    names = ("x", "y", "z")[:count]
    domain = Domain(tuple(zip(names, declared, strict=True)))
    assume(domain.size <= most_records)
    grids: list[Grid | Joint] = []
    if is_joint and draw(st.booleans()):
        grids.append(listed_joint(draw, domain))
    elif is_joint:
        theta = draw(st.fractions(Fraction(1, 4), 4, max_denominator=4))
        grids.append(grid(["x", "y"], theta, draw(st.sampled_from(["l1", "l2", "linf"]))))
    alone = names[2:] if is_joint else names
    policy = Policy(
        {name: draw(families(domain[name])) for name in alone},
        composition=draw(st.sampled_from(["record", "attribute"])),
        presence=draw(st.sampled_from(["public", "public", "public", "secret", "only"])),
        joint=grids,
    )
    return domain, policy


@st.composite
def conditions(draw: st.DrawFn, domain: Domain) -> Predicate:
    """One comparison, perhaps negated."""
    name = draw(st.sampled_from(domain.names))
    attribute = domain[name]
    code = draw(st.integers(0, attribute.size - 1))
    options: list[Predicate] = []
    if attribute.ordered:
        operators = ["<", ">="] if isinstance(attribute, Bins) else ["<", "<=", ">", ">="]
        options.append(Comparison(name, draw(st.sampled_from(operators)), a_value(attribute, code)))  # type: ignore[arg-type]
    if not isinstance(attribute, Bins):
        listed = draw(st.sets(st.integers(0, attribute.size - 1), max_size=4))
        options.append(Member(name, tuple(a_value(attribute, i) for i in sorted(listed))))
        options.append(Comparison(name, "==", a_value(attribute, code)))
    kinds = {slot.name for slot in attribute.slots}
    options += [IsNull(name)] * ("NULL" in kinds) + [IsOutside(name)] * ("outside" in kinds)
    chosen = draw(st.sampled_from(options))
    return Negation(chosen) if draw(st.booleans()) else chosen


@st.composite
def conjunctions(draw: st.DrawFn, domain: Domain) -> Predicate | None:
    found: Predicate | None = None
    for part in draw(st.lists(conditions(domain), max_size=3)):
        found = part if found is None else Both(found, part)
    return found


@st.composite
def predicates(draw: st.DrawFn, domain: Domain) -> Predicate:
    combine = lambda inner: st.builds(Both, inner, inner) | st.builds(Either, inner, inner) | st.builds(Negation, inner)  # noqa: E731
    return draw(st.recursive(conditions(domain), combine, max_leaves=5))


@st.composite
def axes_of(draw: st.DrawFn, domain: Domain, in_order: bool) -> list[Axis]:
    """Groups over some of the attributes; unless `in_order`, also named groups of any values, NULL and outside."""
    axes = []
    for name in draw(st.lists(st.sampled_from(domain.names), unique=True, max_size=len(domain.names))):
        attribute, kinds = domain[name], ["native"]
        if attribute.ordered:
            kinds += ["width", "edges"]
        if not in_order:
            kinds.append("groups")
        kind = draw(st.sampled_from(kinds))
        if kind == "width" and not (isinstance(attribute, Bins) and attribute.width is None):
            steps = draw(st.integers(1, 3))
            width = steps * attribute.width if isinstance(attribute, Bins) and attribute.width else steps
            axes.append(Axis(name, width=width))
        elif kind == "edges" and attribute.size > 1 and not isinstance(attribute, Categorical):
            cuts = sorted(draw(st.sets(st.integers(0, attribute.size - 1), min_size=2, max_size=4)))
            axes.append(Axis(name, edges=tuple(a_value(attribute, cut) for cut in cuts)))
        elif kind == "groups":
            values = [*(a_value(attribute, i) for i in range(attribute.size)), *(slot.name for slot in attribute.slots)]
            labels = draw(st.lists(st.integers(-1, 2), min_size=len(values), max_size=len(values)))
            groups = [
                (str(k), tuple(value for value, label in zip(values, labels, strict=True) if label == k))
                for k in sorted(set(labels) - {-1})
            ]
            axes.append(Axis(name, groups=tuple(groups)) if groups else Axis(name))
        else:
            axes.append(Axis(name))
    return axes
