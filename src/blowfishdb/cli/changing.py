"""A new policy from a few words, and what it does to past loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.declaring import named, read_family
from blowfishdb.cli.adding import read_file
from blowfishdb.cli.output import console, exact, print_json
from blowfishdb.errors import PolicyError
from blowfishdb.ledger.values import VersionChange
from blowfishdb.model.policy import Policy


def changed_policy(dataset: Dataset, words: list[str], document: Path | None) -> Policy:
    """The dataset's policy with the named attributes changed, or the policy of a document."""
    if bool(words) == (document is not None):
        raise PolicyError("say the new policy with --policy or with --document")
    if document is not None:
        return read_file(document).policy
    old = dataset.policy
    said = named(words, "--policy")
    named_now = {name: read_family(text, dataset.domain.find(name, PolicyError)) for name, text in said.items()}
    new = replace(old, attributes=dict(old.attributes) | named_now)
    new.check(dataset.domain)
    return new


def show_change(change: VersionChange, why: str, *, dry_run: bool, as_json: bool) -> None:
    """Prints what a new version did, or would do, to past loss."""
    if as_json:
        print_json(
            {
                "in_force": not dry_run,
                "version": change.next_version,
                "stretch": exact(change.stretch),
                "why": why,
                "spent_before": exact(change.spent_before),
                "spent_after": exact(change.spent_after),
                "limit": exact(change.limit),
                "refusal": change.refusal,
            }
        )
        return
    screen = console()
    if change.refusal is not None:
        screen.print(f"It would be refused: {change.refusal} ({why}).", style="yellow", markup=False)
        return
    verb = "would become" if dry_run else "is"
    screen.print(f"Policy version {change.next_version} {verb} the one in force.", markup=False)
    screen.print(
        f"Past loss counts {exact(change.stretch)} times ({why}): epsilon {exact(change.spent_before)} spent becomes "
        f"{exact(change.spent_after)} of {exact(change.limit)}.",
        markup=False,
    )
    if dry_run:
        screen.print("Nothing was changed.")
