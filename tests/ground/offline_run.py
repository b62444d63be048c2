"""A day of BlowfishDB with no network but loopback; a process of its own that prints what it did and what it tried.

Python's own attempts are seen by an audit hook. In a network namespace the kernel counts those of C extensions too:
packets for which there is no route.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

SIOCSIFFLAGS, UP_AND_RUNNING = 0x8914, 0x41
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
attempts: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes, and refuses, whatever leads out of this machine."""
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        where = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        host = where[0] if isinstance(where, tuple) else where
        if isinstance(where, tuple) or event in ("socket.getaddrinfo", "socket.gethostbyname"):
            text = host.decode() if isinstance(host, bytes) else str(host or "localhost")
            if not text.startswith(LOOPBACK):
                attempts.append(f"{event} {text}")
                raise OSError("there is no network")


def raise_loopback() -> None:
    """A new namespace has a loopback that is down."""
    with socket.socket() as line:
        fcntl.ioctl(line, SIOCSIFFLAGS, struct.pack("16sh", b"lo", UP_AND_RUNNING))


def unrouted() -> int:
    """How many packets of this namespace had nowhere to go."""
    heads, values = (
        line.split()[1:] for line in Path("/proc/self/net/snmp").read_text().splitlines() if line.startswith("Ip:")
    )
    newer = [line.split() for line in Path("/proc/self/net/snmp6").read_text().splitlines()]
    return int(dict(zip(heads, values, strict=True))["OutNoRoutes"]) + sum(
        int(value) for name, value in newer if name == "Ip6OutNoRoutes"
    )


def everything(folder: Path) -> list[str]:
    """A release, a synopsis, the command line, and a server with its pages and REST."""
    from typer.testing import CliRunner

    from blowfishdb.cli.app import app as commands
    from tests.session.places import configuration, make_fixture, session

    done = []
    make_fixture(folder)
    with session(folder) as db:
        done.append(f"release {db['visits'].histogram('age').release(epsilon='1/10').epsilon}")
        done.append(f"synopsis {db['visits'].histogram('ward').publish(epsilon='1/10').epsilon}")
        done.append(f"dawa {db['visits'].histogram('age').release(epsilon='1/10', mechanism='dawa').epsilon}")
    os.chdir(folder)
    for line in (
        ["dataset", "list"],
        ["ledger", "verify"],
        ["preview", "visits", "--histogram", "age", "--within", "50"],
    ):
        done.append(f"{' '.join(line)}: {CliRunner().invoke(commands, line).exit_code}")
    (folder / "rows.csv").write_text("age\n1\n")
    done.append(f"csv {_counted(folder)}")
    done.append(_served(configuration(folder)))
    return done


def _counted(folder: Path) -> int:
    from blowfishdb.model.cells import compile_cells
    from blowfishdb.model.domain import domain, integers
    from blowfishdb.model.policy import Policy
    from blowfishdb.sources import open_source

    cells = compile_cells(domain({"age": integers(0, 3)}), Policy(), ["age"])
    return int(open_source(str(folder / "rows.csv")).prepare(cells).run().sum())


def _served(config: Path) -> str:
    import httpx

    from blowfishdb.server.app import create_app
    from blowfishdb.server.state import open_app_state
    from tests.server.places import AGES, NO_CERTIFICATES, served

    app_state = open_app_state(config)
    app_state.users.add("ana", "analyst", None)
    app_state.grants.hand_over("visits", "ana", everyone=True)
    secret = app_state.tokens.issue("ana", "test", ["ask"], 1)[0]
    app_state.warm_up()
    with (
        served(create_app(app_state), app_state.settings) as address,
        httpx.Client(base_url=address, verify=NO_CERTIFICATES, trust_env=False, timeout=60.0) as client,
    ):
        page = client.get("/sign-in")
        slash = client.get("/sign-in/", headers={"Host": "evil.example"})
        token = {"Authorization": f"Bearer {secret}"}
        answer = client.post("/api/v1/datasets/visits/answers", json=AGES, headers=token)
    app_state.close()
    outside = [mark for mark in ('src="http', 'href="http', "url(http", "import 'http") if mark in page.text]
    return f"served {page.status_code} {answer.status_code} {slash.status_code} {'evil' in slash.text} {outside}"


def main() -> None:
    is_apart = sys.argv[2] == "namespace"
    if is_apart:
        raise_loopback()
    sys.addaudithook(watch)
    done = everything(Path(sys.argv[1]))
    print(json.dumps({"done": done, "attempts": attempts, "unrouted": unrouted() if is_apart else None}))


if __name__ == "__main__":
    main()
