"""Facts as people write them: `count(sex = 'F' and age < 18) = 120`, `range(age, 18, 64)`, `marginal(sex)`, `rows`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from blowfishdb.errors import PolicyError
from blowfishdb.model.facts.tokens import KEYWORDS, NAME, Token, tokens
from blowfishdb.model.facts.values import MOST_CONDITIONS, CountFact, Fact, MarginalFact, RangeFact, RowsFact
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import (
    Both,
    Comparison,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Op,
    Predicate,
)

HELP = "write count(sex = 'F' and age < 18), range(age, 18, 64), marginal(sex, state) or rows, each with = 120 if known"
OPS: dict[str, Op] = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_fact(text: str) -> Fact:
    """The fact that the text writes."""
    if not isinstance(text, str):
        raise PolicyError(f"a fact is a text, not {text!r}; {HELP}")
    reader = _Reader(tokens(text))
    fact = reader.fact()
    if reader.next.kind != "end":
        raise PolicyError(f"{reader.next.written!r} comes after the end of the fact; {HELP}")
    return fact


def write_fact(fact: Fact) -> str:
    """The text that reads back to the fact; a marginal's values are not part of it."""
    if isinstance(fact, MarginalFact):
        return f"marginal({', '.join(_name(name) for name in fact.attributes)})"
    known = "" if fact.value is None else f" = {fact.value}"
    match fact:
        case CountFact(condition):
            return f"count({_condition(condition)}){known}"
        case RangeFact(attribute, low, high):
            return f"range({_name(attribute)}, {_value(low)}, {_value(high)}){known}"
        case RowsFact():
            return f"rows{known}"


class _Reader:
    """Reads from left to right, one word ahead."""

    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._place = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        return self._words[self._place]

    def _take(self) -> Token:
        token = self.next
        self._place += token.kind != "end"
        return token

    def _takes(self, value: str) -> bool:
        """Whether the next word is this keyword or sign; if so it is taken."""
        found = self.next.kind in ("keyword", "sign") and self.next.value == value
        self._place += found
        return found

    def _expect(self, value: str) -> None:
        if not self._takes(value):
            raise PolicyError(f"{value!r} is expected before {self.next.written!r}; {HELP}")

    def fact(self) -> Fact:
        kind = self._take().written.lower()
        if kind == "rows":
            return RowsFact(self._known())
        if kind not in ("count", "range", "marginal"):
            raise PolicyError(f"{kind!r} is no kind of fact; {HELP}")
        self._expect("(")
        if kind == "count":
            condition = self._deeper(self._either)
            self._expect(")")
            return CountFact(condition, self._known())
        names = [self._attribute()]
        if kind == "range":
            self._expect(",")
            low = self._plain()
            self._expect(",")
            high = self._plain()
            self._expect(")")
            return RangeFact(names[0], low, high, self._known())
        while self._takes(","):
            names.append(self._attribute())
        self._expect(")")
        return MarginalFact(tuple(names))

    def _known(self) -> int | None:
        if not self._takes("="):
            return None
        token = self._take()
        if not isinstance(token.value, int):
            raise PolicyError(f"a public count is a whole number of records, not {token.written!r}")
        return token.value

    def _attribute(self) -> str:
        token = self._take()
        if token.kind != "name":
            raise PolicyError(f'{token.written!r} is no attribute; names with odd signs stand in "double quotes"')
        return str(token.value)

    def _plain(self) -> object:
        token = self._take()
        if token.kind in ("number", "text"):
            return token.value
        if token.kind == "keyword" and token.value in ("true", "false"):
            return token.value == "true"
        raise PolicyError(f"{token.written!r} is no plain value; text stands in 'single quotes'")

    def _deeper(self, read: Callable[[], Predicate]) -> Predicate:
        """What `read` reads, one level deeper; bounded, since it reads within itself."""
        self._depth += 1
        if self._depth > MOST_CONDITIONS:
            raise PolicyError(f"a condition is nested at most {MOST_CONDITIONS} deep")
        found = read()
        self._depth -= 1
        return found

    def _either(self) -> Predicate:
        found = self._both()
        while self._takes("or"):
            found = Either(found, self._both())
        return found

    def _both(self) -> Predicate:
        found = self._negation()
        while self._takes("and"):
            found = Both(found, self._negation())
        return found

    def _negation(self) -> Predicate:
        if self._takes("not"):
            return Negation(self._deeper(self._negation))
        if self._takes("("):
            found = self._deeper(self._either)
            self._expect(")")
            return found
        if self._takes("outside"):
            self._expect("(")
            name = self._attribute()
            self._expect(")")
            return IsOutside(name)
        return self._comparison(self._attribute())

    def _comparison(self, name: str) -> Predicate:
        for sign, op in OPS.items():
            if self._takes(sign):
                return Comparison(name, op, self._plain())
        if self._takes("<>") or self._takes("!="):
            return Negation(Comparison(name, "==", self._plain()))
        if self._takes("between"):
            low = self._plain()
            self._expect("and")
            return Both(Comparison(name, ">=", low), Comparison(name, "<=", self._plain()))
        if self._takes("is"):
            is_not = self._takes("not")
            self._expect("null")
            return Negation(IsNull(name)) if is_not else IsNull(name)
        is_not = self._takes("not")
        self._expect("in")
        member = Member(name, self._list())
        return Negation(member) if is_not else member

    def _list(self) -> tuple[object, ...]:
        self._expect("(")
        values = [self._plain()]
        while self._takes(","):
            values.append(self._plain())
        self._expect(")")
        return tuple(values)


def _condition(condition: Predicate) -> str:
    match condition:
        case Either(first, second):
            return f"{_condition(first)} or {_inside(second, Either)}"
        case Both(first, second):
            return f"{_inside(first, Either)} and {_inside(second, Either, Both)}"
        case Negation(inner):
            return f"not {_inside(inner, Either, Both)}"
        case Comparison(attribute, op, value):
            return f"{_name(attribute)} {'=' if op == '==' else op} {_value(value)}"
        case Member(attribute, values):
            return f"{_name(attribute)} in ({', '.join(_value(value) for value in values)})"
        case IsNull(attribute):
            return f"{_name(attribute)} is null"
        case IsOutside(attribute):
            return f"outside({_name(attribute)})"


def _inside(condition: Predicate, *bracketed: type) -> str:
    written = _condition(condition)
    return f"({written})" if isinstance(condition, bracketed) else written


def _name(name: str) -> str:
    if NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction):
        return show(value)
    doubled = str(value).replace("'", "''")
    return f"'{doubled}'"
