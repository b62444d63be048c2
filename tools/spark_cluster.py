"""A throw-away Spark cluster on loopback for tests and benchmarks: a master, workers, a Spark Connect server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The second compiler of the Java machine and its parallel collector pay off after minutes only."""
ON_LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DEPLOY = "org.apache.spark.deploy"
START_SECONDS = 120


@dataclass
class Cluster:
    """A master and its workers, each a process of its own on this machine."""

    address: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self) -> None:
        """Kills a worker and its executors outright."""
        worker = self.workers.pop()
        for process in [*_children(worker.pid), worker.pid]:
            os.kill(process, signal.SIGKILL)
        worker.wait()

    def kill(self) -> None:
        """Kills all of it outright."""
        while self.workers:
            self.kill_worker()
        self.master.kill()
        self.master.wait()

    def worked(self) -> float:
        """Seconds of CPU that the executors have taken so far."""
        return sum(cpu_of(executor) for worker in self.workers for executor in _children(worker.pid))


def _children(parent: int) -> list[int]:
    """The processes that any thread of the parent started: Java starts executors from threads of their own."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for children in lists for pid in children.read_text().split()]


def cpu_of(process: int) -> float:
    """Seconds of CPU that a process has taken so far."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    return sum(map(int, text.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port on loopback at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns once the process listens at the port."""
    end = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("a process of Spark does not start; it needs Java 17")
        time.sleep(0.1)


@contextmanager
def _daemon(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Java process of Spark, by the script that PySpark brings; ended with the block."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
    }
    with (folder / f"{uuid.uuid4().hex}.log").open("wb") as log:
        process = subprocess.Popen([home / "bin/spark-class", *arguments], env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


@contextmanager
def running_cluster(folder: Path, workers: int = 2, port: int | None = None) -> Iterator[Cluster]:
    """A standalone cluster of one master, at a port, and workers of one core each."""
    port = port or free_port()
    address = f"spark://127.0.0.1:{port}"
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    size = ("--cores", "1", "--memory", "600m")
    with ExitStack() as processes:
        master = processes.enter_context(
            _daemon(f"{DEPLOY}.master.Master", *common, "--port", str(port), folder=folder)
        )
        _wait_for(port, master)
        started = [
            processes.enter_context(
                _daemon(
                    f"{DEPLOY}.worker.Worker",
                    *common,
                    *size,
                    "--work-dir",
                    str(folder / f"w{number}"),
                    address,
                    folder=folder,
                )
            )
            for number in range(workers)
        ]
        yield Cluster(address, master, started)


def connect_settings(port: int) -> dict[str, str]:
    """Where a Spark Connect server listens."""
    return {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}


@contextmanager
def running_connect(
    folder: Path, master: str, port: int, settings: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark Connect server in front of the master, a process of its own."""
    fixed = {"spark.driver.memory": "512m", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    chosen = {**settings, **connect_settings(port), **fixed}
    options = [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = (f"{DEPLOY}.SparkSubmit", "--master", master, *options, "--class", service, "spark-internal")
    with _daemon(*submit, folder=folder) as process:
        _wait_for(port, process)
        yield process
