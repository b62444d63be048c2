"""A process killed at any step of a release: the charge or nothing, never an answer without one, and a free retry."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.engine.charge import Run
from blowfishdb.errors import ChargeClosed
from blowfishdb.ledger import accept_restored_ledger
from blowfishdb.ledger.records import APPENDED, BEGUN, COMMITTED, DEBITED, MARKED
from tests.engine.held import Bench, bench

HALF = Fraction(1, 2)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_step(step: str) -> Callable[[Bench], Run]:
    return lambda held: Run(progress=lambda reached: die() if reached == step else None)


def while_counting(held: Bench) -> Run:
    held.rows.before = die
    return Run()


def in_ledger(step: str, passes: int = 0) -> Callable[[Bench], Run]:
    """Dies when the ledger reaches the step for the time after `passes` others."""

    def prepare(held: Bench) -> Run:
        left = [passes]

        def reached(name: str) -> None:
            if name == step:
                left[0] -= 1
                if left[0] < 0:
                    die()

        held.ledger = replace(held.ledger, reached=reached)
        return Run()

    return prepare


def killed(folder: Path, arrange: Callable[[Bench], Run]) -> None:
    """Runs a release in a process of its own, which must die by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            held = bench(folder)
            held.release(run=arrange(held))
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), status
    assert os.WTERMSIG(status) == signal.SIGKILL


CHARGED = {
    "answer": at_step("answer"),
    "counting": while_counting,
    "charge committed": in_ledger(COMMITTED),
    "charge marked": in_ledger(MARKED),
    "storing": in_ledger(BEGUN, 1),
    "answer committed": in_ledger(COMMITTED, 1),
    "done": at_step("done"),
}
NOT_CHARGED = {
    "quote": at_step("quote"),
    "charge": at_step("charge"),
    "charge begun": in_ledger(BEGUN),
    "debited": in_ledger(DEBITED),
    "appended": in_ledger(APPENDED),
}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("step", [*CHARGED, *NOT_CHARGED])
@pytest.mark.sampled(3)
def test_the_charge_or_nothing_and_a_free_retry(tmp_path: Path, step: str) -> None:
    bench(tmp_path).ledger.close()
    killed(tmp_path, {**CHARGED, **NOT_CHARGED}[step])
    held = bench(tmp_path)
    assert held.spent == (HALF if step in CHARGED else 0)
    kinds = [entry.kind for entry in held.ledger.entries()]
    assert kinds.count("answer") <= kinds.count("charge") == int(step in CHARGED)
    held.release()
    assert held.spent == HALF
    assert held.ledger.verify().is_sound


def test_a_charge_that_an_accepted_copy_left_open_is_charged_anew(tmp_path: Path) -> None:
    """Its answer may be out. Without a key the question is simply asked anew; a key says that it is used up."""
    held = bench(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(held.ledger), "store_answer", lambda *_: 1 / 0)
        for run in (Run(), Run(key="mine")):
            with pytest.raises(ZeroDivisionError):
                held.release(run=run)
    held.ledger.close()
    (tmp_path / "test.mark").unlink()
    accept_restored_ledger(tmp_path / "test.ledger", mark=tmp_path / "test.mark", by="cora", reason="the disk died")
    held = bench(tmp_path)
    assert held.spent == 2 * HALF
    with pytest.raises(ChargeClosed):
        held.release(run=Run(key="mine"))
    first = held.release()
    assert held.release().raw.tolist() == first.raw.tolist()
    assert held.spent == 3 * HALF and held.ledger.verify().is_sound
