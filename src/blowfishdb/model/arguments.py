"""Arguments of the functions that users call: a value of a wrong kind is refused by the name of its argument."""

from __future__ import annotations

import ast
import builtins
import datetime
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from blowfishdb.errors import AccuracyError, InvalidInput

Made = TypeVar("Made")

LIKE: Mapping[object, tuple[type, ...]] = {
    int: (int, np.integer),
    float: (float, int, Fraction, np.floating, np.integer),
    Fraction: (Fraction, int),
    bool: (bool, np.bool_),
    Path: (PathLike,),
}
"""What else is taken for a kind; the function that is called may still refuse it."""
WORDS: Mapping[type, str] = {
    NoneType: "None",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Fraction: "a fraction",
    Decimal: "a decimal number",
    np.number: "a number of numpy",
    str: "text",
    bytes: "bytes",
    PathLike: "a path",
    datetime.datetime: "a time",
    datetime.date: "a date",
    np.ndarray: "an array",
    Mapping: "a dictionary",
    AbstractSet: "a set",
    tuple: "a tuple",
    list: "a list",
}
NAMED = {"Condition": "a condition such as col('age') >= 18 (mind the brackets)"}
"""Classes that nobody makes by their name."""
OPERATORS = frozenset(
    f"__{name}__" for name in ("and", "or", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "contains", "call")
)
PLAIN = (NoneType, str, bytes, bool, int, float, Decimal, Fraction, datetime.date, datetime.time, np.generic)
MOST_BITS = 10_000
"""Whole numbers have at most about 3,000 digits."""
OWN = __name__.partition(".")[0] + "."
TERMS = frozenset(
    ("alpha", "beta", "epsilon", "accuracy", "confidence", "mechanism", "parameters", "per_query", "fresh")
)
"""Arguments that say how accurate or how expensive an answer may be, of whatever function."""
MARK = "__checks_arguments__"


@dataclass(frozen=True)
class Expected:
    """The values that an annotation allows, in words and as a test; `each` is what an iterable may give."""

    words: str
    holds: Callable[[object], bool]
    kinds: tuple[type, ...] | None = None
    each: Expected | None = None


def checked(error: type[InvalidInput] = InvalidInput) -> Callable[[Made], Made]:
    """A decorator of functions, and of classes with constructor, public methods and operators: refuses wrong kinds.

    Annotations say which values are right. The error names the argument, what it may be and what it was, before
    anything is done. Iterators are looked at while they are read. Lists and dictionaries are looked into; arrays and
    tables are not.
    """

    def decorated(made: Made) -> Made:
        if not isinstance(made, type):
            return cast(Made, _wrapped(cast(FunctionType, made), "", error))
        for name, member in list(vars(made).items()):
            if name.startswith("_") and name not in OPERATORS and name != "__init__":
                continue
            inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if isinstance(inner, FunctionType) and not hasattr(inner, MARK):
                call = _wrapped(inner, made.__name__, error)
                setattr(made, name, type(member)(call) if isinstance(member, classmethod | staticmethod) else call)
        return made

    return decorated


def _wrapped(function: FunctionType, owner: str, error: type[InvalidInput]) -> Callable[..., Any]:
    """The function behind a look at its arguments."""
    rules: Rules | None = None

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        nonlocal rules
        if rules is None:
            rules = Rules.of(function, owner, error)
        for place, value in enumerate(given):
            rule = rules.positional[place] if place < len(rules.positional) else rules.rest
            if rule is not None and not rule[1].holds(value):
                raise rules.wrong(rule, value)
            if rule is not None and rule[1].each is not None and isinstance(value, Iterator):
                given = (*given[:place], rules.looked_at(rule, value), *given[place + 1 :])
        for name, value in named.items():
            rule = rules.named.get(name)
            if rule is not None and not rule[1].holds(value):
                raise rules.wrong(rule, value)
            if rule is not None and rule[1].each is not None and isinstance(value, Iterator):
                named[name] = rules.looked_at(rule, value)
        return function(*given, **named)

    setattr(call, MARK, True)
    return call


Rule = tuple[str, Expected]


