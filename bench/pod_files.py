"""A tree of 27,000 files into a pod and, with every file changed, out of it, against `kubectl cp`.

All ways take turns with the same pod: ours, `kubectl cp` into another directory of it, and tar from
one directory of this machine to another. Needs a cluster, which AGENTJOBS_TEST_CLUSTER may name.
"""

import asyncio
import contextlib
import dataclasses
import functools
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import NoneType
from typing import Any

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.connection import Supervisor, connect
from agentjobs_kubernetes.credentials import new_credentials
from agentjobs_kubernetes.download import TransferLimits, download_changes
from agentjobs_kubernetes.idle_task import idle_task
from agentjobs_kubernetes.pods import PodRequest, pod_name
from agentjobs_kubernetes.stream import ConnectionLost
from agentjobs_kubernetes.upload import upload_tree
from agentjobs_runtime.sandboxes.limits import Limits
from bench.report import verdict
from tests.kubernetes.cluster import Cluster as TestCluster

FILES = 27_000
DIRECTORIES = 1_500
ROUNDS = 3
GOAL_RATIO = 2.0
NAMESPACE = "bench-agents"
IMAGE = "localhost/agentjobs-agent:test"
_COPY = "/run/agentjobs/copy"
# Appends a byte to every file of both trees.
_APPEND = 'for file; do echo >> "$file"; done'
_CHANGE = f"find /workspace {_COPY} -type f -exec sh -c '{_APPEND}' sh {{}} +"
_TAR = 'mkdir "$2" && tar -c -C "$1" . | tar -x -C "$2"'
_CONNECT_SECONDS = 60

Times = dict[str, list[float]]


class _Silence:
    """Output of the command that nobody reads."""

    offset = 0
    may_skip = False

    def receive(self, data: bytes) -> None:
        self.offset += len(data)


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        running = os.environ.get("AGENTJOBS_TEST_CLUSTER")
        cluster = TestCluster(Path(running)) if running else stack.enter_context(TestCluster())
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        cluster.kubectl("create", "namespace", NAMESPACE)
        stack.callback(cluster.kubectl, "delete", "namespace", NAMESPACE, "--wait=false")
        write_tree(directory / "tree")
        return asyncio.run(_measure(cluster, directory))


async def _measure(test_cluster: TestCluster, directory: Path) -> list[dict[str, Any]]:
    settings = ClusterSettings(
        worker="bench", namespace=NAMESPACE, image=IMAGE, image_pull_policy="IfNotPresent"
    )
    times: Times = defaultdict(list)
    async with Cluster.from_settings(settings) as cluster:
        for _ in range(ROUNDS):
            async with _pod(cluster) as (name, supervisor):
                await _round(test_cluster, directory, name, supervisor, times)
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    return [_figure(direction, medians) for direction in ("in", "out")]


async def _round(
    cluster: TestCluster, directory: Path, name: str, supervisor: Supervisor, times: Times
) -> None:
    tree, received, copied = (directory / each for each in ("tree", "received", "copied"))
    inside = f"{NAMESPACE}/{name}:{_COPY}"
    # What comes back replaces files that exist, as it does in a checkout.
    for path in (copied, received):
        shutil.rmtree(path, ignore_errors=True)
        with _timed(times, "tar"):
            await _run("sh", "-c", _TAR, "sh", tree, path)
    with _timed(times, "ours in"):
        send = functools.partial(upload_tree, source=tree)
        await supervisor.upload(send, "upload", path="/workspace", track=True)
    with _timed(times, "kubectl in"):
        await asyncio.to_thread(cluster.kubectl, "cp", str(tree), inside)
    await _change_files(supervisor)
    with _timed(times, "ours out"):
        limits = TransferLimits.of(Limits())
        async with supervisor.open("download", path="/workspace") as changes:
            result = await download_changes(changes, received, limits)
    assert result.entries == FILES, result
    with _timed(times, "kubectl out"):
        await asyncio.to_thread(cluster.kubectl, "cp", inside, str(copied))
    assert _count_changed(tree, received) == FILES


async def _change_files(supervisor: Supervisor) -> None:
    command = {"type": "prepare", "argv": ["sh", "-c", _CHANGE], "directory": "/workspace"}
    environment = {"environment": {"PATH": "/usr/bin:/bin"}, "ports": [], "limits": {}}
    await supervisor.request({**command, **environment, "seccomp": None}, NoneType)
    await supervisor.request({"type": "start"}, NoneType)
    assert (await supervisor.ended).exit_code == 0


@contextlib.asynccontextmanager
async def _pod(cluster: Cluster) -> AsyncIterator[tuple[str, Supervisor]]:
    credentials = new_credentials()
    request = PodRequest(
        name=pod_name("bench"),
        supervisor=credentials.supervisor_variable(600, ["/workspace"]),
        task=dataclasses.replace(idle_task("bench", 3600), limits=Limits()),
    )
    name = await cluster.create_pod(request)
    try:
        address = ""
        async for state in cluster.watch_pod(name):
            if state.failure is not None:
                raise state.failure
            if address := state.ip:
                break
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                supervisor = await connect(address, credentials, _Silence(), lambda _: None, 60)
                break
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
        yield name, supervisor
        supervisor.close()
    finally:
        await cluster.delete_pod(name)


def _figure(direction: str, medians: dict[str, float]) -> dict[str, Any]:
    ours, kubectl = medians[f"ours {direction}"], medians[f"kubectl {direction}"]
    return {
        "direction": direction,
        "rounds": ROUNDS,
        "files": FILES,
        "s": round(ours, 2),
        "kubectl cp s": round(kubectl, 2),
        "tar | tar s": round(medians["tar"], 2),
        "ratio": round(ours / kubectl, 2),
        "goal ratio": GOAL_RATIO,
        "verdict": verdict(met=ours <= GOAL_RATIO * kubectl),
    }


@contextlib.contextmanager
def _timed(times: Times, way: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    times[way].append(time.perf_counter() - started)


def _count_changed(before: Path, after: Path) -> int:
    files = (path for path in before.rglob("*") if path.is_file())
    return sum(
        (after / path.relative_to(before)).read_bytes() == path.read_bytes() + b"\n"
        for path in files
    )


async def _run(*command: str | Path) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True)


def write_tree(root: Path) -> None:
    """About 200 MB, as the files of a repository: most are small."""
    choose = random.Random(1)
    content = choose.randbytes(1024**2)
    root.mkdir()
    directories = [root]
    while len(directories) < DIRECTORIES:
        directory = choose.choice(directories[-400:]) / f"directory_{len(directories)}"
        if len(directory.relative_to(root).parts) < 10:
            directory.mkdir()
            directories.append(directory)
    for number in range(FILES):
        size = int(min(50_000, max(100, choose.lognormvariate(8.3, 1.2))))
        start = choose.randrange(len(content) - size)
        path = choose.choice(directories) / f"source_file_{number}.py"
        path.write_bytes(content[start : start + size])
