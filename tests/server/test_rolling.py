"""Two servers over one PostgreSQL ledger behind nginx, killed and restarted in turn while analysts ask."""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import httpx
import psycopg
import pytest

import blowfishdb as bf
from blowfishdb.cli.serve import free_port
from blowfishdb.server.state import open_app_state
from tests.server.places import PATIENCE
from tests.server.test_deployment import changed, nginx, running
from tests.server.test_serving import make_certificate, started
from tests.session.places import make_table, visits

RETRIED = (429, 502, 503, 504)
"""What a proxy without a server says, or a server that ends."""
EPSILON = Fraction(1, 100)


@contextmanager
def rolled(folder: Path, ports: list[int], rounds: int) -> Iterator[None]:
    """Servers that end and start again in turn, by SIGTERM and by kill -9, in a thread until the rounds are over."""
    servers = [started(folder, "127.0.0.1", port) for port in ports]

    def roll() -> None:
        for number in range(rounds):
            place = number % len(ports)
            servers[place][0].send_signal((signal.SIGTERM, signal.SIGKILL)[number // len(ports) % 2])
            servers[place][0].communicate(timeout=PATIENCE)
            servers[place] = started(folder, "127.0.0.1", ports[place])

    thread = threading.Thread(target=roll)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        for process, _ in servers:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


@pytest.mark.nightly
@pytest.mark.postgres
@pytest.mark.nginx
def test_clients_that_repeat_get_every_answer_once(tmp_path: Path, postgres_url: str) -> None:
    name = f"{postgres_url.rsplit('/', 1)[1]}_marks"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    trusted, door, ports = make_certificate(tmp_path), free_port(0), [free_port(0), free_port(0)]
    make_table(tmp_path)
    config = tmp_path / "blowfish.toml"
    config.write_text(
        f'ledger = "{postgres_url}"\nmark = "{postgres_url.rsplit("/", 1)[0]}/{name}#visits"\n'
        f'[server]\nusers = "{postgres_url}"\nbehind_proxy = true\npublic_url = "https://localhost:{door}"\n'
    )
    with bf.curate(config, by="cora") as curator:
        curator.add(visits(epsilon="10"))
    state = open_app_state(config)
    state.users.add("ana", "analyst", None)
    state.grants.give("visits", "ana", "analyst", by="cora")
    token = state.tokens.issue("ana", "test", ["ask"], 30)[0]
    state.close()
    command = nginx(tmp_path, door, ports[0])
    site = (tmp_path / "site.conf").read_text()
    one = f"server 127.0.0.1:{ports[0]};"
    assert one in site and "ip_hash;" in changed("nginx.conf", {})
    # All clients of this test have one address and one token, which would stay with one server.
    alone, both = re.compile(r"ip_hash;|hash \$http_authorization.*;"), f"{one}\n    server 127.0.0.1:{ports[1]};"
    (tmp_path / "site.conf").write_text(alone.sub("", site).replace(one, both))
    answers: dict[str, list[str]] = {}
    refused: list[str] = []
    usual = {"base_url": f"https://localhost:{door}", "verify": trusted, "timeout": PATIENCE}

    def ask(number: int) -> None:
        key, body = (
            f"key {number}",
            {
                "query": {"kind": "count", "where": ["==", "age", ["int", str(number)]]},
                "accuracy_target": {"epsilon": str(EPSILON)},
            },
        )
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
        with httpx.Client(**usual, headers=headers) as client:  # type: ignore[arg-type]
            for _ in itertools.takewhile(lambda _: len(answers.get(key, [])) < 2, range(200)):
                try:
                    answer = client.post("/api/v1/datasets/visits/answers", json=body)
                except httpx.TransportError:
                    time.sleep(0.3)
                    continue
                if answer.status_code == 200:
                    answers.setdefault(key, []).append(json.dumps(answer.json()["values"]))
                elif answer.status_code in RETRIED:
                    time.sleep(0.3)
                else:
                    refused.append(answer.text)
                    return

    with rolled(tmp_path, ports, rounds=6), running(command, tmp_path):
        numbers = iter(range(60))
        turn = threading.Lock()

        def work() -> None:
            while True:
                with turn:
                    number = next(numbers, None)
                if number is None:
                    return
                ask(number)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert refused == []
    assert sorted(answers) == sorted(f"key {number}" for number in range(60))
    assert all(first == second for first, second in answers.values())
    with bf.curate(config, by="cora") as curator:
        account = curator.account("visits")
        assert (account.charges, account.spent) == (60, 60 * EPSILON)
        assert curator.verify().is_sound
