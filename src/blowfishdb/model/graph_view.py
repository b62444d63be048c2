"""A policy graph made small enough to look at: all values of a small attribute, a window of a larger one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PolicyError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.graphs.clock import ClockWindow
from blowfishdb.model.graphs.explicit import CliqueGraph
from blowfishdb.model.graphs.families import Threshold, value_graph
from blowfishdb.model.graphs.values import WINDOWS, BlockWindow, ListedWindow, StepWindow, ValueGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.policy import Policy

MOST_SHOWN = 24
LISTED_LIMIT = 2**22
"""Parts are counted value by value up to this many values."""


@dataclass(frozen=True, eq=False)
class GraphView:
    """Values first .. first + len(labels) - 1 of an attribute of `size` values, and the hidden moves among them.

    `parts` numbers the connected parts of the whole graph, None where they were not counted; `part_of` tells the
    part of each shown value. `hubs` are special cells one step from every value, `apart` those that are public.
    """

    name: str
    size: int
    first: int
    labels: tuple[str, ...]
    pairs: Ints
    part_of: tuple[int, ...]
    parts: int | None
    ordered: bool
    hubs: tuple[str, ...]
    apart: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every value is shown."""
        return len(self.labels) == self.size

    def warnings(self) -> tuple[str, ...]:
        """What somebody who draws such a graph should notice."""
        said = []
        if self.parts is not None and self.parts > 1 and not self.hubs:
            single = " (every value on its own: nothing is hidden)" if self.parts == self.size else ""
            said.append(
                f"{self.name} falls into {self.parts:,} parts that no chain of hidden moves joins{single}. Which part "
                "a record is in is not hidden, and the counts of the parts may be released exactly."
            )
        alone = sum(1 for value in range(len(self.labels)) if value not in self.pairs)
        if self.is_whole and 0 < alone < len(self.labels) and not self.hubs:
            said.append(f"{alone:,} of {self.size:,} values have no hidden move at all.")
        return tuple(said)


def view_graph(domain: Domain, policy: Policy, name: str, around: object = None, most: int = MOST_SHOWN) -> GraphView:
    """The graph of one attribute; of more than `most` values those around the given one, or around the middle."""
    policy.check(domain)
    attribute = policy.applied(domain).find(name, PolicyError)
    if not 2 <= most <= 200:
        raise PolicyError("a picture shows 2 to 200 values")
    graph = _graph(policy, attribute, domain, name)
    centre = attribute.size // 2 if around is None else attribute.locate(around)
    first = min(max(centre - most // 2, 0), max(attribute.size - most, 0))
    stop = min(first + most, attribute.size)
    labels = tuple(attribute.run_label(place, place) for place in range(first, stop))
    part_of, parts = _parts(graph, first, stop)
    return GraphView(
        name=name,
        size=attribute.size,
        first=first,
        labels=labels,
        pairs=_pairs(graph, first, stop),
        part_of=part_of,
        parts=parts,
        ordered=attribute.ordered,
        hubs=tuple(slot.name for slot in attribute.slots if not slot.public),
        apart=tuple(slot.name for slot in attribute.slots if slot.public),
    )


def _graph(policy: Policy, attribute: Attribute, domain: Domain, name: str) -> ValueGraph:
    """The attribute's own graph; of a joint threshold what it hides along this attribute, the others staying."""
    grid = policy.grid_of(name)
    return policy.graph(domain, name) if grid is None else value_graph(Threshold(grid.theta), attribute)


def _pairs(graph: ValueGraph, first: int, stop: int) -> Ints:
    """The edges among the shown values, numbered from the first one."""
    if isinstance(graph, WINDOWS):
        reach = np.minimum(graph.reach(np.arange(first, stop)), stop - 1) - first
        return WindowGraph(reach, np.empty(0, dtype=np.int64)).edges()
    if isinstance(graph, CliqueGraph):
        return CliqueGraph(graph.labels[first:stop]).edges()
    inside = np.all((graph.pairs >= first) & (graph.pairs < stop), axis=1)
    return np.asarray(graph.pairs[inside] - first, dtype=np.int64)


def _parts(graph: ValueGraph, first: int, stop: int) -> tuple[tuple[int, ...], int | None]:
    """The connected part of each shown value, and how many there are."""
    index = np.arange(first, stop)
    if isinstance(graph, StepWindow | ClockWindow):
        return (tuple([0] * index.size), 1) if graph.step or graph.size == 1 else (tuple(index.tolist()), graph.size)
    if isinstance(graph, BlockWindow):
        return tuple(graph.block(index).tolist()), int(graph.starts.size)
    if graph.size > LISTED_LIMIT:
        return tuple([0] * index.size), None
    whole = WindowGraph(graph.ends, np.empty(0, dtype=np.int64)) if isinstance(graph, ListedWindow) else graph
    labels = whole.components()
    return tuple(labels[index].tolist()), int(labels.max()) + 1
