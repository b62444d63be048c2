"""The page of settings: keys of the configuration, of datasets and of the server, and environment variables."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path

import blowfishdb
from blowfishdb.catalog.config import DATASET_KEYS, JOIN_KEYS, KEYS, USUAL_LEDGER
from blowfishdb.server.settings import Settings
from tools.docs_site.words import NOTE, code, table

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
    source = Path(blowfishdb.__file__).parent
    return {name for path in source.rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}


def page() -> str:
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
    found: dict[str, str] = {}
    for line in (DOCS / name).read_text(encoding="utf-8").split("\n"):
        parts = [part.strip() for part in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("| `") and len(parts) >= 2:
            for key in re.findall(r"`([A-Za-z_.]+)`", parts[0]):
                found[key] = _links_from_reference(parts[-1])
    return found


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
