"""Domains and policies that are nearly right."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.fuzz.grammar import bent, bent_object, numbers, texts

NAMES = st.sampled_from(["age", "ward", "cost", "day", "at", "ag", ""]) | texts()
SMALL = st.integers(-3, 12)
NUMBER = SMALL | st.sampled_from(["0.1", "1/3", "5", "-2", "1e3", "0"]) | numbers()
DATE = st.sampled_from(["2024-01-01", "2024-02-29", "2023-02-29", "2024-03-31", "0001-01-01", "9999-12-31", "today"])
MOMENT = DATE | st.sampled_from(["2024-01-01T00:00:00", "2024-01-01T05:00:00", "2024-01-02T00:00:00+05:00", "T"])
VALUES = st.sampled_from(["A1", "A2", "A3"]) | st.integers(0, 5) | st.booleans() | texts()
BESIDE = {
    "null": st.just("cell") | VALUES | SMALL,
    "outside": st.sampled_from(["cell", "clamp", "A1"]),
    "null_public": st.booleans(),
    "outside_public": st.booleans(),
}
ZONES = st.sampled_from(["UTC", "Europe/Rome", "America/New_York", "../passwd", "Europe", "Mars/Base"])

ATTRIBUTES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "integers": bent_object({"kind": st.just("integers"), "low": SMALL, "high": st.integers(0, 30)}, BESIDE),
    "categorical": bent_object(
        {"kind": st.just("categorical"), "values": st.lists(VALUES, max_size=4)}, {"ordered": st.booleans(), **BESIDE}
    ),
    "bins": bent_object(
        {"kind": st.just("bins")},
        {"low": NUMBER, "high": NUMBER, "width": NUMBER, "edges": st.lists(NUMBER, max_size=4), **BESIDE},
    ),
    "dates": bent_object(
        {"kind": st.just("dates"), "start": DATE, "end": DATE},
        {"by": st.sampled_from(["day", "week", "month", "quarter", "year", "hour"]), **BESIDE},
    ),
    "timestamps": bent_object(
        {"kind": st.just("timestamps"), "start": MOMENT, "end": MOMENT},
        {"by": st.sampled_from(["second", "minute", "hour", "day"]), "zone": ZONES, **BESIDE},
    ),
}
FAMILY = st.one_of(
    st.sampled_from(["full", "public", "line"]).map(lambda kind: {"kind": kind}),
    bent_object({"kind": st.just("threshold"), "theta": NUMBER | st.just("2 days")}, {}),
    bent_object(
        {"kind": st.just("partition")},
        {"blocks": st.lists(st.lists(VALUES, max_size=3), max_size=3), "cuts": st.lists(NUMBER, max_size=3)},
    ),
    bent_object({"kind": st.just("custom")}, {"edges": st.lists(st.lists(VALUES, min_size=1, max_size=3), max_size=4)}),
)
CONDITION = st.recursive(
    st.sampled_from(["age = 1", "ward = 'A1'", "age < 3", "cost >= 1.5", "day in ('2024-01-01')", "x is null"])
    | texts(),
    lambda inner: (
        st.tuples(inner, st.sampled_from([" and ", " or ", " "]), inner).map("".join)
        | inner.map(lambda text: f"not ({text})")
    ),
    max_leaves=4,
)
CONSTRAINT = st.one_of(
    CONDITION.map(lambda text: f"count({text})"),
    st.tuples(CONDITION, numbers()).map(lambda pair: f"count({pair[0]}) = {pair[1]}"),
    st.sampled_from(["rows", "rows = 100", "marginal(ward)", "marginal(ward, age)", "range(age, 1, 3)", "range(age)"]),
    bent_object(
        {"fact": st.just("marginal(ward)"), "values": st.lists(st.lists(VALUES, min_size=1, max_size=3), max_size=3)},
        {},
    ),
)
POLICY = bent_object(
    {},
    {
        "composition": st.sampled_from(["record", "attribute"]),
        "presence": st.sampled_from(["public", "secret", "only"]),
        "unit": bent_object({"person": NAMES, "at_most": SMALL, "order_by": NAMES}, {}),
        "attributes": st.dictionaries(NAMES, bent(FAMILY), max_size=3),
        "joint": st.lists(
            bent_object(
                {"attributes": st.lists(NAMES, max_size=3), "theta": NUMBER},
                {"metric": st.sampled_from(["l1", "l2", "linf"])},
            ),
            max_size=2,
        ),
        "constraints": st.lists(bent(CONSTRAINT), max_size=2),
    },
)
DOMAIN = st.dictionaries(NAMES, st.one_of(*ATTRIBUTES.values()), min_size=1, max_size=3)
DOCUMENT = bent_object({"version": st.just(1), "domain": DOMAIN}, {"policy": POLICY})