@dataclass(frozen=True)
class Rules:
    """What the arguments of one function may be, by place and by name; those without a rule may be anything."""

    function: str
    positional: tuple[Rule | None, ...]
    rest: Rule | None
    named: Mapping[str, Rule]
    error: type[InvalidInput]

    @staticmethod
    def of(function: FunctionType, owner: str, error: type[InvalidInput]) -> Rules:
        """The rules that a function's annotations make."""
        positional: list[Rule | None] = []
        rest, named = None, dict[str, Rule]()
        for name, parameter in inspect.signature(function).parameters.items():
            expected = None
            if parameter.annotation is not parameter.empty:
                expected = expected_of(resolved(parameter.annotation, function.__module__))
            rule = None if expected is None else (name, expected)
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = rule
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(rule)
            if rule is not None and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                named[name] = rule
        own = function.__name__
        called = owner if own == "__init__" else f"{owner}.{own}" if own in OPERATORS else own
        return Rules(called, tuple(positional), rest, named, error)

    def wrong(self, rule: Rule, value: object) -> InvalidInput:
        """The refusal of a value."""
        name, expected = rule
        error = AccuracyError if name in TERMS else self.error
        return error(f"{name} of {self.function} is {expected.words}, not {given_words(value, expected)}")

    def looked_at(self, rule: Rule, values: Iterator[object]) -> Iterator[object]:
        """The values of an iterator, each looked at when it is read."""
        each = cast(Expected, rule[1].each)
        for value in values:
            if not each.holds(value):
                raise self.error(
                    f"{rule[0]} of {self.function} is {rule[1].words}, not one that gives {given_words(value)}"
                )
            yield value


class _Names(dict[str, object]):
    """The names of a module, with those that it imports for type checkers alone; what is not installed is anything."""

    def __missing__(self, name: str) -> object:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        source = ast.parse(inspect.getsource(sys.modules[str(self["__name__"])]))
        for node in ast.walk(source):
            if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
                with suppress(ImportError, AttributeError):
                    return getattr(import_module(node.module or ""), name)
            if isinstance(node, ast.Import) and name in [alias.name for alias in node.names]:
                with suppress(ImportError):
                    return import_module(name)
        return Any


