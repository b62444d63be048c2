"""Several releases on one account: no hidden change of a record may lose more over all of them than was charged."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from blowfishdb.audit.all_changes import moved_by_all
from blowfishdb.audit.cases import Case, made_ready
from blowfishdb.audit.definitions import moves
from blowfishdb.audit.neighbours import Change, Setting, sample_records
from blowfishdb.audit.one_release import released
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.stages import watched_stages
from blowfishdb.audit.tables import table_pair
from blowfishdb.audit.verdicts import Line, amount, judged
from blowfishdb.engine.node_release import NodeQuestion
from blowfishdb.model.query import Query


def replay_account(case: Case, seed: int) -> list[Line]:
    """Releases all questions of a case; sums what each change loses, and compares the worst with what was charged."""
    random = np.random.default_rng([seed, 7])
    asked = [question for question in (case.asked, *case.further) if not isinstance(question, NodeQuestion)]
    setting = _all_of(case, asked)
    everyone = sample_records(setting, random)
    listed = [
        Change((one,), (two,))
        for one, two in itertools.combinations(everyone, 2)
        if moves(setting.applied, setting.policy, one, two)
    ]
    if case.policy.presence != "public":
        listed += [Change((one,), (None,)) for one in everyone]
    lost = [Fraction(0)] * len(listed)
    troubles: list[str] = []
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder:
        base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
        world.fill(table_pair(setting, base, listed[0], random).before)
        for number, question in enumerate(asked):
            ready = made_ready(case, world.holding, question)
            moved = moved_by_all(recorder, ready.payable, listed, setting)
            if moved is None:
                troubles.append("a release of an account has no fixed plan")
                continue
            lost = [before + now for before, now in zip(lost, moved.losses, strict=True)]
            recorder.record()
            outcome = released(world, ready, f"question {number}")
            troubles += [f"the release failed: {outcome.error[:120]}"] if outcome.error else []
        spent, whole = world.spent, case.epsilon * len(asked)
        if not world.ledger.verify().is_sound:
            troubles.append("the ledger does not verify after these releases")
    worst = max(lost)
    if worst > spent:
        troubles.append(f"a change lost {amount(worst)} over all releases, the account was charged {amount(spent)}")
    said = f"{len(asked)} releases: loss {amount(worst)}, charged {amount(spent)}, as a sum {amount(whole)}"
    return [judged("replay", case.name, "account", troubles, said, len(listed))]


def _all_of(case: Case, asked: list[Query]) -> Setting:
    """One setting that looks at every attribute of every question."""
    axes = {axis.attribute: axis for question in asked for axis in question.axes}
    where = next((question.where for question in asked if question.where is not None), None)
    return Setting(case.domain, case.policy, tuple(axes.values()), where)
