"""The command `python -m tools.planted.first_violation`: runs the short audit until it has found one violation."""

from __future__ import annotations

import sys

from blowfishdb.audit.run import AuditPlan, audit_tasks, run_tasks
from blowfishdb.cli.audit import VIOLATION, find_self_check

STRIDE = 9
"""Tasks that stand together are alike: one in so many of all kinds comes first."""


def main(processes: int) -> int:
    """The exit code: that of an audit, after the first violation."""
    plan, self_check = AuditPlan(quick=True), find_self_check()
    numbers = range(len(audit_tasks(plan, self_check)))
    order = sorted(numbers, key=lambda number: number % STRIDE)
    for _, lines in run_tasks(plan, order, processes, self_check):
        for line in lines:
            if line.is_violation:
                print(f"{line.subject}, {line.check}", flush=True)
                return VIOLATION
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
