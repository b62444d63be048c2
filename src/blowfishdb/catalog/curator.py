"""The curator's actions: datasets, versions, budgets and the ledger, which records every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from blowfishdb.catalog.catalog import (
    PEOPLE,
    Catalog,
    declared_sentences,
    ledger_of,
    read_asked_domains,
    read_in_force,
    read_known,
)
from blowfishdb.catalog.config import USUAL_CONFIG, Config, erase_dataset, read_config, write_dataset
from blowfishdb.catalog.dataset import Dataset, is_protected
from blowfishdb.catalog.policy_change import Stretch, domain_stretch, policy_stretch, with_past_attributes
from blowfishdb.engine.compile import Compiled, Compute, compute_here, query_effort
from blowfishdb.engine.release import prepared_count
from blowfishdb.engine.request import AccuracyTarget, Number, short_number
from blowfishdb.errors import (
    BlowfishError,
    CatalogError,
    ChangeRefused,
    SourceError,
    StaleVersion,
    UnknownAccount,
)
from blowfishdb.incidents import curator_log, told_to_curator
from blowfishdb.ledger import (
    Account,
    AnalystBudget,
    Entry,
    Ledger,
    Terms,
    Verification,
    VersionChange,
    account_id,
)
from blowfishdb.ledger.values import VersionKind, check_text
from blowfishdb.ledger.verification import VerifyProgress
from blowfishdb.model.arguments import checked
from blowfishdb.model.constraint_graph import changed_constraints
from blowfishdb.model.constraints import numbers_given
from blowfishdb.model.domain import Attribute, Bins, Domain
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.explain import constraint_list
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.query import Query, query
from blowfishdb.present.words import question_words
from blowfishdb.sources.base import ColumnType, Join
from blowfishdb.sources.ibis_source import CapsSeen, ColumnSeen, IbisSource, look_at_column, tables_at

if TYPE_CHECKING:
    from blowfishdb.catalog.guidance import Guidance, Pair, PolicyPrice, Tried

MOST_CAPS = 20
TRIAL_SECONDS = 20.0
"""How long each trial question may count."""


@dataclass(frozen=True)
class TableRoles:
    """The identities of the tables that a dataset reads: those it protects, and those it takes to be public."""

    main: str
    protected: Mapping[str, str]
    public: Mapping[str, str]

    def clash(self, other: TableRoles) -> str | None:
        """A table that both protect, each in an account of its own, or that one protects and the other does not."""
        mine, theirs = set(self.protected), set(other.protected)
        twice = sorted(mine & (theirs | set(other.public)) | theirs & set(self.public))
        named = {**other.public, **other.protected, **self.public, **self.protected}
        return named[twice[0]] if self.main != other.main and twice else None


def table_roles(policy: Policy, source: IbisSource) -> TableRoles:
    """What a dataset takes each of its tables to be."""
    protected, public = dict[str, str](), dict[str, str]()
    for join, place in source.places():
        if join is None:
            protected[place] = "its own table"
        else:
            (protected if is_protected(join, policy) else public)[place] = join.name
    return TableRoles(source.identity(), protected, public)


VIEW_CAUTION = (
    "{view} is a view, whose expressions are worked out whenever it is read. One that fails on a single value, such as "
    "10 / x or CAST(x AS integer), makes every question about its column fail as soon as a record has that value, and "
    "so tells for certain that there is one. Write what cannot fail, such as 10 / NULLIF(x, 0), a CASE that tests the "
    "value first, or TRY_CAST where the engine has it; or copy the view into a table"
)
NOT_YOURS = "this table belongs to a dataset already, which its curator has not granted to you"


@checked(CatalogError)
class Curator(AbstractContextManager["Curator"]):
    """The keeper of a configuration and its ledger. Reads schemas and public joined tables.

    Rows are read in `true_counts`, `try_questions`, `look_at_column` and `look_at_caps` alone.
    """

    def __init__(
        self,
        catalog: Catalog,
        by: str,
        *,
        shares_ledger: bool = False,
        compute: Compute = compute_here,
        sees: Callable[[str], bool] = lambda _: True,
    ) -> None:
        check_text(by, "the curator's name")
        self._catalog = catalog.only(sees)
        self._sees = sees
        self._by = by
        self._shares_ledger = shares_ledger
        self._compute = compute

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Curator of {self.config.path.name}: {', '.join(self.config.datasets) or 'no datasets yet'}>"

    @property
    def config(self) -> Config:
        """What the configuration says now."""
        return self._catalog.config

    @property
    def ledger(self) -> Ledger:
        """The open ledger."""
        return self._catalog.ledger

    def close(self) -> None:
        """Lets go of the ledger, unless others share it."""
        if not self._shares_ledger:
            self.ledger.close()

    # --- datasets

    def datasets(self) -> list[str]:
        """The names of all datasets."""
        return list(self.config.datasets)

    def dataset(self, name: str) -> Dataset:
        """One dataset as the configuration declares it."""
        return self.config.dataset(name)

    def columns(self, source: str, joins: Sequence[Join] = ()) -> Mapping[str, ColumnType]:
        """The columns at an address, from the schema alone."""
        with self._told(source):
            return self._open(source, joins).columns()

    def tables(self, source: str) -> list[str]:
        """The tables at an address that names none, from the engine's catalogue."""
        with self._told(source):
            return tables_at(self.config.reachable(source))

    def look_at_column(self, source: str, column: str) -> ColumnSeen:
        """What a column holds; reads rows, so whoever calls this says why that matters, and notes it."""
        with self._told(source):
            self._open(source)
            return look_at_column(self.config.reachable(source), column)

    def look_at_caps(self, name: str, caps: Sequence[int], unit: Person | None = None, source: str = "") -> CapsSeen:
        """What several caps would count of each person's rows; reads rows, and the curator's log notes it.

        Without `unit` people are told apart, and their rows ordered, as the policy in force says. Of a table that is
        not added yet, `source` is the address.
        """
        person = self.dataset(name).policy.unit if unit is None else unit
        if not isinstance(person, Person):
            raise CatalogError(f"{name} protects rows, not people: say which column tells people apart, and a row key")
        listed = sorted(set(caps))
        if not 0 < len(listed) <= MOST_CAPS or any(type(cap) is not int or cap < 1 for cap in listed):
            raise CatalogError(f"caps are 1 to {MOST_CAPS} whole numbers of rows, such as 1, 2, 5, 10")
        curator_log.warning("%s looks at what caps drop of %s, told apart by %s", self._by, name, person.id)
        with self._told(source):
            opened = self._open(source) if source else self._catalog.source(name)
            return opened.look_at_caps(person, listed)

    def known_account(self, source: str) -> Account | None:
        """The account that the data at an address has already, under whatever name."""
        try:
            return self._account_at(source)
        except UnknownAccount:
            return None

    def as_known(self, name: str, source: str) -> Dataset:
        """The data at an address under a name, as the ledger has it in force; UnknownAccount when it has none."""
        return read_known(name, source, self._account_at(source), self.ledger)

    def _account_at(self, source: str) -> Account:
        with self._told(source):
            return self.ledger.account(account_id(self._open(source).identity()))

    def add(self, dataset: Dataset) -> Account:
        """Registers a dataset: its account in the ledger first, then its place in the configuration."""
        taken = CatalogError(
            f"there is a dataset {dataset.name} already; change it with set_policy, set_domain, renew and "
            "limit_analyst, or remove it first"
        )
        known = self.config.datasets.get(dataset.name)
        if dataset.name in self.config.hidden or (known and replace(known, domain=dataset.domain) != dataset):
            raise taken
        with self._told(dataset.source):
            source = self.config.open(dataset.source, dataset.joins)
            self._check_not_hidden(source.identity())
            dataset = replace(dataset, domain=with_whole_numbers(dataset.domain, source.columns()))
            if known and known != dataset:
                raise taken
            source.check(dataset.domain, dataset.policy.unit)
            self._check_tables(dataset, source)
        terms = Terms(
            source.identity(),
            dataset.epsilon,
            dataset.policy_document,
            dataset.domain_document,
            dataset.per_analyst,
            dataset.accounting,
        )
        account = self.ledger.register(terms, name=dataset.name, by=self._by)
        self._save(dataset)
        self._catalog.sources[dataset.name] = source
        return account

    def remove(self, name: str) -> None:
        """Takes a dataset out of the configuration. Its account, and what was spent, stay in the ledger."""
        self.config.dataset(name)
        erase_dataset(self.config.path, name)
        self._reload()

    def what_if(
        self,
        declared: str | Domain,
        policies: Mapping[str, Policy],
        query: Query,
        target: AccuracyTarget,
        pairs: Sequence[Pair] = (),
    ) -> tuple[PolicyPrice, ...]:
        """What one question would cost under each of the policies, and what each would hide; reads no data.

        `declared` is the name of a dataset, or the domain of one that is not added yet.
        """
        # Loaded here, because analysts' sessions do without.
        from blowfishdb.catalog.guidance import what_if

        domain = declared if isinstance(declared, Domain) else self.config.dataset(declared).domain

        def effort() -> int:
            return sum(query_effort(domain, policy, query) for policy in policies.values())

        return self._compute(effort, what_if, domain, policies, query, target, pairs)

    def guidance(self, dataset: Dataset) -> Guidance:
        """What a dataset, added or not, protects, and what typical questions cost under it; reads no data."""
        from blowfishdb.catalog.guidance import USUAL_TARGET, guide

        def price(query: Query) -> PolicyPrice:
            (quote,) = self.what_if(dataset.domain, {dataset.name: dataset.policy}, query, USUAL_TARGET)
            return quote

        return guide(dataset, dataset.epsilon, price, dataset.per_analyst)

    def true_counts(self, name: str, compiled: Compiled) -> Ints:
        """The true count of each cell of a question, for the curator's eyes alone; whoever calls this notes it."""
        with self._told():
            return prepared_count(self._catalog.handle(name), compiled).run()

    def try_questions(self, name: str) -> list[Tried]:
        """What came of a question that reads each attribute, and of one about people where there are people.

        Each is counted as an analyst's would be, and the counts are thrown away: nothing is released, nothing charged.
        """
        from blowfishdb.catalog.guidance import Tried, trial_questions

        dataset = self.dataset(name)
        curator_log.warning("%s tries questions about %s", self._by, name)
        asked = [(name, one) for one in trial_questions(dataset.domain)]
        asked += [(f"{name}{PEOPLE}", query("count"))] if isinstance(dataset.policy.unit, Person) else []
        tried = []
        for asked_name, question in asked:
            began, failure = time.monotonic(), ""
            try:
                with self._told(dataset.source):
                    handle = self._catalog.handle(asked_name)
                    prepared_count(handle, handle.compile(question)).run(TRIAL_SECONDS)
            except BlowfishError as error:
                failure = error.message
            words = question_words(question) if asked_name == name else "Number of people"
            tried.append(Tried(words, time.monotonic() - began, failure))
        return tried

    def cautions(self, name: str) -> list[str]:
        """What about a dataset's tables may make answers fail later, and what to do about it; reads no rows."""
        dataset = self.dataset(name)
        with self._told(dataset.source):
            return [VIEW_CAUTION.format(view=view) for view in self._catalog.source(name).views()]

    # --- versions

    def in_force(self, name: str) -> tuple[Account, Dataset]:
        """The account and the dataset as the ledger has it in force; the file may hold an edit that is not."""
        account = self._catalog.account(name)
        return account, read_in_force(self.config.dataset(name), account, self.ledger)

    def what_would_change(
        self, name: str, *, policy: Policy | None = None, domain: Domain | None = None
    ) -> tuple[VersionChange, Stretch]:
        """What a new policy, or a new domain, would do to past loss; changes nothing."""
        if policy is not None:
            account, new, stretch = self._with_policy(name, policy)
            change = self.ledger.what_would_change(account.id, "policy", new.policy_document, stretch.factor)
            return change, stretch
        account, in_force = self.in_force(name)
        columns = self._catalog.source(name).columns() if domain is not None else {}
        new = replace(in_force, domain=in_force.domain if domain is None else with_whole_numbers(domain, columns))
        stretch = self._domain_stretch(account, in_force, new)
        return self.ledger.what_would_change(account.id, "domain", new.domain_document, stretch.factor), stretch

    def set_policy(self, name: str, policy: Policy, *, reason: str, seen: int | None = None) -> VersionChange:
        """Puts a new policy in force and multiplies past loss by its stretch; ChangeRefused when that has no bound.

        With `seen`, the version that was looked at: StaleVersion when another one is in force by now.
        """
        version = self.account(name).policy_version
        if seen is not None and seen != version:
            raise StaleVersion("policy version", seen, version)
        account, new, stretch = self._with_policy(name, policy)
        if new.policy.unit != self.dataset(name).policy.unit:
            source = self._catalog.source(name)
            source.check(new.domain, new.policy.unit)
            if new.joins:
                self._check_tables(new, source)
        return self._new_version(account, "policy", new, stretch, reason)

    def set_domain(
        self,
        name: str,
        domain: Domain | Mapping[str, Attribute | Sequence[str]],
        *,
        reason: str,
        joins: Sequence[Join] | None = None,
    ) -> VersionChange:
        """Puts a new domain in force; once something was released, attributes may only come or go."""
        account, in_force = self.in_force(name)
        declared = domain if isinstance(domain, Domain) else make_domain(domain)
        new = replace(in_force, domain=declared, joins=in_force.joins if joins is None else tuple(joins))
        source = self.config.open(new.source, new.joins)
        new = replace(new, domain=with_whole_numbers(declared, source.columns()))
        source.check(new.domain, new.policy.unit)
        self._check_tables(new, source)
        change = self._new_version(account, "domain", new, self._domain_stretch(account, in_force, new), reason)
        self._catalog.sources[name] = source
        return change

    def drop_attributes(self, name: str, attributes: Sequence[str], *, reason: str) -> VersionChange:
        """Takes attributes out of the domain, and out of the policy where that leaves past loss as it is.

        What the policy does not name counts as hidden entirely, also should it come back. ChangeRefused where the
        policy hid less of an attribute and something was released: hide it entirely first, which carries past loss
        over.
        """
        _, in_force = self.in_force(name)
        for one in attributes:
            in_force.domain.find(one, CatalogError)
        remaining = {one: attribute for one, attribute in in_force.domain.attributes if one not in attributes}
        if not remaining:
            raise CatalogError("a dataset has an attribute at least; to take it away altogether, remove it")
        old = in_force.policy
        policy = replace(old, attributes={one: hidden for one, hidden in old.attributes.items() if one in remaining})
        # Whatever else names them, such as public constraints, is told before anything changes.
        replace(in_force, domain=make_domain(remaining), policy=policy)
        if policy.attributes != old.attributes:
            change, stretch = self.what_would_change(name, policy=policy)
            if change.refusal is not None or change.spent_after != change.spent_before:
                raise ChangeRefused(
                    "the policy hides only some values from each other of what would leave. From then on that counts "
                    f"as hidden entirely, which past releases have to pay for ({stretch.why}): put the policy full in "
                    "force for it first"
                )
            self.set_policy(name, policy, reason=reason)
        return self.set_domain(name, remaining, reason=reason)

    def refreshed(self, name: str, description: str, *, numbers_hold: bool = False) -> Account:
        """Notes that the rows were refreshed: old answers no longer replay, and the spent budget stays.

        Where public constraints give numbers, `numbers_hold` says that they are true of the new rows too: they are
        part of the price. ChangeRefused without, and where charges would not add up over snapshots.
        """
        account, in_force = self.in_force(name)
        binding = changed_constraints(in_force.domain, in_force.policy)
        if binding and account.charges:
            raise ChangeRefused(
                "releases were charged under public constraints that hidden changes touch: "
                f"{'; '.join(binding[:3])}. Over several snapshots more records may change together than was paid for. "
                "First put a policy in force that keeps these constraints and hides only values which they count "
                "alike, if past loss carries over"
            )
        given = numbers_given(in_force.policy.constraints)
        if given and not numbers_hold:
            raise ChangeRefused(
                f"the policy gives numbers of the old rows: {constraint_list(given)}. Prices and answers rest on them: "
                "put a policy with the new numbers or without any in force first, or say that they hold (numbers_hold)"
            )
        return self.ledger.new_snapshot(account, description, by=self._by, if_uncharged=bool(binding))

    def set_accounting(self, name: str, accounting: str, *, reason: str) -> Account:
        """Counts loss per class of edges from now on, or as a sum again; the worst loss so far counts for all."""
        account, in_force = self.in_force(name)
        changed = replace(in_force, accounting=accounting)
        account = self.ledger.set_accounting(account, accounting, by=self._by, reason=reason)
        self._save(changed)
        return account

    # --- budgets

    def account(self, name: str) -> Account:
        """The account of a dataset: limit, spent, versions."""
        return self._catalog.account(name)

    def analysts(self, name: str) -> list[AnalystBudget]:
        """What each analyst spent and may spend."""
        return self.ledger.analysts(self._catalog.account(name).id)

    def renew(self, name: str, epsilon: Number, *, reason: str) -> Account:
        """Raises what the data may lose in all, on record; what was spent stays spent."""
        limit = short_number(epsilon, "epsilon")
        account = self.ledger.renew(self._catalog.account(name).id, limit, by=self._by, reason=reason)
        self._save(replace(self.config.dataset(name), epsilon=limit))
        return account

    def limit_everyone(self, name: str, epsilon: Number | None, *, reason: str) -> Account:
        """Sets what each analyst without an individual limit may spend; None: only the data's limit holds."""
        limit = None if epsilon is None else short_number(epsilon, "epsilon")
        account = self.ledger.limit_everyone(self._catalog.account(name).id, limit, by=self._by, reason=reason)
        self._save(replace(self.config.dataset(name), per_analyst=limit))
        return account

    def limit_analyst(self, name: str, analyst: str, epsilon: Number | None, *, reason: str) -> AnalystBudget:
        """Gives one analyst an individual limit; None returns them to the limit of everyone."""
        limit = None if epsilon is None else short_number(epsilon, "epsilon")
        account = self._catalog.account(name).id
        return self.ledger.limit_analyst(account, analyst.strip(), limit, by=self._by, reason=reason)

    # --- ledger

    def entries(self, name: str | None = None, *, after: int = 0, newest_first: bool = False) -> Iterator[Entry]:
        """The ledger's entries in order: those of one dataset, or all; of hidden datasets none."""
        account = None if name is None else self._catalog.account(name).id
        entries = self.ledger.entries(after=after, account=account, newest_first=newest_first)
        if name is not None or not self.config.hidden:
            return entries
        accounts = self.ledger.accounts()
        shown = {one.id for one in accounts if any(name in self.config.datasets for name in one.names)}
        return (entry for entry in entries if entry.account in shown)

    def version_changes(self, name: str, newest: Iterable[Entry]) -> dict[int, tuple[str, ...]]:
        """What each version among the newest entries changed, in words, by the number of its entry."""
        changes: dict[int, tuple[str, ...]] = {}
        account, dataset = self._catalog.account(name), self.dataset(name)
        version = {"policy": account.policy_version, "domain": account.domain_version}
        for entry in newest:
            if entry.kind == "version":
                after = declared_sentences(dataset, account, self.ledger, version)
                version[str(entry.fields["what"])] -= 1
                before = declared_sentences(dataset, account, self.ledger, version)
                gone = [f"no longer: {one}" for one in before if one not in after]
                changes[entry.sequence] = (*gone, *(f"now: {one}" for one in after if one not in before))
        return changes

    def verify(self, progress: VerifyProgress | None = None) -> Verification:
        """Recomputes every hash and every balance."""
        return self.ledger.verify(progress)

    # --- inside

    def _check_tables(self, dataset: Dataset, source: IbisSource) -> None:
        """Refuses joined tables that another account pays for, or that are public here and protected elsewhere.

        The keys of public ones are read: each must occur once.
        """
        roles = table_roles(dataset.policy, source)
        scheme = self.config.scheme(dataset.source)
        for other in (*self.config.datasets.values(), *self.config.hidden.values()):
            if other.name == dataset.name or not (dataset.joins or other.joins):
                continue
            # Tables of another kind of engine are other tables, whatever they are called.
            if self.config.scheme(other.source) != scheme:
                continue
            clash = roles.clash(table_roles(other.policy, self._opened(other)))
            if clash is not None:
                whose = "another dataset" if other.name in self.config.hidden else f"the dataset {other.name}"
                raise CatalogError(
                    f"{clash}: {whose} reads the same table. A table of protected rows belongs to one "
                    "dataset, whose account pays for it, and is public nowhere"
                )
        for join, identity in source.joined_identities():
            try:
                charges = self.ledger.account(account_id(identity)).charges
            except UnknownAccount:
                charges = 0
            if charges:
                raise CatalogError(f"{join.name} was asked as a dataset before: its rows have an account of their own")
            if not is_protected(join, dataset.policy) and source.repeats_keys(join):
                raise SourceError(
                    f"{join.key} occurs more than once in {join.name}: a joined table has one row for each key. Its "
                    "rows would give NULL wherever the key is repeated; remove the repetitions, or join by another key"
                )

    def _told(self, address: str = "") -> AbstractContextManager[None]:
        """Work in which a data source that fails is told in its own words, without passwords."""
        return told_to_curator(self.config.secrets(address))

    def _opened(self, dataset: Dataset) -> IbisSource:
        return self._catalog.sources.get(dataset.name) or self.config.open(dataset.source, dataset.joins)

    def _open(self, address: str, joins: Sequence[Join] = ()) -> IbisSource:
        """The rows at an address; refused where one of its tables is protected in a dataset of somebody else."""
        source = self.config.open(address, joins)
        self._check_not_hidden(source.identity())
        scheme = self.config.scheme(address)
        others = [other for other in self.config.hidden.values() if self.config.scheme(other.source) == scheme]
        places = {place for _, place in source.places()} if others else set()
        for other in others:
            if places & table_roles(other.policy, self._opened(other)).protected.keys():
                raise CatalogError(NOT_YOURS)
        return source

    def _check_not_hidden(self, identity: str) -> None:
        """Refuses data that a dataset has which somebody else curates: under another name it has the same account."""
        if not self.config.hidden:
            return
        try:
            names = self.ledger.account(account_id(identity)).names
        except UnknownAccount:
            return
        if any(name in self.config.hidden for name in names):
            raise CatalogError(NOT_YOURS)

    def _with_policy(self, name: str, policy: Policy) -> tuple[Account, Dataset, Stretch]:
        """The account, the dataset under a new policy, and the stretch over every attribute that was ever asked for.

        An attribute that left the domain may come back.
        """
        account, in_force = self.in_force(name)
        new = replace(in_force, policy=policy)
        past = [dataset.domain for dataset in read_asked_domains(in_force, account, self.ledger)]
        charged = (entry for entry in self.ledger.entries(account=account.id) if entry.kind == "charge")
        if changed_constraints(in_force.domain, policy) and any(
            entry.fields["snapshot"] != account.snapshot for entry in charged
        ):
            why = "hidden changes touch its public constraints, and earlier snapshots were asked: no proof covers both"
            return account, new, Stretch(None, why)
        return account, new, policy_stretch(with_past_attributes(in_force.domain, past), in_force.policy, policy)

    def _domain_stretch(self, account: Account, in_force: Dataset, new: Dataset) -> Stretch:
        """An attribute that comes back is not a new one: it is compared with every domain that was asked."""
        past = read_asked_domains(in_force, account, self.ledger)
        stretches = [domain_stretch(one, new) for one in (*past, in_force)]
        return next((one for one in stretches if one.factor is None), stretches[-1])

    def _new_version(
        self, account: Account, kind: VersionKind, new: Dataset, stretch: Stretch, reason: str
    ) -> VersionChange:
        document = new.policy_document if kind == "policy" else new.domain_document
        try:
            change = self.ledger.new_version(account, kind, document, stretch.factor, by=self._by, reason=reason)
        except ChangeRefused as refusal:
            raise ChangeRefused(f"{refusal} ({stretch.why})") from None
        self._save(new)
        return change

    def _save(self, dataset: Dataset) -> None:
        write_dataset(self.config.path, dataset)
        self._reload()

    def _reload(self) -> None:
        config = replace(read_config(self.config.path), variables=self.config.variables)
        self._catalog = Catalog(config, self.ledger, self._catalog.sources).only(self._sees)


@checked(CatalogError)
def curate(config: str | Path = USUAL_CONFIG, *, by: str = "curator") -> Curator:
    """Opens a configuration for its curator; one that does not exist yet is made when the first dataset is added."""
    check_text(by, "the curator's name")
    path = Path(config).expanduser().absolute()
    settings = read_config(path) if path.exists() else Config(path)
    return Curator(Catalog(settings, ledger_of(settings)), by)


def with_whole_numbers(domain: Domain, columns: Mapping[str, ColumnType]) -> Domain:
    """The domain with bins over columns of whole numbers declared so, where every bin holds one."""

    def declared(name: str, attribute: Attribute) -> Attribute:
        is_whole = name in columns and columns[name].holds_whole_numbers
        if is_whole and isinstance(attribute, Bins) and not attribute.whole and attribute.hold_whole_numbers:
            return replace(attribute, whole=True)
        return attribute

    return Domain(tuple((name, declared(name, attribute)) for name, attribute in domain.attributes))
