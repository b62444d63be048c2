"""Questions and demands as JSON, nearly right."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.fuzz.grammar import bent, bent_object, numbers, plain, texts

ATTRIBUTE = st.sampled_from(["age", "ward", "cost", "id", "patient", "AGE"]) | texts()
VALUE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["A1", "A2", "A9", 0, 5, 99, 100, "5", "0.5", 250, True]),
    numbers(),
    texts(),
    st.tuples(
        st.sampled_from(["int", "float", "str", "bool", "Decimal", "Fraction", "date", "datetime", "bytes"]),
        st.sampled_from(["5", "1/3", "0.5", "nan", "sNaN", "-0", "1e999999999", "True", "2024-01-01", "9" * 60])
        | texts(),
    ).map(list),
)
AXIS = bent_object(
    {"attribute": st.sampled_from(["age", "ward", "cost"])},
    {
        "width": VALUE,
        "edges": st.lists(VALUE, max_size=4),
        "unit": st.sampled_from(["day", "week", "month", "year", "age"]),
        "groups": st.lists(st.tuples(texts(), st.lists(VALUE, max_size=3)).map(list), max_size=2),
    },
)
PLAIN_AXIS = st.sampled_from([{"attribute": name} for name in ("age", "ward")] + [{"attribute": "cost", "width": 50}])
ATOM = st.one_of(
    st.tuples(st.sampled_from(["==", "<", "<=", ">", ">="]), bent(st.sampled_from(["age", "ward", "cost"])), VALUE),
    st.tuples(st.just("isin"), ATTRIBUTE, st.lists(VALUE, max_size=4)),
    st.tuples(st.sampled_from(["IsNull", "IsOutside"]), ATTRIBUTE),
).map(list)
CONDITION = st.recursive(
    bent(ATOM, 12),
    lambda inner: (
        st.tuples(st.sampled_from(["Both", "Either"]), inner, inner).map(list)
        | inner.map(lambda part: ["Negation", part])
    ),
    max_leaves=5,
)
KIND = st.sampled_from(
    ["count", "histogram", "histogram2d", "cdf", "ranges", "marginals", "sum", "mean", "quantiles", "rows"]
)
LEVEL = st.sampled_from(["0.5", "1/4", "0", "1", "2", "nan"]) | texts()
QUESTION = bent_object(
    {"kind": KIND, "axes": st.lists(PLAIN_AXIS | AXIS, max_size=2)},
    {
        "where": CONDITION,
        "boxes": st.lists(st.lists(st.lists(st.integers(-2, 12), max_size=3), max_size=2), max_size=3),
        "subsets": st.lists(st.lists(ATTRIBUTE, max_size=2), max_size=2),
        "ways": st.integers(-1, 3),
        "levels": st.lists(LEVEL, max_size=3),
    },
)
AMOUNT = (
    st.sampled_from(["1/10", "0.1", "1", "50", "1000000", 1, 0.5, "1e-14", "0", "-1", "1e15"]) | numbers() | texts()
)
TARGET = bent_object(
    {},
    {
        "alpha": AMOUNT,
        "epsilon": AMOUNT,
        "beta": st.sampled_from(["0.05", "0.5", "1e-15", "0", "1"]) | numbers(),
        "guarantee": st.sampled_from(["simultaneous", "per-query", "none"]),
        "mechanism": st.sampled_from(["identity", "hierarchy", "ordered", "dawa", "auto", "os.system"]) | texts(),
    },
)
USUAL_TARGET = st.sampled_from([{"epsilon": "1/10"}, {"alpha": "50"}, {"alpha": 3, "beta": 0.01}, {"epsilon": "1e-9"}])
ANY_TARGET = USUAL_TARGET | TARGET
ANYTHING = plain(8)
