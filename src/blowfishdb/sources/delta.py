"""Tables of Delta Lake: folders whose log tells which Parquet files are the rows of each version."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.incidents import redact_errors
from blowfishdb.model.cached import cached_property
from blowfishdb.sources.base import driver

LOG = "_delta_log"
UNDERSTOOD = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta tables under which the listed Parquet files hold the rows, no more and no fewer."""


@dataclass(frozen=True, eq=False)
class DeltaVersion:
    """One version of a table: what its log declares, and its files with their sizes, times and partition values."""

    table: Any
    added: Any

    @cached_property
    def files(self) -> list[str]:
        """The paths of the files that hold the rows."""
        return list(self.added["file"].to_pylist())

    @property
    def partition_columns(self) -> list[str]:
        """The columns whose values are in the log, and not in the files."""
        return list(self.table.metadata().partition_columns)

    @property
    def name(self) -> str:
        """The table's id and the number of the version."""
        return f"{self.table.metadata().id} {self.table.version()}"

    @cached_property
    def digest(self) -> str:
        """A digest of the table's id, its version and its files: a commit adds a version, and rewrites no file."""
        files = self.added.select(["file", "size_bytes", "modification_time"]).to_pylist()
        snapshot = [self.table.metadata().id, self.table.version(), sorted(map(str, files))]
        return hashlib.sha256(json.dumps(snapshot).encode()).hexdigest()


class DeltaLog:
    """The log of a Delta table in a folder of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._deltalake = driver("deltalake", "delta", "delta")

    def newest(self) -> DeltaVersion:
        """The newest version; SourceError where its files alone do not tell its rows."""
        return redact_errors(self._read, SourceFailed, "delta")

    def _read(self) -> DeltaVersion:
        import pyarrow

        folder = Path(self.path)
        if not (folder / LOG).is_dir():
            raise SourceError(f"the folder {folder.name!r} is not a Delta table: it has no log of versions")
        table = self._deltalake.DeltaTable(folder.as_uri())
        protocol = table.protocol()
        features = set(protocol.reader_features or (["columnMapping"] if protocol.min_reader_version == 2 else []))
        if features - UNDERSTOOD:
            raise SourceError(
                f"the Delta table uses {min(features - UNDERSTOOD)}, so its files do not hold its rows as they are; "
                "write it again without this feature"
            )
        added = pyarrow.table(table.get_add_actions(flatten=True))
        files = [os.path.join(self.path, unquote(path)) for path in added["path"].to_pylist()]
        return DeltaVersion(table, added.append_column("file", [pyarrow.array(files, pyarrow.string())]))
