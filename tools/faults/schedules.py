"""Random schedules of processes with several connections each: threads, forks, deaths and backups in between.

Each schedule has a ledger and a database of users in SQLite. Processes come and go, open and close connections, charge,
spend the cap of a token, fork, copy the ledger, and are killed. What was acknowledged must be there at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tools.faults.checker import ASKED, REFUSED, SAW, UNCLEAN, ClientLog, check, read_logs, read_tables
from tools.faults.lab import SQLITE, Lab, Outcome

if TYPE_CHECKING:
    from blowfishdb.ledger import Charge, Ledger
    from blowfishdb.server.auth.database import Database

ROOT = Path(__file__).resolve().parents[2]
ANALYSTS = ("ana", "ben", "cy")
LIMIT, ANALYST_LIMIT, PRICE = Fraction(2), Fraction(1), Fraction(1, 10)
CAP = 12
"""How often the token of a schedule may be used."""
MOST_CONNECTIONS = 3
ACTORS = (3, 6)
"""Processes in a schedule; half of them begin at once, the others while these are at work."""
STEPS = (3, 10)
KILLED = 0.4
"""The part of all processes that is killed."""
LONGEST = 90.0
"""Seconds after which a schedule hangs."""
FEWEST = 5
"""Schedules in a row of `make faults`, however few releases it asks."""
IDENTITY = "duckdb:clinic.duckdb#visits"


@dataclass
class Found:
    """What one schedule left behind."""

    seed: str
    charges: int = 0
    acknowledged: int = 0
    deaths: int = 0
    forks: int = 0
    backups: int = 0
    refused: int = 0
    over_spend: int = 0
    lost: int = 0
    untraced: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether everything acknowledged is there and nothing else was said or spent."""
        return not (self.over_spend or self.lost or self.untraced or self.notes)


@dataclass(frozen=True)
class Scene:
    """Where a schedule takes place."""

    folder: Path

    @property
    def ledger_url(self) -> str:
        """The ledger's address."""
        return f"sqlite:///{self.folder}/books.ledger"

    @property
    def logs(self) -> Path:
        """The folder of what processes asked and saw."""
        return self.folder / "logs"

    @property
    def events(self) -> Path:
        """The folder of what else processes did: one file for each, with a line for each use, fork and copy."""
        return self.folder / "events"

    def ledger(self) -> Ledger:
        """The ledger, opened once more."""
        from blowfishdb.ledger import open_ledger

        return open_ledger(self.ledger_url, mark=self.folder / "elsewhere" / "books.mark")

    def users(self) -> Database:
        """The database of users, opened once more."""
        from blowfishdb.server.auth.database import open_database

        return open_database(f"sqlite:///{self.folder}/users.db")

    def prepare(self) -> None:
        """An account, and a token that may be used a few times."""
        from blowfishdb.ledger import Terms

        self.logs.mkdir(parents=True)
        self.events.mkdir()
        with self.ledger() as ledger:
            ledger.register(Terms(IDENTITY, LIMIT, "{}", '{"age": 1}', ANALYST_LIMIT), name="visits", by="cora")
        with closing(self.users()) as users:
            users.change("INSERT INTO token_cap (id, epsilon, spent) VALUES ('token', ?, '0')", str(CAP))


def charge_of(ledger: Ledger, analyst: str, key: str) -> Charge:
    """A charge under the versions in force."""
    from blowfishdb.ledger import Charge

    account = ledger.account_of(IDENTITY)
    return Charge(
        account=account.id,
        analyst=analyst,
        epsilon=PRICE,
        key=key,
        request_digest=f"request {key}",
        program_digest=f"program {key}",
        policy_version=account.policy_version,
        domain_version=account.domain_version,
        snapshot=account.snapshot,
        certificate="{}",
    )


