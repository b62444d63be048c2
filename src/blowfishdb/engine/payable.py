"""What one charge pays for: everything about it that is known before data is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from blowfishdb.engine.holding import Holding
from blowfishdb.model.arrays import Ints
from blowfishdb.sources.base import Counting


class Payable(Protocol):
    """A release that is ready to be charged and then run once on the counts."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        ...

    @property
    def digest(self) -> str:
        """What the receipt covers: the plan, or the program with its allowances."""
        ...

    def digest_1(self) -> str:
        """The same in the first encoding, which receipts of earlier versions hold."""
        ...

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps. All that can fail without data has been done when this returns."""
        ...

    def counting(self, holding: Holding) -> Counting:
        """The statement that will count, checked against the table as it is; reads no row."""
        ...

    def payload(self, counts: Ints, holding: Holding) -> bytes:
        """Draws the noise and gives what is published, as it will be stored."""
        ...
