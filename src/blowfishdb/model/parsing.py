"""TOML and JSON as plain data; a text that is malformed, nested without end or full of digits is a DocumentError."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn

from blowfishdb.errors import DocumentError

DEEPEST = 32
"""No document of ours nests half as deep; what reads them afterwards may recurse."""


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text, with exact numbers."""
    try:
        content = tomllib.loads(text, parse_float=_finite)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise DocumentError(f"this is not valid TOML: {error}", line=line) from None
    except RecursionError:
        _refuse_depth()
    except ValueError:
        raise DocumentError("this is not valid TOML: a number has too many digits") from None
    _check_depth(content)
    return content


def parse_json(text: str) -> Any:
    """The content of a JSON text, with exact numbers."""
    try:
        content = json.loads(text, parse_float=_finite, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"this is not valid JSON: {error.msg}", line=error.lineno) from None
    except RecursionError:
        _refuse_depth()
    except ValueError:
        raise DocumentError("this is not valid JSON: a number has too many digits") from None
    _check_depth(content)
    return content


def _finite(text: str) -> Decimal:
    number = Decimal(text)
    return number if number.is_finite() else _no_constant(text)


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is no number a document can hold")


def _check_depth(content: object) -> None:
    level: list[object] = [content]
    for _ in range(DEEPEST):
        level = [part for value in level for part in _parts(value)]
        if not level:
            return
    _refuse_depth()


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_depth() -> NoReturn:
    raise DocumentError(f"this document nests more than {DEEPEST} deep")
