"""A small Spark for tests, local or as a cluster of processes: loopback only, no pages, few partitions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Compiling each small statement takes longer than running it; a test switches it on for some.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.driver.memory": "1g",
    # The second compiler of the Java machine and its parallel collector pay off after minutes only.
    "spark.driver.extraJavaOptions": QUICK,
}


ON_A_CLUSTER = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    # One for each worker, or a test would kill the one that has nothing to do.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


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

    def worked(self) -> float:
        """Seconds of CPU that the executors have taken so far."""
        executors = [pid for worker in self.workers for pid in _children(worker.pid)]
        times = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in executors]
        return sum(int(ticks) for both in times for ticks in both) / os.sysconf("SC_CLK_TCK")


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@contextmanager
def daemon(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, seconds: float = 120) -> None:
    """Returns once somebody listens at the port."""
    end = time.monotonic() + seconds
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, "nobody listens"
        time.sleep(0.1)


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A standalone cluster of one master and workers of one core each."""
    port, deploy = free_port(), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as processes:
        master = processes.enter_context(daemon(f"{deploy}.master.Master", *common, "--port", str(port), folder=folder))
        wait_for(port)
        size = ("--cores", "1", "--memory", "600m")
        started = [
            processes.enter_context(
                daemon(
                    f"{deploy}.worker.Worker",
                    *common,
                    *size,
                    "--work-dir",
                    str(folder / f"w{n}"),
                    address,
                    folder=folder,
                )
            )
            for n in range(workers)
        ]
        yield Cluster(address, master, started)


def connect_settings(port: int) -> dict[str, str]:
    """Where a Spark Connect server listens."""
    return {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}


@contextmanager
def running_connect(
    folder: Path, master: str, port: int, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark Connect server in front of the master, a process of its own."""
    chosen = {
        **SETTINGS,
        **settings,
        **connect_settings(port),
        "spark.driver.memory": "512m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = ("org.apache.spark.deploy.SparkSubmit", "--master", master, *options, "--class", service, "spark-internal")
    with daemon(*submit, folder=folder) as process:
        wait_for(port)
        yield process


@contextmanager
def running_spark(
    folder: Path, master: str = "local[2]", settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session that is active within the block."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Python's own warnings about sockets of the gateway are none of ours.
        warnings.simplefilter("ignore", ResourceWarning)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()
