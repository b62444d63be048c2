"""Whether the time of a release tells about the data: neighbouring and very different tables, and noise draws.

`ours` is the largest gap between two distributions of response times, which is what the best threshold gains over
guessing from one observation; `other` is what 95 % of random splits of the same times stay below, so a ratio above 1 is
a difference that was seen. Everything is previewed before. The tables take turns in random order. Times are those that
an analyst sees, through Python and through REST, without padding and with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

import blowfishdb as bf
from benchmarks.harness import Row, Work, progress
from benchmarks.serving import Caller, Place, Running, Table, make_place, serving
from benchmarks.statistics import at, difference
from blowfishdb.engine.charge import padded
from blowfishdb.model.numbers import Bools, Floats
from blowfishdb.noise.sampler import sample

SAMPLES = 60
ROWS = 1_000_000
PADDING = "0.25"
REFERENCE = "uniform"
TABLES = {
    REFERENCE: Table(ROWS),
    "same": Table(ROWS),
    "neighbour": Table(ROWS, "hash(i) + CASE WHEN i = 0 THEN 1 ELSE 0 END"),
    "single": Table(ROWS, "7"),
    "empty": Table(0),
}
MEANING = {
    "same": "an exact copy (control)",
    "neighbour": "one row changed",
    "single": "all rows in one cell",
    "empty": "no rows",
}
DRAWS, DRAWN_AT_ONCE = 5_000, 100
BUDGET = Fraction(10**6)
OK = 200


@dataclass(frozen=True)
class Times:
    """Seconds of every release by dataset, and how far its answer lay from the truth."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def run(data: Path | None) -> Iterator[Row]:
    """The rows of the usual size."""
    del data
    yield from _rows(SAMPLES)


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark with another number of releases of each table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks timing")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    samples = parser.parse_args(arguments).samples

    def sized(data: Path | None) -> Iterator[Row]:
        del data
        yield from _rows(samples)

    return sized


def _rows(samples: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = make_place(Path(folder), analysts=1, tables=TABLES, epsilon=BUDGET, paddings=(None, PADDING))
        truth = _truth(Path(folder))
        yield from _compared("Python", _through_python(place, samples, truth))
        with serving(place) as running:
            yield from _compared("REST", asyncio.run(_through_rest(place, running, samples, truth)))
    yield _sampler()
    yield from _planted(samples)


def _compared(face: str, times: Times) -> Iterator[Row]:
    for ending, words in (("", "no padding"), ("-padded", f"padded to {PADDING} s")):
        usual = times.seconds[REFERENCE + ending]
        for name, meaning in MEANING.items():
            yield _row(f"{face}, {words}: {meaning}", usual, times.seconds[name + ending])
        sizes = np.asarray(times.errors[REFERENCE + ending])
        large = sizes > np.median(sizes)
        yield _row(f"{face}, {words}: large against small noise", *_split(np.asarray(usual), large))


def _row(case: str, usual: Sequence[float], others: Sequence[float]) -> Row:
    found = difference(usual, others)
    note = (
        f"{'seen' if found.is_seen else 'not seen'}; median {1000 * at(usual, 0.5):.1f} ms; "
        f"shift {1000 * found.shift:+.2f} ms ({1000 * found.low:+.2f} to {1000 * found.high:+.2f})"
    )
    return Row(case, found.gap, found.by_chance, found.gap / found.by_chance, note=note)


def _split(values: Floats, chosen: Bools) -> tuple[list[float], list[float]]:
    return values[~chosen].tolist(), values[chosen].tolist()


def _truth(folder: Path) -> dict[str, Floats]:
    found = {}
    with duckdb.connect(str(folder / "tables.duckdb"), read_only=True) as connection:
        for name in TABLES:
            counts = dict(connection.execute(f'SELECT age, count(*) FROM "{name}" GROUP BY 1').fetchall())
            found[name] = np.array([counts.get(age, 0) for age in range(100)], dtype=np.float64)
    return found


def _names() -> list[str]:
    """Every table, without padding and with it."""
    return [name + ending for name in TABLES for ending in ("", "-padded")]


def _orders(samples: int, title: str) -> Iterator[tuple[str, str]]:
    """Which dataset is asked next, and at what price: every release is new, and each table has its turn."""
    chance = random.Random()
    names = _names()
    with progress(title, samples) as bar:
        for number in range(samples):
            for place, name in enumerate(chance.sample(names, len(names))):
                yield name, str(Fraction(10**5 + number * len(names) + place, 10**6))
            bar(number + 1)


def _note(times: Times, name: str, seconds: float, values: Floats, truth: dict[str, Floats]) -> None:
    times.seconds[name].append(seconds)
    own = truth[name.removesuffix("-padded")]
    times.errors[name].append(float(np.abs(values[: own.size] - own).sum()))


def _through_python(place: Place, samples: int, truth: dict[str, Floats]) -> Times:
    times = Times()
    with bf.connect(place.config, analyst="python") as session:
        for name in _names():
            session[name].histogram("age").release(epsilon="0.01")
        for name, epsilon in _orders(samples, "Python"):
            question = session[name].histogram("age")
            question.preview(epsilon=epsilon)
            began = time.perf_counter()
            answer = question.release(epsilon=epsilon)
            _note(times, name, time.perf_counter() - began, answer.values, truth)
    return times


async def _through_rest(place: Place, running: Running, samples: int, truth: dict[str, Floats]) -> Times:
    times = Times()
    ((_, token),) = place.tokens.items()
    caller = Caller(running.port, token)

    async def asked(name: str, epsilon: str) -> tuple[float, Floats]:
        question = {"kind": "histogram", "axes": [{"attribute": "age"}]}
        sent = {"query": question, "accuracy_target": {"epsilon": epsilon}}
        for noun in ("previews", "answers"):
            reply = await caller.ask("POST", f"/api/v1/datasets/{name}/{noun}", sent)
            if reply.status != OK:
                raise RuntimeError(f"the server answered {reply.status}: {reply.body[:300]!r}")
        return reply.seconds, np.array(json.loads(reply.body)["values"], dtype=np.float64)

    for name in _names():
        await asked(name, "0.01")
    for name, epsilon in _orders(samples, "REST"):
        _note(times, name, *(await asked(name, epsilon)), truth)
    caller.close()
    return times


def _sampler() -> Row:
    """The sampler alone: calls whose draws were large in sum against those whose draws were small."""
    scale = Fraction(20)
    sample(scale, 1, DRAWN_AT_ONCE)
    seconds, sizes = np.empty(DRAWS), np.empty(DRAWS)
    for place in range(DRAWS):
        began = time.perf_counter()
        drawn = sample(scale, 1, DRAWN_AT_ONCE)
        seconds[place] = time.perf_counter() - began
        sizes[place] = np.abs(drawn).sum()
    return _row(
        f"the sampler alone, {DRAWN_AT_ONCE} draws: large against small", *_split(seconds, sizes > np.median(sizes))
    )


def _planted(samples: int) -> Iterator[Row]:
    """A difference that is there: work of 20 against work of 60 milliseconds, alone and behind the engine's padding."""
    step = Fraction(PADDING)
    for words, pad_to in (("no padding", None), (f"padded to {PADDING} s", step)):
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(samples):
            for times, length in zip(seconds, (0.02, 0.06), strict=True):
                began = time.perf_counter()
                padded(pad_to, partial(time.sleep, length))
                times.append(time.perf_counter() - began)
        yield _row(f"planted, {words}: 20 against 60 ms", *seconds)
