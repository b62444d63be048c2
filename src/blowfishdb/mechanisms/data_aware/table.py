"""Every data-aware mechanism by the name users see; a new one adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from blowfishdb.mechanisms.data_aware import dawa, dawa_transform, matching_transform
from blowfishdb.mechanisms.data_aware.script import DataAware

DATA_AWARE: Mapping[str, DataAware] = MappingProxyType(
    {
        dawa.NAME: dawa.Dawa(),
        dawa_transform.NAME: dawa_transform.DawaTransform(),
        matching_transform.NAME: matching_transform.MatchingTransform(),
    }
)
