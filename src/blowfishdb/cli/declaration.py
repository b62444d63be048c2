"""From a curator's options, or answers in the terminal, to a declared dataset; declared datasets on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TypeVar

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.dataset import (
    HINT,
    POLICY_HINT,
    column_words,
    family_words,
    is_protected,
    join_words,
    named,
    read_attribute,
    read_family,
    read_policies,
    typed_value,
    with_policies,
)
from blowfishdb.catalog.guidance import (
    PERMANENT,
    PRESENCE_WORDS,
    PROFILES,
    SAFE_PRESENCE,
    Guidance,
    Profile,
    TableProposal,
    Tried,
    cap_words,
    propose,
    read_profile,
    saves_little,
)
from blowfishdb.cli.options import USUAL_CONFIG, DatasetOptions
from blowfishdb.cli.output import budget_line, bullets, console, exact, print_json, say, short, table
from blowfishdb.engine.request import short_number
from blowfishdb.errors import BlowfishError, CatalogError, DocumentError, plural, sentence
from blowfishdb.ledger.values import Account, AnalystBudget
from blowfishdb.model.document import Document, read_document, write_attribute, write_domain, write_policy
from blowfishdb.model.document import read_attribute as read_content
from blowfishdb.model.domain import CELL, Attribute, Categorical, Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.graphs import Presence
from blowfishdb.model.numbers import show, suggest
from blowfishdb.model.policy import ROW, Family, Full, Line, Person, Policy, Threshold
from blowfishdb.sources.base import ColumnKind, ColumnType
from blowfishdb.sources.ibis_source import CapsSeen

NONE = "-"
BELIEF = "somebody who suspects with 1 % could believe"
NULL_HINT = "hidden among all values, public, or the value that it counts as, such as 0"
T = TypeVar("T")
USUAL_LIMIT = "1"


def declare(
    name: str, options: DatasetOptions, columns: Mapping[str, ColumnType], known: Account | None, *, ask: bool
) -> Dataset:
    """The dataset that the options, or the answers in the terminal, declare; `known` is the account the data has."""
    unit: Person | None = None
    if options.person is not None and options.at_most is not None and options.order_by is not None:
        unit = Person(options.person, options.at_most, options.order_by)
    elif options.person is not None:
        raise CatalogError("a person needs --at-most (how many rows count) and --order-by (a row key that orders them)")
    elif options.at_most is not None or options.order_by is not None:
        raise CatalogError("--at-most and --order-by go with --person")
    limits = Limits(options.epsilon, options.per_analyst)
    if known is not None:
        limits = limits.or_else(show(known.limit), exact(known.analyst_limit))
    if options.document is not None:
        if options.domain or options.policy or options.presence or options.profile:
            raise CatalogError("say it in the document or with other options, not both")
        document = read_file(options.document)
        domain, policy = document.domain, document.policy
        if unit is not None:
            policy = replace(policy, unit=unit)
    else:
        profile = None if options.profile is None else read_profile(options.profile)
        attributes = declared_columns(named(options.domain or [], "--domain"), columns)
        words = named(options.policy or [], "--policy")
        hidden: Mapping[str, Family] = {}
        presence = read_presence(options.presence) if options.presence else None
        if profile is not None:
            proposal = propose(profile, columns)
            if ask:
                unit = unit or ask_unit(proposal, columns)
                attributes, hidden = ask_columns(proposal, columns, unit)
                presence = presence or ask_presence()
                limits = ask_limits(limits, profile)
            else:
                attributes = {**proposed_columns(proposal, columns, unit), **attributes}
                unit, presence = unit or proposal.unit, presence or SAFE_PRESENCE
                limits = limits.or_else(profile.epsilon, profile.per_analyst)
        if not attributes:
            first = next(iter(columns), "age")
            raise CatalogError(f"no column has a domain: add --domain '{first}=...' or --document FILE; {HINT}")
        domain = Domain(tuple(attributes.items()))
        families, graphs = read_policies(words, domain)
        policy = with_policies(Policy(hidden, presence=presence or "public", unit=unit or ROW), families, graphs)
    return Dataset(
        name,
        source=options.source,
        domain=domain,
        policy=policy,
        epsilon=USUAL_LIMIT if limits.epsilon is None else limits.epsilon,
        per_analyst=limits.per_analyst,
    )


@dataclass(frozen=True)
class Limits:
    """The budgets as far as they are known: in all, and per analyst."""

    epsilon: str | None
    per_analyst: str | None

    def or_else(self, epsilon: str, per_analyst: str | None) -> Limits:
        """With others in the place of those that are missing."""
        return Limits(self.epsilon or epsilon, self.per_analyst or per_analyst)


def read_presence(text: str) -> Presence:
    """Whether it is hidden who is in the table."""
    for presence in PRESENCE_WORDS:
        if text.strip().lower() == presence:
            return presence
    raise CatalogError(f"presence is one of {', '.join(PRESENCE_WORDS)}, not {text[:40]!r}")


def proposed_columns(
    proposal: TableProposal, columns: Mapping[str, ColumnType], unit: Person | None
) -> dict[str, Attribute]:
    """The columns for which a profile proposes a whole domain, declared like that."""
    keys = () if unit is None else (unit.id, unit.order_by)
    words = {
        name: one.domain for name, one in proposal.columns.items() if one.is_used and one.domain and name not in keys
    }
    return declared_columns(words, columns)


def limited(dataset: Dataset, options: DatasetOptions) -> Dataset:
    """A known dataset with the budgets that the options name; the ledger refuses other ones than it has."""
    limit = dataset.epsilon if options.epsilon is None else short_number(options.epsilon, "epsilon")
    share = dataset.per_analyst if options.per_analyst is None else short_number(options.per_analyst, "per analyst")
    return replace(dataset, epsilon=limit, per_analyst=share)


def read_file(path: Path) -> Document:
    """The document in a file; its name says whether it is JSON or TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DocumentError(f"the file {path.name} cannot be read") from None
    return read_document(text, "json" if path.suffix == ".json" else "toml")


