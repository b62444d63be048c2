"""Queries from options; previews and answers on the screen and in files; policies side by side, and the risk meter."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.dataset import family_words, read_family, read_value
from blowfishdb.cli.options import AccuracyOptions, FileOptions, QueryOptions, RiskOptions
from blowfishdb.cli.output import console, exact, print_json, print_result, say, shell_line, short, table
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import AccuracyTarget, TargetOptions, short_number, target_options
from blowfishdb.errors import AccuracyError, InvalidInput, PolicyError, QueryError, plural
from blowfishdb.model.calendar import Dates
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.policy import Family, full, line, public, threshold
from blowfishdb.model.query import Kind, Questions, query
from blowfishdb.present.export import needed
from blowfishdb.present.page import COLUMNS
from blowfishdb.present.words import ALWAYS_UNPROTECTED, readable, upper_end
from blowfishdb.session import QuestionPlan, Session
from blowfishdb.sql import parse, read_axes, read_where, write_options

if TYPE_CHECKING:
    from blowfishdb.analysis.risk import Risk
    from blowfishdb.catalog.guidance import Pair, PolicyPrice
    from blowfishdb.model.predicate import Axis

Result = TypeVar("Result")

KINDS = ("histogram", "cdf", "ranges", "marginals", "count", "sum", "mean", "quantiles")
QUARTILES = "0.25,0.5,0.75"
STEP_WORDS = {
    "quote": "choosing a mechanism",
    "charge": "charging the ledger",
    "answer": "counting, adding noise",
    "done": "done",
}


def query_of(options: QueryOptions, table: Questions[Result]) -> Result:
    """What the options ask of a table, as a question, or of a synopsis, as an answer."""
    given = [kind for kind in KINDS if getattr(options, kind) not in (None, False)]
    if len(given) != 1:
        raise QueryError(f"ask for one thing: {', '.join(f'--{kind}' for kind in KINDS[:-1])} or --{KINDS[-1]}")
    if options.where is not None:
        table = table.where(read_where(options.where, table.domain))
    kind, text = given[0], str(getattr(options, given[0]))
    match kind:
        case "histogram":
            return table.histogram(*read_axes(text, table.domain))
        case "marginals":
            axes = read_axes(text, table.domain)
            return table.marginals(*axes, ways=min(2, len(axes)))
        case "cdf":
            return table.cdf(_one_axis(text, table, "--cdf"))
        case "sum":
            return table.sum(_one_axis(text, table, "--sum").attribute)
        case "mean":
            return table.mean(_one_axis(text, table, "--mean").attribute)
        case "ranges":
            return _ranges(text, table)
        case "quantiles":
            return _quantiles(text, table)
    return table.count()


def _one_axis(text: str, table: Questions[Result], option: str) -> Axis:
    axes = read_axes(text, table.domain)
    if len(axes) != 1:
        raise QueryError(f"{option} takes one attribute, not {len(axes)}")
    return axes[0]


def _ranges(text: str, table: Questions[Result]) -> Result:
    name, separator, spans = text.rpartition(":")
    if not separator:
        return table.ranges(_one_axis(text, table, "--ranges"))
    pairs = [span.partition("..") for span in spans.split(",")]
    if not all(middle and low.strip() and high.strip() for low, middle, high in pairs):
        raise QueryError("ranges are written ATTRIBUTE:LOW..HIGH,LOW..HIGH, such as age:18..30,30..65")
    return table.ranges(_one_axis(name, table, "--ranges"), [(low.strip(), high.strip()) for low, _, high in pairs])


def _quantiles(text: str, table: Questions[Result]) -> Result:
    name, separator, levels = text.rpartition(":")
    if not separator:
        name, levels = text, QUARTILES
    try:
        shares = [short_number(level, "a level") for level in levels.split(",")]
    except AccuracyError:
        raise QueryError("quantiles are written ATTRIBUTE:LEVEL,LEVEL, such as cost:0.25,0.5,0.75") from None
    return table.quantiles(_one_axis(name, table, "--quantiles"), shares)


def parameters_text(given: Sequence[str] | None) -> str | None:
    """Parameters as one text; None where none was given."""
    return ", ".join(given) if given else None


def keywords(options: AccuracyOptions) -> TargetOptions:
    """The accuracy that the options ask for."""
    return target_options(
        alpha=options.within,
        beta=options.beta,
        epsilon=options.epsilon,
        confidence=options.confidence,
        mechanism=options.mechanism,
        parameters=parameters_text(options.parameter),
        per_query=options.per_query,
        fresh=options.fresh,
    )


def print_preview(
    preview: Preview, command: Sequence[str], cheaper: Callable[[str], Sequence[str]], *, as_json: bool
) -> None:
    """Prints a preview, and the command that runs it, or the one that previews what the rest of the budget buys."""
    if as_json:
        print_json(preview.to_dict())
        return
    say(table(preview.head(), COLUMNS, preview.offer_rows(), right=COLUMNS[1:4]), *preview.notes())
    if preview.is_affordable:
        say_command("Run it with", command)
    elif preview.left:
        say_command("What your budget buys", cheaper(rounded_down(preview.left)))


def say_command(what: str, words: Sequence[str]) -> None:
    """Prints a command; wrapped by the terminal and not by us, so that it can be copied in one piece."""
    say(f"{what}: {shell_line(['blowfish', *words])}", style="dim", soft_wrap=True)


def rounded_down(amount: Fraction) -> str:
    """A positive amount with three significant digits, rounded down."""
    return f"{Context(prec=3, rounding=ROUND_DOWN).divide(Decimal(amount.numerator), Decimal(amount.denominator)):f}"


def print_several(outcomes: Sequence[Answer | Preview], files: FileOptions, *, as_json: bool) -> None:
    """Prints the answers and previews of several statements, and writes their files with numbers in the names."""
    if as_json:
        print_json([json.loads(one.to_json()) if isinstance(one, Answer) else one.to_dict() for one in outcomes])
    for number, one in enumerate(outcomes, start=1):
        if isinstance(one, Answer):
            show_answer(one, _numbered(files, number), as_json=None if as_json else False)
        elif not as_json:
            say(str(one))


def _numbered(files: FileOptions, number: int) -> FileOptions:
    save, plot = (
        None if path is None else path.with_stem(f"{path.stem}-{number}") for path in (files.save, files.plot)
    )
    return replace(files, save=save, plot=plot)


def print_plan(plan: QuestionPlan, *, as_json: bool) -> None:
    """Prints what several statements cost together."""
    if as_json:
        print_json(plan.to_dict())
        return
    columns = ("question", "accuracy", "alone", "share")
    rows = [*plan.rows(), ("together", "", short(plan.one_by_one), short(plan.total))]
    title = f"{plural(len(plan.questions), 'question')} of {plan.dataset}"
    say(table(title, columns, rows, right=columns[2:]), *plan.notes())


def explained(statement: str, epsilon: str) -> str:
    """The statement that shows what an epsilon buys instead."""
    parsed = parse(statement)
    options: TargetOptions = {**parsed.options, "epsilon": Fraction(epsilon)}
    options.pop("alpha", None)
    return f"EXPLAIN {parsed.text} {write_options(options)}"


def print_answer(session: Session, answer: Answer, files: FileOptions, taken: Sequence[str], *, as_json: bool) -> None:
    """Prints an answer and what is left of the budget, and writes its files; `taken` are the steps of its release."""
    again = "" if "charge" in taken else "You asked this before: the same answer again, free."
    show_answer(answer, files, again, as_json=as_json)
    if not as_json:
        show_remaining(session, answer.dataset)


def show_answer(answer: Answer, files: FileOptions, remark: str = "", *, as_json: bool | None) -> None:
    """Prints an answer with its caveat and a remark below, where there are any, and writes its files.

    With None for `as_json` it is written to its files alone.
    """
    if files.save is not None:
        answer.save(files.save)
    if files.plot is not None:
        answer.save_plot(files.plot)
    if as_json is None:
        return
    if as_json:
        sys.stdout.write(answer.to_json(indent=2) + "\n")
        return
    say(answer.terminal())
    for words in filter(None, (answer.caveat, remark)):
        say(words, style="dim")
    if files.note:
        say(f"\n{answer.note()}")
    for path in (files.save, files.plot):
        if path is not None:
            say(f"Written: {path}", style="dim")


def show_remaining(session: Session, name: str) -> None:
    """Says what the analyst may still spend on a dataset."""
    budget = session.budget(name)
    rest = f"epsilon {readable(float(budget.remaining))}" if budget.remaining else "nothing"
    words = (
        f"have spent epsilon {readable(float(budget.spent))} of"
        if budget.remaining is None
        else f"have {rest} left for"
    )
    say(f"You {words} {name}.", style="dim")


@contextmanager
def steps(first: str, *, quiet: bool) -> Iterator[tuple[list[str], Callable[[str], None]]]:
    """The steps taken so far, and what reports one; in a terminal a spinner names the current step."""
    screen = console(error=True)
    status = None if quiet or not screen.is_terminal else screen.status(f"{first} ...")
    taken: list[str] = []

    def report(step: str) -> None:
        taken.append(step)
        if status is not None:
            status.update(f"{STEP_WORDS.get(step, step)} ...")

    with status or nullcontext():
        yield taken, report


HARDLY, NOT_AT_ALL = 100.0, 1e6
"""Odds from which a pair is hardly protected, and from which it is not protected at all."""
MOST_THRESHOLDS = 3


def show_comparison(
    dataset: Dataset,
    name: str,
    target: AccuracyTarget,
    policies: Sequence[str],
    pair_texts: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Prints the price of each policy, or of the usual ones, most expensive first; the one in force is among them."""
    from blowfishdb.catalog.guidance import what_if

    attribute = dataset.domain.find(name, PolicyError)
    if dataset.policy.joint_of(name) is not None:
        raise PolicyError(f"{name} is hidden together with other attributes; a policy of its own cannot be compared")
    current = dataset.policy.family(name)
    families = [*([read_family(words, attribute) for words in policies] or usual_families(attribute)), current]
    named = {family_words(family): dataset.policy.with_family(name, family) for family in families}
    pairs = read_pairs(name, pair_texts, attribute)
    kind: Kind = "cdf" if attribute.ordered else "histogram"
    prices = what_if(dataset.domain, named, query(kind, name), target, pairs)
    ranked = sorted(prices, key=lambda price: math.inf if price.epsilon is None else price.epsilon, reverse=True)
    if as_json:
        print_json([_content(price, pairs, family_words(current)) for price in ranked])
        return
    title = (
        f"{'Cumulative histogram' if attribute.ordered else 'Histogram'} of {name} "
        f"({plural(attribute.size, 'value')}), every count within {short(target.alpha)} with probability "
        f"{target.confidence}"
    )
    questions = [f"odds on “{_shown(pair.one)} or {_shown(pair.two)}?”" for pair in pairs]
    rows = [
        (
            price.name + (" (in force)" if price.name == family_words(current) else ""),
            "none" if price.epsilon is None else short(price.epsilon),
            price.mechanism or price.refusal,
            *(odds_words(price, place) for place in range(len(pairs))),
        )
        for price in ranked
    ]
    columns = ("policy", "epsilon", "mechanism", *questions)
    say(table(title, columns, rows, right=("epsilon",), folds=("policy", *questions)))
    say("No data was read. Odds: how much likelier one value may come to look than the other.", style="dim")
    say(closing_words(dataset, name))


