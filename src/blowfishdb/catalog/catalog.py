"""The catalog of a configuration: its ledger, its sources, and each dataset at the versions in force."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from blowfishdb.catalog.config import Config, read_config
from blowfishdb.catalog.dataset import Dataset, attribute_words
from blowfishdb.engine.compile import OFF, DatasetHandle
from blowfishdb.errors import CatalogError, NotInForce
from blowfishdb.ledger import Ledger, account_id, open_ledger
from blowfishdb.ledger.amounts import SUM
from blowfishdb.ledger.mark import read_checkpoint_file
from blowfishdb.ledger.values import Account
from blowfishdb.model.document import Document, read_content
from blowfishdb.model.domain import Domain, integers
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Person, Policy, public
from blowfishdb.sources.base import Join, People
from blowfishdb.sources.ibis_source import IbisSource

PEOPLE = ".people"
"""What follows a dataset's name where its people are asked about, not their rows."""
ROWS = "rows"
FEWEST_ROWS = 100


@dataclass(frozen=True, eq=False)
class Catalog:
    """An open ledger and the datasets of one configuration. For the engine and the curator, never for an analyst."""

    config: Config
    ledger: Ledger = field(repr=False)
    sources: dict[str, IbisSource] = field(default_factory=dict, repr=False)

    def only(self, sees: Callable[[str], bool]) -> Catalog:
        """The catalog as somebody sees it, over the same ledger and the same open sources."""
        return replace(self, config=self.config.only(sees))

    def owner(self, name: str) -> str:
        """The dataset that an asked name belongs to: `visits` for itself and for `visits.people`."""
        base = str(name).removesuffix(PEOPLE)
        return base if name not in self.config.datasets and base in self.config.datasets else name

    def declared(self, name: str) -> tuple[Domain, Policy]:
        """What the configuration declares of a dataset, or of its people."""
        dataset = self.config.dataset(self.owner(name))
        return (dataset.domain, dataset.policy) if dataset.name == name else _people(dataset)

    def source(self, name: str) -> IbisSource:
        """The rows of a dataset, opened at first use; reads none of them."""
        # Looked up first: others may have opened the source of a dataset that is hidden here.
        dataset = self.config.dataset(name)
        if name not in self.sources:
            self.sources[name] = self.config.open(dataset.source, dataset.joins)
        return self.sources[name]

    def account(self, name: str) -> Account:
        """The account of a dataset, found by the identity of its data."""
        return self.ledger.account(account_id(self.source(self.owner(name)).identity()))

    def handle(self, name: str) -> DatasetHandle:
        """A dataset ready to be asked; NotInForce when its configuration was edited without a new version."""
        dataset, account = self.config.dataset(self.owner(name)), self.account(name)
        if dataset.name not in account.names:
            raise CatalogError(f"the dataset {dataset.name} is not registered; the curator adds it")
        if dataset.accounting != account.accounting:
            raise NotInForce(dataset.name, "accounting")
        policy, domain = self.ledger.documents_in_force(account)
        if policy != dataset.policy_document:
            raise NotInForce(dataset.name, "policy")
        if domain != dataset.domain_document:
            raise NotInForce(dataset.name, "domain")
        handle = DatasetHandle(
            name=dataset.name,
            domain=dataset.domain,
            policy=dataset.policy,
            account=account.id,
            policy_version=account.policy_version,
            domain_version=account.domain_version,
            snapshot=account.snapshot,
            source=self.source(dataset.name),
            accounting=account.accounting,
            pad_to=dataset.pad_to,
            sharing=dataset.sharing,
            read_only=dataset.read_only,
            show_budget=dataset.show_budget,
            longest_count=self.config.longest_count,
        )
        return handle if dataset.name == name else self._people(handle, dataset)

    def _people(self, handle: DatasetHandle, dataset: Dataset) -> DatasetHandle:
        """The people of a dataset ready to be asked; they share no noise with rows, and all edges are charged alike."""
        domain, policy = _people(dataset)
        id = dataset.policy.unit.id if isinstance(dataset.policy.unit, Person) else ""
        return replace(
            handle,
            name=f"{dataset.name}{PEOPLE}",
            domain=domain,
            policy=policy,
            source=self.source(dataset.name).of_people(People(id, ROWS)),
            accounting=SUM,
            sharing=OFF,
            records=PEOPLE,
        )


def _people(dataset: Dataset) -> tuple[Domain, Policy]:
    """What is declared of the people of a dataset: the number of their rows, and what is joined by their id.

    One record stands for one person. The number of a person's rows changes only where the person comes or goes.
    """
    name, domain, policy, unit = dataset.name, dataset.domain, dataset.policy, dataset.policy.unit
    if not isinstance(unit, Person):
        raise CatalogError(f"{name} protects rows, not people: only a policy with a person has {PEOPLE[1:]}")
    given = {one for join in _of_person(dataset.joins, unit) for one in join.attributes if one in domain}
    grids = [grid for grid in policy.joint if given >= set(grid.attributes)]
    apart = {name for grid in policy.joint if grid not in grids for name in grid.attributes}
    attributes = {name: domain[name] for name in domain if name in given - apart}
    if ROWS in attributes:
        raise CatalogError(f"{name}: people cannot be asked about while a joined attribute is called {ROWS}")
    families = {name: policy.family(name) for name in attributes if policy.joint_of(name) is None}
    number = integers(1, max(FEWEST_ROWS, 10 * unit.at_most), null=1)
    people = Policy({**families, ROWS: public()}, composition=policy.composition, presence=policy.presence, joint=grids)
    return Domain(((ROWS, number), *attributes.items())), people


