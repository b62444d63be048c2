"""A dataset on the screen, and as content for programs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.declaring import attribute_words, family_words
from blowfishdb.cli.output import budget_line, bullets, console, exact, short, table
from blowfishdb.ledger.values import Account, AnalystBudget
from blowfishdb.model.explain import explain
from blowfishdb.model.written import write_domain, write_policy


def dataset_content(dataset: Dataset, account: Account, analysts: Sequence[AnalystBudget]) -> dict[str, object]:
    """Everything about a dataset, for programs."""
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
    screen = console()
    screen.print(f"{dataset.name}", style="bold", markup=False)
    screen.print(f"  {dataset.source}", style="dim", markup=False)
    rows = []
    for name in dataset.domain:
        joint = dataset.policy.grid_of(name) is not None
        hidden = "jointly with others" if joint else family_words(dataset.policy.family(name))
        rows.append((name, attribute_words(dataset.domain[name], dataset.policy.family(name)), hidden))
    screen.print(table("", ("attribute", "the public may know", "hidden"), rows))
    show_words(dataset, account)
    screen.print(f"\nBudget: epsilon {budget_line(account.spent, account.limit)}", markup=False)
    if analysts:
        screen.print(analyst_table(analysts))


def analyst_content(analysts: Sequence[AnalystBudget]) -> list[dict[str, object]]:
    """Who spent what, for programs."""
    return [{"name": one.analyst, "spent": exact(one.spent), "limit": exact(one.limit)} for one in analysts]


def analyst_table(analysts: Sequence[AnalystBudget]) -> RenderableType:
    """Who spent what."""
    lines = [(one.analyst, short(one.spent), short(one.limit), short(one.remaining)) for one in analysts]
    return table("", ("analyst", "spent", "limit", "left"), lines, right=("spent", "limit", "left"))


def show_words(dataset: Dataset, account: Account) -> None:
    """Prints a policy in words."""
    screen = console()
    screen.print(f"Policy (version {account.policy_version}), in words", style="bold", markup=False)
    screen.print(bullets(explain(dataset.domain, dataset.policy)))


def show_edits(written: Dataset, in_force: Dataset, account: Account) -> None:
    """Warns of what the configuration says and the ledger does not have in force, with the command that changes it."""
    name, screen = written.name, console()
    documents = (
        ("policy", written.policy_document(), in_force.policy_document()),
        ("domain", written.domain_document(), in_force.domain_document()),
    )
    for kind, edited, kept in documents:
        if edited != kept:
            screen.print(
                f"The configuration says another {kind}. This one is in force. Nobody is answered until you put the "
                f"other in force (blowfish policy set {name} --document FILE --reason TEXT) or take the edit back.",
                style="yellow",
                markup=False,
            )
    limits = (
        ("--epsilon", written.epsilon, account.limit),
        ("--per-analyst", written.per_analyst, account.analyst_limit),
    )
    for option, said, limit in limits:
        if said is not None and said != limit:
            screen.print(
                f"The configuration says {exact(said)}, which only the ledger can change: "
                f"blowfish dataset budget {name} {option} {exact(said)} --reason TEXT",
                style="yellow",
                markup=False,
            )
