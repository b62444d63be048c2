"""OPTIONS (alpha = 50, beta = 0.05): the accuracy that a statement asks for, and how keywords add to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from blowfishdb.engine.demand import Number, short_number
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.model.numbers import show, suggest
from blowfishdb.sql.literals import number
from blowfishdb.sql.refusals import shown

EXAMPLE = "OPTIONS (alpha = 50, beta = 0.05)"
ALIASES = {"within": "alpha", "accuracy": "alpha"}


@dataclass(frozen=True)
class Accuracy:
    """How accurate an answer shall be, or what it may cost; None where nothing was said.

    Every count within `alpha` except with probability `beta`, or the best accuracy that `epsilon` buys.
    """

    alpha: Fraction | None = None
    beta: Fraction | None = None
    epsilon: Fraction | None = None
    mechanism: str | None = None
    per_query: bool | None = None


def read_options(tokens: Sequence[Token]) -> Accuracy:
    """The accuracy that stands between the brackets of OPTIONS."""
    found: dict[str, Fraction | str | bool] = {}
    for name, value in _pairs(tokens):
        key, read = _known(name)
        if key in found:
            raise QueryError(f"OPTIONS says {key} twice")
        found[key] = read(value)
    return Accuracy(**found)  # type: ignore[arg-type]  # each reader gives the type of its field


def accuracy_of(
    alpha: Number | None = None,
    beta: Number | None = None,
    epsilon: Number | None = None,
    accuracy: Number | None = None,
    confidence: Number | None = None,
    mechanism: str | None = None,
    per_query: bool | None = None,
) -> Accuracy:
    """The same from keywords of either vocabulary: `accuracy` is alpha, `confidence` is 1 - beta."""
    if alpha is not None and accuracy is not None:
        raise AccuracyError("alpha and accuracy are the same thing: give one of them")
    if beta is not None and confidence is not None:
        raise AccuracyError("confidence is 1 - beta: give one of them")
    within = accuracy if alpha is None else alpha
    risk = None if beta is None else short_number(beta, "beta")
    return Accuracy(
        alpha=None if within is None else short_number(within, "alpha"),
        beta=risk if confidence is None else 1 - short_number(confidence, "confidence"),
        epsilon=None if epsilon is None else short_number(epsilon, "epsilon"),
        mechanism=mechanism,
        per_query=per_query,
    )


def merged(written: Accuracy, given: Accuracy) -> Accuracy:
    """What the statement and the keywords say together; they must not contradict each other."""
    for entry in fields(Accuracy):
        one, two = getattr(written, entry.name), getattr(given, entry.name)
        if one is not None and two is not None and one != two:
            raise AccuracyError(f"{entry.name} is {one} in OPTIONS and {two} outside: say it once")
    return replace(given, **{name: value for name, value in asdict(written).items() if value is not None})


def write_options(wanted: Accuracy) -> str:
    """The OPTIONS (...) that say the same; nothing where nothing was said."""
    said = [f"{name} = {_written(value)}" for name, value in asdict(wanted).items() if value is not None]
    return f"OPTIONS ({', '.join(said)})" if said else ""


def _written(value: Fraction | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    text = show(value) if isinstance(value, Fraction) else value.replace("'", "''")
    return text if isinstance(value, Fraction) and "/" not in text else f"'{text}'"


def _pairs(tokens: Sequence[Token]) -> list[tuple[str, Token]]:
    pairs: list[tuple[str, Token]] = []
    rest = list(tokens)
    while rest:
        if len(rest) < 3 or rest[1].token_type != TokenType.EQ:
            raise QueryError(f"options are written name = value, separated by commas: {EXAMPLE}")
        pairs.append((rest[0].text, rest[2]))
        if len(rest) > 3 and rest[3].token_type != TokenType.COMMA:
            raise QueryError(f"options are written name = value, separated by commas: {EXAMPLE}")
        if len(rest) == 4:
            raise QueryError(f"an option is missing after the last comma: {EXAMPLE}")
        rest = rest[4:]
    return pairs


def _known(name: str) -> tuple[str, Callable[[Token], Fraction | str | bool]]:
    key = ALIASES.get(name.lower(), name.lower())
    if key == "confidence":
        return "beta", lambda token: 1 - _fraction(token)
    if key not in READERS:
        raise QueryError(f"there is no option {shown(name)}; {suggest(key, [*READERS, *ALIASES, 'confidence'])}")
    return key, READERS[key]


def _fraction(token: Token) -> Fraction:
    if token.token_type not in (TokenType.NUMBER, TokenType.STRING):
        raise QueryError(f"an option is a number, not {shown(token.text)}: {EXAMPLE}")
    if token.token_type == TokenType.STRING and "/" in token.text:
        return short_number(token.text, "an option")
    return Fraction(number(token.text))


def _word(token: Token) -> str:
    if token.token_type != TokenType.STRING:
        raise QueryError("the mechanism is a text: OPTIONS (mechanism = 'identity')")
    return token.text


def _truth(token: Token) -> bool:
    if token.text.upper() not in ("TRUE", "FALSE"):
        raise QueryError("per_query is TRUE (each count on its own) or FALSE (all counts at once)")
    return token.text.upper() == "TRUE"


READERS: Mapping[str, Callable[[Token], Fraction | str | bool]] = {
    "alpha": _fraction,
    "beta": _fraction,
    "epsilon": _fraction,
    "mechanism": _word,
    "per_query": _truth,
}
