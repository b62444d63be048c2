"""Answers to look at: small real releases of every kind, and random ones with hostile words in them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.release import PlanRelease
from blowfishdb.inference.consistency import Consistent
from blowfishdb.model.query import Query
from blowfishdb.plan.certificate import Certificate
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, Bounds, single

DOMAIN = bf.domain(
    {
        "age": bf.integers(0, 99, null=0),
        "cost": bf.bins(0, 500, width=10),
        "ward": bf.categorical(["A1", "A2", "B$1"]),
        "low": bf.categorical(["yes", "no"], null="no", outside="no"),
        "admitted": bf.dates("2024-01-01", "2024-12-31", null="2024-01-01"),
    }
)
POLICY = bf.Policy({"age": bf.threshold(5)})
WARD = bf.col("ward")
QUESTIONS: dict[str, Query] = {
    "count": bf.query("count", where=WARD == "A1"),
    "histogram": bf.query("histogram", bf.col("age").bins(10)),
    "fine histogram": bf.query("histogram", "age", where=WARD == "A1"),
    "calendar": bf.query("histogram", "admitted"),
    "names": bf.query("histogram", "ward"),
    "cdf": bf.query("cdf", "age", where=WARD == "A1"),
    "cdf beside NULL": bf.query("cdf", "cost"),
    "plane": bf.query("histogram2d", [bf.col("age").bins(20), "ward"]),
    "ranges": bf.query("ranges", "age", boxes=[((0, 10),), ((10, 60),), ((3, 4),)]),
    "boxes": bf.query("ranges", [bf.col("age").bins(20), "cost"], boxes=[((0, 2), (0, 9)), ((1, 5), (3, 4))]),
    "marginals": bf.query("marginals", ["ward", "low"], subsets=[["ward"], ["low", "ward"]]),
    "three attributes": bf.query("histogram", [bf.col("age").bins(50), "ward", "low"]),
}


@cache
def released(name: str) -> Answer:
    """A real release of made-up counts, so large that noise that shows among them has odds below 10^-12."""
    compiled = bf.compile_query(DOMAIN, POLICY, QUESTIONS[name])
    best = bf.quote(compiled.problem, 60, 0.05, {"identity": bf.MECHANISMS["identity"]}).best
    counts = 800 + (np.arange(compiled.problem.graph.cells, dtype=np.int64) * 37) % 501
    words = bf.explain(DOMAIN, POLICY)
    answer = PlanRelease(compiled, best).answer(counts)
    return replace(answer, dataset="visits", policy_version=2, protected=words, released="2026-01-02T03:04:05+00:00")


def constructed(
    labels: list[str], values: list[float], width: float = 5.0, kind: str = "histogram", title: str = "A title"
) -> Answer:
    """An answer with the given labels and values, all within `width`."""
    numbers = np.array(values, dtype=np.float64)
    return Answer(
        kind=kind,
        title=title,
        tables=single("age", labels),
        raw=numbers,
        consistent=Consistent(numbers, True, ""),
        widths=HalfWidths(np.full(numbers.size, width / 2), width),
        beta=0.05,
        mechanism="identity",
        certificate=Certificate(Fraction(41, 100), (0, 1), True, "a" * 64, "b" * 64),
    )


def on_a_line(values: list[float], width: float = 5.0) -> Answer:
    """An answer about the numbers 0, 1, 2, ... with the given values."""
    labels = tuple(map(str, range(len(values))))
    axis = AnswerAxis("age", labels, len(labels), tuple(map(float, range(len(labels) + 1))))
    return replace(constructed(list(labels), values, width), tables=(AnswerTable((axis,)),))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Halves of surrogate pairs come into no answer: tests/engine/test_request.py."""
NUMBERS = st.floats(-1e300, 1e300)
"""Declared numbers have at most some twenty digits, so that no sum of them and its interval come near to infinity."""


@st.composite
def axes(draw: st.DrawFn) -> AnswerAxis:
    labels = tuple(draw(st.lists(TEXT, min_size=1, max_size=4)))
    plain = draw(st.integers(0, len(labels)))
    edges = tuple(draw(st.lists(NUMBERS, min_size=plain + 1, max_size=plain + 1))) if draw(st.booleans()) else ()
    return AnswerAxis(draw(TEXT), labels, plain, edges, draw(st.booleans()))


@st.composite
def answers(draw: st.DrawFn, values: st.SearchStrategy[float] = NUMBERS) -> Answer:
    """Answers that contradict themselves in every way but their sizes."""
    tables = tuple(
        AnswerTable(tuple(own), True)
        for own in draw(st.lists(st.lists(axes(), min_size=1, max_size=2), min_size=1, max_size=2))
    )
    size = sum(table.size for table in tables)

    def numbers() -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype=np.float64)

    def bounds() -> Bounds | None:
        return Bounds(*np.sort([numbers(), numbers()], axis=0)) if draw(st.booleans()) else None

    kinds = ["histogram", "count", "ranges", "marginals"] + ["cdf"] * ([len(table.axes) for table in tables] == [1])
    witness = draw(st.none() | st.tuples(st.integers(-1, 9), st.integers(-1, 9)))
    epsilon = draw(st.fractions(min_value=0))
    return Answer(
        kind=draw(st.sampled_from(kinds)),
        title=draw(TEXT),
        tables=tables,
        raw=numbers(),
        consistent=Consistent(numbers(), draw(st.booleans()), draw(TEXT)),
        widths=HalfWidths(numbers(), draw(values)),
        beta=draw(st.floats(1e-9, 0.999)),
        mechanism=draw(TEXT),
        certificate=Certificate(epsilon, witness, draw(st.booleans()), draw(TEXT), draw(TEXT)),
        dataset=draw(TEXT),
        policy_version=draw(st.none() | st.integers(1, 10**6)),
        protected=tuple(draw(st.lists(TEXT, max_size=2))),
        unprotected=tuple(draw(st.lists(TEXT, max_size=2))),
        released=draw(TEXT),
        simultaneous=bounds(),
        pointwise=bounds(),
    )
