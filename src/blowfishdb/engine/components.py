"""The separate parts of one attribute: values that no chain of policy edges joins to the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blowfishdb.errors import PolicyError
from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.projection import factor_graph
from blowfishdb.model.segments import AxisCells, Segments

MOST_VALUES = 4096


def check_parallel(domain: Domain, policy: Policy, name: str) -> None:
    """Refuses an attribute whose values are not told apart by any edge, so that nothing runs side by side."""
    attribute = domain.find(name, PolicyError)
    if policy.grid_of(name) is not None:
        raise PolicyError(f"{name} is in a joint threshold; only an attribute of its own can be accounted side by side")
    if policy.constraints:
        raise PolicyError("public facts tie records together, so nothing can be accounted side by side")
    if attribute.size > MOST_VALUES:
        raise PolicyError(f"{name} has {attribute.size:,} values; side by side at most {MOST_VALUES:,} are accounted")
    if int(_components(domain, policy, name)[0].max()) == 0:
        raise PolicyError(
            f"the policy hides every value of {name} among the others (NULL and outside included), so no two parts of "
            "the data are separate. Declare it public, or a partition, with public NULL and outside"
        )


def _components(domain: Domain, policy: Policy, name: str) -> tuple[Ints, Ints]:
    """For each value of the attribute, special cells last: the component it is in, and its code."""
    declared = policy.applied(domain)
    attribute = declared[name]
    values = np.arange(attribute.size)
    axis = AxisCells.finest_of(Segments(attribute, values))
    slots = np.array([slot.code for slot in attribute.slots], dtype=np.int64)
    return factor_graph(declared, policy, (name,), {name: axis}).components(), np.concatenate([values, slots])


def kept_components(domain: Domain, policy: Policy, name: str, cells: Cells) -> list[int]:
    """The components with a value that some counted record may have."""
    labels, codes = _components(domain, policy, name)
    kept: Bools = np.ones(codes.size, dtype=np.bool_)
    if name in cells.attributes:
        layout: Mapping[str, AxisCells] = cells.layout
        own = layout[name] if name in layout else compile_cells(domain, policy, (name,), cells.where).layout[name]
        kept = own.cell_of[own.segments.of(codes)] >= 0
    return [int(label) for label in np.unique(labels[kept])]