class Actor:
    """One process of a schedule, which does what its random numbers say."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name, self.chance = scene, name, random.Random(f"{scene.folder.name} {name}")
        self.log = ClientLog(scene.logs / f"{name}.log")
        self.events = ClientLog(scene.events / f"{name}.log")
        self.ledgers = [scene.ledger()]
        self.databases = [scene.users()]
        self.keys = 0
        self.last = 0
        """The newest entry that this process was told of."""

    def run(self) -> None:
        """All steps; connections are closed at the end, or left to the system."""
        actions: dict[Callable[[], None], int] = {
            self.charge: 5,
            self.charge_in_threads: 2,
            self.spend_cap: 3,
            self.connect: 3,
            self.disconnect: 2,
            self.fork: 2,
            self.fork_beside_a_thread: 1,
            self.back_up: 1,
        }
        for _ in range(self.chance.randint(*STEPS)):
            self.chance.choices(list(actions), list(actions.values()))[0]()
        if self.chance.random() < 0.5:
            for ledger in self.ledgers:
                ledger.close()
            for database in self.databases:
                database.close()

    def charge(self) -> None:
        """One charge, over any of the connections, and its answer."""
        self.keys += 1
        self.ask(self.chance.choice(self.ledgers), self.chance.choice(ANALYSTS), f"{self.name}-{self.keys}")

    def ask(self, ledger: Ledger, analyst: str, key: str) -> None:
        """One charge and its answer; what was acknowledged is noted."""
        from blowfishdb.errors import BlowfishError, BudgetExceeded, LedgerUnavailable

        self.log.note(ASKED, analyst, key)
        try:
            receipt = ledger.charge(charge_of(ledger, analyst, key))
            self.last = max(self.last, receipt.sequence)
            payload = ledger.store_answer(receipt, key.encode())
        except (BudgetExceeded, LedgerUnavailable) as refusal:
            self.log.note(REFUSED, analyst, key, refusal.code)
        except BlowfishError as problem:
            self.log.note(UNCLEAN, analyst, key, f"{problem.code}: {problem}")
        else:
            self.log.note(SAW, analyst, key, hashlib.sha256(payload).hexdigest())

    def charge_in_threads(self) -> None:
        """Charges at once, each over a connection drawn for it."""
        threads = []
        for _ in range(2):
            self.keys += 1
            drawn = self.chance.choice(self.ledgers), self.chance.choice(ANALYSTS), f"{self.name}-{self.keys}"
            threads.append(threading.Thread(target=self.ask, args=drawn))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def spend_cap(self) -> None:
        """One use of the token, if its cap leaves one."""
        database = self.chance.choice(self.databases)
        with database.write(durable=False) as cursor:
            row = cursor.row("SELECT epsilon, spent FROM token_cap WHERE id = 'token'")
            if row is None:
                raise RuntimeError("the token is gone")
            is_left = int(row["spent"]) < int(row["epsilon"])
            if is_left:
                cursor.rows("UPDATE token_cap SET spent = ? WHERE id = 'token'", str(int(row["spent"]) + 1))
        if is_left:
            self.events.note(SAW, "", "token")

    def connect(self) -> None:
        """Another connection to either file, up to a few."""
        if len(self.ledgers) < MOST_CONNECTIONS:
            self.ledgers.append(self.scene.ledger())
        if len(self.databases) < MOST_CONNECTIONS:
            self.databases.append(self.scene.users())
        self.chance.choice(self.databases).rows("SELECT spent FROM token_cap")

    def disconnect(self) -> None:
        """One connection less, but never the last one."""
        for some in (self.ledgers, self.databases):
            if len(some) > 1:
                some.pop(self.chance.randrange(len(some))).close()

    def fork(self, beside: Callable[[], None] = lambda: None) -> None:
        """A child that opens its own connections, charges, and ends in any way; nobody waits for it."""
        self.keys += 1
        name = f"{self.name}-{self.keys}c"
        self.events.note(SAW, "", "fork")
        if os.fork() == 0:
            _end(lambda: Child(self.scene, name).run(), self.scene, name)
        beside()

    def fork_beside_a_thread(self) -> None:
        """A fork while another thread charges."""
        self.keys += 1
        drawn = self.chance.choice(self.ledgers), self.chance.choice(ANALYSTS), f"{self.name}-{self.keys}"
        thread = threading.Thread(target=self.ask, args=drawn)
        thread.start()
        time.sleep(self.chance.uniform(0, 0.01))
        self.fork(thread.join)

    def back_up(self) -> None:
        """A checked copy, which has everything that this process was told of."""
        from blowfishdb.ledger.backup import back_up_ledger

        self.keys += 1
        file = self.scene.folder / f"{self.name}-{self.keys}.copy"
        known = self.last
        if back_up_ledger(self.chance.choice(self.ledgers), file).head.sequence < known:
            self.log.note(UNCLEAN, "", "", f"a backup lacks entry {known}")
        self.events.note(SAW, "", "backup")


class Child(Actor):
    """A process that was forked from one with connections."""

    def run(self) -> None:
        """A few charges, then an end with or without closing."""
        for _ in range(self.chance.randint(1, 3)):
            self.charge()
        self.spend_cap()
        if self.chance.random() < 0.5:
            self.ledgers[0].close()


def _end(work: Callable[[], None], scene: Scene, name: str) -> None:
    """Does the work of a forked process and ends it; a refusal that passes ends it too."""
    from blowfishdb.errors import AccountsUnavailable, LedgerUnavailable

    try:
        work()
    except (AccountsUnavailable, LedgerUnavailable) as refusal:
        ClientLog(scene.logs / f"{name}-end.log").note(REFUSED, "", "", refusal.code)
    except BaseException:  # noqa: BLE001  # nothing may leave a forked process but its end
        ClientLog(scene.logs / f"{name}-end.log").note(UNCLEAN, "", "", traceback.format_exc())
    finally:
        os._exit(0)


def play(folder: Path) -> Found:
    """One schedule, drawn from the folder's name, and what it left behind."""
    scene, chance, found = Scene(folder), random.Random(folder.name), Found(folder.name)
    scene.prepare()
    done, alive = os.pipe()
    running: dict[int, float] = {}
    count = chance.randint(*ACTORS)
    for number in range(count):
        process = os.fork()
        if process == 0:
            os.setsid()
            os.close(done)
            _end(lambda number=number: Actor(scene, f"p{number}").run(), scene, f"p{number}")  # type: ignore[misc]
        life = chance.uniform(0.02, 0.6) if chance.random() < KILLED else LONGEST
        running[process] = time.monotonic() + life
        if number >= count // 2:
            found.deaths += _wait(running, 1)
    found.deaths += _wait(running, count)
    os.close(alive)
    _wait_for_children(done, scene)
    _judge(scene, found)
    return found


