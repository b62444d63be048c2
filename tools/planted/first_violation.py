"""The command `python -m tools.planted.first_violation`: runs the short audit until it has found one violation."""

from __future__ import annotations

import sys

from blowfishdb.audit.run import AuditPlan, audit_tasks, run_tasks
from blowfishdb.cli.audit import VIOLATION, find_self_check

STRIDE = 9
"""Tasks that stand together are alike: one in so many of all kinds comes first."""


def main(processes: int, *likely: str) -> int:
    """The exit code: an audit's, after its first violation. Tasks with a likely word in their names come first."""
    plan, self_check = AuditPlan(quick=True), find_self_check()
    names = [name for _, name, _ in audit_tasks(plan, self_check)]
    order = sorted(range(len(names)), key=lambda at: (not any(word in names[at] for word in likely), at % STRIDE))
    for _, lines in run_tasks(plan, order, processes, self_check):
        for line in lines:
            if line.is_violation:
                print(f"{line.subject}, {line.check}", flush=True)
                return VIOLATION
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
