"""Every mechanism by the name users see, data-independent and data-aware; a new one adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from blowfishdb.mechanisms import (
    edge_transform,
    hierarchy,
    identity,
    joint,
    kronecker,
    marginals,
    optimized,
    ordered,
    spanning_tree,
)
from blowfishdb.mechanisms.data_aware import dawa, gated, kdtree, matching_transform
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        identity.NAME: identity.propose,
        identity.DIRECT: identity.propose_direct,
        joint.NAME: joint.propose,
        ordered.NAME: ordered.propose,
        hierarchy.NAME: hierarchy.propose,
        hierarchy.ORDERED: hierarchy.propose_ordered,
        optimized.NAME: optimized.propose,
        kronecker.NAME: kronecker.propose,
        marginals.NAME: marginals.propose,
        edge_transform.NAME: edge_transform.propose,
        spanning_tree.NAME: spanning_tree.propose,
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
        kdtree.CELLS: kdtree.Cells(),
    }
)
