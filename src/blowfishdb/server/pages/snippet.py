"""The code that asks the same from a program, ready to paste."""

from __future__ import annotations

from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Axis, Both, Comparison, Member, Negation, Predicate
from blowfishdb.server.pages.asking import Asking, Wanted


def snippet(asking: Asking, wanted: Wanted, domain: Domain, url: str) -> str:
    """Python that asks a dataset the same question with the same accuracy."""
    asked = f"{_table(asking, domain)}.{_call(asking, domain)}"
    return _whole(
        url,
        [
            f"question = {asked}",
            f"print(question.preview({_accuracy(wanted)}))  # free",
            f"answer = question.release({_accuracy(wanted)})",
        ],
    )


def sql_snippet(text: str, wanted: Wanted, url: str) -> str:
    """Python that runs the same statement."""
    return _whole(url, [f'answer = db.sql("""{text.strip()}""", {_accuracy(wanted)})'])


def reopening(dataset: str, number: int, url: str) -> str:
    """Python that opens an answer of the past again."""
    return _whole(url, [f"answer = db.reopen({dataset!r}, {number})  # free"])


def synopsis_snippet(asking: Asking, domain: Domain, number: int, url: str) -> str:
    """Python that asks a published synopsis the same."""
    lines = [f"synopsis = db.synopsis({asking.dataset!r}, {number})"]
    filtered = "".join(f".where({_condition(one)})" for one in asking.conditions(domain))
    return _whole(url, [*lines, f"answer = synopsis{filtered}.{_call(asking, domain)}  # free"])


def _whole(url: str, lines: list[str]) -> str:
    dates = ["import datetime", ""] if any("datetime." in line for line in lines) else []
    head = [*dates, "import blowfishdb as bf", "", f'db = bf.connect({url!r}, token="...")  # a token of yours']
    return "\n".join([*head, *lines, "answer.to_pandas()"])


def _table(asking: Asking, domain: Domain) -> str:
    filters = "".join(f".where({_condition(one)})" for one in asking.conditions(domain))
    return f"db[{asking.dataset!r}]{filters}"


def _call(asking: Asking, domain: Domain) -> str:
    axes = ", ".join(_axis(axis) for axis in asking.axes())
    match asking.template:
        case "heat":
            return f"histogram2d({axes})"
        case "ranges":
            spans = asking.ranges(domain)
            listed = "" if spans is None else f", [{', '.join(f'({a!r}, {b!r})' for a, b in spans)}]"
            return f"ranges({axes}{listed})"
        case _:
            return f"{asking.template}({axes})"


def _axis(axis: Axis) -> str:
    if axis.width is not None:
        return f"bf.col({axis.attribute!r}).bins({axis.width!r})"
    return f"bf.col({axis.attribute!r}).by({axis.unit!r})" if axis.unit is not None else repr(axis.attribute)


def _condition(condition: Predicate) -> str:
    match condition:
        case Comparison(attribute, op, value):
            return f"bf.col({attribute!r}) {op} {value!r}"
        case Member(attribute, values):
            return f"bf.col({attribute!r}).isin([{', '.join(repr(value) for value in values)}])"
        case Negation(inner):
            return f"~({_condition(inner)})"
        case Both(Comparison(attribute, ">=", low), Comparison(_, "<=", high)):
            return f"bf.col({attribute!r}).between({low!r}, {high!r})"
        case _:
            return repr(condition)


def _accuracy(wanted: Wanted) -> str:
    alpha, epsilon = wanted.keywords()
    main = f"alpha={alpha}" if epsilon is None else f'epsilon="{epsilon}"'
    chosen = "" if wanted.mechanism is None else f", mechanism={wanted.mechanism!r}"
    return f"{main}, confidence={wanted.confidence}{chosen}"
