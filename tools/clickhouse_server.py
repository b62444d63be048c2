"""ClickHouse's engine, which a package brings without its server, behind the part of the HTTP interface that we use.

Run as a process of its own, `python -m tools.clickhouse_server FOLDER`: it prints its port. Users and TLS are
not there; everything about SQL, types, settings and failures is ClickHouse itself.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ROOT = Path(__file__).resolve().parents[1]
OF_HTTP = ("default_format", "wait_end_of_query", "cancel_http_readonly_queries_on_client_close")
"""What the HTTP interface itself looks at."""


class Handler(BaseHTTPRequestHandler):
    """One statement a request; what its address says becomes settings and parameters of the statement."""

    session: Any
    turn = threading.Lock()
    """The session takes one statement at a time."""
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query))
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        values = {name.removeprefix("param_"): value for name, value in asked.items() if name.startswith("param_")}
        settings = {k: v for k, v in asked.items() if k not in OF_HTTP and not k.startswith("param_")}
        if settings:
            sql += " SETTINGS " + ", ".join(f"{name} = {value!r}" for name, value in settings.items())
        if self.headers["X-ClickHouse-Key"] == "wrong":
            return self.reply(403, b"Code: 516. Authentication failed")
        try:
            with self.turn:
                answer = self.session.query(sql, asked.get("default_format", "TabSeparated"), params=values).bytes()
        except Exception as problem:  # noqa: BLE001  # whatever the engine says is the answer
            return self.reply(500, str(problem).encode())
        return self.reply(200, answer)

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a test that fails shows what it was told."""


@contextmanager
def running_clickhouse(folder: Path) -> Iterator[str]:
    """The address of a fresh engine in a process of its own, which ends when the block does."""
    command = [sys.executable, "-m", "tools.clickhouse_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or not (port := process.stdout.readline()):
                raise RuntimeError("ClickHouse's engine did not start")
            yield f"clickhouse://127.0.0.1:{int(port)}/default"
        finally:
            process.terminate()


def main() -> None:
    from chdb import session

    opened: Any = session.Session
    Handler.session = opened(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
