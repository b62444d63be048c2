"""A program that talks to a server: it never sees the database, only what it asked for.

Run it with `python examples/server_client.py`; it needs `pip install "blowfishdb[server]"`: it starts a server
of its own unless `BLOWFISH_URL` and `BLOWFISH_TOKEN` name one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import blowfishdb as bf

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"
LONGEST_START = 300


@contextmanager
def a_server(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The address of a server over the census table, with a name and the one-time password of an analyst."""
    (folder / "blowfish.toml").write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        domain = {"age": bf.integers(17, 90, null=17)}
        policy = bf.Policy({"age": bf.threshold(5)})
        curator.add(bf.Dataset("census", source=str(ADULT), domain=domain, policy=policy, epsilon="2"))
    command = [sys.executable, "-m", "blowfishdb"]
    added = subprocess.run([*command, "user", "add", "ana", "--json"], cwd=folder, capture_output=True, text=True)
    password = json.loads(added.stdout)["password"]
    subprocess.run([*command, "access", "grant", "census", "ana"], cwd=folder, capture_output=True, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = [*command, "serve", "--port", str(port)]
    server = subprocess.Popen(serve, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/ready")
        yield url, "ana", password
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str) -> None:
    until = time.monotonic() + LONGEST_START
    while time.monotonic() < until:
        try:
            if httpx.get(address).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise SystemExit("the server did not start")


def first_sign_in(url: str, name: str, password: str) -> str:
    """Changes the one-time password, as everybody must, and gives the new one."""
    chosen = "a long enough new password"
    with httpx.Client(base_url=f"{url}/api/v1") as browser:
        signed_in = browser.post("/sessions", json={"name": name, "password": password}).raise_for_status().json()
        sent = {"password": password, "new_password": chosen}
        headers = {"X-CSRF-Token": signed_in["csrf_token"]}
        browser.put("/sessions/current/password", json=sent, headers=headers).raise_for_status()
    return chosen


def ask(db: bf.Session) -> None:
    """The same face as in one process: preview, release, budget."""
    question = db["census"].histogram(bf.col("age").bins(10))
    print(question.preview(accuracy=60))
    answer = question.release(accuracy=60)
    print(answer)
    answer.certificate.verify()
    print("spent:", float(db.budget("census").spent))


def main() -> None:
    """Asks the server that the environment names, or one of our own."""
    if "BLOWFISH_URL" in os.environ:
        with bf.connect(os.environ["BLOWFISH_URL"], token=os.environ["BLOWFISH_TOKEN"]) as db:
            ask(db)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        a_server(Path(folder)) as (url, name, password),
        bf.connect(url, analyst=name, password=first_sign_in(url, name, password)) as db,
    ):
        ask(db)


if __name__ == "__main__":
    main()
