"""Datasets: what the configuration names, what the ledger has in force, and the curator's actions on both."""

from blowfishdb.catalog.catalog import Catalog, open_catalog
from blowfishdb.catalog.config import Config, read_config
from blowfishdb.catalog.curator import Curator, curate
from blowfishdb.catalog.dataset import Dataset

__all__ = ["Catalog", "Config", "Curator", "Dataset", "curate", "open_catalog", "read_config"]
