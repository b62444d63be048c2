"""The table under every policy, each with an account of its own, and a session over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import blowfishdb as bf
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.session import Session
from blowfishdb.sources.ibis_source import open_source
from tests.statements.world import JOINED, WORLDS, World, joined_domain, write_joined, write_tables

SHARED, APART, LIMITED = "shared", "apart", "limited"
"""Datasets under the full policy: whose answers share noise, all or each analyst's; and one with little to spend."""
LITTLE = "3"


@dataclass(frozen=True)
class Place:
    """A session over the table under every policy, the table's address for each, and the configuration."""

    session: Session
    addresses: dict[str, str]
    configuration: Path

    def handle(self, name: str) -> DatasetHandle:
        """The dataset as the engine sees it."""
        world = WORLDS[name]
        return DatasetHandle(
            data_name(name), world.domain, world.policy, "account", 1, 1, 1, open_source(self.addresses[name])
        )


def data_name(world: str) -> str:
    """The dataset's name: "d3"."""
    return f"d{list(WORLDS).index(world)}"


def dataset(name: str, world: World, address: str, epsilon: str = "1000", sharing: str = "off") -> bf.Dataset:
    """The table under a policy."""
    return bf.Dataset(
        name,
        source=address,
        domain=world.domain,
        policy=world.policy,
        epsilon=epsilon,
        accounting=world.accounting,
        sharing=sharing,
        show_budget=True,
    )


def joined_name(policy: str) -> str:
    """The name of a dataset with joins: "j1"."""
    return f"j{list(JOINED).index(policy)}"


def joined_dataset(place: int, policy: bf.Policy, address: str) -> bf.Dataset:
    """The table with the people behind its rows and their homes."""
    return bf.Dataset(
        f"j{place}",
        source=address,
        joins=[
            bf.Join(f"people{place}", "pid", "id", ["sex", "home"]),
            bf.Join("homes", "home", "code", ["region"]),
        ],
        domain=joined_domain(),
        policy=policy,
        epsilon="1000",
        sharing="off",
        show_budget=True,
    )


@contextmanager
def opened(folder: Path) -> Iterator[Place]:
    """All datasets, declared in a folder."""
    names = [*JOINED, *WORLDS, SHARED, APART, LIMITED]
    addresses = dict(zip(names, write_tables(folder, len(names)), strict=True))
    write_joined(folder, len(JOINED))
    configuration = folder / "blowfish.toml"
    configuration.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(configuration, by="cora") as curator:
        for name, world in WORLDS.items():
            curator.add(dataset(data_name(name), world, addresses[name]))
        for place, (name, policy) in enumerate(JOINED.items()):
            curator.add(joined_dataset(place, policy, addresses[name]))
        curator.add(dataset(SHARED, WORLDS["full"], addresses[SHARED], sharing="analysts"))
        curator.add(dataset(APART, WORLDS["full"], addresses[APART], sharing="own"))
        curator.add(dataset(LIMITED, WORLDS["full"], addresses[LIMITED], LITTLE))
    with bf.connect(configuration, analyst="ana") as session:
        yield Place(session, addresses, configuration)
