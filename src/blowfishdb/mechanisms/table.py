"""Every mechanism by the name users see, data-independent and data-aware; a new one adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, cast

from blowfishdb.mechanisms import (
    edge_transform,
    identity,
    joint,
    kronecker,
    marginals,
    optimized,
    ordered_hierarchy,
)
from blowfishdb.mechanisms.data_aware import DataAware, dawa, gated, kdtree, matching_transform
from blowfishdb.mechanisms.parameters import ParameterTable, ParameterValues, arguments
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        identity.NAME: identity.propose,
        identity.DIRECT: identity.propose_direct,
        joint.NAME: joint.propose,
        ordered_hierarchy.ORDERED: ordered_hierarchy.propose_ordered,
        ordered_hierarchy.HIERARCHY: ordered_hierarchy.propose_hierarchy,
        ordered_hierarchy.ORDERED_HIERARCHICAL: ordered_hierarchy.propose_ordered_hierarchical,
        optimized.NAME: optimized.propose,
        kronecker.NAME: kronecker.propose,
        marginals.NAME: marginals.propose,
        edge_transform.NAME: edge_transform.propose,
        edge_transform.SPANNING_TREE: edge_transform.propose_spanning_tree,
    }
)

CHOICES = (EXPONENTIAL_QUANTILES,)
"""Mechanisms that choose answers to questions of one kind, and measure no rows."""

DATA_AWARE: Mapping[str, DataAware] = MappingProxyType(
    {
        dawa.NAME: dawa.Dawa(),
        dawa.BOUNDED: dawa.Dawa(dawa.BOUNDED, Fraction(1, 20)),
        dawa.TRANSFORM: dawa.DawaTransform(),
        matching_transform.NAME: matching_transform.MatchingTransform(),
        kdtree.ADAPTIVE: kdtree.AdaptiveTree(),
        gated.NAME: gated.Gated(),
        kdtree.NAME: kdtree.KdTree(),
        kdtree.CELLS: kdtree.CellBased(),
    }
)

PARAMETERS: ParameterTable = MappingProxyType(
    {
        ordered_hierarchy.HIERARCHY: ordered_hierarchy.HIERARCHY_PARAMETERS,
        ordered_hierarchy.ORDERED_HIERARCHICAL: ordered_hierarchy.ORDERED_HIERARCHICAL_PARAMETERS,
        dawa.NAME: dawa.PARAMETERS,
        dawa.BOUNDED: dawa.BOUNDED_PARAMETERS,
        dawa.TRANSFORM: dawa.TRANSFORM_PARAMETERS,
        matching_transform.NAME: matching_transform.PARAMETERS,
        kdtree.ADAPTIVE: kdtree.ADAPTIVE_PARAMETERS,
        gated.NAME: gated.PARAMETERS,
        kdtree.NAME: kdtree.PARAMETERS,
    }
)
"""What experts may set."""


def mechanism_with(name: str, settings: ParameterValues) -> Mechanism:
    """A data-independent mechanism that follows settings which were checked."""
    return _configured(name, settings) if settings else MECHANISMS[name]


@lru_cache(maxsize=256)
def _configured(name: str, settings: ParameterValues) -> Mechanism:
    """The same function for the same settings: rankings are cached by it."""
    return partial(MECHANISMS[name], **arguments(PARAMETERS, name, settings))


def data_aware_with(name: str, settings: ParameterValues) -> DataAware:
    """A data-aware mechanism that follows settings which were checked."""
    mechanism = DATA_AWARE[name]
    if not settings:
        return mechanism
    return cast(DataAware, replace(cast(Any, mechanism), **arguments(PARAMETERS, name, settings)))
