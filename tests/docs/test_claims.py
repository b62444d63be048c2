"""Claims with numbers, and tables of settings and kinds, are those of the code: each is made of what the code has."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from fractions import Fraction
from math import log2

import pytest

from blowfishdb.catalog.config import LONGEST_COUNTS
from blowfishdb.catalog.dataset import USUAL_EPSILON
from blowfishdb.cli import mcp
from blowfishdb.cli.output import EXIT_CODES
from blowfishdb.engine import answer, charge, compile
from blowfishdb.engine.request import MOST_EPSILON
from blowfishdb.ledger import amounts, mark, watch
from blowfishdb.model import aggregates, conditions, policy
from blowfishdb.model.cells import CELL_LIMIT
from blowfishdb.model.projection import COVER_LIMIT
from blowfishdb.present.export import MOST_BARS
from blowfishdb.server import admission, connections, state, worker_pools
from blowfishdb.server.auth import approvals, grants, session
from blowfishdb.server.pages.layout import MOST_PAGES
from blowfishdb.server.settings import Settings
from blowfishdb.server.wire import catalog
from blowfishdb.session import backend, local
from blowfishdb.session.session import SpendingCap
from blowfishdb.sources import calls, duckdb, irregular, keys, location, spark, statement, steps
from blowfishdb.sources.base import Engine
from blowfishdb.sql.statement import LONGEST_STATEMENT
from blowfishdb.sqlite_files import PAUSE
from tests.docs.blocks import DOCS, ROOT, pages
from tools.docs_site.reference import commands
from tools.faults.__main__ import KINDS
from tools.faults.lab import HEAD

WORDS = {
    2: "two",
    4: "four",
    5: "five",
    8: "eight",
    10: "ten",
    12: "twelve",
    50: "fifty",
    0.05: "a twentieth of a second",
    1_000_000: "a million",
    2**19: "half a million",
    2**20: "a million",
}
"""Numbers as the pages write them; a number that is not here would be written with digits."""
KIB, MIB = 2**10, 2**20


def hours(seconds: float) -> str:
    """A time in hours, as the pages write it."""
    return "an hour" if seconds == 3600 else f"{WORDS[seconds / 3600]} hours"


SAID = {
    "server.md": (
        f"at most every {state.PROBE_SECONDS:g} seconds and for at most {state.PROBE_PATIENCE:g}; "
        f"the first time for at most {state.FIRST_PATIENCE:g}",
        f"What is light (up to {worker_pools.LIGHT} cells of one attribute,",
        f"after {WORDS[worker_pools.LONGEST_TURN]} the next one begins anyway",
        f"end after {WORDS[worker_pools.IDLE / 60]} idle minutes",
        f"a user may have {WORDS[worker_pools.MOST_WAITING]} waiting (`rate-limited`)",
        f"a query is given up after {WORDS[worker_pools.LONGEST / 60]} minutes",
        f"none of the {worker_pools.RELEASES_AT_ONCE} threads for releases",
        f"at most 2^{log2(aggregates.MOST_CELLS):g} cells, or 2^{log2(CELL_LIMIT):g} where quantiles are chosen by "
        f"rank, and {WORDS[compile.MOST_ANSWERS]} answers",
        f"Answers of more than {charge.LARGE:,} cells or numbers are made one at a time",
        f"The quote cache is bounded for all analysts together ({WORDS[local.MOST_CELLS]} cells",
        f"One user has at most {MOST_PAGES} open",
        f"the body of a sign-in has at most {admission.LARGEST_OF_STRANGERS:,} bytes, a head "
        f"{connections.LARGEST_HEAD // KIB} KiB, a first message on the PostgreSQL port "
        f"{admission.LARGEST_OF_STRANGERS:,} bytes",
        f"where it was idle for {WORDS[admission.RECENT]} seconds",
        f"a second more for each {admission.SLOWEST // KIB} KiB that went by",
        f"at most {catalog.MOST_ROWS:,} rows and {catalog.LARGEST_LOOK_UP // MIB} MiB of text",
        f"A login session ends after {hours(session.IDLE)} of inactivity and after {hours(session.LONGEST_LOGIN)} in",
        f"{WORDS[session.FREE_TRIES]} wrong passwords delay a name, "
        f"and {WORDS[session.FREE_TRIES_OF_AN_ADDRESS]} an address",
        f"learns of a change within {'a second' if grants.FRESH_SECONDS == 1 else grants.FRESH_SECONDS}",
        f"within {WORDS[approvals.DAYS / 7]} weeks: it is released once",
    ),
    "timing.md": (
        f"occupies one of the {worker_pools.RELEASES_AT_ONCE} release threads",
        f"with 0.25 seconds at most {worker_pools.RELEASES_AT_ONCE / 0.25:g} releases a second",
        f"without padding at {'whole seconds' if charge.CANCEL_STEP == 1 else charge.CANCEL_STEP}",
        f"`longest_count` in the configuration, {hours(compile.LONGEST_COUNT)} unless",
        f"At most {calls.MOST_CALLS} calls to one source",
        f"Answers of more than {charge.LARGE:,} cells or numbers are made one at a time",
        f"files of up to {duckdb.SMALL_SIZE // MIB} MB together gave to one of the last {duckdb.MOST_COUNTED} statem",
    ),
    "configuration.md": (
        f"from {LONGEST_COUNTS[0]} to {'a week' if LONGEST_COUNTS[1] == 7 * 86_400 else LONGEST_COUNTS[1]}, "
        f"`{compile.LONGEST_COUNT:g}` unless said",
        f"Each look at the columns of a database server has {Engine.patience:g} seconds, "
        f"on Spark {spark.Spark.patience:g}",
        f"the total budget of the data; default {USUAL_EPSILON} |",
    ),
    "ledger.md": (
        f"Decimals of up to {log2(amounts.DECIMALS) / log2(10):g} places and fractions with denominators up to "
        f"{next(n for n in range(1, 99) if amounts.EASY % n) - 1} always fit",
        f"common denominator would pass 10^{log2(amounts.FINEST) / log2(10):g} counts",
        f"with every balance {'once a minute' if watch.EVERY == 60 else watch.EVERY} from then on",
        f"a lock held for {mark.PATIENCE:g} seconds raises",
        f"did not end within {WORDS[PAUSE]} seconds is refused",
    ),
    "sources.md": (
        f"more than {keys.LIST_LIMIT} categories",
        f"more than {keys.CHOICE_LIMIT} unequal edges",
        f"a nested CASE of at most {statement.MOST_CELLS}",
        f"a grid of up to {irregular.GRID_LIMIT:,} equal steps",
        f"after up to {WORDS[irregular.MOST_ROOTS]} square roots",
        f"some {WORDS[irregular.CELLS_PER_EDGE]} places for each edge",
        f"more than {WORDS[steps.PROOF_LIMIT]} edges",
        f"on machines of up to {WORDS[duckdb.STREAMED_CORES]} cores",
        f"Lines of more than {duckdb.LONGEST_LINE // MIB} MiB are not read",
        f"up to {WORDS[spark.MOST_IDLE]} sessions wait for its next statement",
        f"the connection is closed {WORDS[spark.SLACK]} seconds later at the latest",
        f"time of change is less than {WORDS[location.SETTLED / 1e9]} seconds ago",
    ),
    "sql.md": (
        f"A statement has at most {LONGEST_STATEMENT:,} characters, {conditions.MOST_NESTED} levels of brackets and "
        f"{conditions.MOST_CONDITIONS} conditions in one row",
    ),
    "answers.md": (
        f"(unless these have more than {answer.LARGEST:,} characters)",
        f"one attribute, up to {MOST_BARS} bars",
    ),
    "python.md": (
        f"lists your newest {backend.MOST_LISTED:,} past queries",
        f"It is at most {int(MOST_EPSILON):,} for each row that a person may have",
    ),
    "policies.md": (
        f"at most 2^{log2(aggregates.MOST_CELLS):g} of them (2^{log2(CELL_LIMIT):g} where quantiles are chosen "
        "by rank)",
        f"more than {COVER_LIMIT // 10**6} million projected edges",
        f"Blocks name every combination of declared values once, up to {policy.MOST_COMBINATIONS:,} of them",
    ),
    "assistants.md": (f"Results have at most {mcp.MOST_ROWS:,} rows",),
    "rest.md": (f"was written to within the last {WORDS[location.SETTLED / 1e9]} seconds",),
    "security-whitepaper.md": (
        f"Sessions end after {hours(session.IDLE)} of silence and after {hours(session.LONGEST_LOGIN)}",
        f"of the last {duckdb.MOST_COUNTED} statements on small files",
    ),
    "threat-model.md": (
        f"a sign-in, of at most {admission.LARGEST_OF_STRANGERS:,} bytes, and no head of more than "
        f"{connections.LARGEST_HEAD // KIB} KiB",
        f"lines of more than {duckdb.LONGEST_LINE // MIB} MiB",
    ),
}
"""Sentences by page, made of the numbers in the code: a number that changes there is not found here."""


@pytest.mark.parametrize(
    ("page", "sentence"), [(page, sentence) for page, sentences in SAID.items() for sentence in sentences]
)
def test_numbers_on_the_pages_are_those_of_the_code(page: str, sentence: str) -> None:
    assert sentence in " ".join((DOCS / page).read_text(encoding="utf-8").split())


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The rows of the table whose first line has this heading."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"| {heading} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()[2:]]


def written(value: object) -> str:
    """A default as the page on the server writes it."""
    if value is None:
        return "none"
    if value == ():
        return "`[]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    assert isinstance(value, int)
    return f"{value // MIB} MiB" if value % MIB == 0 else f"`{value}`"


def test_defaults_of_the_server_are_those_on_its_page() -> None:
    listed: dict[str, str] = {}
    for row in rows_of("server.md", "key | default | meaning"):
        names, defaults = re.findall(r"`(\w+)`", row[0]), row[1].split(", ")
        listed |= dict(zip(names, defaults * len(names) if len(defaults) == 1 else defaults, strict=True))
    ours = {
        field.name: written(getattr(Settings(), field.name)) for field in fields(Settings) if field.name != "folder"
    }
    assert listed == ours


def test_kinds_of_faults_are_those_that_are_injected() -> None:
    assert [row[0].strip("`") for row in rows_of("faults.md", "kind | what happens")] == list(KINDS)


def test_every_row_of_results_of_the_faults_lost_nothing() -> None:
    """The page says so of all rows; whoever puts in a row that lost something writes another sentence."""
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    rows = rows_of("faults.md", HEAD.splitlines()[0].strip("| "))
    assert "Every row had zero in all columns that must be zero" in page
    assert len(rows) > 25
    assert [row for row in rows if {row[4], row[5], row[6], row[8]} != {"0"}] == []


def test_an_assistant_has_the_tools_on_its_page_and_spends_nothing_unasked() -> None:
    conversation = mcp.Conversation(None, SpendingCap(Fraction(0)))  # type: ignore[arg-type]
    tools = asyncio.run(mcp.mcp_server(conversation).list_tools())
    listed = [row[0].strip("`") for row in rows_of("assistants.md", "tool | what it returns | cost")]
    assert [tool.name for tool in tools] == listed
    command = next(command for words, command in commands() if words == "blowfish mcp")
    assert next(option.default for option in command.params if option.name == "spend") == "0"


def test_exit_codes_are_those_of_the_command_line() -> None:
    listed = {int(code): meaning for code, meaning in rows_of("command-line.md", "code | meaning")}
    assert listed == EXIT_CODES


def named(pattern: str) -> set[str]:
    """What all pages name in this way."""
    texts = [page.read_text(encoding="utf-8") for page in (*pages(), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")]
    return {name for text in texts for name in re.findall(pattern, text)}


def test_benchmarks_and_targets_that_pages_name_are_there() -> None:
    benchmarks, targets = named(r"python -m benchmarks ([a-z-]+)"), named(r"`make ([a-z-]+)")
    assert {"neighbours", "all"} <= benchmarks
    assert [name for name in benchmarks if not (ROOT / "benchmarks" / f"{name.replace('-', '_')}.py").is_file()] == []
    assert {"test", "nightly"} <= targets
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_names_in_the_glossary_are_those_of_the_code() -> None:
    code = "\n".join(path.read_text() for room in ("src", "papers") for path in (ROOT / room).rglob("*.py"))
    names = re.findall(r"`([^`\n]+)`", (DOCS / "glossary.md").read_text(encoding="utf-8"))
    assert len(names) > 40
    files = [name for name in names if "/" in name]
    assert [name for name in files if not (ROOT / name).is_file()] == []
    words = {word for name in names if name not in files for word in re.findall(r"[A-Za-z_][\w-]*", name)}
    assert sorted(word for word in words if word not in code) == []


def test_another_number_on_a_page_is_noticed() -> None:
    page = " ".join((DOCS / "server.md").read_text(encoding="utf-8").split())
    sentence = next(one for one in SAID["server.md"] if "hour of inactivity" in one)
    assert sentence in page
    assert sentence not in page.replace("an hour of inactivity", "two hours of inactivity")
