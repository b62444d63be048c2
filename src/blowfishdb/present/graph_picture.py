"""A policy graph small enough to look at, of values, cells or public constraints; as DOT text or as an SVG picture."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from blowfishdb.errors import CannotCertify, PolicyError, TooLarge, plural
from blowfishdb.model.cells import Cells
from blowfishdb.model.constraint_graph import changed_constraints, moves_at_once, spelled_out
from blowfishdb.model.constraints import MarginalConstraint, write_constraint
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.explain import listed
from blowfishdb.model.graphs import CliqueGraph, WindowGraph
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.policy import Joint, Policy, Public, ValueGraph, ValueWindow, value_graph
from blowfishdb.model.projection import reached
from blowfishdb.present.chart import BAR, GRID, PAPER, QUIET
from blowfishdb.present.chart_svg import LETTER, Frame, element, escaped, label, name_label
from blowfishdb.present.words import shortened

MOST_SHOWN = 24
LISTED_LIMIT = 2**22
"""Parts are counted value by value up to this many values."""


@dataclass(frozen=True, eq=False)
class GraphView:
    """Values first .. first + len(labels) - 1 of an attribute of `size` values, and the hidden moves among them.

    `parts` numbers the connected parts of the whole graph, None where they were not counted; `part_of` tells the
    part of each shown value. `universal` are special cells one step from every value, `apart` those joined to none.
    With `is_absence_hidden` a record that is not there is one step from every value and special cell.
    """

    name: str
    size: int
    first: int
    labels: tuple[str, ...]
    pairs: Ints
    part_of: tuple[int, ...]
    parts: int | None
    ordered: bool
    universal: tuple[str, ...]
    apart: tuple[str, ...]
    is_absence_hidden: bool = False

    @property
    def is_joined(self) -> bool:
        """Whether something is one step from every value."""
        return bool(self.universal) or self.is_absence_hidden

    @property
    def is_whole(self) -> bool:
        """Whether every value is shown."""
        return len(self.labels) == self.size

    def warnings(self) -> tuple[str, ...]:
        """What somebody who draws such a graph should notice."""
        sentences = []
        if self.parts is not None and self.parts > 1 and not self.is_joined:
            single = " (every value on its own: nothing is hidden)" if self.parts == self.size else ""
            sentences.append(
                f"{self.name} falls into {self.parts:,} parts that no chain of hidden moves joins{single}. Which part "
                "a record is in is not hidden, and the counts of the parts may be released exactly."
            )
        alone = sum(1 for value in range(len(self.labels)) if value not in self.pairs)
        if self.is_whole and 0 < alone < len(self.labels) and not self.is_joined:
            have = "has" if alone == 1 else "have"
            sentences.append(f"{alone:,} of {plural(self.size, 'value')} {have} no hidden move at all.")
        return tuple(sentences)


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
    if policy.presence == "only":
        # Nothing but absence is hidden, so no value is joined to another one.
        graph = value_graph(Public(), attribute)
    part_of, parts = _parts(graph, first, stop)
    is_universal = [not slot.public and policy.presence != "only" for slot in attribute.slots]
    return GraphView(
        name=name,
        size=attribute.size,
        first=first,
        labels=labels,
        pairs=_pairs(graph, first, stop),
        part_of=part_of,
        parts=parts,
        ordered=attribute.ordered,
        universal=tuple(slot.name for slot, joined in zip(attribute.slots, is_universal, strict=True) if joined),
        apart=tuple(slot.name for slot, joined in zip(attribute.slots, is_universal, strict=True) if not joined),
        is_absence_hidden=policy.presence != "public",
    )


def _graph(policy: Policy, attribute: Attribute, domain: Domain, name: str) -> ValueGraph:
    """The attribute's own graph; of a joint threshold what it hides along this attribute, the others staying."""
    joint = policy.joint_of(name)
    if isinstance(joint, Joint):
        raise PolicyError(f"{joint.words} are hidden together: look at their common graph")
    if joint is None:
        return policy.graph(domain, name)
    return value_graph(policy.axis_family(attribute, name), attribute)