def usual_families(attribute: Attribute) -> list[Family]:
    """Policies worth a look: everything secret, a few thresholds, neighbours only; without order, secret or public."""
    if not attribute.ordered:
        return [full(), public()]
    return [full(), *(threshold(theta) for theta in _thetas(attribute)), line()]


def _thetas(attribute: Attribute) -> list[Fraction | str]:
    if isinstance(attribute, Dates):
        return ["90 days", "30 days", "7 days"] if attribute.by == "day" else []
    if not isinstance(attribute, Integers | Bins):
        return []
    step = attribute.width if isinstance(attribute, Bins) and attribute.width is not None else Fraction(1)
    span = attribute.size * step
    power = Fraction(10) ** math.floor(math.log10(span / 2)) if span > 2 else Fraction(1)
    thetas = [power / 10**place for place in range(MOST_THRESHOLDS) if power / 10**place > step]
    return [*thetas, power / 2] if len(thetas) == 1 and power / 2 > step else list(thetas)


def read_pairs(name: str, texts: Sequence[str], attribute: Attribute) -> tuple[Pair, ...]:
    """The pairs of values; without any, a near one and a far one."""
    from blowfishdb.analysis.risk import usual_pairs
    from blowfishdb.catalog.guidance import Pair

    if not texts:
        return tuple(Pair(name, *values) for values in usual_pairs(attribute))
    return tuple(Pair(name, *read_pair(text, attribute)) for text in texts)


