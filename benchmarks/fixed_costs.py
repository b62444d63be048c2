"""CPU seconds that every use pays whatever it asks: imports, first previews, a small release, the check of a ledger.

`other` is what is allowed: for imports 1.1 times what numpy, or a program of typer, takes alone, plus 0.1 s; for lists
what they take in a short ledger; elsewhere a number of seconds. Previews are the first of a fresh process, after its
connection, with compiled kernels on disk; the note has the seconds with the prices of the other mechanisms, which are
worked out when somebody reads them.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.ledger import open_ledger
from blowfishdb.ledger.values import Charge, Terms
from blowfishdb.session import Table

ROUNDS, MOST_ROUNDS = 5, 100
SECONDS = 4.0
"""How long work is repeated, within these numbers of rounds: a shared machine may be slow for a second or two."""
IMPORTS = {
    "import blowfishdb, against numpy": ("import blowfishdb", "import numpy"),
    "blowfish --help, against typer": (
        "from blowfishdb.cli import run; run(['--help'])",
        "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'], standalone_mode=False)",
    ),
}
PREVIEWS = {
    "first preview, grid of 64 x 64": "histogram('x', 'y')",
    "first preview, CDF of 1,000 bins": "cdf('z')",
    "first preview, histogram of 100,000 cells": "histogram('w')",
}
FIRST, WARM, RELEASE, VERIFY = 0.3, 0.02, 0.025, 1.0
DOMAIN = {name: bf.integers(0, size - 1, null=0) for name, size in (("x", 64), ("y", 64), ("z", 1000), ("w", 10**5))}
ROWS = "SELECT i % 64 AS x, i % 63 AS y, i % 1000 AS z, i AS w FROM range(10000) made(i)"
RELEASES = 200
CHARGES = 500
TIMES = 20
SYNOPSIS = '{"synopsis": true}'
STORED = b'{"counts": [' + b"12, " * 120 + b"0]}"


def run(data: Path | None) -> Iterator[Row]:
    """One row a cost; the ratio is our CPU time over what is allowed."""
    yield from headline(data)


def headline(data: Path | None) -> Iterator[Row]:
    """All of them."""
    del data
    for case, (ours, other) in IMPORTS.items():
        spent, alone = (min(_of_process(code) for _ in range(ROUNDS)) for code in (ours, other))
        yield _row(case, spent, 1.1 * alone + 0.1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        table = _declared(place)
        for case, question in PREVIEWS.items():
            rounds = [_first_preview(place, question) for _ in range(ROUNDS)]
            spent, in_full = (min(each) for each in zip(*rounds, strict=True))
            yield _row(case, spent, FIRST, f"{in_full:.2f} s with all prices")
        bounds = (60 + number / 1000 for number in itertools.count())
        table.cdf("z").preview(alpha=50, beta=0.05)
        warm = _least(lambda: table.cdf("z").preview(alpha=next(bounds), beta=0.05))
        yield _row("another preview, CDF of 1,000 bins", warm, WARM)
        amounts = (f"0.01{number:04}" for number in itertools.count())
        release = _least(lambda: table.histogram("x").release(epsilon=next(amounts)))
        yield _row("a warm release of 64 cells", release, RELEASE)
        for number in range(RELEASES):
            table.histogram("x").release(epsilon=f"0.02{number:03}")
        with open_ledger(f"sqlite:///{place}/blowfish.ledger", mark=place / "blowfish.mark") as ledger:
            yield _row("ledger verify, for 100,000 entries of releases of 64 cells", _verified(ledger), VERIFY)
        table.histogram("z").release(alpha=50, beta=0.05)
        built = _least(lambda: table.cdf("z").preview(alpha=next(bounds), beta=0.05))
        yield _row("a preview that builds on a release, CDF of 1,000 bins", built, FIRST)
        with _filled(place / "short", 1) as (short, account), _filled(place / "long", 1 + TIMES) as (full, same):
            few, many = _least_of(lambda: _listed(short, account), lambda: _listed(full, same))
            yield _row(f"lists of past charges and synopses, {TIMES} times as many", many, few)
            yield _row("ledger verify, for 100,000 entries", _verified(full), VERIFY)


def _row(case: str, ours: float, allowed: float, note: str = "") -> Row:
    return Row(case, ours, allowed, ours / allowed, note=note, aim=1.0)


def _least(work: Callable[[], object]) -> float:
    """The CPU seconds of the work in its best round."""
    return _least_of(work)[0]


def _least_of(*works: Callable[[], object]) -> list[float]:
    """The CPU seconds of each work in its best round; they take turns."""
    rounds: list[list[float]] = []
    end = time.monotonic() + SECONDS
    while len(rounds) < ROUNDS or (len(rounds) < MOST_ROUNDS and time.monotonic() < end):
        moments = [time.process_time()]
        for work in works:
            work()
            moments.append(time.process_time())
        rounds.append([after - before for before, after in itertools.pairwise(moments)])
    return [*map(min, zip(*rounds, strict=True))]


def _verified(ledger: Ledger) -> float:
    """The CPU seconds that a check takes for as many entries like these as are to be checked in a second."""
    return _least(ledger.verify) / ledger.head().sequence * 10**5


def _of_process(code: str) -> float:
    """The CPU seconds of a fresh Python that runs the code, beyond those of one that runs nothing."""
    told = "import time; print(time.process_time())"
    nothing, all_of_it = (
        float(subprocess.check_output([sys.executable, "-c", text], text=True).split()[-1])
        for text in (told, f"{code}\n{told}")
    )
    return max(all_of_it - nothing, 0.001)


def _declared(place: Path) -> Table:
    with duckdb.connect(str(place / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE made AS {ROWS}")
    config = place / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(config, by="curator") as keeper:
        keeper.add(bf.Dataset("made", source="duckdb:///rows.duckdb#made", domain=DOMAIN, epsilon="100"))
    return bf.connect(config, analyst="ana")["made"]


def _first_preview(place: Path, question: str) -> tuple[float, float]:
    """The CPU seconds until the price is known, and until those of the other mechanisms are."""
    code = f"""
