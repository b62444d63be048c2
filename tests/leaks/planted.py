"""Planted leaks: each lets a true count, or what follows from one, out by another way."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blowfishdb.audit.twins import DATA
from blowfishdb.engine import charge, measure, preview, release, sharing
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.postprocess import Selection
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.program import AutoChoice
from blowfishdb.errors import BlowfishError
from blowfishdb.ledger import Ledger
from blowfishdb.noise import sampler
from blowfishdb.server.middleware import AnswerSender
from blowfishdb.server.wire import connection as wire
from blowfishdb.session import backend, local, table
from blowfishdb.session.backend import Past


@dataclass
class Spy:
    """What a leak knows: the true counts that were read last, and the folder of the world."""

    counts: Any = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    folder: Path = Path()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Looks at all counts on their way to the noise."""
        usual = measure.checked_counts

        def looking(counts: Any, cells: int) -> Any:
            # The number of all rows is public here.
            self.counts = counts if counts.size > 1 else self.counts
            return usual(counts, cells)

        patch.setattr(measure, "checked_counts", looking)

    @property
    def telltale(self) -> int:
        """A number that is another one on the neighbouring table."""
        return int(self.counts @ np.arange(1, self.counts.size + 1))

    @property
    def is_odd(self) -> bool:
        return self.telltale % 2 == 1


Leak = Callable[[Spy, pytest.MonkeyPatch], None]


