"""Python that asks what the controls of a page ask."""

from __future__ import annotations

import re
from fractions import Fraction

from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Axis, condition_code
from blowfishdb.server.pages.query_draft import AccuracyDraft, QueryDraft

NUMBER = re.compile(r"\d+(\.\d+)?")


def snippet(draft: QueryDraft, accuracy: AccuracyDraft, domain: Domain, url: str) -> str:
    """Python that asks a dataset the same question with the same accuracy."""
    terms, question = _accuracy(accuracy), f"question = db[{draft.dataset!r}]{_call(draft, domain)}"
    lines = [question, f"print(question.preview({terms}))  # free", f"answer = question.release({terms})"]
    return _whole(url, [*lines, "print(bf.compare(answer))"] if draft.template == "compare" else lines)


def sql_snippet(text: str, accuracy: AccuracyDraft, url: str) -> str:
    """Python that runs the same statement."""
    return _whole(url, [f'answer = db.sql("""{text.strip()}""", {_accuracy(accuracy)})'])


def reopening(dataset: str, number: int, url: str) -> str:
    """Python that opens an answer of the past again."""
    return _whole(url, [f"answer = db.reopen({dataset!r}, {number})  # free"])


def synopsis_snippet(draft: QueryDraft, domain: Domain, number: int, url: str) -> str:
    """Python that asks a published synopsis the same."""
    synopsis = f"synopsis = db.synopsis({draft.dataset!r}, {number})"
    return _whole(url, [synopsis, f"answer = synopsis{_call(draft, domain)}  # free"])


def _whole(url: str, lines: list[str]) -> str:
    needed = {"datetime.": "import datetime", "Fraction(": "from fractions import Fraction"}
    imports = [line for part, line in needed.items() if any(part in line for line in lines)]
    head = [*imports, *([""] if imports else []), "import blowfishdb as bf", ""]
    return "\n".join(
        [*head, f'db = bf.connect({url!r}, token="...")  # a token of yours', *lines, "answer.to_pandas()"]
    )


def _call(draft: QueryDraft, domain: Domain) -> str:
    filters = "".join(f".where({condition_code(one)})" for one in draft.conditions(domain))
    axes = [_axis(axis) for axis in draft.axes(domain)]
    listed = ", ".join(axes)
    match draft.template:
        case "heat":
            return f"{filters}.histogram2d({listed})"
        case "ranges":
            spans = draft.ranges(domain)
            pairs = "" if spans is None else f", [{', '.join(f'({low!r}, {high!r})' for low, high in spans)}]"
            return f"{filters}.ranges({listed}{pairs})"
        case "top":
            return f"{filters}.top({draft.top()}, {listed})"
        case "quantiles" if not axes:
            return f"{filters}.quantiles({draft.of!r}, [{', '.join(map(_number, draft.shares()))}])"
        case "number" if not axes and draft.function in ("mean", "sum"):
            return f"{filters}.{draft.function}({draft.of!r})"
        case "number" if not axes and draft.function == "count":
            return f"{filters}.count()"
        case "cdf" | "marginals":
            return f"{filters}.{draft.template}({listed})"
    if draft.template != "shares" and not draft.measures:
        return f"{filters}.histogram({listed})"
    aggregates = ", ".join(map(_aggregate, draft.aggregates()))
    return f"{filters}.aggregate({aggregates}{f', by=[{listed}]' if axes else ''})"


def _aggregate(aggregate: Aggregate) -> str:
    parts = [repr(aggregate.function), *([repr(aggregate.factors)] if aggregate.factors else [])]
    parts += [f"level={aggregate.level!r}"] if aggregate.level is not None else []
    parts += [f"of={aggregate.of!r}"] if aggregate.of else []
    parts += [f"times={aggregate.times}"] if aggregate.times != 1 else []
    parts += [f"name={aggregate.name!r}"] if aggregate.name else []
    return f"bf.Aggregate({', '.join(parts)})"


def _number(share: Fraction) -> str:
    return repr(float(share)) if Fraction(repr(float(share))) == share else repr(share)


def _axis(axis: Axis) -> str:
    if axis.width is not None:
        return f"bf.col({axis.attribute!r}).bins({axis.width!r})"
    if axis.edges:
        return f"bf.col({axis.attribute!r}).bins(edges=[{', '.join(map(repr, axis.edges))}])"
    if axis.groups:
        groups = ", ".join(f"{name!r}: [{', '.join(map(repr, values))}]" for name, values in axis.groups)
        return f"bf.col({axis.attribute!r}).groups({{{groups}}})"
    return f"bf.col({axis.attribute!r}).by({axis.unit!r})" if axis.unit is not None else repr(axis.attribute)


def _accuracy(accuracy: AccuracyDraft) -> str:
    alpha, epsilon = accuracy.keywords()
    # A share such as "5 %" is no number.
    within = alpha if alpha is None or NUMBER.fullmatch(alpha) else repr(alpha)
    main = f"alpha={within}" if epsilon is None else f'epsilon="{epsilon}"'
    chosen = "" if accuracy.mechanism is None else f", mechanism={accuracy.mechanism!r}"
    fresh = ", fresh=True" if accuracy.fresh else ""
    return f"{main}, confidence={accuracy.confidence}{chosen}{fresh}"
