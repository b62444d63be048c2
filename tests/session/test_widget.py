"""The widget of a question, driven as a notebook drives it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import blowfishdb as bf
from blowfishdb.errors import ExtraMissing
from blowfishdb.session.session import Session
from tests.session.places import make_fixture


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with bf.connect(make_fixture(tmp_path), analyst="ana") as opened:
        yield opened


def test_the_slider_shows_the_price_and_only_a_confirmed_charge_is_made(session: Session) -> None:
    question = session["visits"].histogram("ward")
    widget = question.widget(alpha=50)
    price = question.preview(alpha=50, confidence="0.95").epsilon
    assert f"costs epsilon {float(price):.4g}"[:20] in widget.price.value
    assert widget.confirmation.layout.display == "none"
    widget.accuracy.value = 100.0
    cheaper = question.preview(alpha=100, confidence="0.95").epsilon
    assert cheaper < price
    assert f"{float(cheaper):.4g}"[:5] in widget.price.value
    widget.release_button.click()
    assert widget.confirmation.layout.display == "flex"
    assert session.budget("visits").spent == 0
    widget.keep_button.click()
    assert widget.confirmation.layout.display == "none"
    widget.release_button.click()
    widget.charge_button.click()
    assert session.budget("visits").spent == cheaper
    assert widget.answer is not None
    assert "<svg" in widget.result.value
    # The same again is free, and asks nothing.
    assert "costs nothing" in widget.price.value
    widget.release_button.click()
    assert session.budget("visits").spent == cheaper
    assert "application/vnd.jupyter.widget-view+json" in widget._repr_mimebundle_()  # type: ignore[operator]


def test_what_cannot_be_paid_or_promised_is_said_and_cannot_be_pressed(session: Session) -> None:
    session["visits"].histogram("age").release(epsilon=8)
    widget = session["visits"].histogram("ward").widget(alpha="0.5")
    assert "more than is left" in widget.price.value
    assert widget.release_button.disabled
    widget.accuracy.value = 5.0
    assert not widget.release_button.disabled
    session["visits"].histogram("cost").release(epsilon=Fraction(19, 10))
    widget.release_button.click()
    widget.charge_button.click()
    assert 'role="alert"' in widget.result.value
    assert widget.answer is None


def test_without_ipywidgets_it_says_what_to_install(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ExtraMissing, match=r"blowfishdb\[notebook\]"):
        session["visits"].histogram(bf.col("age").bins(10)).widget(alpha=50)


@pytest.mark.parametrize("options", [{"mechanism": "edge-transform"}, {"mechanism": "dawa"}])
def test_the_preview_of_a_repeated_question_says_that_it_is_free(session: Session, options: dict[str, Any]) -> None:
    question, other = session["visits"].histogram("ward"), session["visits"].histogram("age")
    assert question.preview(epsilon="0.1", **options).epsilon == Fraction(1, 10)
    question.release(epsilon="0.1", **options)
    again = question.preview(epsilon="0.1", **options)
    assert again.epsilon == 0
    assert "It costs nothing: what entry" in str(again)
    assert again.left == session.budget("visits").remaining
    assert other.preview(epsilon="0.1", **options).epsilon == Fraction(1, 10)
    question.release(epsilon="0.1", **options)
    assert session.budget("visits").spent == Fraction(1, 10)
