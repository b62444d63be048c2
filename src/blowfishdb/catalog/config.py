"""The one configuration file: where the ledger is, and the datasets with their domains, policies and budgets."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import tomlkit
from tomlkit.items import Item, Table, Trivia

from blowfishdb.catalog.dataset import USUAL_EPSILON, Dataset
from blowfishdb.engine.compile import ANALYSTS, LONGEST_COUNT
from blowfishdb.engine.request import short_number
from blowfishdb.errors import CatalogError, DocumentError, InvalidInput, UnknownDataset
from blowfishdb.ledger.amounts import SUM
from blowfishdb.model.document import KeyPath, dotted, line_of, parse_toml, read_content, toml_lines
from blowfishdb.model.numbers import suggest
from blowfishdb.sources.base import Join
from blowfishdb.sources.ibis_source import IbisSource, open_source
from blowfishdb.sources.location import scheme_of


@dataclass(frozen=True)
class ConfigEntry:
    """A table of the configuration and its place."""

    text: str = field(repr=False)
    path: KeyPath
    content: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The table as people write it: datasets.visits."""
        return dotted(self.path)

    def line(self, *inside: str | int) -> int | None:
        """The line of something in the table, or of what stands nearest around it."""
        # The lines are found when a mistake was: a configuration may list very many values.
        return line_of(toml_lines(self.text), (*self.path, *inside))

    def wrong(self, reason: str, *inside: str | int) -> CatalogError:
        """The error for something in the table."""
        place = dotted((*self.path, *inside))
        return CatalogError(f"{place}{reason}" if place else reason, line=self.line(*inside))

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Refuses a key that is none of the known ones, and names the nearest."""
        for key in self.content:
            if key not in known:
                whose = self.where or "the configuration"
                raise CatalogError(f"{whose} has no key {key!r}; {suggest(key, known)}", line=self.line(key))

    def check_present(self, keys: tuple[str, ...]) -> None:
        """Refuses a table that lacks one of the keys."""
        for key in keys:
            if key not in self.content:
                raise self.wrong(f": the key {key!r} is missing")

    def table(self, key: str) -> ConfigEntry:
        """The table under a key, empty where there is none."""
        return self._table(self.content.get(key, {}), key)

    def tables(self, key: str) -> list[ConfigEntry]:
        """The list of tables under a key."""
        listed = self.content.get(key, [])
        if not isinstance(listed, list):
            raise self.wrong(" is a list of tables", key)
        return [self._table(one, key, place) for place, one in enumerate(listed)]

    def _table(self, value: object, *inside: str | int) -> ConfigEntry:
        if not isinstance(value, dict):
            raise self.wrong(" is a table", *inside)
        return ConfigEntry(self.text, (*self.path, *inside), value)

    def word(self, key: str, usual: str = "") -> str:
        """The text under a key."""
        value = self.content.get(key, usual)
        if not isinstance(value, str):
            raise self.wrong(" is a text", key)
        return value

    def number(self, key: str) -> Fraction | None:
        """The exact number under a key, if there is one."""
        if key not in self.content:
            return None
        try:
            return short_number(self.content[key], key)
        except InvalidInput as error:
            raise CatalogError(f"{self.where}: {error}", line=self.line(key)) from None


LONG = 500


class Verbatim(Item):
    """A value of a TOML document whose text is made already."""

    def __init__(self, content: Any, text: str) -> None:
        super().__init__(Trivia())
        self._content, self._text = content, text

    @property
    def discriminant(self) -> int:
        """What sorts kinds of values in tomlkit: that of a list."""
        return 8

    def as_string(self) -> str:
        """The text."""
        return self._text

    def unwrap(self) -> Any:
        """The value as plain data."""
        return self._content


def with_long_lists(value: Any) -> Any:
    """The tables with long lists of plain values, or of lists of them, ready to be written."""
    if isinstance(value, dict):
        return {key: with_long_lists(inner) for key, inner in value.items()}
    if not isinstance(value, list) or len(value) < LONG or not _is_plain(value):
        return value
    # JSON writes such lists as TOML does, but for one letter that TOML wants escaped.
    return Verbatim(value, json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))


def _is_plain(values: list[Any]) -> bool:
    inner = [entry for value in values if type(value) is list for entry in value]
    return {type(value) for value in values} <= {list, str, int, bool} and set(map(type, inner)) <= {str, int, bool}


USUAL_CONFIG = "blowfish.toml"
USUAL_LEDGER = "sqlite:///blowfish.ledger"
USUAL_USERS = "sqlite:///blowfish.users"
OWN_SCHEMAS = ("blowfish_ledger", "blowfish_users")
"""Schemas of ledgers and of users in PostgreSQL."""
KEYS = ("ledger", "mark", "checkpoint", "checkpoint_key", "longest_count", "datasets", "server")
LONGEST_COUNTS = (1, 7 * 86_400)
"""Between how many seconds the deadline of counts lies."""
DATASET_KEYS = tuple(one.name for one in fields(Dataset) if one.name != "name")
NEEDED_KEYS = ("source", "domain")
JOIN_KEYS = ("table", "foreign_key", "key", "attributes")
OWN_VARIABLES = "BLOWFISH_"
"""Prefix of the environment variables that every curator may name."""
VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Config:
    """What a configuration file says. Addresses still hold ${NAME} where a secret comes from the environment.

    `server` is passed on as it is written: the server reads it, and `text` tells its lines. `variables` are those
    that new addresses may name, beside those that begin with BLOWFISH_; None lets whoever has this machine anyway name
    all of them.
    """

    path: Path
    ledger: str = USUAL_LEDGER
    mark: str | None = None
    checkpoint: str | None = None
    checkpoint_key: str | None = None
    longest_count: float = LONGEST_COUNT
    """Seconds after which a count is given up, the same for every query."""
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    hidden: Mapping[str, Dataset] = field(default_factory=dict)
    """Datasets that whoever looks through this configuration may not know of."""
    server: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] | None = None
    text: str = field(default="", repr=False, compare=False)

    def dataset(self, name: str) -> Dataset:
        """The dataset of that name; UnknownDataset names the nearest one."""
        if not isinstance(name, str) or name not in self.datasets:
            raise UnknownDataset(f"there is no dataset {str(name)[:200]!r}; {suggest(name, self.datasets)}")
        return self.datasets[name]

    def only(self, sees: Callable[[str], bool]) -> Config:
        """The configuration as somebody sees it: to them a dataset that they may not see was never declared."""
        known = {**self.datasets, **self.hidden}
        shown = {name: dataset for name, dataset in known.items() if sees(name)}
        return replace(self, datasets=shown, hidden={name: known[name] for name in known if name not in shown})

    def ledger_url(self) -> str:
        """Where the ledger is, with secrets filled in and a relative path taken from the configuration's folder."""
        return located(filled_in(self.ledger), self.path.parent)

    def mark_place(self) -> str | Path | None:
        """Where the ledger's high-water mark is kept, a file or a database, unless in its usual place."""
        if self.mark is None:
            return None
        place = filled_in(self.mark)
        return place if "://" in place else self.path.parent / place

    def checkpoint_file(self) -> tuple[Path, str] | None:
        """The signed checkpoint that the ledger must contain, and the public key that proves it."""
        if self.checkpoint is None or self.checkpoint_key is None:
            return None
        return self.path.parent / filled_in(self.checkpoint), self.checkpoint_key

    def reachable(self, address: str) -> str:
        """A source's address with secrets filled in and a relative path taken from the configuration's folder.

        CatalogError for the ledger itself and the server's own records: they are not data to ask about.
        """
        self._check_variables(address)
        place = located(filled_in(address), self.path.parent)
        records = _files_of(self.ledger_url()) | _files_of(self._users_url())
        # Twice: an option of an address may hold escapes of its own.
        plain = unquote(unquote(place)).lower()
        if _files_of(place) & records or any(schema in plain for schema in OWN_SCHEMAS):
            raise CatalogError("this is where BlowfishDB keeps its own records; they are not a dataset")
        return place

    def scheme(self, address: str) -> str:
        """The kind of engine at an address: `file`, `duckdb`, `postgresql` and so on."""
        return scheme_of(self.reachable(address))

    def open(self, address: str, joins: Sequence[Join] = ()) -> IbisSource:
        """The rows at an address, and what is joined to them; files that are joined are found as the address is."""
        if joins and self.scheme(address) in ("file", "delta"):
            joins = [Join(self.reachable(join.table), join.foreign_key, join.key, join.attributes) for join in joins]
        return open_source(self.reachable(address), joins)

    def secrets(self, address: str = "") -> set[str]:
        """What the environment and the address hold that nobody reads in a message."""
        names = VARIABLE.findall(f"{self.text} {address}")
        values = {os.environ[name] for name in names if name in os.environ}
        credentials = [re.search(r"://[^@/]*?:([^@]*)@", text) for text in (address, *values)]
        return values | {found[1] for found in credentials if found is not None}

    def _users_url(self) -> str:
        """The address of the server's users; a variable that only the server has is not filled in."""
        address = str(self.server.get("users", USUAL_USERS))
        with suppress(CatalogError):
            address = filled_in(address)
        return located(address, self.path.parent)

    def _check_variables(self, address: str) -> None:
        """Keeps secrets of the environment from being sent to an address of somebody's choice."""
        declared = (*self.datasets.values(), *self.hidden.values())
        if self.variables is None or any(dataset.source == address for dataset in declared):
            return
        secrets = set(VARIABLE.findall(" ".join([self.ledger, self.mark or "", *map(str, self.server.values())])))
        for name in VARIABLE.findall(address):
            if name not in self.variables and (name in secrets or not name.startswith(OWN_VARIABLES)):
                why = "is one that the server itself needs" if name in secrets else "does neither"
                raise CatalogError(
                    f"addresses may name variables that begin with {OWN_VARIABLES} or stand in server.variables; "
                    f"{name} {why}"
                )


