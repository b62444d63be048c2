"""Two hundred analysts on one server against one budget: latencies, throughput, memory, and a ledger that must add up.

`ours` and `other` are seconds at the 95th percentile, of the server and of a plain FastAPI route that the same client
asks in the same run with as many callers. First the analysts think between requests, then none of them does: an hour's
worth of requests as fast as they come. The budget ends before the requests do. Any over-spend is an error. `--servers`
shares the analysts among several servers on one ledger.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from benchmarks.harness import Row, Work, progress
from benchmarks.serving import (
    DATASET,
    Campaign,
    LedgerState,
    Outcome,
    Place,
    Running,
    Table,
    counted,
    cpu_seconds,
    make_place,
    read_ledger_state,
    resident_mb,
    run_campaign,
    run_plainly,
    serving_plainly,
    serving_together,
    throughput,
)
from benchmarks.statistics import at, slope
from blowfishdb.ledger import open_ledger

ANALYSTS = 200
ROUNDS = 15
"""With four requests a round, what two hundred analysts send in an hour at one a minute."""
THINKING_ROUNDS = 2
THINK = 15.0
ROWS = 100_000
SHARE = Fraction(4, 5)
"""Of what everybody would spend, so much is there."""
PLAIN_REQUESTS = 20
ANSWER = b'{"answer": "' + b"0" * 5000 + b'"}'
EVERY = 0.5
KINDS = ("preview", "release", "refusal", "replay", "read")


@dataclass(frozen=True)
class Sizes:
    """How large the run is."""

    analysts: int = ANALYSTS
    rounds: int = ROUNDS
    thinking_rounds: int = THINKING_ROUNDS
    think: float = THINK
    servers: int = 1


@dataclass(frozen=True)
class Run:
    """Everything that was seen."""

    warm: list[Outcome]
    thinking: list[Outcome]
    rushing: list[Outcome]
    memory: list[tuple[float, float]]
    cpu: float
    state: LedgerState


def run(data: Path | None) -> Iterator[Row]:
    """The rows of the usual size."""
    del data
    yield from _rows(Sizes())


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark with other sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks load")
    parser.add_argument("--analysts", type=int, default=ANALYSTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds without thinking, four requests each")
    parser.add_argument("--thinking-rounds", type=int, default=THINKING_ROUNDS)
    parser.add_argument("--think", type=float, default=THINK, metavar="SECONDS")
    parser.add_argument("--servers", type=int, default=1, help="server processes over one ledger")
    options = parser.parse_args(arguments)
    sizes = Sizes(options.analysts, options.rounds, options.thinking_rounds, options.think, options.servers)

    def sized(data: Path | None) -> Iterator[Row]:
        del data
        yield from _rows(sizes)

    return sized


PREVIEWED, OF_A_REQUEST = 2.0, 0.006


def headline(data: Path | None) -> Iterator[Row]:
    """All analysts at once, for a few rounds: how long a preview takes, and the CPU time of a request.

    Then the same with as many servers as there are cores: how many requests a second one server answers of theirs.
    """
    del data
    rates = []
    for servers in (1, max(2, os.cpu_count() or 2)):
        with tempfile.TemporaryDirectory() as folder:
            seen = attack(Path(folder), Sizes(rounds=5, thinking_rounds=0, servers=servers))
        ledger_row(seen.state, seen.warm + seen.rushing)
        rates.append(throughput(seen.rushing))
        who = f"{ANALYSTS} analysts at once" + (f", {servers} servers" if servers > 1 else "")
        late = at([outcome.seconds for outcome in seen.rushing if outcome.kind == "preview"], 0.95)
        yield Row(f"{who}: 95 % of previews", late, PREVIEWED, late / PREVIEWED, aim=1.0)
        cpu = seen.cpu / len(seen.rushing)
        yield Row(f"{who}: CPU of a request", cpu, OF_A_REQUEST, cpu / OF_A_REQUEST, aim=1.0)
    yield Row(f"{who}: requests a second", rates[1], rates[0], rates[0] / rates[1], aim=1.0)


def _rows(sizes: Sizes) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        seen = attack(Path(folder), sizes)
        with serving_plainly(Path(folder), ANSWER) as running:
            began = cpu_seconds(running.process)
            plain = run_plainly(running, sizes.analysts, PLAIN_REQUESTS)
            plain_cpu = (cpu_seconds(running.process) - began) / len(plain)
    floor = at([outcome.seconds for outcome in plain], 0.95)
    for name, outcomes in (("thinking", seen.thinking), ("all at once", seen.rushing)):
        rate = throughput(outcomes)
        yield Row(f"{name}: requests a second", rate, throughput(plain), rate / throughput(plain))
        for kind in KINDS:
            yield from _latency(f"{name}: {kind}", [o.seconds for o in outcomes if o.kind == kind], floor)
    cpu = seen.cpu / len(seen.rushing)
    yield Row("all at once: CPU seconds of a request", cpu, plain_cpu, cpu / plain_cpu, note="all kinds together")
    yield _memory(seen.memory)
    yield ledger_row(seen.state, seen.warm + seen.thinking + seen.rushing)


def attack(folder: Path, sizes: Sizes) -> Run:
    """One server, first warmed by one analyst, then asked by everybody with pauses, then without."""
    warming = Campaign(1)
    thinking = Campaign(sizes.thinking_rounds, 1, sizes.think)
    rushing = Campaign(sizes.rounds, 1 + sizes.thinking_rounds)
    wished = sum((campaign.total(sizes.analysts) for campaign in (warming, thinking, rushing)), Fraction(0))
    tables = {DATASET: Table(ROWS)}
    place = make_place(folder, analysts=sizes.analysts, tables=tables, epsilon=SHARE * wished)
    memory: list[tuple[float, float]] = []
    with serving_together(place, sizes.servers) as servers:
        warm = _shown("warming", place, servers, warming)
        slow = _shown("thinking", place, servers, thinking)
        began = _cpu(servers)
        with _watched(servers, memory) as heard:
            fast = _shown("all at once", place, servers, rushing, heard)
        cpu = _cpu(servers) - began
    with open_ledger(f"sqlite:///{folder}/blowfish.ledger", mark=folder / "blowfish.mark") as ledger:
        return Run(warm, slow, fast, memory, cpu, read_ledger_state(ledger, warm + slow + fast))


def _shown(
    title: str, place: Place, servers: Sequence[Running], campaign: Campaign, also: Callable[[int], None] | None = None
) -> list[Outcome]:
    with progress(title, 4 * campaign.rounds * len(place.tokens)) as bar:

        def heard(done: int) -> None:
            bar(done)
            if also is not None:
                also(done)

        return run_campaign(place, servers, campaign, heard)


def _cpu(servers: Sequence[Running]) -> float:
    return sum(cpu_seconds(one.process) for one in servers)


class _watched:
    """Notes the servers' resident megabytes twice a second, each with the number of requests done by then."""

    def __init__(self, servers: Sequence[Running], memory: list[tuple[float, float]]) -> None:
        self._servers = servers
        self._memory = memory
        self._done = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Callable[[int], None]:
        self._thread.start()
        return partial(setattr, self, "_done")

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._memory.append((float(self._done), sum(resident_mb(one.process) for one in self._servers)))


