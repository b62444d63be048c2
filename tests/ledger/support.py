"""Small helpers of the ledger tests: terms, charges, and workers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from blowfishdb.ledger import Account, Charge, Ledger, Terms, open_ledger
from blowfishdb.ledger.ledger import nothing_to_do
from blowfishdb.ledger.records import StepHook

ROOT = Path(__file__).resolve().parents[2]
IDENTITY = "duckdb:census.duckdb#people"


@dataclass(frozen=True)
class Place:
    """Where a ledger is, and where its mark."""

    url: str
    mark: Path

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def open(self, reached: StepHook = nothing_to_do) -> Ledger:
        return open_ledger(self.url, mark=self.mark, reached=reached)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """A worker process; see worker.py for what it can be told."""
        command = [sys.executable, "-m", "tests.ledger.worker", self.url, str(self.mark), *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
        )


def terms(
    limit: Fraction | int = 1, analyst_limit: Fraction | None = None, identity: str = IDENTITY, policy: str = "{}"
) -> Terms:
    return Terms(identity, Fraction(limit), policy, '{"age": 1}', analyst_limit)


def opened(ledger: Ledger, limit: Fraction | int = 1, analyst_limit: Fraction | None = None) -> Account:
    return ledger.register(terms(limit, analyst_limit), name="census", by="cora")


def charge_of(
    account: Account, epsilon: Fraction | str | int, key: str, *, analyst: str = "ana", request: str | None = None
) -> Charge:
    return Charge(
        account=account.id,
        analyst=analyst,
        epsilon=Fraction(epsilon),
        key=key,
        request_digest=request or f"request-{key}",
        program_digest=f"program-{key}",
        policy_version=account.policy_version,
        domain_version=account.domain_version,
        snapshot=account.snapshot,
        certificate='{"edge": [0, 1]}',
    )
