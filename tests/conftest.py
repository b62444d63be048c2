"""The ground of every test run: hypothesis profiles and the system parts that tests may need."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.strategies import text

from blowfishdb.noise import sampler
from tests import open_books, servers
from tests.effort import left_for_the_night
from tools.system_parts import CLIENTS, PARTS, SystemParts

ROOT = Path(__file__).parent
STRICT = os.environ.get("STRICT", "") not in ("", "0")

# Times vary on shared machines, so no profile has a deadline; slow data generation is not a fault either.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, max_examples=25)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if STRICT else "default"))


# The package jsonschema would compile the grammars of web addresses for seconds, which no schema here speaks of.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SystemParts((*PARTS, *CLIENTS), strict=STRICT), "system-parts")
    config.pluginmanager.register(servers, "servers")
    config.pluginmanager.register(open_books, "open-books")


# Measuring coverage makes Python two to three times slower, so only tests of rooms that have a floor and of what they
# are made of are measured, and of those not the long ones whose lines others reach: these files, and tests that are
# marked with `no_cover`.
MEASURED = ("analysis/", "constraints/", "engine/", "ledger/", "plan/", "session/", "sources/", "sql/")
UNMEASURED = (
    *("constraints/test_against_brute_force.py", "constraints/test_changes.py", "constraints/test_people.py"),
    *("constraints/test_points.py", "engine/test_aggregates.py", "engine/test_killed.py", "engine/test_statistics.py"),
    *("engine/test_sums.py", "plan/test_from_records.py", "sql/test_truth.py"),
    *("ledger/test_against_model.py", "ledger/test_many_processes.py"),
    *("session/test_one_process.py", "session/test_pages.py", "session/test_sharing_faults.py"),
    *("sources/test_conformance.py", "sources/test_join_neighbours.py", "sources/test_partitions.py"),
    *("sources/test_points.py", "sources/test_properties.py"),
)
CORES = os.cpu_count() or 1


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: tests wait for databases, browsers and other processes now and then."""
    return CORES + 1


@contextmanager
def first_alone(run: str) -> Iterator[None]:
    """The first process of a run goes ahead of the others: what it compiles and writes down, they only read."""
    name = Path(tempfile.gettempdir()) / f"blowfish-tests-{run}"
    with open(name, "w") as turn:
        is_first = _is_taken(turn.fileno())
        if not is_first:
            fcntl.flock(turn.fileno(), fcntl.LOCK_SH)
        yield
        if is_first:
            name.unlink()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """What tests are made of is kept to the end, so nobody looks through it for what may go."""
    process = getattr(session.config, "workerinput", None)
    gc.disable()
    with first_alone(process["testrunuid"]) if process else nullcontext():
        if process:
            # The table of all characters, which is written down for later.
            text().validate()
        collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages in a browser come first: one process waits for them while the others work, and nobody at the end."""
    for item in left_for_the_night(items):
        item.add_marker("nightly")
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(UNMEASURED) or not path.startswith(MEASURED):
            item.add_marker("no_cover")
    items.sort(key=lambda item: not item.path.is_relative_to(ROOT / "browser"))


SYSTEM = os.urandom


def keys_of(name: str) -> Callable[[int], bytes]:
    """Keys that follow from a name and the number of keys before them; other processes get the system's."""
    keys, process = itertools.count(), os.getpid()

    def key(size: int) -> bytes:
        if os.urandom is not SYSTEM or os.getpid() != process:
            return os.urandom(size)
        return hashlib.shake_256(f"{os.environ.get('NOISE', '')} {name} {next(keys)}".encode()).digest(size)

    return key


@contextmanager
def repeatable_noise(name: str) -> Iterator[None]:
    """Noise of this process that is the same in every run, where examples are; NOISE=2 gives other noise."""
    usual = sampler.os
    if settings.get_current_profile_name() == "ci":
        sampler.os = SimpleNamespace(urandom=keys_of(name))  # type: ignore[assignment]
    try:
        yield
    finally:
        sampler.os = usual


@contextmanager
def browsing() -> Iterator[None]:
    """One of as many turns as there are cores: a browser that gets too little of one misses its moments."""
    names = [Path(tempfile.gettempdir()) / f"blowfish-browser-{number}" for number in range(CORES)]
    with ExitStack() as stack:
        turns = [stack.enter_context(open(name, "w")) for name in names]
        while (turn := next((turn for turn in turns if _is_taken(turn.fileno())), None)) is None:
            time.sleep(0.05)
        # Given back by name: processes that were forked meanwhile have the file too.
        stack.callback(fcntl.flock, turn.fileno(), fcntl.LOCK_UN)
        yield


def _is_taken(turn: int) -> bool:
    """Takes the turn unless somebody else has it."""
    with suppress(BlockingIOError):
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    has_browser = item.get_closest_marker("chromium") is not None
    with browsing() if has_browser else nullcontext(), repeatable_noise(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> Iterator[None]:
    """What several tests share does not depend on which of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    with repeatable_noise(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')}"):
        return (yield)
