"""An answer with the words that belong to it: dataset, policy, what is hidden and what is not, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import Compiled
from blowfishdb.engine.evidence import evidence_of
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.present.words import policy_words
from blowfishdb.engine.unprotected import not_protected


def described(answer: Answer, holding: Holding, compiled: Compiled) -> Answer:
    """The answer as it will be stored."""
    return replace(
        answer,
        dataset=holding.name,
        policy_version=holding.policy_version,
        protected=policy_words(holding.domain, holding.policy, compiled.cells.attributes),
        unprotected=not_protected(holding.domain, holding.policy),
        released=now(),
        evidence=evidence_of(holding.domain, holding.policy, compiled.query),
    )


def now() -> str:
    """The time of a release, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
