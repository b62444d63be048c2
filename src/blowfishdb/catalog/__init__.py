"""Datasets: what the configuration names, what the ledger has in force, and the curator's actions on both."""

from blowfishdb.catalog.config import Config, read_config
from blowfishdb.catalog.curator import Curator, curate
from blowfishdb.catalog.dataset import Dataset
from blowfishdb.catalog.opening import Catalog, open_catalog

__all__ = ["Catalog", "Config", "Curator", "Dataset", "curate", "open_catalog", "read_config"]
