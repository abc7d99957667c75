"""The start of a command in a warm environment, against one without, in alternation.

The environment has an image, and snapshots of the home directory and of the workspace with 2 GB in
60,000 files, which belong to another slot. A start lasts from the call of the sandbox to the first
output of a shell. Without an environment, the sandbox shows the system of the machine. Neither
sandbox is created ahead.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentjobs_runtime.sandboxes.directories import HOME, ROOT, WORKSPACE
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import Layer
from bench.report import verdict
from tests.support.image_roots import create_image, give_image
from tests.support.sandbox import SandboxHarness, give, unused_uid_base

STARTS = 100
WARM_UP_STARTS = 10
FILES = 60_000
FILE_BYTES = 35_000
GOAL_MS = 40.0
_FILES_PER_DIRECTORY = 100
_BUILDER = 5


def measure() -> list[dict[str, Any]]:
    return asyncio.run(_measure())


async def _measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="agentjobs-bench-") as directory:
        bench = _Bench(Path(directory))
        without, within = [], []
        for _ in range(WARM_UP_STARTS + STARTS):
            without.append(await bench.start(()))
            within.append(await bench.start(bench.new_layers()))
    return [_figure(without[WARM_UP_STARTS:], within[WARM_UP_STARTS:])]


class _Bench:
    def __init__(self, directory: Path) -> None:
        self._harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), directory)
        owner = self._harness.sandbox.owner_uid(_BUILDER)
        image = create_image(directory / "image")
        give_image(image, owner)
        self._lowers = {
            ROOT: image,
            HOME: _create_snapshot(directory / "home", owner),
            WORKSPACE: _create_snapshot(directory / "workspace", owner),
        }

    def new_layers(self) -> tuple[Layer, ...]:
        layers = self._lowers.items()
        return tuple(self._harness.layer(inside, lower, _BUILDER) for inside, lower in layers)

    async def start(self, layers: Sequence[Layer]) -> float:
        """Milliseconds."""
        outputs: list[float] = []
        task = self._harness.task("echo", "started", layers=tuple(layers))
        called_at = time.perf_counter()
        report = await self._harness.sandbox.run(
            task, lambda _chunk: outputs.append(time.perf_counter())
        )
        if report.exit_code != 0:
            raise RuntimeError(report.last_lines)
        return (outputs[0] - called_at) * 1000


def _create_snapshot(directory: Path, owner: int | None) -> Path:
    directory.mkdir()
    give(directory, owner)
    for number in range(FILES // 2):
        parent = directory / str(number // _FILES_PER_DIRECTORY)
        if number % _FILES_PER_DIRECTORY == 0:
            parent.mkdir()
            give(parent, owner)
        path = parent / f"module-{number}.js"
        path.write_bytes(os.urandom(FILE_BYTES))
        give(path, owner)
    return directory


def _figure(without: Sequence[float], within: Sequence[float]) -> dict[str, Any]:
    more = statistics.median(within) - statistics.median(without)
    return {
        "starts": len(within),
        "without p50 ms": round(statistics.median(without), 1),
        "without p95 ms": round(statistics.quantiles(without, n=20)[18], 1),
        "environment p50 ms": round(statistics.median(within), 1),
        "environment p95 ms": round(statistics.quantiles(within, n=20)[18], 1),
        "more p50 ms": round(more, 1),
        "goal more p50 ms": GOAL_MS,
        "verdict": verdict(met=more <= GOAL_MS),
    }