def read_pair(text: str, attribute: Attribute) -> tuple[object, object]:
    """The two values of a pair, written A,B."""
    one, comma, two = text.partition(",")
    if not comma:
        raise QueryError("a pair is written A,B, such as --pair 900,1000")
    values = read_value(one.strip(), attribute), read_value(two.strip(), attribute)
    for value in values:
        attribute.locate(value)
    return values


def closing_words(dataset: Dataset, name: str) -> str:
    """What the policy in force protects and does not protect, as far as it concerns one attribute."""
    domain, policy = Domain(((name, dataset.domain[name]),)), dataset.policy
    alone = replace(policy, attributes={name: policy.family(name)}, joint=())
    # What is said first of an attribute is what its policy hides; the rest explains it.
    hidden = explain(domain, alone)[0].removeprefix(f"{name}: ").partition(". ")[0].rstrip(".")
    open_facts = " ".join(not_protected(domain, alone)) or ALWAYS_UNPROTECTED
    return f"The policy in force protects: {name}, {hidden}. Does not protect: {open_facts}"


def odds_words(price: PolicyPrice, place: int) -> str:
    """An adversary's odds on a pair, with a word of warning where they are large."""
    steps, odds = price.steps[place], price.odds(place)
    if price.epsilon is None:
        return "-"
    if steps is None:
        return "not hidden"
    apart = plural(steps, "step")
    if odds is None or odds >= NOT_AT_ALL:
        return f"no protection ({apart})"
    if odds >= HARDLY:
        return f"× {upper_end(odds, 3):,.0f} ({apart}: hardly protected)"
    return f"× {upper_end(odds, 2):.2g} ({apart})" if steps > 1 else f"× {upper_end(odds, 2):.2g}"


