"""PostgreSQL goes away during releases: connections cut mid-transaction or mid-commit, the server killed or stopped."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tools.database_servers import free_port
from tools.faults.lab import POSTGRES, Lab, Outcome
from tools.faults.swarm import ROOT

CUT_SHARE = 0.15


def terminated_backends(lab: Lab) -> Iterator[Outcome]:
    """Every session of the database is ended by the server, again and again."""
    import psycopg

    place = lab.place(POSTGRES)

    def strike() -> int:
        with suppress(psycopg.Error), psycopg.connect(place.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return len(rows.fetchall())
        return 0

    yield lab.struck("connection ended by the server", place, strike, (0.02, 0.4))


def server_death(lab: Lab) -> Iterator[Outcome]:
    """The server dies by SIGKILL or stops at once, recovers, and clients go on."""
    for fault, how in (("server kill -9 and restart", signal.SIGKILL), ("server stopped at once", signal.SIGQUIT)):
        place = lab.place(POSTGRES)

        def strike(how: signal.Signals = how) -> int:
            lab.server.stop(how)
            lab.server.start()
            return 1

        yield lab.struck(fault, place, strike, (0.3, 1.5))


def cut_commits(lab: Lab) -> Iterator[Outcome]:
    """A proxy cuts while a charge or commit travels: the client cannot know whether it happened."""
    with _proxy(lab) as (port, cuts):
        place = lab.place(POSTGRES)
        # The dataset is there before anything is cut: the clients alone go through the proxy.
        config = place.config.read_text()
        place.config.write_text(config.replace(f":{lab.server.port}/", f":{port}/"))
        done = lab.worker_pool.run(lab.plan(place))
        injected = cuts()
    yield lab.verdict("connection cut during a commit", place, injected, done["unsettled"])


@contextmanager
def _proxy(lab: Lab) -> Iterator[tuple[int, Callable[[], int]]]:
    """A proxy before the lab's server: its port, and a function that ends it and says how often it cut."""
    port, seed = free_port(), lab.chance.randrange(2**31)
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.faults.connections", *map(str, (port, lab.server.port, seed, CUT_SHARE))],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def cuts() -> int:
        time.sleep(0.2)
        return int(process.communicate(timeout=30)[0])

    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the proxy did not start")
        yield port, cuts
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


SIGNS = (b"COMMIT", b"FROM charge(")
CHUNK = 65_536
BEFORE, AFTER = "before", "after"


class Cutter:
    """Decides about each message to the server, from a seed."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self.cuts = 0

    def decide(self, message: bytes) -> str | None:
        """Cut before the message reaches the server, after it did but before the reply, or not at all."""
        if not any(sign in message for sign in SIGNS) or self._chance.random() >= self._share:
            return None
        self.cuts += 1
        return self._chance.choice((BEFORE, AFTER))


async def serve(listen: int, server: int, cutter: Cutter) -> None:
    """Forwards connections until standard input closes."""

    async def client_came(inward: asyncio.StreamReader, outward: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", server)
        except OSError:
            outward.close()
            return
        replies = asyncio.ensure_future(_forward(from_server, outward))
        try:
            while message := await inward.read(CHUNK):
                fate = cutter.decide(message)
                if fate == AFTER:
                    replies.cancel()
                if fate != BEFORE:
                    to_server.write(message)
                    await to_server.drain()
                if fate is not None:
                    break
        except OSError:
            pass
        finally:
            outward.close()
            # The server may still be at work on what it got: its end of the connection closes in its own time.
            to_server.close()

    listening = await asyncio.start_server(client_came, "127.0.0.1", listen)
    async with listening:
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(CHUNK):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def main(listen: int, server: int, seed: int, share: float) -> None:
    """The command."""
    cutter = Cutter(seed, share)
    asyncio.run(serve(listen, server, cutter))
    print(cutter.cuts, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
