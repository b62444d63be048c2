"""Throw-away PostgreSQL and MariaDB servers on loopback, for tests and benchmarks."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

QUIET = {"log_min_messages": "fatal", "max_connections": "60", "shared_buffers": "32MB"}
START_SECONDS = 60
MEMORY = Path("/dev/shm")
ROOM = 2**30


class ServerFailed(RuntimeError):
    """A server that did not start; carries what it printed."""


def program(name: str) -> str:
    """The full path of a PostgreSQL program, the newest version where there are several."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]))
    place = found[-1] if found else shutil.which(name)
    if place is None:
        raise ServerFailed(f"{name} is missing: install postgresql")
    return place


@dataclass
class PostgresServer:
    """A server on loopback over one folder of data; it may be stopped in any way and started again."""

    folder: Path
    command: list[str]
    port: int
    user: str | None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Starts it and waits until it answers. What an earlier run left in memory may take a moment to go."""
        until = time.monotonic() + START_SECONDS
        while True:
            with (self.folder / "log").open("wb") as log:
                self.process = subprocess.Popen(
                    self.command,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    user=self.user,
                    group=self.user,
                    extra_groups=[] if self.user else None,
                )
            try:
                _wait_for_postgres(self.process, self.port, self.folder / "log")
                return
            except ServerFailed:
                self.stop(signal.SIGKILL)
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Ends it: SIGQUIT is PostgreSQL's immediate shutdown, SIGKILL is sudden death."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_SECONDS)
            self.process = None


@contextmanager
def running_postgres(settings: Mapping[str, str] | None = None, *, on_disk: bool = False) -> Iterator[str]:
    """The address of a fresh server that ends, with all its data, when the block does; in memory where possible."""
    with postgres_server(settings, None if on_disk else memory_folder()) as server:
        yield server.url


@contextmanager
def postgres_server(
    settings: Mapping[str, str] | None = None, place: str | None = None, initial: Sequence[str] = ()
) -> Iterator[PostgresServer]:
    """A fresh server with its data in a new folder under `place`; `initial` are more options of initdb."""
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="blowfish-postgres-", dir=place))
    try:
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        data = folder / "data"
        making = [program("initdb"), "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", *initial]
        _run([*making, "-D", str(data)], user)
        server = _server_over(folder, free_port(), settings or {}, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _server_over(folder: Path, port: int, settings: Mapping[str, str], user: str | None) -> PostgresServer:
    """The server of the data that a folder holds already."""
    command = [program("postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port), "-k", str(folder)]
    for name, value in {**QUIET, **settings}.items():
        command += ["-c", f"{name}={value}"]
    return PostgresServer(folder, command, port, user)


@contextmanager
def standby_of(
    primary: PostgresServer, settings: Mapping[str, str] | None = None, place: str | None = None
) -> Iterator[PostgresServer]:
    """A server that follows another one in a new folder under `place`, and can be promoted; not started yet."""
    folder = Path(tempfile.mkdtemp(prefix="blowfish-standby-", dir=place))
    try:
        if primary.user is not None:
            account = pwd.getpwnam(primary.user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        standby = _server_over(folder, free_port(), settings or {}, primary.user)
        try:
            yield standby
        finally:
            standby.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def follow(primary: PostgresServer, standby: PostgresServer) -> None:
    """Makes a server that is down a copy of another one, which it follows from now on, and starts it."""
    shutil.rmtree(standby.folder / "data", ignore_errors=True)
    copying = [program("pg_basebackup"), "-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres"]
    _run([*copying, "-c", "fast", "-X", "stream", "-R", "-D", str(standby.folder / "data")], primary.user)
    standby.start()


def memory_folder() -> str | None:
    """A folder in memory, where there is one with room; None for the usual place."""
    return str(MEMORY) if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM else None


def _run(command: list[str], user: str | None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd="/", user=user, group=user, extra_groups=[] if user else None
    )
    if done.returncode != 0:
        raise ServerFailed(done.stdout + done.stderr)


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_postgres(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    # By its socket, which is beside its log: at the port somebody else's server may answer.
    ready = [program("pg_isready"), "-q", "-h", str(log.parent), "-p", str(port)]
    while subprocess.run(ready).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise ServerFailed(log.read_text(errors="replace"))
        time.sleep(0.05)


USER = "blowfish"
PASSWORD = "throw-away"
DATABASE = "test"


def mariadb_program(name: str) -> str:
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
        install = [mariadb_program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        install += ["--auth-root-authentication-method=normal", *([f"--user={user}"] if user else [])]
        done = subprocess.run(install, capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise ServerFailed(done.stdout + done.stderr)
        start = folder / "start.sql"
        start.write_text(
            f"CREATE DATABASE {DATABASE}; CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1';".replace(";", ";\n"),
            encoding="ascii",
        )
        start.chmod(0o644)
        command = [mariadb_program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}"]
        command += ["--bind-address=127.0.0.1", f"--init-file={start}", f"--log-error={log}", "--skip-name-resolve"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]
        command += [f"--pid-file={folder / 'pid'}", *([f"--user={user}"] if user else [])]
        server, port = _started_mariadb(command, folder, socket, log)
        try:
            yield f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"
        finally:
            # The data is thrown away, so nothing need be saved.
            server.kill()
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started_mariadb(command: list[str], folder: Path, socket: Path, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The server, and its port: another one where somebody else took the first before the server did."""
    for is_last in (False, False, True):
        port = free_port()
        server = subprocess.Popen([*command, f"--port={port}"], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            _wait_for_mariadb(server, socket, log)
            return server, port
        except ServerFailed:
            server.kill()
            server.wait(START_SECONDS)
            if is_last:
                raise
    raise AssertionError


def _wait_for_mariadb(server: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    # By its socket: at the port somebody else's server may answer.
    ping = [mariadb_program("mariadb-admin"), "--no-defaults", f"--socket={socket}", "ping"]
    while subprocess.run(ping, capture_output=True).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise ServerFailed(log.read_text(errors="replace") if log.exists() else "no log")
        time.sleep(0.1)