def _of_person(joins: Sequence[Join], unit: Person) -> list[Join]:
    """The tables found by the id of a person, and those found by them."""
    of_person: list[Join] = []
    for join in joins:
        if join.foreign_key == unit.id or any(other.gives(join) for other in of_person):
            of_person.append(join)
    return of_person


def read_in_force(dataset: Dataset, account: Account, ledger: Ledger) -> Dataset:
    """The dataset with the domain, joins and policy that the ledger has in force, whatever the file says now."""
    policy, domain = ledger.documents_in_force(account)
    return _declared(dataset, domain, policy)


def read_asked_domains(dataset: Dataset, account: Account, ledger: Ledger) -> list[Dataset]:
    """The dataset with each domain, newest first, under which something was released; policies are left out."""
    entries = ledger.entries(account=account.id)
    charged = {entry.fields["domain_version"] for entry in entries if entry.kind == "charge"}
    versions = [version for version in range(account.domain_version, 0, -1) if version in charged]
    return [_declared(dataset, ledger.document(account.id, "domain", version), "{}") for version in versions]


def declared_sentences(
    dataset: Dataset, account: Account, ledger: Ledger, version: Mapping[str, int]
) -> tuple[str, ...]:
    """What was public and what was hidden under a version of domain and policy, a sentence each."""
    domain = ledger.document(account.id, "domain", version["domain"])
    past = _declared(dataset, domain, ledger.document(account.id, "policy", version["policy"]))
    public = [
        f"{name} is one of {attribute_words(past.domain[name], past.policy.family(name), past.policy.presence)}"
        for name in past.domain
    ]
    return (*public, *explain(past.domain, past.policy))


def read_known(name: str, source: str, account: Account, ledger: Ledger) -> Dataset:
    """The data of an account as a dataset, with everything that the ledger has in force."""
    policy, domain = ledger.documents_in_force(account)
    document, joins = _read(domain, policy)
    return Dataset(
        name,
        source=source,
        domain=document.domain,
        policy=document.policy,
        epsilon=account.limit,
        per_analyst=account.analyst_limit,
        joins=joins,
        accounting=account.accounting,
    )


def _read(domain: str, policy: str) -> tuple[Document, list[Join]]:
    declared = json.loads(domain)
    joins = [Join(**join) for join in declared["joins"]]
    return read_content({"version": 1, "domain": declared["attributes"], "policy": json.loads(policy)}), joins


def _declared(dataset: Dataset, domain: str, policy: str) -> Dataset:
    document, joins = _read(domain, policy)
    # The ledger keeps names sorted; the curator sees them in the order of the configuration.
    order = [name for name in dataset.domain if name in document.domain]
    order += [name for name in document.domain if name not in dataset.domain]
    return dataset.as_recorded(document.domain.project(order), document.policy, joins)


def open_catalog(path: str | Path) -> Catalog:
    """The catalog of a configuration file."""
    config = read_config(path)
    return Catalog(config, ledger_of(config))


def ledger_of(config: Config) -> Ledger:
    """The ledger of a configuration; LedgerRolledBack when it is older than its mark or than the signed checkpoint."""
    ledger = open_ledger(config.ledger_url(), mark=config.mark_place())
    checkpoint = config.checkpoint_file()
    if checkpoint is not None:
        try:
            ledger.check_contains(read_checkpoint_file(*checkpoint).head)
        except BaseException:
            ledger.close()
            raise
    return ledger


class LiveCatalog:
    """The catalog of one configuration file, read anew when the file changes; threads may share it."""

    def __init__(self, config: str | Path) -> None:
        self._catalog = open_catalog(config)
        self._stamp = _stamp(self._catalog.config.path)
        self._turn = threading.Lock()

    def now(self) -> Catalog:
        """The catalog as the file says it now; the ledger stays open."""
        with self._turn:
            before = self._catalog
            stamp = _stamp(before.config.path)
            if stamp != self._stamp:
                config = read_config(before.config.path)
                # Sources whose address and joins stayed the same stay open.
                sources = {
                    name: source
                    for name, source in before.sources.items()
                    if name in config.datasets and _reached(config, name) == _reached(before.config, name)
                }
                self._catalog, self._stamp = Catalog(config, before.ledger, sources), stamp
            return self._catalog

    def close(self) -> None:
        """Lets go of the ledger."""
        self._catalog.ledger.close()


def _reached(config: Config, name: str) -> tuple[str, tuple[Join, ...]]:
    """Address and joins of a dataset's rows."""
    dataset = config.dataset(name)
    return dataset.source, dataset.joins


def _stamp(path: Path) -> tuple[int, int, int]:
    """Time, size and inode of a file, which change when it is replaced; zeros while there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
