"""A throw-away MariaDB server on loopback, for tests and benchmarks."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.postgres_server import START_SECONDS, ServerFailed, free_port, memory_folder

USER = "blowfish"
PASSWORD = "throw-away"
DATABASE = "test"


def program(name: str) -> str:
    """The full path of a MariaDB program."""
    place = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if place is None:
        raise ServerFailed(f"{name} is missing: install mariadb-server")
    return place


@contextmanager
def running_mariadb() -> Iterator[str]:
    """The address of a fresh server that ends, with all its data, when the block does; in memory where possible."""
    user = "mysql" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="blowfish-mariadb-", dir=memory_folder()))
    try:
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        data, socket, log = folder / "data", folder / "socket", folder / "log"
        install = [program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        install += ["--auth-root-authentication-method=normal", *([f"--user={user}"] if user else [])]
        done = subprocess.run(install, capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise ServerFailed(done.stdout + done.stderr)
        port = free_port()
        start = folder / "start.sql"
        start.write_text(
            f"CREATE DATABASE {DATABASE}; CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1';".replace(";", ";\n"),
            encoding="ascii",
        )
        command = [program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}", f"--port={port}"]
        command += ["--bind-address=127.0.0.1", f"--init-file={start}", f"--log-error={log}", "--skip-name-resolve"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]
        command += [f"--pid-file={folder / 'pid'}", *([f"--user={user}"] if user else [])]
        start.chmod(0o644)
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        url = f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"
        try:
            _wait_until_ready(server, port, log)
            yield url
        finally:
            # The data is thrown away, so nothing need be saved.
            server.kill()
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    ping = [program("mariadb-admin"), "--no-defaults", "-h127.0.0.1", f"-P{port}", f"-u{USER}", f"-p{PASSWORD}", "ping"]
    while subprocess.run(ping, capture_output=True).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise ServerFailed(log.read_text(errors="replace") if log.exists() else "no log")
        time.sleep(0.1)
