"""Odd values, and documents that are nearly right: what people and attackers send."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NASTY_TEXTS = [
    "",
    " ",
    "\0",
    "\ud800",
    "a\0b",
    "\u202e",
    "💥",
    "é",
    "e\u0301",
    "'; DROP TABLE visits; --",
    '"',
    "${HOME}",
    "../../etc/passwd",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "%s%n",
    "1/0",
    "1e999999999",
    "-0",
    "nan",
    "inf",
    "0x10",
    "1_000",
    "__class__",
    "\n",
    "\r\nX-Evil: 1",
]
NASTY_NUMBERS: list[Any] = [
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-300,
    5e-324,
    1.7976931348623157e308,
    float("inf"),
    float("nan"),
    True,
]


def texts() -> st.SearchStrategy[str]:
    """Texts of every kind, half surrogate pairs included."""
    long = st.tuples(st.sampled_from("x9é"), st.sampled_from([300, 5_000, 11_000])).map(lambda part: part[0] * part[1])
    return st.sampled_from(NASTY_TEXTS) | st.text(st.characters(), max_size=12) | long


def numbers() -> st.SearchStrategy[Any]:
    """Numbers of every size, and some that are none."""
    return st.sampled_from(NASTY_NUMBERS) | st.integers(-100, 100) | st.floats()


def plain(max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Any value that JSON can hold."""
    leaves = st.none() | st.booleans() | numbers() | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=max_leaves,
    )


def bent(right: st.SearchStrategy[Any], one_in: int = 8) -> st.SearchStrategy[Any]:
    """Mostly the right thing, now and then anything."""
    return st.integers(1, one_in).flatmap(lambda draw: plain(3) if draw == 1 else right)


def bent_object(
    required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """An object whose keys are mostly right; now and then one is missing, odd or new."""
    whole = st.fixed_dictionaries(
        {key: bent(value) for key, value in required.items()},
        optional={key: bent(value) for key, value in optional.items()},
    )

    def spoilt(draw: st.DrawFn, content: dict[str, Any]) -> dict[str, Any]:
        match draw(st.integers(0, 11)):
            case 0 if content:
                dropped = draw(st.sampled_from(sorted(content)))
                return {key: value for key, value in content.items() if key != dropped}
            case 1:
                return {**content, draw(texts()): draw(plain(2))}
        return content

    @st.composite
    def made(draw: st.DrawFn) -> dict[str, Any]:
        return spoilt(draw, draw(whole))

    return made()