def _wait(running: dict[int, float], count: int) -> int:
    """Waits until so many processes have ended, or all; kills those whose time has come, and says how many."""
    killed = 0
    while count and running:
        for process, ends_at in list(running.items()):
            if time.monotonic() > ends_at:
                os.kill(process, signal.SIGKILL)
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del running[process]
                count, killed = count - 1, killed + os.WIFSIGNALED(status)
        time.sleep(0.002)
    return killed


def _wait_for_children(done: int, scene: Scene) -> None:
    """Waits for the processes that others forked: each has the other end of this pipe."""
    if not select.select([done], [], [], LONGEST)[0]:
        ClientLog(scene.logs / "hanging.log").note(UNCLEAN, "", "", "a forked process hangs")
    os.close(done)


def _judge(scene: Scene, found: Found) -> None:
    """Lets everything that was asked come to its end, then holds both files against what processes saw."""
    from blowfishdb.errors import BlowfishError
    from blowfishdb.ledger.backup import check_copy

    records = read_logs(scene.logs)
    events = Counter(one.key for one in read_logs(scene.events))
    kinds = Counter(one.kind for one in records)
    found.forks, found.backups = events["fork"], events["backup"]
    found.acknowledged, found.refused = kinds[SAW], kinds[REFUSED]
    found.notes += [one.detail for one in records if one.kind == UNCLEAN]
    try:
        # Before anything is asked again: a lost charge would be made anew.
        before = check(read_tables(scene.ledger_url), records, is_settled=False)
        found.lost, found.notes = before.unpaid_answers, found.notes + before.notes
        last = Actor(scene, "last")
        for one in records:
            if one.kind == ASKED:
                last.ask(last.ledgers[0], one.analyst, one.key)
        fault = last.ledgers[0].verify().fault
        found.notes += [] if fault is None else [f"verify: {fault.reason}"]
        last.ledgers[0].close()
        verdict = check(read_tables(scene.ledger_url), [*records, *read_logs(scene.logs)])
        found.charges, found.over_spend, found.untraced = verdict.charges, verdict.over_spend, verdict.untraced_charges
        found.notes += verdict.notes
        for copy in scene.folder.glob("*.copy"):
            check_copy(copy)
        uses = events["token"]
        spent = int(last.databases[0].rows("SELECT spent FROM token_cap")[0]["spent"])
        last.databases[0].close()
        if not uses <= spent <= CAP:
            found.lost += max(0, uses - spent)
            found.over_spend += uses > CAP
            found.notes.append(f"a token was used {uses} times, its account says {spent} of {CAP}")
    except BlowfishError as problem:
        found.notes.append(f"{problem.code}: {problem}")


def random_schedules(lab: Lab) -> Iterator[Outcome]:
    """Processes with several connections each, which charge, spend a cap, fork, copy and die at random."""
    count = max(FEWEST, lab.releases // 2)
    found = list(run_schedules(count, lab.chance.randrange(2**31)))
    bad = [one for one in found if not one.is_good]
    yield Outcome(
        fault="random schedules of connections",
        store=SQLITE,
        runs=sum(one.charges for one in found),
        faults=sum(one.deaths + one.forks + one.backups for one in found),
        over_spend=sum(one.over_spend for one in found),
        unpaid_answers=sum(one.lost for one in found),
        untraced_charges=sum(one.untraced for one in found),
        refused=sum(one.refused for one in found),
        unclean=len(bad),
        answers_seen=sum(one.acknowledged for one in found),
        notes=tuple(f"schedule {one.seed}: {note}" for one in bad for note in one.notes),
    )


def run_schedules(count: int, seed: int) -> Iterator[Found]:
    """So many schedules, each in a folder of its own that is gone afterwards, played in a process without threads."""
    command = [sys.executable, "-m", "tools.faults.schedules", str(count), str(seed)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            yield Found(**json.loads(line))
    if process.returncode != 0:
        raise RuntimeError("the schedules broke down; the error is above")


def main(count: int, seed: int) -> None:
    """Plays schedules; a line of JSON for each."""
    with tempfile.TemporaryDirectory(prefix="blowfish-schedules-") as folder:
        for number in range(count):
            print(json.dumps(asdict(play(Path(folder) / f"{seed}-{number}"))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