def _content(price: PolicyPrice, pairs: Sequence[Pair], in_force: str) -> dict[str, object]:
    return {
        "policy": price.name,
        "in_force": price.name == in_force,
        "epsilon": exact(price.epsilon),
        "mechanism": price.mechanism or None,
        "refusal": price.refusal or None,
        "pairs": [
            {"values": [_shown(pair.one), _shown(pair.two)], "steps": price.steps[place], "odds": price.odds(place)}
            for place, pair in enumerate(pairs)
        ],
    }


def _shown(value: object) -> str:
    if isinstance(value, Fraction | int) and not isinstance(value, bool):
        return short(value)
    return str(value)


def show_risk(dataset: Dataset, attribute: str, options: RiskOptions, *, as_json: bool) -> None:
    """Prints the risk, or the budget that keeps a wanted bound."""
    from blowfishdb.analysis.risk import risk, sufficient_budget

    values = read_pair(options.pair, dataset.domain.find(attribute, PolicyError))
    wants_bound = options.odds is not None or options.posterior is not None
    if bool(options.epsilon) == wants_bound:
        raise AccuracyError("say what is spent with --epsilon, or which bound is wanted with --odds or --posterior")
    if options.epsilon:
        _print_risk(
            risk(dataset, options.epsilon, *values, attribute=attribute, records=options.records),
            options,
            as_json=as_json,
        )
        return
    budget = sufficient_budget(
        dataset,
        *values,
        attribute=attribute,
        odds=options.odds,
        posterior=options.posterior,
        prior=options.prior,
        releases=options.releases,
        records=options.records,
    )
    content = {
        "epsilon": exact(budget.total),
        "each": exact(budget.each),
        "releases": budget.releases,
        "histogram_scale": exact(budget.histogram_scale),
    }
    # Budgets are shown exactly and noise rounded up: a rounded budget might not keep the bound.
    each = f": {exact(budget.each)} for each of {budget.releases:,}" if budget.releases > 1 else ""
    scale = math.ceil(budget.histogram_scale * 100) / 100
    print_result(
        content,
        f"Epsilon {exact(budget.total)} in all keeps this bound{each}.",
        f"For a histogram that is noise of scale {scale:,.2f} or more on every count.",
        as_json=as_json,
    )


def _print_risk(measured: Risk, options: RiskOptions, *, as_json: bool) -> None:
    if options.plot is not None:
        figure = needed("matplotlib.figure", "plot").Figure(figsize=(5.6, 5.2), layout="constrained")
        measured.plot(figure.add_subplot())
        try:
            figure.savefig(options.plot, dpi=160)
        except (OSError, ValueError):
            raise InvalidInput(f"{options.plot} cannot be written; its name ends in png, svg or pdf") from None
    content = {
        "steps": measured.steps,
        "epsilon": exact(measured.epsilon),
        "odds": None if measured.steps is None else measured.odds,
        "prior": options.prior,
        "posterior": list(measured.posterior(options.prior)),
        "words": list(measured.words(options.prior)),
    }
    print_result(content, *measured.words(options.prior), as_json=as_json)
