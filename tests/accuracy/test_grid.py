from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.accuracy.candidates import first_passing, index_at_least, least_passing, point, round_up
from tests.effort import effort


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_rounding_up_is_short_and_within_one_percent(epsilon):
    found = round_up(epsilon)
    assert epsilon <= found <= epsilon * Fraction(101, 100)
    assert float(f"{float(found):.3g}") == float(found)
    assert round_up(found) == found
    assert point(index_at_least(found) - 1) < epsilon


@effort(40)
@given(st.integers(-2000, 2000), st.integers(-2000, 2000))
def test_searches_find_the_edge(edge, guess):
    assert least_passing(lambda e: e >= point(edge), point(guess)) == point(edge)
    start = point(min(guess, edge))
    assert first_passing(lambda e: e >= point(edge), start, point(edge + 1)) == point(edge)
    assert first_passing(lambda e: e >= point(edge), start, point(edge)) == point(edge)
    assert first_passing(lambda e: e >= point(edge), start, point(edge - 1)) is None