def _files_of(address: str) -> set[Path]:
    """The files that an address may name, whatever leads to them and however it is read; none for a server's."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme.lower() not in ("duckdb", "sqlite", "delta"):
        return set()
    file_part = (rest if separator else address).partition("#")[0]
    readings = {unquote(part) for part in (file_part, file_part.partition("?")[0])}
    return {Path(file).expanduser().resolve() for path in readings for file in (path, path.removeprefix("/"))}


def read_config(path: str | Path) -> Config:
    """The configuration at the path; CatalogError or DocumentError with the line of the first mistake."""
    place = Path(path).expanduser().absolute()
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CatalogError(f"there is no configuration {place.name}; a curator makes one by adding a dataset") from None
    except (OSError, UnicodeDecodeError):
        raise CatalogError(f"the configuration {place.name} cannot be read") from None
    whole = ConfigEntry(text, (), parse_toml(text))
    whole.check_keys(KEYS)
    datasets = whole.table("datasets")
    words = {key: whole.word(key) for key in ("mark", "checkpoint", "checkpoint_key") if key in whole.content}
    if ("checkpoint" in words) != ("checkpoint_key" in words):
        raise whole.wrong("checkpoint and checkpoint_key belong together: give both, or none")
    longest_count = whole.number("longest_count")
    if longest_count is not None and not LONGEST_COUNTS[0] <= longest_count <= LONGEST_COUNTS[1]:
        raise whole.wrong(" is a number of seconds from 1 to a week", "longest_count")
    return Config(
        path=place,
        ledger=whole.word("ledger", USUAL_LEDGER),
        mark=words.get("mark"),
        checkpoint=words.get("checkpoint"),
        checkpoint_key=words.get("checkpoint_key"),
        longest_count=LONGEST_COUNT if longest_count is None else float(longest_count),
        datasets={name: _dataset(name, datasets.table(name)) for name in datasets.content},
        server=whole.table("server").content,
        text=text,
    )


def write_dataset(path: Path, dataset: Dataset) -> None:
    """Puts a dataset into the file, made if need be; comments and the other datasets stay as they are."""
    with _alone_with(path):
        document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
        if "ledger" not in document:
            document["ledger"] = USUAL_LEDGER
        if "datasets" not in document:
            document["datasets"] = tomlkit.table(is_super_table=True)
        datasets = document["datasets"]
        if not isinstance(datasets, Table | dict):
            raise CatalogError("datasets is a table of the configuration")
        datasets[dataset.name] = with_long_lists(dataset.serialize())
        _replace(path, tomlkit.dumps(document))


def erase_dataset(path: Path, name: str) -> None:
    """Takes a dataset out of the file; its account stays in the ledger."""
    with _alone_with(path):
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
        del document["datasets"][name]
        _replace(path, tomlkit.dumps(document))


def filled_in(address: str) -> str:
    """The address with every ${NAME} replaced by what the environment says; the value is never shown."""

    def value(variable: re.Match[str]) -> str:
        if variable[1] not in os.environ:
            raise CatalogError(f"the environment variable {variable[1]} is not set")
        return os.environ[variable[1]]

    return VARIABLE.sub(value, address)


def located(address: str, folder: Path) -> str:
    """The address with a relative file taken from the folder of the configuration, not from where a command runs."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return str(folder / Path(address).expanduser())
    if scheme not in ("duckdb", "sqlite", "delta") or not rest.startswith("/") or rest.startswith("//"):
        return address
    file, mark, table = rest[1:].partition("#")
    plain = unquote(file)
    if not plain or (Path(f"/{plain}").exists() and not (folder / plain).exists()):
        return address
    return f"{scheme}:///{quote(str(folder / plain))}{mark}{table}"


