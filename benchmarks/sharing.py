"""Epsilon and time with answers that share their noise, against paying for each by itself, on the shipped Adult table.

Views: seven views of age within 50, in several orders and all in one plan. With the most expensive first, or in a plan,
the others are free; from the coarsest to the finest each was paid when it was asked, and a coarse release is no part of
a finer one (docs/proofs/sharing.md, "Order matters"). Analysts: so many ask the same questions at
random accuracies; `ours` is what the data's account pays, `other` the sum of what they receive. Exploration: how many
questions an epsilon of 1 answers; `ours` begins with all ranges of age at the same accuracy, each promised by itself,
`other` pays for each question and repeats identical ones, as version 0.1 does. A session ends with its questions, or
with the first that is not affordable: ranges of age are free after the first release, however many are asked. Quote:
seconds of a preview after so many releases, and before any.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import blowfishdb as bf
from benchmarks.harness import Row, measure, scratch_config
from blowfishdb.errors import BudgetExceeded
from blowfishdb.session import Question, Session, Table

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"
ALPHA = 50
ORDERS = (
    "cdf quartiles years fives tens ranges count",
    "quartiles years fives tens ranges count cdf",
    "years cdf quartiles fives tens ranges count",
    "years fives tens ranges count quartiles cdf",
    "years ranges tens count fives quartiles cdf",
    "fives cdf quartiles years tens ranges count",
    "fives ranges count years tens quartiles cdf",
    "tens years cdf quartiles fives ranges count",
    "tens fives count ranges years quartiles cdf",
    "ranges tens fives years count quartiles cdf",
    "count years cdf quartiles fives tens ranges",
    "count years tens fives ranges quartiles cdf",
    "count ranges tens fives years quartiles cdf",
)
ANALYSTS = (2, 4, 8, 16)
WIDTHS, FILTERS = range(1, 21), range(5)
QUESTIONS = len(WIDTHS) * len(FILTERS)
BUDGET = 1
RANGES = 120
AGES = 100
NOTABLE = 100
"""A range of fewer noisy records is not split any more."""
PAST = 1000
SEED = 20


def run(data: Path | None) -> Iterator[Row]:
    """Several orders of views, several numbers of analysts, and quotes after many releases."""
    del data
    for order in ORDERS:
        with _adult() as config, bf.connect(config, analyst="ana") as session:
            views = _views(session["adult"])
            ours, other = _spent(session, [views[name] for name in order.split()])
            yield Row(f"seven views of age within {ALPHA}: {order}", ours, other, ours / other)
    with _adult() as config, bf.connect(config, analyst="ana") as session:
        plan = session.plan(list(_views(session["adult"]).values()), alpha=ALPHA)
        plan.release()
        ours, other = float(session.budget("adult").spent), float(plan.one_by_one)
        yield Row(f"seven views of age within {ALPHA}, in one plan", ours, other, ours / other)
    for analysts in ANALYSTS:
        yield _shared(analysts)
    for name, explore in (("random ranges", _random), ("breadth first", _breadth_first), ("drill down", _drill_down)):
        yield _explored(name, explore)
    yield _quotes()


@contextmanager
def _adult(epsilon: int = 10**6) -> Iterator[Path]:
    """A configuration with the shipped table under differential privacy, in a scratch folder."""
    with tempfile.TemporaryDirectory() as folder:
        config = scratch_config(Path(folder))
        os.symlink(ADULT, Path(folder) / "adult.parquet")
        domain = {
            "age": bf.integers(0, 99, null=0, outside="clamp"),
            "hours_per_week": bf.integers(0, 99, null=0, outside="clamp"),
        }
        with bf.curate(config, by="bench") as curator:
            curator.add(bf.Dataset("adult", source="adult.parquet", domain=domain, epsilon=epsilon))
        yield config


def _views(table: Table) -> dict[str, Question]:
    age = bf.col("age")
    return {
        "cdf": table.cdf("age"),
        "quartiles": table.quantiles("age", ["0.25", "0.5", "0.75"]),
        "years": table.histogram("age"),
        "fives": table.histogram(age.bins(5)),
        "tens": table.histogram(age.bins(10)),
        "ranges": table.ranges("age", [(0, 18), (18, 65), (65, 100)]),
        "count": table.where((age >= 18) & (age < 65)).count(),
    }


def _spent(session: Session, questions: Sequence[Question]) -> tuple[float, float]:
    """What the questions cost one after the other, and what they would cost with fresh noise."""
    other = sum(float(question.preview(alpha=ALPHA, fresh=True).epsilon) for question in questions)
    for question in questions:
        question.release(alpha=ALPHA)
    return float(session.budget("adult").spent), other


def _shared(analysts: int) -> Row:
    chance = random.Random(SEED)
    with _adult() as config:
        received = Fraction(0)
        for number in range(analysts):
            with bf.connect(config, analyst=f"analyst {number}") as session:
                for low, width in itertools.product(FILTERS, WIDTHS):
                    table = session["adult"].where(bf.col("hours_per_week") >= low)
                    level = Fraction(chance.randint(10, 100), 1000)
                    table.histogram(bf.col("age").bins(width)).release(epsilon=level, mechanism="identity")
                received += session.budget("adult").spent
        with bf.curate(config, by="benchmark") as curator:
            paid = curator.account("adult").spent
    ours, other = float(paid), float(received)
    return Row(f"{analysts} analysts, {QUESTIONS} questions at random accuracies", ours, other, ours / other)


Explore = Generator[Question, bf.Answer, None]


def _range(table: Table, low: int, high: int) -> Table:
    return table.where((bf.col("age") >= low) & (bf.col("age") < high))


def _random(table: Table) -> Explore:
    """Counts of random ranges of age."""
    chance = random.Random(SEED)
    for _ in range(RANGES):
        low, high = sorted(chance.sample(range(AGES + 1), 2))
        yield _range(table, low, high).count()


def _breadth_first(table: Table) -> Explore:
    """Counts of ranges that are halved, level by level, as long as they hold notably many records."""
    queue = [(0, AGES)]
    while queue:
        low, high = queue.pop(0)
        answer = yield _range(table, low, high).count()
        if high - low > 1 and answer.values[0] > NOTABLE:
            middle = (low + high) // 2
            queue += [(low, middle), (middle, high)]


def _drill_down(table: Table) -> Explore:
    """Histograms of age by 20 years, then of each of these groups by 10, of each of those by 5, and by single years.

    Then the same by 50, 25 and 5 years; and all of it again of those who work 40 hours a week or more, and so on.
    """
    for hours in (0, 40, 20, 60):
        people = table.where(bf.col("hours_per_week") >= hours) if hours else table
        for widths in ((20, 10, 5, 1), (50, 25, 5)):
            groups = [(0, AGES)]
            for width in widths:
                for low, high in groups:
                    yield _range(people, low, high).histogram(bf.col("age").bins(width))
                groups = [(start, start + width) for start in range(0, AGES, width)]


def _explored(name: str, explore: Callable[[Table], Explore]) -> Row:
    """Questions within ALPHA that one budget answers; `fresh` ones until it is spent."""
    with _adult(BUDGET) as config, bf.connect(config, analyst="ana") as session:
        table = session["adult"]
        first = table.ranges("age").release(alpha=ALPHA, per_query=True)
        ours, other, left, known = 0, 0, Fraction(BUDGET), set[str]()
        questions = explore(table)
        question = next(questions)
        while True:
            price = Fraction(0)
            if str(question) not in known:
                price = question.preview(alpha=ALPHA, fresh=True).epsilon
                known.add(str(question))
            # The session of whoever pays for each ends with the first question that is not affordable.
            left = left - price if left >= price else Fraction(-1)
            other += left >= 0
            try:
                answer = question.release(alpha=ALPHA)
                ours += 1
                question = questions.send(answer)
            except (StopIteration, BudgetExceeded):
                break
        spent = float(session.budget("adult").spent)
    case = (
        f"{name} within {ALPHA}: questions for epsilon {BUDGET}, of which {spent:.3g} was spent, {first.epsilon} first"
    )
    return Row(case, ours, other, ours / other)


def _quotes() -> Row:
    with _adult() as config, bf.connect(config, analyst="ana") as session:
        table = session["adult"]

        def ask(low: int) -> object:
            return table.where(bf.col("hours_per_week") >= low).histogram(bf.col("age").bins(7)).preview(alpha=ALPHA)

        ask(1)
        _, before, _ = measure(lambda: [ask(low) for low in range(2, 7)])
        for number in range(PAST):
            low, width = divmod(number, 40)
            question = table.where(bf.col("hours_per_week") >= low).histogram(bf.col("age").bins(width + 10))
            question.release(epsilon="0.01", mechanism="identity")
        _, after, _ = measure(lambda: [ask(low) for low in range(7, 12)])
    return Row(f"a preview after {PAST} releases", after / 5, before / 5, after / before, after / 5)