def _pairs(graph: ValueGraph, first: int, stop: int) -> Ints:
    """The edges among the shown values, numbered from the first one."""
    if isinstance(graph, ValueWindow):
        reach = np.minimum(graph.reach(np.arange(first, stop)), stop - 1) - first
        return WindowGraph(reach, np.empty(0, dtype=np.int64)).edges()
    if isinstance(graph, CliqueGraph):
        return CliqueGraph(graph.labels[first:stop]).edges()
    inside = np.all((graph.pairs >= first) & (graph.pairs < stop), axis=1)
    return np.asarray(graph.pairs[inside] - first, dtype=np.int64)


def _parts(graph: ValueGraph, first: int, stop: int) -> tuple[tuple[int, ...], int | None]:
    """The connected part of each shown value, and how many there are."""
    index = np.arange(first, stop)
    if isinstance(graph, ValueWindow):
        return tuple(graph.part_of(index).tolist()), graph.part_count
    if graph.size > LISTED_LIMIT:
        return (0,) * index.size, None
    labels = graph.components()
    return tuple(labels[index].tolist()), int(labels.max()) + 1


WINDOW = (6, 7)
"""Groups of the first and of the second attribute that a picture of both shows at most; special cells come on top."""


@dataclass(frozen=True, eq=False)
class CellsView:
    """Some cells of a question about one or two attributes, row-major, and the hidden moves among them.

    `sizes` are the numbers of all cells along each axis and `labels` those that are shown. `part_of` numbers the
    connected parts, of which there are `parts`; ZERO is the part of rows that no cell counts, and `leaving` are the
    cells from which a hidden move leads to such a row.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    pairs: Ints
    part_of: tuple[int, ...]
    parts: int
    leaving: tuple[bool, ...]
    is_absence_hidden: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Each shown cell, as people call it."""
        return tuple(", ".join(place) for place in itertools.product(*self.labels))

    @property
    def is_whole(self) -> bool:
        """Whether every cell is shown."""
        return self.sizes == tuple(map(len, self.labels))

    @property
    def is_all_of_parts(self) -> bool:
        """Whether any two shown cells of one part are joined."""
        counts = Counter(self.part_of).values()
        return len(self.pairs) == sum(count * (count - 1) // 2 for count in counts)

    def neighbours(self) -> tuple[tuple[str, str], ...]:
        """Each shown cell with those that it is hidden from, in words."""
        names, near = self.names, _joined(self.names, self.pairs)
        for place, leaves in enumerate(self.leaving):
            near[place] += ["rows that are not counted"] if leaves else []
        return tuple((name, "nothing" if not words else listed(words)) for name, words in zip(names, near, strict=True))

    def words(self) -> tuple[str, ...]:
        """What the picture shows and what it means."""
        shown = " by ".join(
            f"{'all' if len(labels) == size else f'{len(labels)} of'} {plural(size, 'group')} of {name}"
            for name, size, labels in zip(self.axes, self.sizes, self.labels, strict=True)
        )
        sentences = [f"{shown}, {plural(len(self.pairs), 'hidden move')} among them."]
        if self.parts > 1 and not self.is_absence_hidden:
            sentences.append(
                f"{self.parts:,} parts that no chain of hidden moves joins: which part a record is in is not hidden."
            )
        if any(self.leaving):
            sentences.append("Dashed: a hidden move leads from there to a row that the question does not count.")
        if self.is_absence_hidden:
            sentences.append("A record that is not there is one step from all of them.")
        return tuple(sentences)


def _joined(names: Sequence[str], pairs: Ints) -> list[list[str]]:
    """For each name those that a pair joins it to."""
    near = [list[str]() for _ in names]
    for one, two in pairs.tolist():
        near[one].append(names[two])
        near[two].append(names[one])
    return near


def view_cells(cells: Cells) -> CellsView:
    """The policy graph projected on a question about one or two attributes, as much of it as can be looked at."""
    if not 1 <= len(cells.axes) <= len(WINDOW):
        raise PolicyError("a picture is about one or two attributes")
    graph, shape = cells.graph, cells.graph.shape
    windows = (MOST_SHOWN,) if len(shape) == 1 else WINDOW
    places = []
    for plain, size, most in zip(cells.plain, shape, windows, strict=True):
        first = max(0, (plain - most) // 2)
        places.append(np.append(np.arange(first, min(first + most, plain)), np.arange(plain, size)))
    flat = np.ravel_multi_index(np.ix_(*places), shape).reshape(-1)
    one, two = np.triu_indices(flat.size, k=1)
    labels = graph.components()
    return CellsView(
        axes=cells.axes,
        sizes=shape,
        labels=tuple(tuple(names[int(p)] for p in shown) for names, shown in zip(cells.labels, places, strict=True)),
        pairs=np.stack([one, two], axis=1)[graph.joined(flat[one], flat[two])],
        part_of=tuple(labels[flat].tolist()),
        parts=int(np.unique(labels).size),
        leaving=tuple(graph.outside[flat].tolist()),
        is_absence_hidden=graph.presence != "public",
    )


MOST_KINDS = 128
"""Kinds of records, told apart by the constraints, up to which the hidden changes between them are listed."""
FREE, REFUSED = "nothing", "refused"


@dataclass(frozen=True, eq=False)
class ConstraintsView:
    """Public constraints, those that one hidden change of a record changes at once, and what they cost.

    `pairs` are joined by such a change; `alone` tells where some change touches that one and none of the others.
    `records` are the most records that change together under each by itself (1: it costs nothing; None: no bound),
    `together` under all `count` of them, of which the first are shown; `refusal` says why that has no bound. Without
    `is_listed` there were too many kinds of records to look at, and every two that may change count as joined.
    """

    names: tuple[str, ...]
    count: int
    changed: tuple[bool, ...]
    alone: tuple[bool, ...]
    pairs: Ints
    part_of: tuple[int, ...]
    records: tuple[int | None, ...]
    together: int | None
    refusal: str
    is_listed: bool

    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Each shown constraint, how many times it multiplies a price by itself, and those it is tied to."""
        return tuple(
            (name, factor(records), "; ".join(words) or "none")
            for name, records, words in zip(self.names, self.records, _joined(self.names, self.pairs), strict=True)
        )

    def as_document(self) -> dict[str, object]:
        """The graph as a document: records that change together, and lines by name."""
        return {
            "records": dict(zip(self.names, self.records, strict=True)),
            "records_together": self.together,
            "tied": [[self.names[one], self.names[two]] for one, two in self.pairs.tolist()],
            "words": list(self.words()),
        }

    def words(self) -> tuple[str, ...]:
        """What the graph shows, how long the longest forced chain is, and the factor that it puts on prices."""
        if self.refusal:
            return (f"All together have no price: {self.refusal}",)
        if self.together == 1:
            return ("No hidden change of a record changes one of these counts unseen, so they cost nothing.",)
        tied = [part for part, is_changed in zip(self.part_of, self.changed, strict=True) if is_changed]
        sentences = [
            f"The longest forced chain has {plural(self.together or 0, 'record')}: where one record changes, the "
            "others must change with it, or a public count would tell. All together multiply the price of a histogram "
            f"by up to {self.together:,}."
        ]
        if len(self.names) > 1:
            sentences.append(
                "One hidden change of a record changes both ends of a line at once. "
                f"{plural(len(tied), 'public count')} in {plural(len(set(tied)), 'connected part')}; "
                f"{len(self.names) - len(tied):,} that no hidden change touches."
            )
        if len(set(tied)) > 1:
            sentences.append(
                "Records make up for each other by changes of any kind: parts that no line joins are priced together."
            )
        if not self.is_listed:
            sentences.append("There are too many kinds of records to list: any two that may change are joined.")
        if self.count > len(self.names):
            sentences.append(f"The first {len(self.names)} of {self.count:,} are shown.")
        return tuple(sentences)


def factor(records: int | None) -> str:
    """How many times a price grows, in words."""
    return REFUSED if records is None else FREE if records == 1 else f"{records:,} times"


def view_constraints(domain: Domain, policy: Policy) -> ConstraintsView:
    """The graph of the policy's public constraints; PolicyError where there are none."""
    if not policy.constraints:
        raise PolicyError("the policy has no public constraints")
    policy.check(domain)
    shown = replace(policy, constraints=policy.constraints[:MOST_SHOWN])
    names = tuple(map(write_constraint, shown.constraints))
    may_change = set(changed_constraints(domain, shown))
    changes = _hidden_changes(domain, shown)
    is_listed = changes is not None
    if changes is None:
        every = np.array([[name in may_change for name in names]])
        changes = np.concatenate([every, np.diag(every[0])])
    pairs = np.argwhere(np.triu(changes.T.astype(np.int64) @ changes.astype(np.int64), k=1))
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(names), len(names)))
    single = changes[changes.sum(axis=1) == 1]
    together, refusal = _records(domain, policy)
    return ConstraintsView(
        names=names,
        count=len(policy.constraints),
        changed=tuple(bool(column.any()) for column in changes.T),
        alone=tuple(bool(column.any()) for column in single.T),
        pairs=pairs,
        part_of=tuple(connected_components(links, directed=False)[1].tolist()),
        records=tuple(_records(domain, replace(policy, constraints=(one,)))[0] for one in shown.constraints),
        together=together,
        refusal=refusal,
        is_listed=is_listed,
    )


