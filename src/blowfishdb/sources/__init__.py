"""Tables in real engines, counted where they are."""

from blowfishdb.sources.base import ColumnType, Counting, Join, Kind, Source
from blowfishdb.sources.ibis_source import open_source

__all__ = ["ColumnType", "Counting", "Join", "Kind", "Source", "open_source"]
