"""One client process: asks its releases one after the other and writes down, durably, what it asked and saw."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from tools.faults.client_log import ASKED, REFUSED, SAW, UNCLEAN, ClientLog
from tools.faults.fixture import Job

FINAL = ("budget-exceeded",)
"""Refusals that no further try changes; after all others the client asks again with the same key."""
PAUSE = 0.05


def ask_all(
    connect: Callable[[str], object], jobs: Sequence[Job], log: ClientLog, reach: Callable[[str], None]
) -> list[object]:
    """Asks each job once; `connect` opens an analyst's session, `reach` hears of every point that is passed.

    The sessions come back open: who lets them go closes the ledger in good order, which a dying process does not.
    """
    sessions: dict[str, object] = {}
    for job in jobs:
        log.note(ASKED, job.analyst, job.key)
        kind, detail = _asked(connect, sessions, job, reach)
        if kind == SAW:
            reach("before the answer is shown")
        log.note(kind, job.analyst, job.key, detail)
        reach("after the answer is shown")
        if kind == REFUSED and detail not in FINAL:
            time.sleep(PAUSE)
    return list(sessions.values())


def _asked(
    connect: Callable[[str], object], sessions: dict[str, object], job: Job, reach: Callable[[str], None]
) -> tuple[str, str]:
    """What came of a question: an answer's digest, the code of a typed refusal, or an error that should not be."""
    from blowfishdb.errors import BlowfishError, InternalError
    from blowfishdb.session import Session

    try:
        session = sessions.get(job.analyst) or connect(job.analyst)
        sessions[job.analyst] = session
        if not isinstance(session, Session):
            raise TypeError("connect gives a session")
        question = session["visits"].histogram("ward")
        answer = question.release(epsilon=job.epsilon, mechanism="identity", key=job.key, progress=reach)
    except InternalError as error:
        return UNCLEAN, str(error)
    except BlowfishError as error:
        return REFUSED, error.code
    except Exception as error:  # noqa: BLE001  # counted, and a fault whatever it is
        return UNCLEAN, f"{type(error).__name__}: {error}"
    return SAW, hashlib.sha256(answer.to_json().encode()).hexdigest()
