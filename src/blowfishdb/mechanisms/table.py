"""Every data-independent mechanism by the name users see; a new one adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from blowfishdb.mechanisms import (
    direct,
    edge_transform,
    hierarchy,
    identity,
    joint,
    kronecker,
    marginals,
    optimized,
    ordered,
    ordered_hierarchical,
    spanning_tree,
)
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        identity.NAME: identity.propose,
        direct.NAME: direct.propose,
        joint.NAME: joint.propose,
        ordered.NAME: ordered.propose,
        hierarchy.NAME: hierarchy.propose,
        ordered_hierarchical.NAME: ordered_hierarchical.propose,
        optimized.NAME: optimized.propose,
        kronecker.NAME: kronecker.propose,
        marginals.NAME: marginals.propose,
        edge_transform.NAME: edge_transform.propose,
        spanning_tree.NAME: spanning_tree.propose,
    }
)

CHOICES = (EXPONENTIAL_QUANTILES,)
"""Mechanisms that choose answers to questions of one kind, and measure no rows."""
