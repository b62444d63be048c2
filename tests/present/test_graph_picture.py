"""Pictures of policy graphs: every shown move is there, parts are told apart, and names cannot break out."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import blowfishdb as bf
from blowfishdb.errors import PolicyError
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.present.graph_picture import (
    CellsView,
    GraphView,
    cells_svg,
    cells_words,
    to_dot,
    to_svg,
    view_cells,
    view_graph,
)

WARDS = ["a", "b", "c", 'd"</text>&']
DOMAIN = bf.domain(
    {
        "age": bf.integers(0, 99, null=0),
        "cost": bf.bins(0, 10, width=1),
        "odd": bf.bins(edges=[0, 1, 5, 6, 30], null=0),
        "ward": bf.categorical(WARDS, null="a", outside="a"),
        "long": bf.integers(0, 10**12, null_public=True),
    }
)
POLICY = bf.Policy(
    {
        "age": bf.threshold(3),
        "cost": bf.partition(cuts=[4]),
        "odd": bf.threshold("0.5"),
        "ward": bf.custom([("a", "b"), ("b", WARDS[3])]),
        "long": bf.partition(cuts=[10**6]),
    }
)


def view(name: str, policy: bf.Policy = POLICY, **options: object) -> GraphView:
    return view_graph(DOMAIN, policy, name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DOMAIN.names)
@pytest.mark.parametrize("policy", [POLICY, bf.Policy(), bf.Policy({name: bf.public() for name in DOMAIN})])
def test_shown_moves_are_those_of_the_policy(name: str, policy: bf.Policy) -> None:
    seen = view(name, policy)
    graph = policy.graph(DOMAIN, name)
    joined = {tuple(pair) for pair in seen.pairs.tolist()}
    for one in range(len(seen.labels)):
        for two in range(one + 1, len(seen.labels)):
            assert ((one, two) in joined) == (graph.distance(seen.first + one, seen.first + two) == 1)
            apart = graph.distance(seen.first + one, seen.first + two) is None
            assert (seen.part_of[one] != seen.part_of[two]) == apart


def test_svg_is_well_formed_and_draws_each_move_and_value() -> None:
    for name in DOMAIN:
        seen = view(name)
        root = ElementTree.fromstring(to_svg(seen))
        space = "{http://www.w3.org/2000/svg}"
        dots = [dot for dot in root.iter(f"{space}circle") if dot.find(f"{space}title") is not None]
        assert len(dots) == len(seen.labels)
        assert len(list(root.iter(f"{space}path"))) == len(seen.pairs)


def test_dot_quotes_every_name() -> None:
    text = to_dot(view("ward"))
    assert '"b" -- "d\\"</text>&";' in text
    assert text.count("--") == 2
    universal_vertex = to_dot(view("cost"))
    assert len(re.findall(r'"NULL" -- ', universal_vertex)) == 10
    assert '"NULL" [style=dashed];' in to_dot(view("long"))


def test_large_attributes_are_seen_through_a_window() -> None:
    seen = view("age", around=98, most=10)
    assert (seen.first, seen.labels[0], seen.labels[-1], seen.is_whole) == (90, "90", "99", False)
    assert view("long").parts == 2
    for wrong in (1, 1000):
        with pytest.raises(PolicyError):
            view("age", most=wrong)


def test_parts_that_nothing_joins_are_warned_of() -> None:
    told = " ".join(view("ward").warnings())
    assert "2 parts" in told
    assert "1 of 4 values" in told
    assert view("age").warnings() == ()
    assert view("cost").warnings() == (), "a hidden NULL joins everything"
    assert "nothing is hidden" in view("age", bf.Policy({"age": bf.public()})).warnings()[0]


def test_a_joint_threshold_is_drawn_along_one_attribute() -> None:
    seen = view("age", bf.Policy(joint=[bf.grid(["age", "odd"], 2, "l1")]), most=5)
    assert [pair for pair in seen.pairs.tolist() if pair[0] == 0] == [[0, 1], [0, 2]]


TWO = bf.domain({"a": bf.integers(0, 9, null=0), "b": bf.categorical(["<x>", "y", "z"], null="y", outside="y")})


def projected(policy: bf.Policy, *axes: Axis, where: Predicate | None = None) -> CellsView:
    return view_cells(compile_cells(TWO, policy, axes, where))


def test_a_composed_graph_is_drawn_as_the_product_that_it_is() -> None:
    for composition, moves in (("attribute", 5 * 3 + 6 * 2), ("record", 5 * 3 + 6 * 2 + 5 * 2 * 2)):
        policy = bf.Policy({"a": bf.line(), "b": bf.custom([("<x>", "y"), ("y", "z")])}, composition)  # type: ignore[arg-type]
        view = projected(policy, Axis("a"), Axis("b"))
        picture = ElementTree.fromstring(cells_svg(view))
        assert len(view.pairs) == moves == len(picture.findall(".//{http://www.w3.org/2000/svg}path"))
        assert len(picture.findall(".//{http://www.w3.org/2000/svg}circle")) == 18
        assert "6 of 10 groups of a by all 3 groups of b" in "".join(picture.itertext())
    assert (
        dict(projected(bf.Policy({"a": bf.line(), "b": bf.public()}), Axis("a"), Axis("b")).neighbours())["2, y"]
        == "3, y"
    )


def test_what_is_too_dense_is_told_by_colours_or_drawn_for_one_dot() -> None:
    everything = projected(bf.Policy(), Axis("a"), Axis("b"))
    assert "path" not in cells_svg(everything) and "lines are left out" in cells_words(everything)[-1]
    one = cells_words(everything, "4, y")
    assert one[-1] == "Lines are drawn for 4, y alone." and cells_svg(everything, "4, y").count("<path") == 17
    dense = projected(bf.Policy({"a": bf.threshold(3)}), Axis("a"), Axis("b"))
    assert cells_words(dense)[-1] == "Lines are drawn for 5, y alone."


def test_a_question_about_one_attribute_shows_what_leaves_its_filter() -> None:
    policy = bf.Policy({"a": bf.threshold(3), "b": bf.full()})
    view = projected(policy, Axis("a", width=2), where=bf.col("b") == "y")
    assert all(view.leaving) and cells_svg(view).count("stroke-dasharray") == 5
    assert "rows that are not counted" in view.neighbours()[0][1]
    hidden = projected(bf.Policy(presence="only"), Axis("b"))
    assert hidden.neighbours()[0] == ("<x>", "nothing") and "A record that is not there" in hidden.words()[-1]
    apart = projected(bf.Policy({"a": bf.partition(cuts=[4])}), Axis("a"))
    assert "2 parts" in apart.words()[1] and apart.is_all_of_parts and len(apart.pairs) == 6 + 15
    with pytest.raises(PolicyError, match="one or two"):
        view_cells(compile_cells(TWO, bf.Policy(), (), None))
