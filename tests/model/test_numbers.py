"""Numbers as people write them are exact, and a few characters cannot fill the memory."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import exact


@pytest.mark.parametrize("vast", ["1e999999999", "-1E-999999999", " 7e401 ", Decimal("1e1000000"), "0e999999999"])
def test_vast_exponents_are_refused(vast: object) -> None:
    with pytest.raises(InvalidInput, match="below 1e400"):
        exact(vast, "the value")


def test_what_people_write_is_exact() -> None:
    assert exact("1e400", "the value") == 10**400
    assert exact("1/3", "the value") == Fraction(1, 3)
    assert exact(0.1, "the value") == exact("0.1", "the value") == exact(Decimal("0.1"), "the value") == Fraction(1, 10)
    with pytest.raises(InvalidInput, match="finite"):
        exact("nan", "the value")