import time, blowfishdb as bf
question = bf.connect({str(place / "blowfish.toml")!r}, analyst="ana")["made"].{question}
before = time.process_time()
preview = question.preview(alpha=50, beta=0.05)
known = time.process_time()
str(preview)
print(known - before, time.process_time() - before)"""
    spent, in_full = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
    return spent, in_full


@contextmanager
def _filled(place: Path, times: int) -> Iterator[tuple[Ledger, str]]:
    """A ledger with so many times CHARGES charges and answers, and its account; one analyst made most of them."""
    place.mkdir()
    with open_ledger(f"sqlite:///{place}/full.ledger", mark=place / "full.mark") as ledger:
        account = ledger.register(Terms("made", Fraction(10**6), "{}", "{}"), name="made", by="curator").id
        for number in range(times):
            others = 20 if number == 0 else 1
            charges = [_charge(account, f"{number} ", one, f"analyst {one % others}") for one in range(CHARGES)]
            if others == 1:
                ledger.charge_all(charges)  # in one transaction, so that each charge below only finds its receipt
            for charge in charges:
                ledger.store_answer(ledger.charge(charge), STORED)
        yield ledger, account


def _charge(account: str, prefix: str, number: int, analyst: str) -> Charge:
    key, amount = f"{prefix}key {number}", Fraction(number % 97 + 1, 1000)
    return Charge(account, analyst, amount, key, key, key, 1, 1, 1, "{}" if number % 100 else SYNOPSIS)


def _listed(ledger: Ledger, account: str) -> None:
    for _ in range(20):
        ledger.charges_of(account, "analyst 0", 20)
        ledger.synopses(account, 5)
