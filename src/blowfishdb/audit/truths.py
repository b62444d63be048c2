"""Answers without noise: with every draw 0, whatever two analysts ask in whatever order must be the truth of the rows.

A release that counts other records than it says, reads an answer off the wrong cells or takes another question's rows
for its own is certified correctly and wrong all the same; only the numbers show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.audit.report import CheckLine, broken, judged
from blowfishdb.audit.scratch import Scratch, TableRow, replaced, scratch, taped
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, charged_payload, decode, prepare
from blowfishdb.engine.compile import ANALYSTS
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.errors import BlowfishError, Declined
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import categorical, domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, full, line, partition
from blowfishdb.model.predicate import Column
from blowfishdb.model.query import Part, Query, query
from blowfishdb.noise.coupling import draw_between, draw_coarser

VALUES, LETTERS, RECORDS = 4, ("a", "b", "c"), 40
DECLARED = domain({"x": integers(0, VALUES - 1), "y": categorical(LETTERS, null="a", outside="a")})
POLICIES = {
    "full": Policy({"x": full()}),
    "line": Policy({"x": line()}),
    "partition, presence secret": Policy({"x": partition(cuts=[2]), "y": full()}, presence="secret"),
}
WITHIN = (Fraction(4), Fraction(12), Fraction(40))
CLOSE = 1e-6

Record = tuple[int | None, str]
Truth = Callable[[Sequence[Record]], list[float]]


def _by_x(records: Sequence[Record]) -> list[float]:
    return [float(sum(x == value for x, _ in records)) for value in (*range(VALUES), None)]


def _by_y(records: Sequence[Record]) -> list[float]:
    return [float(sum(y == letter for _, y in records)) for letter in LETTERS]


def _running(records: Sequence[Record]) -> list[float]:
    *plain, null = _by_x(records)
    return [*np.cumsum(plain).tolist(), null]


def _summed(records: Sequence[Record]) -> float:
    return float(sum(x for x, _ in records if x is not None))


def _of(truth: Truth, keeps: Callable[[Record], bool]) -> Truth:
    return lambda records: truth([record for record in records if keeps(record)])


def _columns(records: Sequence[Record]) -> list[float]:
    """The columns of COLUMNS for each letter."""
    groups = [[record for record in records if record[1] == letter] for letter in LETTERS]
    few = [float(sum(x is not None and x < 2 for x, _ in group)) for group in groups]
    return [*map(float, map(len, groups)), *map(_summed, groups), *few]


X, Y = Column("x"), Column("y")
COLUMNS = [Aggregate("count"), Aggregate("sum", ("x",)), Aggregate("count", where=X < 2, name="few")]
WEIGHTS = [[1, -2, 0, 3, 0], [0, 0, 5, 0, 1]]
QUESTIONS: tuple[tuple[Query, Truth], ...] = (
    (query("histogram", "x"), _by_x),
    (query("histogram", "x", Y == "a"), _of(_by_x, lambda record: record[1] == "a")),
    (query("histogram", "x", Y == "b"), _of(_by_x, lambda record: record[1] == "b")),
    (query("histogram", "x", ~(Y == "b")), _of(_by_x, lambda record: record[1] != "b")),
    (query("cdf", "x"), _running),
    (query("cdf", "x", Y == "c"), _of(_running, lambda record: record[1] == "c")),
    (query("count"), lambda records: [float(len(records))]),
    (query("count", (), X < 2), lambda records: [sum(_by_x(records)[:2])]),
    (query("count", (), ~(X < 2)), lambda records: [sum(_by_x(records)[2:-1])]),
    (query("count", (), X.is_null()), lambda records: _by_x(records)[-1:]),
    (
        query("histogram", X.bins(2)),
        lambda records: [sum(_by_x(records)[low : low + 2]) for low in (0, 2)] + _by_x(records)[-1:],
    ),
    (query("histogram", "y"), _by_y),
    (query("histogram", "y", X >= 2), _of(_by_y, lambda record: record[0] is not None and record[0] >= 2)),
    (
        query("histogram2d", ("x", "y")),
        lambda records: [float(records.count((x, y))) for x in (*range(VALUES), None) for y in LETTERS],
    ),
    (query("marginals", ("x", "y"), ways=1), lambda records: [*_by_x(records), *_by_y(records)]),
    (query("ranges", "x", boxes=[((0, 3),), ((2, 4),)]), lambda r: [sum(_by_x(r)[:3]), sum(_by_x(r)[2:4])]),
    (query("sum", "x"), lambda records: [_summed(records)]),
    (query("sum", "x", Y == "a"), _of(lambda records: [_summed(records)], lambda record: record[1] == "a")),
    (query("mean", "x"), lambda records: [_summed(records) / sum(x is not None for x, _ in records)]),
    (query("linear", "x", linear=WEIGHTS), lambda r: [float(np.dot(row, _by_x(r))) for row in WEIGHTS]),
    (query("table", "y", aggregates=COLUMNS), _columns),
    (query("table", "y", ~(X == 1), aggregates=COLUMNS), _of(_columns, lambda record: record[0] not in (None, 1))),
)
ALIKE = tuple((1, place) for place in (1, 2, 3, 7, 8, 9))
"""Questions that differ in their filter alone, which one analyst asks first, all within the same."""
TOGETHER = ((0, 1, 12), (4, 8, 11), (13, 2))
"""Questions, by their place, that are asked as one."""


def truth_lines(*, quick: bool, seed: int) -> Iterator[CheckLine]:
    """Every question by two analysts at several accuracies, alone and together, over rows that are known."""
    rounds = 1 if quick else 6
    for label, policy in list(POLICIES.items())[: 1 if quick else None]:
        random = np.random.default_rng([seed, len(label), 16])
        records = [_record(random) for _ in range(RECORDS)]
        with scratch(DECLARED, policy) as world, _without_noise():
            world.fill([_row(x, y) for x, y in records])
            violations = [
                violation
                for _ in range(rounds)
                for number, place in (*ALIKE, *enumerate(random.permutation(len(QUESTIONS) + len(TOGETHER)).tolist()))
                for violation in _asked(world, place, records, number)
            ]
        summary = "every number is that of the rows"
        yield judged(f"answers without noise, {label}", "truth", violations, summary, rounds * len(QUESTIONS))


def _record(random: np.random.Generator) -> Record:
    x = int(random.integers(VALUES + 1))
    return (None if x == VALUES else x), LETTERS[random.integers(len(LETTERS))]


def _row(x: int | None, y: str) -> TableRow:
    return {"x": x, "y": y}


@contextmanager
def _without_noise() -> Iterator[None]:
    """All noise is 0, and a level is drawn at the finer one next to it."""

    def coarser(values: Ints, *_: object) -> Ints:
        return values

    def between(fine: Ints, *_: object) -> Ints:
        return fine

    with taped() as tape, replaced({draw_coarser: coarser, draw_between: between}):
        tape.play([])
        yield


def _asked(world: Scratch, place: int, records: Sequence[Record], number: int) -> Iterator[str]:
    """What is wrong with the answer to a question, or to several as one; later ones may be read off earlier ones."""
    analyst = "ana" if number % 4 else "bob"
    within = WITHIN[number * len(WITHIN) // (len(QUESTIONS) + len(TOGETHER))]
    target = accuracy_target(alpha=within)
    chosen = QUESTIONS[place : place + 1]
    question = chosen[0][0] if chosen else None
    if question is None:
        chosen = tuple(QUESTIONS[one] for one in TOGETHER[place - len(QUESTIONS)])
        parts = [Part(one, within * (times + 1), target.beta) for times, (one, _) in enumerate(chosen)]
        question = Query("joint", parts=tuple(parts))
    elif question.kind == "mean":
        question = replace(question, rows=RECORDS)
    try:
        answer = _answer(world, question, target, analyst)
    except Declined:
        return
    except BlowfishError as failure:
        yield f"{question.kind}: the release failed: {failure.code}"
        return
    answers = answer.parts or (answer,)
    for (one, truth), each in zip(chosen, answers, strict=True):
        wanted = truth(records)
        is_true = each.values.size == len(wanted) and np.allclose(each.values, wanted, rtol=0.0, atol=CLOSE)
        yield from broken({f"a {one.kind} is not that of the rows although no noise was drawn": not is_true})


def _answer(world: Scratch, question: Query, target: AccuracyTarget, analyst: str) -> Answer:
    handle = replace(world.handle, sharing=ANALYSTS, read_only=True)
    request = make_request(handle, question, target)
    release = prepare(handle, request)
    answer = decode(charged_payload(world.ledger, handle, analyst, request.digest, lambda: release, Run()))
    if not isinstance(answer, Answer):
        raise TypeError("a question that is answered leads to an answer")
    return answer