def _latency(case: str, seconds: Sequence[float], floor: float) -> Iterator[Row]:
    if seconds:
        late = at(seconds, 0.95)
        note = f"{len(seconds)} requests; median {at(seconds, 0.5):.3f} s, 99 % {at(seconds, 0.99):.3f} s"
        yield Row(case, late, floor, late / floor, note=note)


def _memory(memory: Sequence[tuple[float, float]]) -> Row:
    """Growth over the second half, when every cache is full; megabytes for a thousand requests."""
    half = memory[len(memory) // 2 :]
    found = slope([done / 1000 for done, _ in half], [megabytes for _, megabytes in half])
    note = (
        f"MB for 1,000 requests in the second half, 95 % interval {found.low:.2f} to {found.high:.2f}; "
        f"{memory[0][1]:.0f} MB at the start, {half[0][1]:.0f} at half, {half[-1][1]:.0f} at the end"
    )
    return Row("memory growth", found.value, peak_mb=max(megabytes for _, megabytes in memory), note=note)


def ledger_row(state: LedgerState, outcomes: Sequence[Outcome]) -> Row:
    """What was spent of what there was; RuntimeError when the ledger does not add up."""
    if state.faults:
        raise RuntimeError("; ".join(state.faults))
    kinds = counted(outcomes)
    note = (
        f"{kinds['release']} releases, {state.charges} charges, {kinds['refusal']} refusals, "
        f"{kinds['replay']} replays; over-spend 0, answers without charge 0, charges without answer 0"
    )
    return Row("budget spent", float(state.spent), float(state.limit), float(state.spent / state.limit), note=note)