def _dataset(name: str, entry: ConfigEntry) -> Dataset:
    entry.check_keys(DATASET_KEYS)
    entry.check_present(NEEDED_KEYS)
    epsilon, per_analyst, pad_to = (entry.number(key) for key in ("epsilon", "per_analyst", "pad_to"))
    source, accounting = entry.word("source"), entry.word("accounting", SUM)
    sharing, read_only = entry.word("sharing", ANALYSTS), entry.content.get("read_only", False)
    show_budget = entry.content.get("show_budget", False)
    joins = [_join(join) for join in entry.tables("joins")]
    declared = {"version": 1, "domain": entry.content["domain"], "policy": entry.content.get("policy", {})}
    try:
        document = read_content(_decimals_as_text(declared))
        return Dataset(
            name,
            source=source,
            domain=document.domain,
            policy=document.policy,
            epsilon=USUAL_EPSILON if epsilon is None else epsilon,
            per_analyst=per_analyst,
            joins=joins,
            accounting=accounting,
            pad_to=pad_to,
            sharing=sharing,
            read_only=read_only,
            show_budget=show_budget,
        )
    except DocumentError as error:
        line = entry.line(*error.path.split("."))
        raise DocumentError(f"{entry.where}.{error}", path=f"{entry.where}.{error.path}", line=line) from None
    except InvalidInput as error:
        raise entry.wrong(f": {error}") from None


def _join(entry: ConfigEntry) -> Join:
    entry.check_keys(JOIN_KEYS)
    entry.check_present(JOIN_KEYS)
    table, foreign_key, key = (entry.word(name) for name in JOIN_KEYS[:3])
    given = entry.content["attributes"]
    if not isinstance(given, list):
        attributes = entry.table("attributes")
        given = {name: attributes.word(name) for name in attributes.content}
    try:
        return Join(table, foreign_key, key, given)
    except InvalidInput as error:
        raise entry.wrong(f": {error}") from None


def _decimals_as_text(value: Any) -> Any:
    """The value with decimals as text, which the writer of documents keeps exactly."""
    if isinstance(value, dict):
        return {key: _decimals_as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_decimals_as_text(inner) for inner in value]
    return str(value) if isinstance(value, Decimal) else value


@contextmanager
def _alone_with(path: Path) -> Iterator[None]:
    """Keeps others from changing the file between reading and writing it, by a lock on its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace(path: Path, text: str) -> None:
    """Writes all or nothing: a reader never sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