def total(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """The exact number of rows beside the noisy numbers, where it is secret."""
    for module in (release, sharing):
        patch.setattr(module, "public_total", lambda _, counts: float(counts.sum()))


def price(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A price that rises with what was counted before."""
    usual = preview._offer

    def dearer(*given: Any) -> preview.Offer:
        offer = usual(*given)
        return replace(offer, epsilon=offer.epsilon + Fraction(spy.telltale, 1000))

    patch.setattr(preview, "_offer", dearer)


def charged_amount(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Spending that is shown a little higher."""
    usual = local._budget
    patch.setattr(
        local, "_budget", lambda *given: replace(usual(*given), spent=usual(*given).spent + Fraction(spy.telltale))
    )


def sort_key(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Rows of a list in an order that follows the true counts."""
    usual = table.select_rows

    def turned(answer: Answer, selection: Selection) -> Answer:
        order = tuple(replace(key, is_descending=key.is_descending != spy.is_odd) for key in selection.order)
        return usual(answer, replace(selection, order=order))

    patch.setattr(table, "select_rows", turned)


def cache_hit(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A cache by the number of groups that occur, filled by somebody else, whose hits are logged."""
    usual, known = charge.Draw.count, {4}

    def cached(self: charge.Draw) -> Any:
        counts = usual(self)
        if int((counts > 0).sum()) in known:
            logging.getLogger("blowfishdb.cache").info("counts found")
        return counts

    patch.setattr(charge.Draw, "count", cached)


def length(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Stored answers without the room for groups that are empty."""
    usual = Answer.to_bytes
    patch.setattr(Answer, "to_bytes", lambda self: usual(self) + b" " * int((spy.counts > 0).sum()))


def message(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Errors that name what was counted last."""
    patch.setattr(BlowfishError, "__str__", lambda self: f"{self.message} ({spy.telltale} by now)")


def plan(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A mechanism that is chosen by looking at the data."""
    chosen = {True: AutoChoice("hierarchy", "it suits"), False: AutoChoice("identity", "it suits")}
    patch.setattr(charge, "choose", lambda *_: chosen[spy.is_odd])


def time_of_content(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A preview that says when the data was written."""
    usual = Preview.notes
    written = lambda: (spy.folder / DATA).stat().st_mtime_ns  # noqa: E731
    patch.setattr(Preview, "notes", lambda self: [*usual(self), f"Data of {written()}."])


def logged_count(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """The number of rows in a log that is not the curator's."""
    usual = measure.checked_counts

    def logging_it(counts: Any, cells: int) -> Any:
        logging.getLogger("blowfishdb.engine").info("%d rows in the first cell", counts[0])
        return usual(counts, cells)

    patch.setattr(measure, "checked_counts", logging_it)


def warning(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A warning about groups with few rows."""
    usual = backend.decode

    def warned(payload: bytes) -> Any:
        if spy.is_odd:
            warnings.warn("some groups are small", stacklevel=2)
        return usual(payload)

    patch.setattr(backend, "decode", warned)


def failure(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A count that fails where a group has too many rows."""
    usual = measure.checked_counts

    def failing(counts: Any, cells: int) -> Any:
        if counts[-1] % 2:
            raise ValueError("too many")
        return usual(counts, cells)

    patch.setattr(measure, "checked_counts", failing)


def history(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A history that says of how many rows an answer was."""
    patch.setattr(local, "Past", lambda **given: Past(**{**given, "question": f"{given['question']} {spy.telltale}"}))


def no_noise_on_few(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Small groups are published as they are."""

    def drawn(unit: Fraction, weights: Any, size: int | None = None) -> Any:
        noise = sampler.sample(unit, weights, size)
        return np.where(spy.counts < 3, 0, noise) if noise.shape == spy.counts.shape else noise

    patch.setattr(measure, "sample", drawn)


def scale(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """More noise where there are more rows."""
    patch.setattr(measure, "sample", lambda unit, *given: sampler.sample(unit * (2 if spy.is_odd else 1), *given))


LEAKS: dict[Leak, tuple[str, str]] = {
    total: ("presence", "histogram"),
    price: ("everything", "histogram"),
    charged_amount: ("everything", "histogram"),
    sort_key: ("everything", "top"),
    cache_hit: ("everything", "histogram"),
    length: ("everything", "histogram"),
    message: ("everything", "too much"),
    plan: ("everything", "auto"),
    time_of_content: ("everything", "histogram"),
    logged_count: ("everything", "histogram"),
    warning: ("everything", "histogram"),
    failure: ("everything", "histogram"),
    history: ("everything", "histogram"),
    no_noise_on_few: ("everything", "mechanism identity"),
    scale: ("everything", "histogram"),
}
"""Each leak with the dataset and the question that show it."""


async def _send(self: AnswerSender, message: Any, usual: Any, changed: Callable[[Any], Any]) -> None:
    """Sends the beginning of an answer in another form."""
    await usual(self, changed(message) if message["type"] == "http.response.start" else message)


def _on_start(patch: pytest.MonkeyPatch, changed: Callable[[Any], Any]) -> None:
    usual = AnswerSender.send
    patch.setattr(AnswerSender, "send", lambda self, message: _send(self, message, usual, changed))


def status(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """Another status of success, of REST, where an odd number was counted."""
    odd = {200: 203}
    _on_start(
        patch, lambda start: {**start, "status": (odd if spy.is_odd else {}).get(start["status"], start["status"])}
    )


def header(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A tag of each answer of REST that follows from what was counted."""
    _on_start(patch, lambda start: {**start, "headers": [*start["headers"], (b"etag", str(spy.telltale).encode())]})


def command_tag(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """The number of groups that occur in place of that of rows, at the end of a statement over the PostgreSQL port."""
    usual = wire.message

    def tagged(kind: str, *parts: bytes) -> bytes:
        return usual(kind, *([wire.text(f"SELECT {(spy.counts > 0).sum()}")] if kind == "C" else parts))

    patch.setattr(wire, "message", tagged)


def history_of_others(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A history that lists the charges of another analyst."""
    usual = Ledger.charges_of
    patch.setattr(Ledger, "charges_of", lambda self, account, analyst, *more: usual(self, account, "bob", *more))


def budget_of_others(spy: Spy, patch: pytest.MonkeyPatch) -> None:
    """A budget that shows what another analyst spent."""
    usual = Ledger.budget_of
    patch.setattr(Ledger, "budget_of", lambda self, account, analyst: usual(self, account, "bob"))
