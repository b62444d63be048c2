"""Answers leave at whole steps after their charge, failures too, and a deadline tells nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine import charge as module
from blowfishdb.engine.charge import Pace, Run, padded
from blowfishdb.engine.compile import LONGEST_COUNT
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import CatalogError, ReleaseFailed, SourceFailed
from blowfishdb.model.domain import integers
from tests.engine.held import Bench, bench

QUARTER = Fraction(1, 4)


@dataclass
class FakeTime:
    """A clock that moves when somebody works or sleeps; its sleeps end early by a share of their length."""

    seconds: float = 100.0
    early: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, length: float) -> None:
        self.slept.append(length)
        self.seconds += length if length < 1e-6 else length * (1 - self.early)

    def work(self, length: float) -> Callable[[], float]:
        def done() -> float:
            self.seconds += length
            return length

        return done

    def pace(self) -> Pace:
        return Pace(lambda: self.seconds, self.sleep)


@given(st.floats(0, 5), st.sampled_from([Fraction(1, 100), QUARTER, Fraction(2)]), st.sampled_from([0.0, 0.3]))
def test_every_result_leaves_at_the_next_whole_step(length: float, step: Fraction, early: float) -> None:
    clock = FakeTime(early=early)
    assert padded(step, clock.work(length), clock.pace()) == length
    steps = (clock.seconds - 100.0) / float(step)
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert round(steps) >= 1
    assert length - 1e-6 <= clock.seconds - 100.0 <= length + float(step) + 1e-6


def test_without_a_step_nothing_waits() -> None:
    clock = FakeTime()
    assert padded(None, clock.work(0.3), clock.pace()) == 0.3
    assert clock.slept == []


def test_failures_wait_as_long_as_answers() -> None:
    clock = FakeTime()

    def fails() -> None:
        clock.work(0.3)()
        raise ReleaseFailed("abc", Fraction(1), "key", can_retry=True)

    with pytest.raises(ReleaseFailed):
        padded(QUARTER, fails, clock.pace())
    assert clock.seconds == pytest.approx(100.5)


@pytest.fixture
def held(tmp_path: Path) -> Bench:
    found = bench(tmp_path)
    return replace(found, handle=replace(found.handle, pad_to=Fraction(1, 10)))


def test_the_count_is_inside_and_the_charge_is_not(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, steps = FakeTime(), []

    def reading() -> None:
        steps.append(("read", clock.seconds))
        clock.work(0.13)()

    held.rows.before = reading
    monkeypatch.setattr(module, "padded", lambda step, work: padded(step, work, clock.pace()))
    answer = held.release(run=Run(progress=lambda step: steps.append((step, round(clock.seconds, 6)))))
    assert [name for name, _ in steps] == ["quote", "charge", "answer", "read", "done"]
    assert dict(steps)["answer"] == 100.0
    assert dict(steps)["done"] == 100.2
    assert answer.epsilon == Fraction(1, 2)


@dataclass
class Waits:
    """Where a release says that it waits, and what it does there."""

    depth: int = 0
    steps: list[tuple[str, int]] = field(default_factory=list)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def note(self, step: str) -> None:
        self.steps.append((step, self.depth))

    def of_release(self, held: Bench) -> list[tuple[str, int]]:
        held.rows.before = partial(self.note, "read")
        held.release(run=Run(progress=self.note, waiting=self.waiting))
        return self.steps


def test_a_release_waits_for_the_engine_alone(tmp_path: Path) -> None:
    assert Waits().of_release(bench(tmp_path)) == [
        ("quote", 0),
        ("charge", 0),
        ("answer", 0),
        ("read", 1),
        ("done", 0),
    ]


def test_all_that_is_padded_waits_whatever_it_does(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who gave a turn away in between, or lost it, would else go on sooner or later than others."""
    waits, clock = Waits(), FakeTime()

    def sleep(length: float) -> None:
        waits.note("sleep")
        clock.sleep(length)

    pace = Pace(lambda: clock.seconds, sleep)
    monkeypatch.setattr(module, "padded", lambda step, work: padded(step, work, pace))
    assert waits.of_release(held) == [
        ("quote", 0),
        ("charge", 0),
        ("answer", 0),
        ("read", 2),
        ("sleep", 1),
        ("done", 0),
    ]


def test_nobody_can_see_that_there_is_an_answer_before_it_leaves(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []

    def seen() -> None:
        numbers.append((held.ledger.head().sequence, sum(entry.kind == "answer" for entry in held.ledger.entries())))

    def watched(step: Fraction | None, work: Callable[[], bytes]) -> bytes:
        seen()
        found = padded(step, work, FakeTime().pace())
        seen()
        return found

    monkeypatch.setattr(module, "padded", watched)
    held.release()
    seen()
    assert numbers[0] == numbers[1]
    assert numbers[2] == (numbers[1][0] + 1, 1)


def test_a_failing_count_is_padded_and_its_charge_stays(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime()

    def fails() -> None:
        clock.work(0.01)()
        raise SourceFailed("rows", "abc")

    held.rows.before = fails
    monkeypatch.setattr(module, "padded", lambda step, work: padded(step, work, clock.pace()))
    with pytest.raises(ReleaseFailed):
        held.release()
    assert clock.seconds == pytest.approx(100.1)
    assert held.spent == Fraction(1, 2)


@pytest.mark.parametrize("seconds", [0.0, 0.04], ids=["a quick count", "a slow count"])
@pytest.mark.parametrize("pad_to", [None, Fraction(1, 100)], ids=["plain", "padded"])
def test_no_deadline_of_the_analyst_tells_how_long_the_count_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, pad_to: Fraction | None
) -> None:
    """Deadlines around the counting time, each under a key of its own and then retried: all outcomes are the same."""
    clock, held = FakeTime(), bench(tmp_path)
    held = replace(held, handle=replace(held.handle, pad_to=pad_to))
    held.rows.before = clock.work(seconds)
    monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(module, "padded", lambda step, work: padded(step, work, clock.pace()))
    for deadline in (0.001, 0.02, 0.04, 0.05, 1.0):
        target = accuracy_target(epsilon=f"{deadline}")
        outcomes = [held.release(wanted=target, run=Run(f"{deadline}", None, deadline)) for _ in range(2)]
        assert outcomes[0].to_json() == outcomes[1].to_json()
    assert held.rows.deadlines == [LONGEST_COUNT] * 5


def test_a_replay_waits_for_nothing(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = held.release()
    monkeypatch.setattr(module, "padded", lambda step, work: pytest.fail("a replay reads no data"))
    assert held.release().to_json() == first.to_json()


@pytest.mark.parametrize("step", [0, -1, "0.0001", "601"])
def test_a_step_that_makes_no_sense_is_refused(step: int | str) -> None:
    with pytest.raises(CatalogError, match="pad_to"):
        bf.Dataset("t", source="t.csv", domain={"age": integers(0, 9)}, pad_to=step)


def test_the_configuration_keeps_the_step(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age\n1\n2\n")
    with bf.curate(tmp_path / "blowfish.toml") as curator:
        curator.add(bf.Dataset("t", source="rows.csv", domain={"age": integers(0, 9)}, pad_to="0.05"))
        curator.renew("t", epsilon=2, reason="more")
    assert 'pad_to = "0.05"' in (tmp_path / "blowfish.toml").read_text()
    with bf.connect(tmp_path / "blowfish.toml", analyst="ana") as session:
        question = session["t"].histogram("age")
        question.preview(epsilon="0.5")
        began = time.monotonic()
        question.release(epsilon="0.5")
        assert time.monotonic() - began >= 0.05
