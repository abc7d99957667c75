"""From the call of the sandbox to the first output of a command in a pod, against bare pods.

Three ways take turns with the same image, which the node has: ours, with the limits of an agent and
everything that isolates it; a pod without any of that, whose log is read as soon as there is one;
and `kubectl run --attach`. Needs a cluster, which AGENTJOBS_TEST_CLUSTER may name.
"""

import asyncio
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from bench.report import verdict
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.sandbox import SandboxHarness

ROUNDS = 15
WARM_UP = 2
GOAL_RATIO = 1.3
_POLL_SECONDS = 0.02


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = os.environ.get("AGENTJOBS_TEST_CLUSTER")
        cluster = Cluster(Path(running)) if running else stack.enter_context(Cluster())
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        api = ApiClient(cluster.kubeconfig)
        stack.callback(api.close)
        times = asyncio.run(_measure(cluster, api, directory))
    ours = statistics.median(times["ours"])
    return [_figure(way, ours, times[way]) for way in ("ours", "bare pod", "kubectl run")]


async def _measure(cluster: Cluster, api: ApiClient, directory: Path) -> dict[str, list[float]]:
    settings = ClusterSettings(
        worker="bench", namespace=api.namespace, image=AGENT_IMAGE, user_namespaces="off"
    )
    sandbox = KubernetesSandbox(settings, directory / "sandbox")
    times: dict[str, list[float]] = defaultdict(list)
    try:
        for number in range(WARM_UP + ROUNDS):
            taken = {
                "ours": await _start_ours(sandbox, directory, number),
                "bare pod": await asyncio.to_thread(_start_bare, api, f"bare-{number}"),
                "kubectl run": await asyncio.to_thread(_run_kubectl, cluster, api, f"run-{number}"),
            }
            for way, seconds in taken.items() if number >= WARM_UP else ():
                times[way].append(seconds)
    finally:
        await sandbox.close()
    return times


async def _start_ours(sandbox: KubernetesSandbox, directory: Path, number: int) -> float:
    harness = SandboxHarness(sandbox, directory, number)
    first: list[float] = []
    task = harness.task("echo", "first")
    started = time.perf_counter()
    await sandbox.run(task, lambda _: first.append(time.perf_counter()))
    return first[0] - started


def _start_bare(api: ApiClient, name: str) -> float:
    started = time.perf_counter()
    api.create_pod("echo", "first", name=name)
    while not _log(api, name):
        time.sleep(_POLL_SECONDS)
    taken = time.perf_counter() - started
    api.delete(f"{api.pods}/{name}", gracePeriodSeconds=0)
    return taken


def _log(api: ApiClient, name: str) -> bytes:
    response = api.http.get(f"{api.pods}/{name}/log")
    return response.content if response.is_success else b""


def _run_kubectl(cluster: Cluster, api: ApiClient, name: str) -> float:
    kubectl = [str(cluster.directory / "bin" / "kubectl"), f"--namespace={api.namespace}"]
    options = (f"--image={AGENT_IMAGE}", "--restart=Never", "--attach", "--quiet", "--rm")
    started = time.perf_counter()
    with subprocess.Popen(
        [*kubectl, "run", name, *options, "--command", "--", "echo", "first"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return time.perf_counter() - started


def _figure(way: str, ours: float, times: list[float]) -> dict[str, Any]:
    median = statistics.median(times)
    ratio = ours / median
    return {
        "way": way,
        "rounds": ROUNDS,
        "s": round(median, 2),
        "max s": round(max(times), 2),
        "ours / it": round(ratio, 2),
        "goal ratio": GOAL_RATIO,
        "verdict": verdict(met=ratio <= GOAL_RATIO),
    }
