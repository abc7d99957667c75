"""Unpacking an image of 300 MB and 20,000 files, against umoci and tar on the same layers.

All ways take turns. Ours is a fetch whose layers are already downloaded: it reads the manifest from
a registry on loopback, unpacks in a sandbox, normalizes modes and measures the size. The others
have the priority of a sandbox, so that a busy machine slows all of them down alike.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentjobs_worker.sandbox.priority import NICE_INCREMENT
from bench.report import verdict
from tests.support.image_registry import ImageRegistry
from tests.support.images import MIB, ImagesHarness
from tests.support.oci_images import Entry, ImageLayout, busybox_layer, layer, make_image

FILES = 20_000
FILE_BYTES = 15_000
LAYERS = 4
ROUNDS = 3
GOAL_RATIO = 0.5
_FILES_PER_DIRECTORY = 50


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        return asyncio.run(_measure(Path(directory)))


async def _measure(directory: Path) -> list[dict[str, Any]]:
    image = make_image(directory / "image", [busybox_layer(), *map(_layer, range(LAYERS))])
    registry = ImageRegistry(directory / "registry")
    try:
        image.push(registry.address, "bench/image:1")
        harness = ImagesHarness(directory / "environments", [registry.name], max_bytes=10_240 * MIB)
        reference = f"{registry.name}/bench/image:1"
        first = await harness.fetch(reference)

        async def ours() -> float:
            await harness.images.remove(first.digest)
            started = time.perf_counter()
            await harness.fetch(reference)
            return time.perf_counter() - started

        target = directory / "unpacked"
        umoci = ("umoci", "raw", "unpack", "--rootless", "--image", f"{image.path}:image", target)
        ways: dict[str, Callable[[], Awaitable[float]]] = {
            "agentjobs": ours,
            "umoci raw unpack": lambda: _run(umoci, target),
            "umoci unpack": lambda: _run(("umoci", *umoci[2:]), target),
            "tar": lambda: _run(("sh", "-c", _tar_script(image, target)), target),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, unpack in ways.items():
                taken[way].append(await unpack())
        harness.session.close()
    finally:
        registry.stop()
    return _figures(taken)


def _layer(number: int) -> bytes:
    """Half of each file can be compressed."""
    entries = []
    for at in range(FILES // LAYERS):
        name = f"layer-{number}/{at // _FILES_PER_DIRECTORY}/module-{at}.py"
        content = os.urandom(FILE_BYTES // 4).hex().encode() + bytes(FILE_BYTES // 2)
        entries.append(Entry(name, content=content))
    return layer(*entries)


def _tar_script(image: ImageLayout, target: Path) -> str:
    commands = [f"tar -xzf {image.blob(digest)} -C {target}" for digest in image.layers]
    return " && ".join([f"mkdir {target}", *commands])


async def _run(command: tuple[Any, ...], target: Path) -> float:
    # Where the kernel shares CPU time among sessions, that of a sandbox has the priority too.
    script = f'echo {NICE_INCREMENT} 2>/dev/null >/proc/self/autogroup; exec nice "$@"'
    arguments = ["sh", "-c", script, "sh", *map(str, command)]
    started = time.perf_counter()
    await asyncio.to_thread(
        subprocess.run, arguments, check=True, capture_output=True, start_new_session=True
    )
    taken = time.perf_counter() - started
    await asyncio.to_thread(shutil.rmtree, target)
    return taken


def _figures(taken: dict[str, list[float]]) -> list[dict[str, Any]]:
    ours = statistics.median(taken["agentjobs"])
    rows = []
    for way, seconds in taken.items():
        ratio = statistics.median(seconds) / ours
        has_goal = way.startswith("umoci")
        rows.append(
            {
                "way": way,
                "seconds": round(statistics.median(seconds), 2),
                "slowest": round(max(seconds), 2),
                "ratio": round(ratio, 2),
                "goal": GOAL_RATIO if has_goal else "",
                "verdict": verdict(met=ratio >= GOAL_RATIO) if has_goal else "",
            }
        )
    return rows