def declared_columns(words: Mapping[str, str], columns: Mapping[str, ColumnType]) -> dict[str, Attribute]:
    """The attribute that the words declare for each column; CatalogError for one that the data does not have."""
    attributes: dict[str, Attribute] = {}
    for name, text in words.items():
        if name not in columns:
            raise CatalogError(f"the data has no column {name!r}; {suggest(name, columns)}")
        try:
            attributes[name] = read_attribute(text, columns[name].kind)
        except BlowfishError as error:
            raise CatalogError(f"{name}: {error}") from None
    return attributes


def show_added(
    dataset: Dataset,
    account: Account,
    columns: Mapping[str, ColumnType],
    path: Path,
    cautions: Sequence[str],
    tried: Sequence[Tried],
    *,
    as_json: bool,
) -> None:
    """Prints an added dataset, the file that declares it, what to be careful about, and its trial questions."""
    domain, policy, unit = dataset.domain, dataset.policy, dataset.policy.unit
    keys = (unit.id, unit.order_by) if isinstance(unit, Person) else ()
    unused = [name for name in columns if name not in domain and name not in keys]
    if as_json:
        print_json(
            {
                "name": dataset.name,
                "account": account.id,
                "config": str(path),
                "attributes": list(domain),
                "unused": unused,
                "epsilon": exact(account.limit),
                "spent": exact(account.spent),
                "per_analyst": exact(account.analyst_limit),
                "policy_version": account.policy_version,
                "cautions": list(cautions),
                "trial": trial_content(tried),
            }
        )
        return
    say(f"{dataset.name}: {plural(len(columns), 'column')}, known from the schema alone.")
    rows = [(name, columns[name].kind.value, *column_words(dataset, name)[1:]) for name in domain]
    say(table("", ("attribute", "column", "the public may know", "hidden"), rows))
    texts = [
        name for name in domain if columns[name].kind == ColumnKind.TEXT and not isinstance(domain[name], Categorical)
    ]
    if texts:
        say(f"Read from text: {', '.join(texts)}. What cannot be read as declared counts as NULL.", style="dim")
    for name in domain:
        if isinstance(policy.family(name), Threshold | Line) and (why := saves_little(dataset, name)):
            say(
                f"{name}: {why}. If that is not meant, say --presence public, and what NULL counts as: null=VALUE, or "
                "null=public.",
                style="yellow",
            )
    if isinstance(unit, Person):
        say(f"People: by {unit.id}; {cap_words(unit)}, first by {unit.order_by}.")
    else:
        say("People: each row is protected on its own, and somebody with several rows less.")
    say(f"Presence: {policy.presence}. {PRESENCE_WORDS[policy.presence]}")
    if not account.charges:
        say("Until the first answer columns, people and presence can change; then they are final.", style="yellow")
    show_joins(dataset)
    if unused:
        add = f"blowfish dataset domain {quote(dataset.name)} --domain '{unused[0]}=...' --reason TEXT"
        say(f"Not used: {', '.join(unused)}. To use one, say what the public may know of it: {add}", soft_wrap=True)
    share = "" if account.analyst_limit is None else f", {exact(account.analyst_limit)} per analyst"
    spent = "" if not account.spent else f" ({exact(account.spent)} of it spent: this data had an account already)"
    here = Path.cwd()
    near = str(path.relative_to(here) if path.is_relative_to(here) else path)
    config = "" if near == str(USUAL_CONFIG) else f" --config {quote(near)}"
    say(f"Budget: epsilon {exact(account.limit)} in all{share}{spent}.")
    say(f"Written to {near} (policy version {account.policy_version}).")
    for caution in cautions:
        say(f"{sentence(caution)}", style="yellow")
    show_trial(dataset.name, tried)
    say(f"Next: blowfish policy show {quote(dataset.name)}{config}", style="dim", soft_wrap=True)


