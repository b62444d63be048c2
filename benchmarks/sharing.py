"""Epsilon and time with answers that share their noise, against paying for each by itself, on the shipped Adult table.

Views: seven views of age within 50, the most expensive one first and last. Analysts: so many ask the same questions at
random accuracies; `ours` is what the data's account pays, `other` the sum of what they receive. Quote: seconds of a
preview after so many releases, and before any.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import blowfishdb as bf
from benchmarks.harness import Row, measure
from blowfishdb.session import Question, Session, Table

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"
ALPHA = 50
ANALYSTS = (2, 4, 8, 16)
QUESTIONS = 12
PAST = 1000
SEED = 20


def run(data: Path | None) -> Iterator[Row]:
    """Two orders of views, several numbers of analysts, and quotes after many releases."""
    del data
    for order, case in ((1, "the most expensive first"), (-1, "the most expensive last")):
        with _adult() as config, bf.connect(config, analyst="ana") as session:
            ours, other = _spent(session, _views(session["adult"])[::order])
            yield Row(f"seven views of age within {ALPHA}, {case}", ours, other, ours / other)
    for analysts in ANALYSTS:
        yield _shared(analysts)
    yield _quotes()


@contextmanager
def _adult() -> Iterator[Path]:
    """A configuration with the shipped table under differential privacy, in a scratch folder."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "blowfish.toml"
        config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
        os.symlink(ADULT, Path(folder) / "adult.parquet")
        domain = {
            "age": bf.integers(0, 99, null=0, outside="clamp"),
            "hours_per_week": bf.integers(0, 99, null=0, outside="clamp"),
        }
        with bf.curate(config, by="bench") as curator:
            curator.add(bf.Dataset("adult", source="adult.parquet", domain=domain, epsilon=10**6))
        yield config


def _views(table: Table) -> list[Question]:
    age = bf.col("age")
    return [
        table.cdf("age"),
        table.quantiles("age", ["0.25", "0.5", "0.75"]),
        table.histogram("age"),
        table.histogram(age.bins(5)),
        table.histogram(age.bins(10)),
        table.ranges("age", [(0, 18), (18, 65), (65, 100)]),
        table.where((age >= 18) & (age < 65)).count(),
    ]


def _spent(session: Session, questions: Sequence[Question]) -> tuple[float, float]:
    """What the questions cost one after the other, and what they would cost with fresh noise."""
    other = sum(float(question.preview(alpha=ALPHA, fresh=True).epsilon) for question in questions)
    for question in questions:
        question.release(alpha=ALPHA)
    return float(session.budget("adult").spent), other


def _shared(analysts: int) -> Row:
    chance = random.Random(SEED)
    with _adult() as config:
        received, paid = Fraction(0), Fraction(0)
        for number in range(analysts):
            with bf.connect(config, analyst=f"analyst {number}") as session:
                for width in range(1, QUESTIONS + 1):
                    question = session["adult"].histogram(bf.col("age").bins(width))
                    question.release(epsilon=Fraction(chance.randint(10, 100), 1000), mechanism="identity")
                budget = session.budget("adult")
                received += budget.spent
                paid = budget.dataset_limit - budget.dataset_remaining
    ours, other = float(paid), float(received)
    return Row(f"{analysts} analysts, {QUESTIONS} questions at random accuracies", ours, other, ours / other)


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
