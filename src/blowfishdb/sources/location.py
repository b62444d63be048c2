"""Addresses of tables, such as `duckdb:///shop.duckdb#sales` or `data/*.parquet`, and digests of files behind them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from blowfishdb.errors import SourceError

FILE_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class TableName:
    """A table and, where given, its schema; both exactly as the engine stores them."""

    name: str
    schema: str | None = None


@dataclass(frozen=True)
class Location:
    """The parts of an address. The password is never shown."""

    scheme: str
    host: str = ""
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    path: str = ""
    table: TableName | None = None
    options: tuple[tuple[str, str], ...] = ()
    address: str = field(default="", repr=False)
    joined: tuple[str, ...] = ()
    """The tables that are joined to this one; files are opened together."""

    @property
    def database(self) -> str:
        """The path without its leading slash, as servers want it."""
        return self.path.lstrip("/")

    def required_table(self) -> TableName:
        """The table, or SourceError when the address names none."""
        if self.table is None:
            raise SourceError(f"the address names no table; end it with #table, as in {self.scheme}://...#people")
        return self.table


def parse_location(url: str) -> Location:
    """The parts of an address; a path to CSV or Parquet files stands for itself."""
    if not isinstance(url, str) or not url.strip():
        raise SourceError("a source is an address such as duckdb:///shop.duckdb#sales or data/*.parquet")
    if "://" not in url:
        return Location("file", path=_known_file(url))
    scheme, _, rest = url.partition("://")
    rest, _, fragment = rest.partition("#")
    if scheme == "file":
        return Location("file", path=_known_file(unquote(rest.removeprefix("localhost"))))
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port
    except ValueError:
        raise SourceError(f"the {scheme} address is not well formed; check host and port") from None
    return Location(
        scheme=scheme.lower(),
        host=(parts.hostname or "").lower(),
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        path=unquote(parts.path),
        table=parse_table(unquote(fragment)) if fragment else None,
        options=tuple(parse_qsl(parts.query, keep_blank_values=True)),
        address=f"{scheme}://{rest}",
    )


def scheme_of(address: str) -> str:
    """The scheme of an address whose variables are filled in."""
    scheme, separator, _ = address.partition("://")
    return scheme.lower() if separator else "file"


def parse_table(text: str) -> TableName:
    """`table` or `schema.table`; a name with a dot stands in double quotes, and a quote in it is doubled."""
    pieces = re.findall(r'"(?:[^"]|"")*"|[^."]+|\.', text)
    if "".join(pieces) != text:
        raise SourceError(f"the table name {text!r} is not well formed; quote a name that has dots or quotes in it")
    names = [piece[1:-1].replace('""', '"') if piece.startswith('"') else piece for piece in pieces if piece != "."]
    if len(pieces) != 2 * len(names) - 1 or not 1 <= len(names) <= 2 or not all(names):
        raise SourceError(f"a table is named as table or schema.table, not {text!r}")
    return TableName(names[-1], names[0] if len(names) == 2 else None)


def _known_file(path: str) -> str:
    if not path.lower().endswith(FILE_SUFFIXES):
        raise SourceError(f"a file of rows ends in {', '.join(FILE_SUFFIXES)}; databases need a scheme and a table")
    return path


def local_path(location: Location, is_there: Callable[[Path], bool] = Path.is_file) -> Path:
    """The file or folder of a database on this machine: three slashes start a path from here, four an absolute one.

    Where nothing lies at the path from here, the absolute reading of three slashes is tried as well.
    """
    path = location.path.removeprefix("/")
    if not path or location.host:
        table = "" if location.scheme == "delta" else "#table"
        raise SourceError(f"a file comes after three slashes: {location.scheme}:///folder/file{table}")
    for candidate in (Path(path).expanduser(), Path(location.path)):
        if is_there(candidate):
            return candidate.resolve()
    raise SourceError(f"there is no file {Path(path).name!r} where the address points, relative to the configuration")


def real_pattern(path: str) -> str:
    """The path or pattern with links and dots resolved up to its first wildcard, so that spellings agree."""
    parts = Path(path).expanduser().absolute().parts
    fixed = next((i for i, part in enumerate(parts) if GLOB.search(part)), len(parts))
    base = Path(*parts[:fixed]).resolve()
    return str(base.joinpath(*parts[fixed:]))


CHUNK = 2**22
SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which on the times of a file tell whether it was changed again."""

Stamp = tuple[int, ...]
_digests: dict[str, tuple[Stamp, str]] = {}


ReadBytes = Callable[[str], Iterator[bytes]]


def read_here(path: str) -> Iterator[bytes]:
    """The bytes of a file of rows, piece by piece."""
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def read_elsewhere(path: str) -> Iterator[bytes]:
    """The bytes of a database's file, read by another process: to close it here would take locks of this one away."""
    command = ["cat", "--", path]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as cat:
        yield from iter(lambda: cat.stdout.read(CHUNK) if cat.stdout else b"", b"")
    if cat.returncode != 0:
        raise OSError(f"{Path(path).name} cannot be read")


def files_digest(paths: Sequence[str], *, read: ReadBytes = read_here) -> str | None:
    """A digest of the files' names and bytes; None where one cannot be read or changes meanwhile."""
    whole = hashlib.sha256()
    for path in paths:
        content = _file_digest(path, read)
        if content is None:
            return None
        whole.update(f"{len(path)}:{path}:{content}".encode())
    return whole.hexdigest()


def files_last_write(paths: Sequence[str]) -> str | None:
    """A mark of the last write to each file, by its name, its place and its times; None where one is not there.

    It says nothing of what the files hold, not even their sizes.
    """
    whole = hashlib.sha256()
    for path in paths:
        stamp = stamp_of(path)
        if stamp is None:
            return None
        _, place, _, *times = stamp
        whole.update(f"{len(path)}:{path}:{place}:{times}".encode())
    return whole.hexdigest()


def _file_digest(path: str, read: ReadBytes) -> str | None:
    before, known = stamp_of(path), _digests.get(path)
    if before is None:
        return None
    try:
        if known is not None and known[0] == before:
            return known[1]
        content = hashlib.sha256()
        began = time.time_ns()
        for piece in read(path):
            content.update(piece)
        if stamp_of(path) != before:
            return None
    except OSError:
        return None
    if is_settled(before, began):
        _digests[path] = before, content.hexdigest()
    return content.hexdigest()


def stamp_of(path: str) -> Stamp | None:
    """What tells a file from another one, and from itself before it was written to; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(stamp: Stamp, at: int) -> bool:
    """Whether a change after this time shows in the stamp: what was written to a moment before may change unnoticed."""
    return at - max(stamp[3:]) > SETTLED
