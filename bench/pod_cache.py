"""A pod with a large layer, from the cache volume and from the worker, over links of some speeds.

From the call of the sandbox to the first output of `echo`, and the CPU time of the worker, which
depends less on what else the machine does. All ways take turns; the volume is a directory of the
node. Needs root and a cluster, which AGENTJOBS_TEST_CLUSTER may name.
"""

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from agentjobs_kubernetes.layer_cache import record_path
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_runtime.sandboxes.directories import HOME
from bench.pod_files import write_tree
from bench.report import verdict
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.volumes import claimed_directory
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness, eventually

ROUNDS = 3
GOAL_RATIO = 1.5
LAYER_BYTES = 500_000_000
# Of tc; empty: as fast as the machine is.
LINKS = ("", "1gbit", "200mbit")
CLAIM = "cache"
_STORE_SECONDS = 600
_numbers = itertools.count()

# By layer, link and way: the seconds until the first output, and those of the worker's CPU.
Times = dict[tuple[str, str, str], list[tuple[float, float]]]


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        directory = Path(temporary)
        running = os.environ.get("AGENTJOBS_TEST_CLUSTER")
        cluster = Cluster(Path(running)) if running else stack.enter_context(Cluster())
        # Pods are not root, and have to enter it.
        directory.chmod(0o755)
        layers = {"27,000 files, 200 MB": directory / "tree", "500 MB": directory / "layer"}
        write_tree(layers["27,000 files, 200 MB"])
        _write_layer(layers["500 MB"])
        times = asyncio.run(_measure(cluster, directory, layers))
    return [_figure(times, name, link) for name in layers for link in LINKS]


async def _measure(cluster: Cluster, directory: Path, layers: dict[str, Path]) -> Times:
    times: Times = defaultdict(list)
    async with _sandboxes(cluster, directory) as (sending, caching):
        for lower in layers.values():
            await _first_output(caching, directory, lower)
            await eventually(record_path(lower).exists, _STORE_SECONDS)
        for _, (name, lower), link in itertools.product(range(ROUNDS), layers.items(), LINKS):
            for way, sandbox in (("sent", sending), ("cached", caching)):
                with _limited_link(cluster, link):
                    times[name, link, way].append(await _first_output(sandbox, directory, lower))
    return times


@contextlib.asynccontextmanager
async def _sandboxes(
    cluster: Cluster, directory: Path
) -> AsyncIterator[tuple[KubernetesSandbox, KubernetesSandbox]]:
    volume = directory / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    async with (
        pod_sandbox(cluster.kubeconfig) as sending,
        pod_sandbox(cluster.kubeconfig, cache_claim=CLAIM) as caching,
    ):
        with claimed_directory(cluster, caching.cluster.settings.namespace, CLAIM, volume):
            yield sending, caching


async def _first_output(
    sandbox: KubernetesSandbox, directory: Path, lower: Path
) -> tuple[float, float]:
    harness = SandboxHarness(sandbox, directory, next(_numbers))
    task = harness.task("echo", "first", layers=(harness.layer(HOME, lower),))
    first: list[float] = []
    started, cpu_seconds = time.perf_counter(), _cpu_seconds()
    await sandbox.run(task, lambda _: first.append(time.perf_counter()))
    return first[0] - started, _cpu_seconds() - cpu_seconds


def _cpu_seconds() -> float:
    """Of this process and of the programs that it has waited for."""
    return sum(os.times()[:4])


@contextlib.contextmanager
def _limited_link(cluster: Cluster, rate: str) -> Iterator[None]:
    """Between the worker and the node; the volume is on the node."""
    if not rate:
        yield
        return
    queue = ("tc", "qdisc", "{}", "dev", cluster.addresses.link, "root")
    limit = ("tbf", "rate", rate, "burst", "512kb", "latency", "100ms")
    subprocess.run([part.format("replace") for part in (*queue, *limit)], check=True)
    try:
        yield
    finally:
        subprocess.run([part.format("delete") for part in queue], check=True)


def _figure(times: Times, name: str, link: str) -> dict[str, Any]:
    sent, cached = (
        [statistics.median(taken) for taken in zip(*times[name, link, way], strict=True)]
        for way in ("sent", "cached")
    )
    return {
        "layer": name,
        "link": link or "unlimited",
        "rounds": ROUNDS,
        "sent s": round(sent[0], 2),
        "cached s": round(cached[0], 2),
        "ratio": round(sent[0] / cached[0], 2),
        "goal ratio": GOAL_RATIO,
        "worker's CPU s, sent": round(sent[1], 2),
        "worker's CPU s, cached": round(cached[1], 2),
        "verdict": verdict(met=sent[0] >= GOAL_RATIO * cached[0]),
    }


def _write_layer(root: Path) -> None:
    """As installed packages: 13,000 files, most of them small."""
    choose = random.Random(2)
    content = choose.randbytes(4 * 1024**2)
    written = 0
    for number in itertools.count():
        if written >= LAYER_BYTES:
            return
        directory = root / f"package_{number % 900}" / f"library_{number % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        size = int(min(2_000_000, max(200, choose.lognormvariate(9.6, 1.4))))
        start = choose.randrange(len(content) - size)
        (directory / f"module_{number}.js").write_bytes(content[start : start + size])
        written += size
