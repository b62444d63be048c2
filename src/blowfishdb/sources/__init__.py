"""Tables in real engines, counted where they are."""

from blowfishdb.sources.base import ColumnKind, ColumnType, Counting, Join, Source
from blowfishdb.sources.ibis_source import open_source

__all__ = ["ColumnKind", "ColumnType", "Counting", "Join", "Source", "open_source"]
