"""The guide to answers names everything that an answer offers, and says what is so."""

from __future__ import annotations

from pathlib import Path

from blowfishdb.engine.answer import SCHEMA, Answer
from tests.present.cases import released

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")


def unnamed(guide: str) -> list[str]:
    """What an answer offers and the text does not show as code."""
    offered = [name for name in dir(Answer) if not name.startswith("_")]
    fields = set(Answer.__dataclass_fields__)
    return [
        name for name in offered if name not in fields and f"a.{name}" not in guide and f"Answer.{name}" not in guide
    ]


def test_every_view_is_documented() -> None:
    assert unnamed(GUIDE) == []


def test_the_check_sees_a_missing_view() -> None:
    assert unnamed(GUIDE.replace("a.note()", "")) == ["note"]


def test_every_column_and_the_stored_form_are_documented() -> None:
    for column in list(released("histogram").rows()[0])[1:]:
        assert f"`{column}`" in GUIDE
    assert SCHEMA in GUIDE
