"""Tables in real engines, counted where they are."""

from blowfishdb.sources.base import ColumnType, Join, Kind, Source
from blowfishdb.sources.registry import open_source

__all__ = ["ColumnType", "Join", "Kind", "Source", "open_source"]