def _records(domain: Domain, policy: Policy) -> tuple[int | None, str]:
    """The most records that change together, and why there is no bound on them."""
    try:
        return moves_at_once(domain, policy) or 1, ""
    except (CannotCertify, PolicyError, TooLarge) as error:
        return None, error.message


def _hidden_changes(domain: Domain, policy: Policy) -> Bools | None:
    """Which constraints each hidden change of a record changes, a line per change; None where they are very many."""
    applied = policy.applied(domain)
    signature = spelled_out(applied, policy.constraints, {})
    if signature is None:
        return None
    counted = iter(signature.patterns.T)
    columns = [
        signature.margin(one.attributes) if isinstance(one, MarginalConstraint) else next(counted)[signature.pattern]
        for one in policy.constraints
    ]
    combinations = np.stack([np.asarray(column, dtype=np.int64).reshape(-1) for column in columns], axis=1)
    kinds, kind_of = np.unique(combinations, axis=0, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        return None
    kind_of = kind_of.reshape(signature.pattern.shape)
    near: Bools = np.zeros((len(kinds), len(kinds)), dtype=np.bool_)
    for kind in range(len(kinds)) if policy.presence != "only" else ():
        near[kind, kind_of[reached(applied, policy, signature.names, kind_of == kind, signature.cuts)]] = True
    one, two = np.nonzero(near)
    changes = kinds[one] != kinds[two]
    if policy.presence != "public":
        absent = [-1 if isinstance(each, MarginalConstraint) else 0 for each in policy.constraints]
        changes = np.concatenate([changes, kinds != np.array(absent)])
    return np.asarray(changes, dtype=np.bool_)


PARTS = (BAR, "#c8553d", "#4f7d3a", "#8a5a9e", "#b5862b", "#2f8f83", "#a3466c", "#5b6470")
"""One colour for each connected part, the first again after the last."""
GAP = 34.0
RADIUS = 6.0
NAME = 24
STEEPEST = 210.0
ABSENCE = "no record"
"""The vertex of a record that is not there, where that is hidden."""


def to_dot(view: GraphView) -> str:
    """The shown values and moves for Graphviz; the layout is left to it."""
    lines = [f"graph {_quoted(view.name)} {{", "  node [shape=circle, style=filled, fontname=Helvetica];"]
    for place, text in enumerate(view.labels):
        lines.append(f"  {_quoted(text)} [fillcolor={_quoted(_colour(view, place))}, fontcolor=white];")
    lines += [f"  {_quoted(view.labels[one])} -- {_quoted(view.labels[two])};" for one, two in view.pairs.tolist()]
    for universal_vertex in view.universal:
        lines.append(f"  {_quoted(universal_vertex)} [shape=doublecircle];")
        lines += [f"  {_quoted(universal_vertex)} -- {_quoted(text)} [style=dashed];" for text in view.labels]
    lines += [f"  {_quoted(text)} [style=dashed];" for text in view.apart]
    if view.is_absence_hidden:
        lines.append(f"  {_quoted(ABSENCE)} [shape=doublecircle];")
        lines += [f"  {_quoted(ABSENCE)} -- {_quoted(text)} [style=dashed];" for text in (*view.labels, *view.apart)]
        lines += [f"  {_quoted(ABSENCE)} -- {_quoted(text)} [style=dashed];" for text in view.universal]
    return "\n".join([*lines, "}", ""])


def to_svg(view: GraphView) -> str:
    """The graph as one picture, with a title and a description."""
    return _arcs(view) if view.ordered else _ring(view)


def _quoted(text: str) -> str:
    """Text between quotes that nothing in it can close."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(sign for sign in escaped if sign.isprintable())}"'


def _colour(view: GraphView, place: int) -> str:
    return PARTS[0] if view.is_joined else PARTS[view.part_of[place] % len(PARTS)]


def _sheet(view: GraphView, frame: Frame, *parts: str) -> str:
    mark = hashlib.sha256(repr((view.name, view.labels, view.pairs.tolist())).encode()).hexdigest()[:10]
    title = f"What the policy hides about {view.name}"
    shown = f"{len(view.labels):,} of {plural(view.size, 'value')} and {plural(len(view.pairs), 'hidden move')}."
    return frame.sheet(f"bf{mark}", title, " ".join([shown, *view.warnings()]), *parts)


def _captions(view: GraphView, frame: Frame, y: float) -> list[str]:
    """The lines below the picture: what is shown, what stands beside it, and what is not hidden."""
    shown = f"{'all' if view.is_whole else f'{len(view.labels):,} of'} {plural(view.size, 'value')}"
    lines = [f"{view.name}: {shown}; values that a line joins are hidden from each other"]
    lines += [f"{universal_vertex}: one step from every value" for universal_vertex in view.universal]
    lines += [f"{ABSENCE}: one step from all of them"] if view.is_absence_hidden else []
    lines += [f"{name}: joined to no value" for name in view.apart]
    if view.parts is not None and view.parts > 1 and not view.is_joined:
        lines.append(f"{view.parts:,} parts that no line joins (one colour each): which part is not hidden")
    return [
        element(
            "text", {"x": frame.width / 2, "y": y + 18.0 * row, "text-anchor": "middle", "class": "q"}, escaped(line)
        )
        for row, line in enumerate(lines)
    ]


def _caption_height(view: GraphView) -> float:
    return 18.0 * (2 + len(view.universal) + len(view.apart) + view.is_absence_hidden) + 12.0


def _dot(name: str, colour: str, x: float, y: float) -> str:
    about = {"cx": x, "cy": y, "r": RADIUS, "fill": colour, "stroke": PAPER, "stroke-width": 1.5}
    return element("circle", about, element("title", {}, escaped(name)))


def _arcs(view: GraphView) -> str:
    """Values in a row, each hidden move an arc above them; the shorter ones lie in front."""
    count = len(view.labels)
    side, margin = GAP * (count - 1), 64.0
    width = max(side + 2 * margin, 520.0)
    left = (width - side) / 2
    widest = max((two - one for one, two in view.pairs.tolist()), default=0)
    tallest = GAP * widest / 2
    flat = min(1.0, STEEPEST / tallest) if widest else 1.0
    base = 34.0 + tallest * flat
    longest = min(max(len(text) for text in view.labels), NAME)
    tilts = longest * LETTER > GAP - 6.0
    below = base + (34.0 + 0.62 * LETTER * longest if tilts else 40.0)
    frame = Frame(width=width, height=below + _caption_height(view))
    parts = [element("line", {"x1": left - 26, "x2": left + side + 26, "y1": base, "y2": base, "stroke": GRID})]
    for one, two in sorted(view.pairs.tolist(), key=lambda pair: pair[0] - pair[1]):
        x1, x2 = left + GAP * one, left + GAP * two
        half = (x2 - x1) / 2
        curve = f"M{x1:.1f} {base:.1f}A{half:.1f} {half * flat:.1f} 0 0 1 {x2:.1f} {base:.1f}"
        faint = 0.85 if two - one == 1 else max(0.25, 0.6 - 0.02 * len(view.pairs) / count)
        stroke = {"stroke": _colour(view, one), "stroke-width": 1.4, "stroke-opacity": f"{faint:.2f}"}
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place, text in enumerate(view.labels):
        x = left + GAP * place
        parts.append(_dot(text, _colour(view, place), x, base))
        parts.append(name_label(x, base + 22.0, shortened(text, NAME), tilts=tilts))
    if view.first > 0:
        parts.append(label(left - 40.0, base + 4.0, "…", "middle"))
    if view.first + count < view.size:
        parts.append(label(left + side + 40.0, base + 4.0, "…", "middle"))
    return _sheet(view, frame, *parts, *_captions(view, frame, below + 8.0))


def _ring(view: GraphView) -> str:
    """Values on a circle, those of one part side by side; each hidden move a line through it."""
    order = sorted(range(len(view.labels)), key=lambda place: (view.part_of[place], place))
    width, below, parts = _circle(view.labels, order, view.pairs, [_colour(view, p) for p in range(len(order))])
    frame = Frame(width=width, height=below + 10.0 + _caption_height(view))
    return _sheet(view, frame, *parts, *_captions(view, frame, below + 8.0))


def _circle(
    labels: Sequence[str], order: Sequence[int], pairs: Ints, colours: Sequence[str], most: int = NAME
) -> tuple[float, float, list[str]]:
    """Dots on a circle with lines through it: the width, where it ends, and its parts."""
    radius = max(90.0, 24.0 * len(order) / (2 * math.pi) + 40.0)
    longest = min(max(map(len, labels)), most)
    width, below = max(2 * (radius + LETTER * longest + 30.0), 520.0), 2 * radius + 100.0
    middle_x, middle_y = width / 2, radius + 50.0
    turn = {place: -math.pi / 2 + 2 * math.pi * step / len(order) for step, place in enumerate(order)}
    where = {p: (middle_x + radius * math.cos(a), middle_y + radius * math.sin(a)) for p, a in turn.items()}
    parts = [element("circle", {"cx": middle_x, "cy": middle_y, "r": radius, "fill": "none", "stroke": GRID})]
    for one, two in pairs.tolist():
        (x1, y1), (x2, y2) = where[one], where[two]
        pull = 0.35
        cx, cy = (x1 + x2) / 2 + pull * (middle_x - (x1 + x2) / 2), (y1 + y2) / 2 + pull * (middle_y - (y1 + y2) / 2)
        curve = f"M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
        faint = max(0.25, 0.9 - len(pairs) / 400)
        stroke = {"stroke": colours[one], "stroke-width": 1.5, "stroke-opacity": f"{faint:.2f}"}
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place in order:
        x, y = where[place]
        parts.append(_dot(labels[place], colours[place], x, y))
        across = math.cos(turn[place])
        anchor = "middle" if abs(across) < 0.25 else "start" if across > 0 else "end"
        away = RADIUS + (10.0 if anchor != "middle" else 12.0)
        text_y = y + away * math.sin(turn[place]) + 4.0
        parts.append(label(x + away * across, text_y, shortened(labels[place], most), anchor))
    return width, below, parts


REST = "other records"
"""Stands for the records in none of the counts: the vertices v+ and v- of the paper's graph."""


def constraints_svg(view: ConstraintsView) -> str:
    """Public constraints as dots with their factors, joined where one hidden change of a record changes both."""
    labels = [f"{shortened(name, NAME)}: {price}" for name, price, _ in view.rows()]
    pairs = [*view.pairs.tolist(), *([place, len(labels)] for place, alone in enumerate(view.alone) if alone)]
    colours = [
        PARTS[part % len(PARTS)] if is_changed else GRID
        for part, is_changed in zip(view.part_of, view.changed, strict=True)
    ]
    if any(view.alone):
        labels, colours = [*labels, REST], [*colours, QUIET]
    order = sorted(range(len(view.names)), key=lambda place: (view.part_of[place], place))
    order += range(len(order), len(labels))
    width, below, parts = _circle(labels, order, np.array(pairs, dtype=np.int64).reshape(-1, 2), colours, 2 * NAME)
    mark = hashlib.sha256(repr((view.names, pairs, view.records)).encode()).hexdigest()[:10]
    title = "How public constraints tie records together"
    return Frame(width=width, height=below).sheet(f"bf{mark}", title, " ".join(view.words()), *parts)


NARROWEST, ROW = 40.0, 58.0
MOST_LINES = 90
"""More lines than this are left out where colours say as much."""
COLUMN_NAME = 11
ARC, BOW = 0.45, 0.14
"""How far a line bows out over the dots between its ends, of its length: above one row of dots, and in a field."""


def cells_svg(view: CellsView, of: str = "") -> str:
    """The graph projected on a question: dots in a row for the groups of one attribute, in a field for those of two.

    With more lines than can be told apart, colours stand for them, or those of one dot are drawn: the dot named `of`,
    or the one in the middle.
    """
    rows, columns = view.labels if len(view.labels) == len(view.axes) > 1 else (("",), view.labels[0])
    step = max(NARROWEST, LETTER * min(max(map(len, columns)), COLUMN_NAME) + 14.0)
    margin = LETTER * min(max(map(len, (view.axes[0], *rows))), NAME) + 30.0 if len(view.axes) > 1 else 24.0
    furthest = max((two - one for one, two in view.pairs.tolist()), default=0)
    lines, captions = _lines(view, of)
    rise = min(ARC * step * furthest / 2, STEEPEST / 2) if len(rows) == 1 and lines else 0.0
    width = max(margin + step * len(columns) + 24.0, 340.0)
    left, top = margin + (width - margin - step * len(columns)) / 2 + step / 2, 84.0 + rise
    below = top + ROW * (len(rows) - 1) + 46.0
    frame = Frame(width=width, height=below + 10.0)
    where = [(left + step * column, top + ROW * row) for row in range(len(rows)) for column in range(len(columns))]
    faint = max(0.35, 0.85 - len(lines) / 250)
    parts = []
    for one, two in lines:
        stroke = {"stroke": _part_colour(view, one), "stroke-width": 1.6, "stroke-opacity": f"{faint:.2f}"}
        curve = _bowed(where[one], where[two], rise if len(rows) == 1 else None)
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place, (name, (x, y)) in enumerate(zip(view.names, where, strict=True)):
        about = {"cx": x, "cy": y, "stroke-width": 1.5}
        if view.leaving[place]:
            ring = {"r": RADIUS + 5.0, "fill": "none", "stroke": _part_colour(view, place), "stroke-dasharray": "3 3"}
            parts.append(element("circle", {**about, **ring}))
        dot = {"r": RADIUS, "fill": _part_colour(view, place), "stroke": PAPER}
        parts.append(element("circle", {**about, **dot}, element("title", {}, escaped(name))))
    parts += [label(left + step * n, 44.0, shortened(one, COLUMN_NAME), "middle") for n, one in enumerate(columns)]
    parts += [label(left - 26.0, top + ROW * n + 4.0, shortened(one, NAME), "end") for n, one in enumerate(rows)]
    across = {"x": left + step * (len(columns) - 1) / 2, "y": 22.0, "text-anchor": "middle", "class": "q"}
    parts.append(element("text", across, escaped(shortened(view.axes[-1], NAME))))
    if len(view.axes) > 1:
        corner = {"x": left - 26.0, "y": 22.0, "text-anchor": "end", "class": "q"}
        parts.append(element("text", corner, escaped(shortened(view.axes[0], NAME))))
    mark = hashlib.sha256(repr((view.axes, view.labels, view.pairs.tolist(), view.part_of)).encode()).hexdigest()[:10]
    title = f"What the policy hides about {' and '.join(view.axes)}"
    return frame.sheet(f"bf{mark}", title, " ".join(captions), *parts)


def _lines(view: CellsView, of: str) -> tuple[list[tuple[int, int]], list[str]]:
    """The moves to draw, and what the picture shows, in words."""
    pairs = [(one, two) for one, two in view.pairs.tolist()]
    if len(pairs) <= MOST_LINES and not of:
        return pairs, [*view.words()]
    if view.is_all_of_parts and not of:
        return [], [*view.words(), "Any two of one colour are hidden from each other; their lines are left out."]
    names = view.names
    columns = len(view.labels[-1])
    centre = names.index(of) if of in names else len(names) // columns // 2 * columns + columns // 2
    return [pair for pair in pairs if centre in pair], [*view.words(), f"Lines are drawn for {names[centre]} alone."]


def cells_words(view: CellsView, of: str = "") -> list[str]:
    """What the picture shows, in words."""
    return _lines(view, of)[1]


def _part_colour(view: CellsView, place: int) -> str:
    return PARTS[0] if view.is_absence_hidden else PARTS[view.part_of[place] % len(PARTS)]


def _bowed(start: tuple[float, float], end: tuple[float, float], rise: float | None) -> str:
    """A line that leaves the dots between its ends free: above one row of them, or to one side in a field."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    if rise is not None:
        across, down = 0.0, -min(ARC * length, 2 * rise)
    else:
        across, down = -BOW * (y2 - y1), BOW * (x2 - x1)
    middle = f"{(x1 + x2) / 2 + across:.1f} {(y1 + y2) / 2 + down:.1f}"
    return f"M{x1:.1f} {y1:.1f}Q{middle} {x2:.1f} {y2:.1f}"
