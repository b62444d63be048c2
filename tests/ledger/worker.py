"""One process of the concurrency and crash tests: charges, prints each receipt, and dies where it is told to."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
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
    """Many processes at once, forked so that they need not all start Python; ends badly when one of them does."""
    if not url.startswith("sqlite"):
        importlib.import_module("psycopg")
    children = []
    for number in range(workers):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                hammer(url, mark, f"analyst {number % analysts}", f"worker {number}", attempts, epsilon)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] != 0 for child in children))


def one_charge(url: str, mark: Path, step: str) -> None:
    with open_ledger(url, mark=mark, reached=die_at(step)) as ledger:
        ledger.charge(charge_of(ledger.account_of(IDENTITY), "1/10", "killed"))


def one_answer(url: str, mark: Path, step: str) -> None:
    with open_ledger(url, mark=mark) as ledger:
        receipt = ledger.charge(charge_of(ledger.account_of(IDENTITY), "1/10", "killed"))
    with open_ledger(url, mark=mark, reached=die_at(step)) as ledger:
        ledger.store_answer(receipt, b"noisy counts")


def main(url: str, mark: Path, task: str, *rest: str) -> None:
    if task == "hammer":
        hammer(url, mark, rest[0], rest[1], int(rest[2]), Fraction(rest[3]))
    elif task == "swarm":
        swarm(url, mark, int(rest[0]), int(rest[1]), int(rest[2]), Fraction(rest[3]))
    elif task == "charge":
        one_charge(url, mark, rest[0])
    else:
        one_answer(url, mark, rest[0])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