def trial_content(tried: Sequence[Tried]) -> list[dict[str, object]]:
    """Trial questions for programs."""
    return [
        {"question": one.question, "seconds": round(one.seconds, 3), "failure": one.failure or None} for one in tried
    ]


def show_trial(name: str, tried: Sequence[Tried]) -> None:
    """Prints which trial questions the source answered, and what it said where it failed."""
    if not tried:
        return
    failed = [one for one in tried if one.failure]
    seconds = max(one.seconds for one in tried)
    if not failed:
        say(
            f"Tried: {plural(len(tried), 'question')}, all counted, the slowest in {seconds:.2g} s. The counts were "
            "thrown away: nothing was released, nothing charged."
        )
        return
    say(f"Tried: {len(failed)} of {plural(len(tried), 'question')} failed.", style="red")
    say(table("", ("question", WRONG), [(one.question, one.failure) for one in failed], folds=(WRONG,)))
    say(f"Nothing was charged. Once that is mended: blowfish dataset try {quote(name)}", soft_wrap=True)


WRONG = "what went wrong"


def show_guidance(guidance: Guidance) -> None:
    """Prints what a declaration protects, what typical questions cost, and what the first answer makes final."""
    say("\nWhat this protects", style="bold")
    rows = [
        (column.name if not place else "", column.hidden if not place else "", belief)
        for column in guidance.columns
        for place, belief in enumerate([one.words for one in column.beliefs] or ["public constraints tie records here"])
    ]
    say(table("", ("attribute", "hidden", BELIEF), rows, folds=(BELIEF,)))
    say(f"{guidance.presence} {guidance.unit}")
    say("\nWhat it costs: typical questions, every count within 100 (95 %)", style="bold")
    prices = [(one.words, one.refusal or short(one.epsilon), *guidance.times(one)) for one in guidance.questions]
    say(table("", ("question", "epsilon", *guidance.heads), prices, right=("epsilon", *guidance.heads)))
    if guidance.advice:
        say(guidance.advice, style="yellow")
    say("After the first answer", style="bold")
    say(bullets(PERMANENT))


def show_joins(dataset: Dataset) -> None:
    """Prints the tables that are joined, and whether they are protected or taken to be public."""
    for join in dataset.joins:
        person = "protected with the rows of each person"
        say(f"Joined: {join_words(join)} ({person if is_protected(join, dataset.policy) else 'public'}).")


def show_caps(name: str, seen: CapsSeen, *, as_json: bool) -> None:
    """Prints what several caps count of the rows of a dataset."""
    listed = [
        {"at_most": cap.at_most, "counted": cap.counted, "dropped": seen.dropped(cap), "people_over": cap.people_over}
        for cap in seen.caps
    ]
    if as_json:
        print_json({"name": name, "rows": seen.rows, "nobodys": seen.nobodys, "people": seen.people, "caps": listed})
        return
    say(f"{name}: {plural(seen.rows, 'row')} of {plural(seen.people, 'person', 'people')}, {seen.nobodys:,} of nobody.")
    rows = [tuple(f"{number:,}" for number in one.values()) for one in listed]
    heads = ("at most", "rows that count", "rows that do not", "people with more")
    say(table("", heads, rows, right=heads))
    say("These are true numbers, and that you looked is logged. A cap chosen by them depends on the rows.", style="dim")


