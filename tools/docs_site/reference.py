"""Pages of the site that no file of `docs` holds: references made from the code, and files of the project root."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import typer

import blowfishdb as bf
from blowfishdb import analysis
from blowfishdb.catalog.config import DATASET_KEYS, JOIN_KEYS, KEYS, USUAL_LEDGER
from blowfishdb.cli.app import app
from blowfishdb.cli.output import EXIT_CODES, KINDS
from blowfishdb.errors import BlowfishError, error_types
from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS, PARAMETERS
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import QuantilePlan
from blowfishdb.server.app import ROUTERS
from blowfishdb.server.problems import STATUS
from blowfishdb.server.rest.ledger import router as ledger_router
from blowfishdb.server.settings import Settings
from blowfishdb.session.backend import Budget
from blowfishdb.session.table import Question, Table
from blowfishdb.sql import refusals
from blowfishdb.sql.groups import GROUPS_HELP, MOST_GROUPS
from blowfishdb.sql.statement import ALIASES, EXAMPLE, READERS

NOTE = "*This page is generated from the code.*"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars and line breaks inside a cell are kept from ending it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(cell(one) for one in row)} |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text that fits into one cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as code."""
    return f"`{text}`"


def first_line(thing: object) -> str:
    """What the reader gets of something, as its docstring begins."""
    return (inspect.getdoc(thing) or "").split("\n")[0]


GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Asking", ("connect", "Session", "col", "Aggregate", "Preview", "Answer", "compare", "Synopsis", "open_synopsis")),
    ("Curating", ("curate", "Curator", "Dataset", "Join")),
    ("Domains", ("domain", "integers", "bins", "categorical", "dates", "timestamps")),
    (
        "Policies",
        (
            *("Policy", "person", "full", "threshold", "line", "partition", "custom", "public", "grid", "joint"),
            *(
                "metric",
                "read_edges",
                "read_distances",
                "count_constraint",
                "range_constraint",
                "marginal_constraint",
                "rows_constraint",
                "explain",
            ),
        ),
    ),
    ("Documents", ("read_document", "write_document")),
    ("Without a session", ("query", "compile_query", "quote", "accuracy_at", "certify", "MECHANISMS")),
)
ANALYSIS = "analysis"
MORE: tuple[type, ...] = (Table, Question, Budget, Certificate)
"""Objects that no name of the package makes, but that its functions give."""


def home_of(name: str) -> str:
    """Where a public name is defined, as the package itself says."""
    return f"blowfishdb.{bf._MODULE_OF[name]}.{name}"


def python_page() -> str:
    """Every public name, by what it is for."""
    parts = ["# Python", NOTE, "`import blowfishdb as bf`; [asking from Python](../python.md) is the guide."]
    for title, names in GROUPS:
        parts.append(f"## {title}")
        parts += [f"::: {home_of(name)}" for name in names]
    parts.append("## What they give")
    parts += [f"::: {one.__module__}.{one.__qualname__}" for one in MORE]
    parts.append("## bf.analysis")
    parts += [f"::: blowfishdb.analysis.{home}.{name}" for home, name in analysis_names()]
    return "\n\n".join(parts)


def analysis_names() -> list[tuple[str, str]]:
    """The public names of `bf.analysis`, each with its module."""
    return [(getattr(analysis, name).__module__.rpartition(".")[2], name) for name in analysis.__all__]


CLAUSE_WORDS = {
    "joins": "JOIN",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "windows": "WINDOW",
    "sort": "SORT BY",
    "sample": "TABLESAMPLE",
    "hint": "hints",
    "locks": "FOR UPDATE",
}
ENDING = " [HAVING ...] [ORDER BY ...] [LIMIT n] [OFFSET n] [OPTIONS (...)]"
FUNCTION_WORDS = {
    "count_distinct": "COUNT(DISTINCT x)",
    "window": "... OVER (...)",
}


