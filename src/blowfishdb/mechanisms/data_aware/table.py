"""Every data-aware mechanism by the name users see; a new one adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from blowfishdb.mechanisms.data_aware import adaptive_tree, dawa, dawa_transform, kdtree, matching_transform
from blowfishdb.mechanisms.data_aware.script import DataAware

DATA_AWARE: Mapping[str, DataAware] = MappingProxyType(
    {
        dawa.NAME: dawa.Dawa(),
        dawa.BOUNDED: dawa.Dawa(dawa.BOUNDED, Fraction(1, 20)),
        dawa_transform.NAME: dawa_transform.DawaTransform(),
        matching_transform.NAME: matching_transform.MatchingTransform(),
        adaptive_tree.NAME: adaptive_tree.AdaptiveTree(),
        kdtree.NAME: kdtree.KdTree(),
        kdtree.CELLS: kdtree.Cells(),
    }
)