def resolved(annotation: Any, module: str) -> Any:
    """The type that an annotation writes."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {}, _Names(vars(sys.modules[module])))
    except AttributeError:
        return Any


def expected_of(hint: Any) -> Expected | None:
    """The values that a type allows; None for all."""
    if hint is None or hint is NoneType:
        return _of_kinds("None", NoneType)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([expected_of(one) for one in inner])
    if origin is Literal:
        return _any_of([_of_class(type(one)) for one in inner])
    if origin in (Sequence, Iterable, list, tuple, set, frozenset, AbstractSet):
        return _sequence(origin, inner)
    if origin in (Mapping, dict):
        return _mapping(*(expected_of(one) for one in inner))
    kind = origin or hint
    if kind is Callable:
        return Expected("a function", callable)
    if kind is object:
        return Expected("a number, text, a truth value, a date or a time", is_plain)
    if not isinstance(kind, type) or kind is Any:
        return None
    if getattr(kind, "_is_protocol", False):
        return _of_class(kind) if getattr(kind, "_is_runtime_protocol", False) else None
    return _of_class(kind)


def is_plain(value: object) -> bool:
    """Whether a value is one that a column may hold, or several, or an object of this package, which can be shown."""
    if isinstance(value, dict):
        return is_plain([*value, *value.values()])
    return all(map(_is_single, value)) if isinstance(value, list | tuple) else _is_single(value)


def _is_single(value: object) -> bool:
    return (isinstance(value, PLAIN) and is_writable(value)) or type(value).__module__.startswith(OWN)


def is_writable(value: object) -> bool:
    """Whether a number has so few digits that Python writes it, which messages and records need."""
    if isinstance(value, int):
        return value.bit_length() <= MOST_BITS
    return not isinstance(value, Fraction) or max(map(int.bit_length, value.as_integer_ratio())) <= MOST_BITS


def _of_class(kind: type) -> Expected:
    return _of_kinds(_name(kind), *LIKE.get(kind, (kind,)))


def _of_kinds(words: str, *kinds: type) -> Expected:
    return Expected(words, _one_of(kinds), kinds)


def _one_of(kinds: tuple[type, ...]) -> Callable[[object], bool]:
    """Whether a value is of one of the kinds, and can be written if it is a number."""
    if int in kinds or Fraction in kinds:
        return lambda value: isinstance(value, kinds) and is_writable(value)
    return lambda value: isinstance(value, kinds)


def _any_of(options: Sequence[Expected | None]) -> Expected | None:
    """The values that one of several types allows."""
    known = [one for one in options if one is not None]
    if len(known) < len(options):
        return None
    words = list(dict.fromkeys(one.words for one in known))
    # None is what is not given; nobody needs to be told to give it.
    words = [one for one in words if one != "None"] or words
    said = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    each = next((one.each for one in known if one.each is not None), None)
    kinds = tuple(kind for one in known for kind in one.kinds or ())
    others = [one.holds for one in known if one.kinds is None]
    if not others:
        return Expected(said, _one_of(kinds), kinds)
    is_one = _one_of(kinds)
    return Expected(said, lambda value: is_one(value) or any(holds(value) for holds in others), each=each)


def _sequence(origin: type, inner: tuple[Any, ...]) -> Expected:
    """Lists and other collections; a text is one of texts alone, bytes are none."""
    if origin is tuple and inner[1:] != (Ellipsis,):
        return _row([expected_of(one) for one in inner])
    each = expected_of(inner[0]) if inner else None
    words = "a list" if each is None else f"a list of {_several(each.words)}"

    def holds(value: object) -> bool:
        if isinstance(value, list | tuple | set | frozenset | dict):
            return each is None or all(map(each.holds, value))
        if isinstance(value, str):
            return each is not None and each.kinds is not None and str in each.kinds
        if isinstance(value, bytes | bytearray) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
            return False
        return origin is Iterable or not isinstance(value, Iterator)

    return Expected(words, holds, each=each)


def _row(inner: list[Expected | None]) -> Expected:
    """As many values as there are types."""
    words = ", ".join("anything" if one is None else one.words for one in inner)

    def holds(value: object) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(inner):
            return False
        return all(one is None or one.holds(part) for one, part in zip(inner, value, strict=True))

    return Expected(f"({words})", holds)


def _mapping(keys: Expected | None = None, values: Expected | None = None) -> Expected:
    """Dictionaries."""
    words = "a dictionary" if values is None else f"a dictionary of {_several(values.words)}"

    def holds(value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        if keys is not None and not all(map(keys.holds, value)):
            return False
        return values is None or all(map(values.holds, value.values()))

    return Expected(words, holds)


def _name(kind: type) -> str:
    """A class in words: the one that it is derived from where several of them belong together."""
    for known, words in WORDS.items():
        if issubclass(kind, known):
            return words
    family = [one for one in kind.__mro__[1:] if one.__module__ == kind.__module__ and not one.__name__.startswith("_")]
    name = family[-1].__name__ if family else kind.__name__
    if name in NAMED:
        return NAMED[name]
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


SEVERAL = {"a list": "lists", "a whole number": "whole numbers", "a number": "numbers", "True or False": "truth values"}


def _several(words: str) -> str:
    """What a list holds, of what each of its members is."""
    for one, several in SEVERAL.items():
        words = words.replace(one, several)
    return words


def given_words(value: object, expected: Expected | None = None) -> str:
    """A value's kind in words, never the value."""
    kind = type(value)
    known = next((words for one, words in WORDS.items() if issubclass(kind, one)), None)
    words = known or f"{'an' if kind.__name__[:1] in 'AEIOUaeiou' else 'a'} {kind.__name__[:40]}"
    if kind is bool:
        words = "a truth value"
    if isinstance(value, PLAIN) and not is_writable(value):
        words = f"{words} of thousands of digits"
    is_inside = expected is not None and expected.kinds is None and isinstance(value, list | tuple | dict | set)
    return f"{words} with something else in it" if is_inside and value else words