def sql_page() -> str:
    """Aggregates, groups, options and refusals."""
    names = [*READERS, *ALIASES, "confidence", "rows", "within_NAME"]
    rows = [(code(name), _same_as(name)) for name in names]
    clauses = [(CLAUSE_WORDS.get(name, name.upper()), reply) for name, reply in refusals.CLAUSES.items()]
    functions = [(FUNCTION_WORDS.get(name, name.upper()), reply) for name, reply in refusals.FUNCTIONS.items()]
    return "\n\n".join(
        [
            "# SQL",
            NOTE,
            "[The SQL guide](../sql.md) explains the language with examples. A statement is parsed and never executed.",
            f"```text\n[EXPLAIN] {refusals.SHAPE.format(table='<dataset>')}{ENDING}\n```",
            f"**Aggregates**: {refusals.AGGREGATES}; several in each statement.",
            f"**Groups**: {GROUPS_HELP}; at most {MOST_GROUPS}.",
            "## Options",
            f"Written `{EXAMPLE}`.",
            table(("option", ""), rows),
            "## Clauses that are refused",
            table(("clause", "reply"), clauses),
            "## Functions that are refused",
            table(("function", "reply"), functions),
        ]
    )


def _same_as(name: str) -> str:
    if name == "confidence":
        return "1 - beta"
    return f"the same as {code(ALIASES[name])}" if name in ALIASES else ""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it, in the order of the help."""
    root = typer.main.get_command(app)

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
            return
        for name, one in inner.items():
            yield from below(f"{words} {name}", one)

    yield from below("blowfish", root)


def command_page() -> str:
    """Each command: what it does, how it is called, its options."""
    parts = [
        "# Commands",
        NOTE,
        "`blowfish COMMAND --help` shows the same in the terminal. [The command line](../command-line.md) explains it "
        "with more examples, the words of domains and policies, and the exit codes.",
    ]
    for words, command in commands():
        parts += [f"## {words}", *_command(words, command)]
    return "\n\n".join(parts)


def _command(words: str, command: Any) -> Iterator[str]:
    help_text = inspect.cleandoc(command.help or "").replace("\x08", "")
    text, _, examples = help_text.partition("Examples\n")
    yield text.strip()
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([words, *(one.metavar or one.name.upper() for one in arguments), "[OPTIONS]"])
    yield f"```text\n{usage}\n```"
    rows = [(_names(one), _meaning(one)) for one in command.params if one.name != "help"]
    yield table(("option", "meaning"), rows)
    if examples:
        yield "```bash\n" + inspect.cleandoc(examples) + "\n```"


def _names(one: Any) -> str:
    if one.param_type_name == "argument":
        return code(one.metavar or one.name.upper())
    names = ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))
    return f"{names} {one.metavar or ''}".strip()


def _meaning(one: Any) -> str:
    variable = f" (or the variable {code(one.envvar)})" if isinstance(getattr(one, "envvar", None), str) else ""
    return f"{getattr(one, 'help', None) or ''}{variable}"


METHODS = ("get", "post", "put", "patch", "delete")


def openapi() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    from fastapi import APIRouter, FastAPI

    app = FastAPI(title="BlowfishDB", docs_url=None, redoc_url=None)
    api = APIRouter(prefix="/api/v1")
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    app.include_router(ledger_router)
    return app.openapi()


def rest_page() -> str:
    """Each route: what it does, what it takes, what it gives."""
    document = openapi()
    parts = [
        "# REST routes",
        NOTE,
        "`GET /api/v1/openapi.json` on a running server returns the same as OpenAPI. [REST](../rest.md) explains "
        "signing in, keys, and who may do what; [errors](errors.md) lists every code.",
    ]
    group = ""
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method not in methods:
                continue
            route = methods[method]
            tag = (route.get("tags") or ["operation"])[0]
            if tag != group:
                parts.append(f"## {tag.capitalize()}")
                group = tag
            parts += _route(method.upper(), path, route)
    parts += ["## Bodies", *_bodies(document.get("components", {}).get("schemas", {}))]
    return "\n\n".join(parts)


def _route(method: str, path: str, route: dict[str, Any]) -> list[str]:
    lines = [f"### {method} {path.removeprefix('/api/v1')}", route.get("description") or route.get("summary", "")]
    rows = [
        (code(one["name"]), one["in"], _type(one.get("schema", {})), "yes" if one.get("required") else "")
        for one in route.get("parameters", [])
        if one["in"] != "cookie"
    ]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        rows.append(("body", "JSON", _type(body), "yes"))
    if rows:
        lines.append(table(("parameter", "where", "form", "needed"), rows))
    return lines


def _bodies(schemas: dict[str, Any]) -> list[str]:
    lines = []
    for name, schema in sorted(schemas.items()):
        if "properties" not in schema or name in ("HTTPValidationError", "ValidationError"):
            continue
        needed = schema.get("required", [])
        rows = [(code(key), _type(one), "yes" if key in needed else "") for key, one in schema["properties"].items()]
        lines += [f"### {name}", schema.get("description", ""), table(("key", "form", "needed"), rows)]
    return lines


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"])
    return str(schema.get("type", "anything"))


DOCS = Path(__file__).resolve().parents[2] / "docs"
NOT_WRITTEN = ("folder",)
"""Fields that the program fills in itself."""
VARIABLE = re.compile(r'"(BLOWFISH_[A-Z]+)"')
VARIABLES = {
    "BLOWFISH_CONFIG": "the configuration file, in place of `blowfish.toml`",
    "BLOWFISH_ANALYST": "who asks and pays, in place of `--analyst`",
    "BLOWFISH_MCP_SECRET": "the secret that `blowfish mcp --http` asks of every request",
    "BLOWFISH_TOKEN": "the token with which `blowfish mcp --server` signs in",
    "BLOWFISH_CURATOR": "who acts, in place of `--by`",
    "BLOWFISH_TRACEBACK": "`1` shows the whole trace of an unexpected fault; it may quote data",
}


def server_keys() -> list[Field[object]]:
    """The fields of `[server]`."""
    return [entry for entry in fields(Settings) if entry.name not in NOT_WRITTEN]


def variables_read() -> set[str]:
    """The environment variables of our own that the code names."""
    source = Path(bf.__file__).parent
    return {name for path in source.rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}


def setting_page() -> str:
    """Every key with its usual value and its meaning."""
    meanings = meanings_of("configuration.md") | meanings_of("server.md")
    top = [(code(key), meanings.get(key, ""), _usual_top(key)) for key in KEYS]
    dataset = [(code(key), meanings.get(f"datasets.NAME.{key}", "")) for key in DATASET_KEYS]
    joins = [(code(key),) for key in JOIN_KEYS]
    server = [(code(entry.name), _usual(entry), meanings.get(entry.name, "")) for entry in server_keys()]
    variables = [(code(name), VARIABLES.get(name, "")) for name in sorted(variables_read() | set(VARIABLES))]
    return "\n\n".join(
        [
            "# Settings",
            NOTE,
            "All settings are in one TOML file, `blowfish.toml`. [Configuration](../configuration.md) explains the "
            "file and [Server](../server.md) how a server runs. Addresses may name environment variables: `${NAME}`.",
            "## The file",
            table(("key", "meaning", "default"), top),
            "## `[datasets.NAME]`",
            table(("key", "meaning"), dataset),
            "## `[[datasets.NAME.joins]]`",
            table(("key",), joins),
            "## `[server]`",
            table(("key", "default", "meaning"), server),
            "## Environment",
            table(("variable", "meaning"), variables),
        ]
    )


def meanings_of(name: str) -> dict[str, str]:
    """What the tables of a page say of each key; a line may explain several."""
    meanings: dict[str, str] = {}
    for line in (DOCS / name).read_text(encoding="utf-8").split("\n"):
        parts = [part.strip() for part in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("| `") and len(parts) >= 2:
            for key in re.findall(r"`([A-Za-z_.]+)`", parts[0]):
                meanings[key] = _links_from_reference(parts[-1])
    return meanings


def _links_from_reference(text: str) -> str:
    return re.sub(r"\]\((?!https?:|#)", "](../", text)


def _usual_top(key: str) -> str:
    return code(f'"{USUAL_LEDGER}"') if key == "ledger" else ""


def _usual(entry: Field[object]) -> str:
    if entry.default is MISSING or entry.default is None:
        return ""
    if isinstance(entry.default, bool):
        return code(str(entry.default).lower())
    return code(f'"{entry.default}"' if isinstance(entry.default, str) else entry.default)


PROOFS = DOCS / "proofs"
PROOF_OF = {
    "adaptive-tree": "region-trees",
    "dawa-bounded": "dawa",
    "exponential-quantiles": "quantiles",
    "matching-transform": "matching",
}
"""Mechanisms whose proof note has another name."""


def proof_of(name: str) -> str | None:
    """The proof note of a mechanism; None where there is none."""
    note = PROOF_OF.get(name, name)
    return note if (PROOFS / f"{note}.md").exists() else None


def mechanism_page() -> str:
    """Each mechanism: what it does, which queries and policies it serves, its proof."""
    plain = [
        (code(name), _module_line(propose), first_line(propose), _link(name)) for name, propose in MECHANISMS.items()
    ]
    chosen = [(code(name), first_line(QuantilePlan), _link(name)) for name in CHOICES]
    aware = [(code(name), first_line(type(one)), _link(name)) for name, one in DATA_AWARE.items()]
    settable = [
        (code(name), code(one.name), one.range, one.usual, one.meaning)
        for name, taken in PARAMETERS.items()
        for one in taken
    ]
    return "\n\n".join(
        [
            "# Mechanisms",
            NOTE,
            "A mechanism proposes what to measure. It sees the query and the policy, never data, and it does not "
            "compute its own price: the certificate does. Name one with `mechanism=` or `--mechanism`; by default "
            "the best data-independent one runs.",
            "## Data-independent",
            "These mechanisms promise an accuracy before any data is read.",
            table(("name", "what it measures", "queries and policies", "proof"), plain),
            "## Choices",
            "These mechanisms choose an answer among all declared ones, and promise how far off it is in ranks.",
            table(("name", "what it chooses", "proof"), chosen),
            "## Data-aware",
            "These mechanisms spend part of their epsilon on finding where the data is uniform, and promise no "
            "accuracy: give an epsilon. [When to use them](../data-aware.md).",
            table(("name", "what it does", "proof"), aware),
            "## Parameters",
            "Experts set these with `parameters=` or `--parameter`. [How](../data-aware.md#parameters-for-experts).",
            table(("mechanism", "parameter", "range", "default", "meaning"), settable),
            "`auto` is not a mechanism: it chooses one by "
            "[published rules](../data-aware.md#letting-the-rules-choose).",
        ]
    )


def _module_line(propose: object) -> str:
    text = first_line(sys.modules[str(getattr(propose, "__module__", ""))])
    return text.partition(": ")[2] or text


def _link(name: str) -> str:
    note = proof_of(name)
    return f"[{note}](../proofs/{note}.md)" if note else ""


HIDDEN = ("self", "message", "args")


def all_errors() -> list[type[BlowfishError]]:
    """Every kind of error that can be caught, by its code."""
    return sorted(
        (kind for kind in error_types().values() if kind is not BlowfishError),
        key=lambda kind: (kind.code, kind.__name__),
    )


def error_page() -> str:
    """Codes, classes, statuses, exit codes, fields."""
    rows = []
    for kind in all_errors():
        status = next(number for known, number in STATUS if issubclass(kind, known))
        end = next((number for known, number in KINDS if issubclass(kind, known)), 1)
        name = f"{code(kind.code)}<br>{code(kind.__name__)}"
        rows.append((name, first_line(kind), _fields(kind), str(status), str(end)))
    exits = table(("exit code", "meaning"), [(str(number), words) for number, words in EXIT_CODES.items()])
    return "\n\n".join(
        [
            "# Error codes",
            NOTE,
            "Every error descends from `BlowfishError` (`blowfishdb.errors`), has a `code` that never changes once "
            "published, typed fields, and a message that says what to do. No message depends on data.",
            table(("code, and in Python", "what happened", "fields", "REST", "exit"), rows),
            "## Exit codes of the command line",
            exits,
        ]
    )


def _fields(kind: type[BlowfishError]) -> str:
    names = [name for name in inspect.signature(kind).parameters if name not in HIDDEN]
    return ", ".join(code(name) for name in names)


GENERATED: Mapping[str, Callable[[], str]] = {
    "reference/python.md": python_page,
    "reference/sql.md": sql_page,
    "reference/commands.md": command_page,
    "reference/rest.md": rest_page,
    "reference/settings.md": setting_page,
    "reference/errors.md": error_page,
    "reference/mechanisms.md": mechanism_page,
}
"""Reference pages and what makes them."""

ROOT_PAGES: Mapping[str, str] = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files in the root of the project, and their pages."""


def page_text(name: str, root: Path) -> str:
    """The Markdown of a page that is not in `docs`."""
    if name in GENERATED:
        return GENERATED[name]()
    source = next(file for file, page in ROOT_PAGES.items() if page == name)
    text = (root / source).read_text(encoding="utf-8").replace("](docs/", "](")
    for file, page in ROOT_PAGES.items():
        text = text.replace(f"]({file})", f"]({page})")
    return text.replace("](README.md)", "](index.md)")