def dataset_content(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> dict[str, object]:
    """A dataset with its budgets as JSON."""
    return {
        "name": dataset.name,
        "source": dataset.source,
        "account": account.id,
        "domain": write_domain(dataset.domain),
        "policy": write_policy(dataset.policy),
        "policy_words": list(explain(dataset.domain, dataset.policy)),
        "policy_version": account.policy_version,
        "domain_version": account.domain_version,
        "snapshot": account.snapshot,
        "epsilon": exact(account.limit),
        "spent": exact(account.spent),
        "remaining": exact(account.remaining),
        "charges": account.charges,
        "analysts": analyst_content(analysts),
    }


def show_dataset(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> None:
    """Prints a dataset."""
    say(dataset.name, style="bold")
    say(f"  {dataset.source}", style="dim")
    rows = [column_words(dataset, name) for name in dataset.domain]
    say(table("", ("attribute", "the public may know", "hidden"), rows))
    show_joins(dataset)
    show_words(dataset, account)
    say(f"\nBudget: epsilon {budget_line(account.spent, account.limit)}")
    _show_analysts(analysts)


def show_budget(name: str, account: Account, analysts: Sequence[AnalystBudget], *, as_json: bool) -> None:
    """Prints what a dataset and its analysts spent, and may spend."""
    if as_json:
        limits = {"epsilon": exact(account.limit), "per_analyst": exact(account.analyst_limit)}
        spent = {"spent": exact(account.spent), "accounting": account.accounting}
        print_json({"name": name, **limits, **spent, "analysts": analyst_content(analysts)})
        return
    say(f"{name}: epsilon {budget_line(account.spent, account.limit)}")
    if account.accounting != "sum":
        say(f"Counted {account.accounting}: spent is what the worst class of edges lost.")
    _show_analysts(analysts)


def analyst_content(analysts: Sequence[AnalystBudget]) -> list[dict[str, object]]:
    """Spending and limit of each analyst as JSON."""
    return [{"name": one.analyst, "spent": exact(one.spent), "limit": exact(one.limit)} for one in analysts]


def _show_analysts(analysts: Sequence[AnalystBudget]) -> None:
    if analysts:
        rows = [(one.analyst, short(one.spent), short(one.limit), short(one.remaining)) for one in analysts]
        say(table("", ("analyst", "spent", "limit", "left"), rows, right=("spent", "limit", "left")))


def show_words(dataset: Dataset, account: Account) -> None:
    """Prints a policy in words."""
    say(f"Policy (version {account.policy_version}), in words", style="bold")
    say(bullets(explain(dataset.domain, dataset.policy)))


def show_edits(declared: Dataset, in_force: Dataset, account: Account) -> None:
    """Warns of what the configuration says and the ledger does not have in force, with the command that changes it."""
    name = declared.name
    documents = (
        ("policy", declared.policy_document, in_force.policy_document),
        ("domain", declared.domain_document, in_force.domain_document),
    )
    for kind, edited, recorded in documents:
        if edited != recorded:
            say(
                f"The configuration says another {kind}. This one is in force. Nobody is answered until you put the "
                f"other in force (blowfish policy set {name} --document FILE --reason TEXT) or take the edit back.",
                style="yellow",
            )
    limits = (
        ("--epsilon", declared.epsilon, account.limit),
        ("--per-analyst", declared.per_analyst, account.analyst_limit),
    )
    for option, edited_limit, limit in limits:
        if edited_limit is not None and edited_limit != limit:
            say(
                f"The configuration says {exact(edited_limit)}, which only the ledger can change: "
                f"blowfish dataset budget {name} {option} {exact(edited_limit)} --reason TEXT",
                style="yellow",
            )


def agreed(
    dataset: Dataset, profile: str, columns: Mapping[str, ColumnType], guidance: Callable[[Dataset], Guidance]
) -> Dataset | None:
    """The dataset once it is as it was meant, after any changes; None where it is not to be added."""
    proposal = propose(read_profile(profile), columns)
    parts: Mapping[str, Callable[[Dataset], Dataset]] = {
        "people": lambda now: replace(now, policy=replace(now.policy, unit=ask_unit(proposal, columns) or ROW)),
        "presence": lambda now: replace(now, policy=replace(now.policy, presence=ask_presence())),
        "budget": lambda now: _with_limits(now, ask_limits(Limits(None, None), proposal.profile)),
        **{column: partial(_with_column, proposal, columns, column) for column in columns},
    }
    hint = f"y: yes. n: add nothing. To change something, one of {', '.join(parts)}"

    def read(text: str) -> str:
        if text.lower() in ("", "n", "no", "y", "yes") and text not in parts:
            return text.lower()
        if text not in parts:
            raise CatalogError(f"{text[:40]!r} was not declared; {suggest(text, parts)}")
        return text

    while True:
        show_guidance(guidance(dataset))
        say("To change something, name it: a column, people, presence or budget.", style="dim")
        answer = _ask(f"Add {dataset.name} like this? [y/N]  ", hint, read)
        if answer not in parts:
            return dataset if answer in ("y", "yes") else None
        try:
            dataset = parts[answer](dataset)
        except BlowfishError as error:
            say(f"    {error}", style="yellow")


def _with_limits(dataset: Dataset, limits: Limits) -> Dataset:
    share = None if limits.per_analyst is None else short_number(limits.per_analyst, "per analyst")
    return replace(dataset, epsilon=short_number(limits.epsilon or USUAL_LIMIT, "epsilon"), per_analyst=share)


def _with_column(proposal: TableProposal, columns: Mapping[str, ColumnType], column: str, dataset: Dataset) -> Dataset:
    """The dataset with one column asked about anew."""
    attributes, families = ask_columns(proposal, {column: columns[column]}, None)
    anew = {name: one for name, one in dataset.domain.attributes if name != column} | attributes
    hidden = {name: family for name, family in dataset.policy.attributes.items() if name != column}
    domain = Domain(tuple((name, anew[name]) for name in columns if name in anew))
    return replace(dataset, domain=domain, policy=replace(dataset.policy, attributes={**hidden, **families}))


def ask_profile(name: str, columns: Mapping[str, ColumnType]) -> str:
    """Asks what the table is about: the name of a profile."""
    say(
        f"{name}: {plural(len(columns), 'column')}, no rows read. Nothing is inferred from the data: say what the "
        "public may know.\n"
        "Empty: what stands in brackets. -: none, not used. ?: possible answers.\n"
        "What is the table about?"
    )
    for profile, one in PROFILES.items():
        say(f"  {profile:<10} {one.title.lower()}")

    def read(text: str) -> str:
        read_profile(text or "other")
        return text or "other"

    return _ask("  about?  [other]  ", f"one of {', '.join(PROFILES)}", read)


def ask_unit(proposal: TableProposal, columns: Mapping[str, ColumnType]) -> Person | None:
    """Asks which column tells people apart, how many rows of each count, and which come first."""

    def column(text: str, usual: str | None) -> str | None:
        name = text or usual
        if name is not None and name != NONE and name not in columns:
            raise CatalogError(f"the data has no column {name!r}; {suggest(name, columns)}")
        return None if name == NONE else name

    say("May several rows belong to one person? Then they are protected together, which is safer and costs more.")
    person = _ask(
        f"  people are told apart by?  [{proposal.person or 'none: each row is somebody of their own'}]  ",
        "a column such as patient; -: each row is protected on its own",
        lambda text: column(text, proposal.person),
    )
    if person is None:
        return None
    usual, key = proposal.profile.at_most, proposal.row_key

    def number(text: str) -> int:
        if text and not text.isdecimal():
            raise CatalogError("say how many rows of each person count, such as 5")
        return int(text or usual)

    def row_key(text: str) -> str:
        name = column(text, key)
        if name is None:
            raise CatalogError("a row key says which rows of a person count: a column that no two of them share")
        return name

    cap = (
        "at most this many rows of each person count; the more, the higher the price. How many rows each cap drops, "
        "in another terminal: blowfish dataset caps NAME --source ADDRESS --person COLUMN --order-by COLUMN"
    )
    at_most = _ask(f"  rows of each that count, at most?  [{usual}]  ", cap, number)
    order_by = _ask(f"  the first ones by?  [{key or 'a row key'}]  ", "a column that no two rows share", row_key)
    return Person(person, at_most, order_by)


def ask_columns(
    proposal: TableProposal, columns: Mapping[str, ColumnType], unit: Person | None
) -> tuple[dict[str, Attribute], dict[str, Family]]:
    """Attributes and policies of a table: each column is asked about until the words for it make sense."""
    attributes: dict[str, Attribute] = {}
    families: dict[str, Family] = {}
    widest = max(map(len, columns))
    for column, kind in columns.items():
        if unit is not None and column == unit.id:
            continue
        one = proposal.columns[column]
        usual = one.domain or f"not used: {one.why}"
        prompt = f"  {column:<{widest}}  {kind.kind.value:<9}  domain?  [{usual}]  "
        attribute = _ask(prompt, f"{one.why}. {HINT}", partial(_read_domain, kind, one.domain))
        if attribute is None:
            continue
        indent = f"  {'':<{widest}}  {'':<9}"
        if attribute.null == CELL and not attribute.null_public:
            attribute = _ask(f"{indent}  NULL?    [hidden]  ", NULL_HINT, partial(_read_null, attribute, kind))
        attributes[column] = attribute
        looser = f"; often {one.looser}, which no longer hides {one.gives_up}" if one.looser else ""
        prompt = f"{indent}  hidden?  [everything]  "
        families[column] = _ask(prompt, POLICY_HINT + looser, partial(_read_family, column, attribute, Full()))
    return attributes, {column: family for column, family in families.items() if family != Full()}


def ask_presence() -> Presence:
    """Asks whether it is hidden who is in the table; the safe answer is the usual one."""
    words = "; ".join(f"{presence}: {text}" for presence, text in PRESENCE_WORDS.items())
    return _ask("  who is in the table?  [secret]  ", words, lambda text: read_presence(text or SAFE_PRESENCE))


def _read_domain(kind: ColumnType, usual: str, text: str) -> Attribute | None:
    words = text or usual
    return read_attribute(words, kind.kind) if words and words != NONE else None


def _read_null(attribute: Attribute, kind: ColumnType, text: str) -> Attribute:
    """The attribute with NULL hidden among its values, public, or counted as one of them."""
    if text in ("", "hidden"):
        return attribute
    if text == "public":
        return replace(attribute, null_public=True)
    value = typed_value(text, kind.kind if isinstance(attribute, Categorical) else ColumnKind.INTEGER)
    return read_content({**write_attribute(attribute), "null": value})


def _read_family(name: str, attribute: Attribute, usual: Family, text: str) -> Family:
    family = read_family(text, attribute) if text else usual
    Policy({name: family}).check(Domain(((name, attribute),)))
    return family


def ask_limits(known: Limits, profile: Profile) -> Limits:
    """Asks what the data may lose in all, and what each analyst may spend of it, unless both are known."""
    if known.epsilon is not None or known.per_analyst is not None:
        return known

    def budget(text: str) -> str:
        return show(short_number(text, "epsilon"))

    share = profile.per_analyst
    return Limits(
        _ask(
            f"  budget: epsilon in all?  [{profile.epsilon}]  ",
            "a number such as 2 or 0.5: the smaller, the better protected",
            lambda text: budget(text or profile.epsilon),
        ),
        _ask(
            f"  of it, per analyst?  [{share or 'all'}]  ",
            "a number such as 0.5; -: only the budget in all holds",
            lambda text: None if (text or share or NONE) == NONE else budget(text or str(share)),
        ),
    )


def ask_policy(domain: Domain, policy: Policy) -> Policy:
    """Asks what is hidden of each attribute; an empty answer leaves it as it is."""
    say("What is hidden of each attribute? Empty: as it is. ?: what can be said.")
    families = dict(policy.attributes)
    widest = max(map(len, domain))
    for name in domain:
        if policy.joint_of(name) is None:
            old = policy.family(name)
            prompt = f"  {name:<{widest}}  [{family_words(old)}]  "
            families[name] = _ask(prompt, POLICY_HINT, partial(_read_family, name, domain[name], old))
    changed = {name: family for name, family in families.items() if name in policy.attributes or family != Full()}
    return replace(policy, attributes=changed)


def ask_yes(question: str) -> bool:
    """Whether the answer is yes; nothing said is no."""
    return console().input(f"{question} [y/N]  ", markup=False).strip().lower() in ("y", "yes")


def ask_reason() -> str:
    """The reason for a change, for the record."""

    def read(text: str) -> str:
        if not text:
            raise CatalogError("a reason is kept with every change, for whoever reads the ledger")
        return text

    return _ask("  reason, for the record?  ", "a few words, such as: approved in May", read)


def _ask(prompt: str, hint: str, read: Callable[[str], T]) -> T:
    """The value of an answer; asks again until it can be read."""
    while True:
        text = console().input(prompt, markup=False).strip()
        if text == "?":
            say(f"    {hint}")
            continue
        try:
            return read(text)
        except BlowfishError as error:
            say(f"    {error}", style="yellow")
