"""One process of the concurrency and crash tests: charges, prints each receipt, and dies where it is told to."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from blowfishdb.errors import BudgetExceeded
from blowfishdb.ledger import open_ledger
from tests.ledger.support import IDENTITY, charge_of


def die_at(wanted: str) -> Callable[[str], None]:
    def reached(step: str) -> None:
        if step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def hammer(url: str, mark: Path, analyst: str, prefix: str, attempts: int, epsilon: Fraction) -> None:
    with open_ledger(url, mark=mark) as ledger:
        account = ledger.account_of(IDENTITY)
        for number in range(attempts):
            try:
                receipt = ledger.charge(charge_of(account, epsilon, f"{prefix}-{number}", analyst=analyst))
                # One system call a line, so that the lines of several processes never mix.
                os.write(1, f"{receipt.sequence}\n".encode())
            except BudgetExceeded:
                continue


def swarm(url: str, mark: Path, workers: int, analysts: int, attempts: int, epsilon: Fraction) -> None:
    """Many processes at once; ends badly when one of them does."""
    tasks = [
        lambda n=n: hammer(url, mark, f"analyst {n % analysts}", f"worker {n}", attempts, epsilon)
        for n in range(workers)
    ]
    children = [forked(task) for task in tasks]
    sys.exit(max(os.waitpid(child, 0)[1] != 0 for child in children))


def charge_and_die(url: str, mark: Path, steps: Sequence[str]) -> None:
    """For each step a process that dies there during a charge whose key is the step's name."""

    def attempt(step: str) -> None:
        with open_ledger(url, mark=mark, reached=die_at(step)) as ledger:
            ledger.charge(charge_of(ledger.account_of(IDENTITY), "1/10", step))

    expect_deaths(attempt, steps)


def answer_and_die(url: str, mark: Path, steps: Sequence[str]) -> None:
    """For each step a process that dies there while it stores the answer to a charge whose key is the step's name."""

    def attempt(step: str) -> None:
        with open_ledger(url, mark=mark) as ledger:
            receipt = ledger.charge(charge_of(ledger.account_of(IDENTITY), "1/10", step))
        with open_ledger(url, mark=mark, reached=die_at(step)) as ledger:
            ledger.store_answer(receipt, step.encode())

    expect_deaths(attempt, steps)


def expect_deaths(attempt: Callable[[str], None], steps: Sequence[str]) -> None:
    for step in steps:
        _, status = os.waitpid(forked(lambda step=step: attempt(step)), 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"nobody died at {step}")


def forked(task: Callable[[], None]) -> int:
    """A new process that does the task; forked, so that it need not start Python and import everything again."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task()
            code = 0
        finally:
            os._exit(code)
    return child


def main(url: str, mark: Path, task: str, *rest: str) -> None:
    if not url.startswith("sqlite"):
        importlib.import_module("psycopg")
    if task == "hammer":
        hammer(url, mark, rest[0], rest[1], int(rest[2]), Fraction(rest[3]))
    elif task == "swarm":
        swarm(url, mark, int(rest[0]), int(rest[1]), int(rest[2]), Fraction(rest[3]))
    elif task == "charge":
        charge_and_die(url, mark, rest)
    else:
        answer_and_die(url, mark, rest)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
