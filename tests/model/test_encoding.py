"""Encoded values can be read back, so different values never share bytes; and the first encoding of grids could not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from blowfishdb.model.graphs import GridGraph, Metric
from blowfishdb.model.serialize import LENGTH, VERSION, digest, encode, version_of
from blowfishdb.plan.plan import _factor_1
from tests.effort import effort

WHOLE = arrays.arrays(
    st.sampled_from([np.int64, np.int32, np.uint8, np.bool_, np.dtype(">i8")]),
    arrays.array_shapes(max_dims=3, min_side=0),
)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(st.characters()) | st.binary() | st.fractions() | WHOLE
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple), max_leaves=12)
FEW = st.recursive(
    st.sampled_from([None, False, True, 0, 1, -1, 256, "", "0", "1", b"", b"1", Fraction(1), Fraction(1, 2)])
    | st.sampled_from([(), (0,), (0, 0), (1, 0)]).map(lambda entries: np.array(entries, dtype=np.int64))
    | st.sampled_from([(0, 0), (1, 0)]).map(lambda entries: np.array(entries, dtype=np.int32)),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
"""Few enough that two draws often are equal or nearly so."""


def decoded(written: bytes) -> tuple[Any, bytes]:
    """The value that starts the bytes, and the bytes after it."""
    tag, size = written[:1], int.from_bytes(written[1 : 1 + LENGTH], "big")
    body, rest = written[1 + LENGTH : 1 + LENGTH + size], written[1 + LENGTH + size :]
    assert len(body) == size
    match tag:
        case b"N":
            return None, rest
        case b"B":
            return {b"\0": False, b"\1": True}[body], rest
        case b"I":
            return int.from_bytes(body, "big", signed=True), rest
        case b"S":
            return body.decode("utf-8", "surrogatepass"), rest
        case b"Y":
            return body, rest
        case b"A":
            kind, after = decoded(body)
            shape, entries = decoded(after)
            return np.frombuffer(entries, dtype=kind).reshape(shape), rest
    items = []
    while body:
        item, body = decoded(body)
        items.append(item)
    return (Fraction(*items) if tag == b"F" else tuple(items) if tag == b"T" else items), rest


def same(one: Any, two: Any) -> bool:
    """Whether two values are of the same type and equal; arrays whatever their order of bytes."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        kinds = [array.dtype.newbyteorder("=") for array in (one, two)]
        return kinds[0] == kinds[1] and one.shape == two.shape and bool(np.array_equal(one, two))
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


@effort(40)
@given(VALUES)
def test_what_is_encoded_can_be_read_back(value: Any) -> None:
    found, rest = decoded(encode(value))
    assert same(found, value) and rest == b""


@given(FEW, FEW)
def test_values_share_bytes_exactly_where_they_are_equal(one: Any, two: Any) -> None:
    assert (encode(one) == encode(two)) == same(one, two)
    assert (digest(one) == digest(two)) == same(one, two)


def test_numbers_of_numpy_are_plain_numbers() -> None:
    assert encode(np.int32(7)) == encode(7)
    assert encode(np.bool_(True)) == encode(True)
    assert encode(np.arange(6).reshape(2, 3).T) == encode(np.ascontiguousarray(np.arange(6).reshape(2, 3).T))


@pytest.mark.parametrize("value", [0.5, np.array([0.5]), {1: 2}, {1}, object(), np.array(["a"]), (1, 0.5)])
def test_what_is_no_plain_exact_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="a digest is made of"):
        encode(value)


def test_digests_name_their_version() -> None:
    assert digest(1).startswith("2:") and len(digest(1)) == 2 + 64
    assert version_of(digest(1)) == VERSION == 2
    assert version_of("ab" * 32) == version_of("") == version_of("3:ab") == 1


METRICS: tuple[Metric, ...] = ("l1", "linf")


@st.composite
def grids(draw: st.DrawFn) -> GridGraph:
    """Small joint thresholds over two axes, NULL hidden or not on each."""
    sizes = draw(st.tuples(st.integers(2, 3), st.integers(2, 3)))
    places = tuple(np.arange(size) for size in sizes)
    universal = tuple(np.array([size - 1] if draw(st.booleans()) else [], dtype=np.int64) for size in sizes)
    return GridGraph(places, places, draw(st.integers(0, 1)), draw(st.sampled_from(METRICS)), universal)


def parts(graph: GridGraph) -> tuple[object, ...]:
    arrays_of = (tuple(axis.tolist()) for group in (graph.lows, graph.highs, graph.universal) for axis in group)
    return graph.metric, graph.theta, *arrays_of


@given(grids(), grids())
def test_different_joint_thresholds_never_share_a_fingerprint(one: GridGraph, two: GridGraph) -> None:
    assert (one.fingerprint() == two.fingerprint()) == (parts(one) == parts(two))


def test_the_first_encoding_of_joint_thresholds_fails_the_same_property() -> None:
    @given(grids(), grids())
    def differ(one: GridGraph, two: GridGraph) -> None:
        assume(parts(one) != parts(two))
        assert _factor_1(one) != _factor_1(two)

    with pytest.raises(AssertionError):
        differ()
