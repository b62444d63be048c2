"""The paragraph to paste under a figure: what was asked, what it cost, how good it is, what it does not protect."""

from __future__ import annotations

from blowfishdb.engine.present.numbers import digits_of, epsilon_words, percent, printable
from blowfishdb.engine.released import Released

ALWAYS_UNPROTECTED = "What is true of many records alike is not hidden, and what an observer already knows stays known."


def note(answer: Released) -> str:
    """Plain sentences, in one paragraph."""
    return " ".join(note_parts(answer))


def note_parts(answer: Released) -> list[str]:
    """The same sentences as a few paragraphs: what it is, what is hidden, what is not, and who made it."""
    said = [[_asked(answer), _cost(answer), _accuracy(answer)], *_policy(answer), [_made(answer)]]
    return [printable(" ".join(part for part in sentences if part)) for sentences in said]


def _asked(answer: Released) -> str:
    data = f", from the dataset {answer.dataset}" if answer.dataset else ""
    return f"{answer.title}{data}."


def _cost(answer: Released) -> str:
    version = f" version {answer.policy_version}" if answer.policy_version is not None else ""
    if answer.epsilon == 0:
        return f"The policy{version} hides nothing that these numbers tell, so they are exact and cost nothing."
    return (
        f"Released with epsilon {epsilon_words(answer.epsilon)} under the policy{version} by the mechanism "
        f"{answer.mechanism}, with exact discrete Laplace noise."
    )


def _accuracy(answer: Released) -> str:
    if answer.together is None and answer.widths.simultaneous == 0.0:
        return ""
    sure = percent(answer.beta)
    if answer.caveat and answer.together is not None:
        return f"With {sure} confidence noise alone explains the intervals shown. {answer.caveat}"
    if answer.caveat:
        return f"With {sure} confidence noise moved no value by more than {_width(answer)}. {answer.caveat}"
    if answer.together is not None:
        said = f"With {sure} confidence all true values lie within the intervals shown."
    elif answer.raw.size == 1:
        said = f"With {sure} confidence the true value is within {_width(answer)} of the measured one."
    else:
        said = f"With {sure} confidence every one of the {answer.raw.size:,} true values is within {_width(answer)} of "
        said += "the measured one."
    if not answer.consistent.feasible:
        return f"{said} The measured values are shown as they are ({answer.consistent.note})."
    if answer.is_counts:
        return f"{said} The values shown are the nearest consistent ones inside these intervals."
    return said


def _width(answer: Released) -> str:
    return digits_of(answer).high(answer.widths.simultaneous)


def _policy(answer: Released) -> list[list[str]]:
    said = [["What the policy says:", *answer.protected]] if answer.protected else []
    return [*said, ["Not protected:", *answer.unprotected, ALWAYS_UNPROTECTED]]


def _made(answer: Released) -> str:
    day = f", {answer.released[:10]}" if answer.released else ""
    return f"Made with BlowfishDB {answer.version}{day}; plan {answer.certificate.plan_digest[:12]}."
