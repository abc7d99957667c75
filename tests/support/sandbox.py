"""A harness for sandbox tests: a prepared task, its output, and processes found by a marker."""

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from agentjobs_runtime.sandboxes.directories import HOME, WORKSPACE
from agentjobs_worker.sandbox.protocol import Layer, Sandbox, SandboxReport, SandboxTask

_uid_ranges = itertools.count()


def unused_uid_base() -> int:
    """Ten user ids of this test process only: process limits count all processes of a user id."""
    return 1_000_000 + 500 * os.getpid() + 10 * next(_uid_ranges)


class SandboxHarness:
    """A sandbox with a workspace and a run directory below a private directory."""

    def __init__(self, sandbox: Sandbox, base: Path, slot: int = 0) -> None:
        self.sandbox = sandbox
        self.slot = slot
        self.output = b""
        self.layers: tuple[Layer, ...] = ()
        self.private = base / f"private-{slot}"
        self.workspace = self.private / "workspace"
        self.run_dir = self.private / "run"
        self.report_dir = self.run_dir / "report"
        self.private.mkdir(mode=0o700)
        self.workspace.mkdir(mode=0o700)
        self.artifacts_dir = self.run_dir / "artifacts"
        self.report_dir.mkdir(parents=True, mode=0o700)
        self.artifacts_dir.mkdir(mode=0o700)
        (self.run_dir / "job.json").write_text('{"job_id": "job_1"}')
        owner = sandbox.owner_uid(slot)
        give(self.workspace, owner)
        give(self.report_dir, owner)
        give(self.artifacts_dir, owner)

    def task(self, *argv: str, **changes: Any) -> SandboxTask:
        fields: dict[str, Any] = {
            "argv": argv,
            "environment": {},
            "workspace": self.workspace,
            "run_dir": self.run_dir,
            # Agents are niced, so a busy machine gives them little time.
            "timeout_seconds": 300,
            "slot": self.slot,
            "layers": self.layers,
        }
        return SandboxTask(**{**fields, **changes})

    def layer(self, inside: PurePosixPath, lower: Path, owner_slot: int | None = None) -> Layer:
        """Over a directory that belongs to that slot, with a new upper one or the workspace."""
        upper = self.workspace
        if inside != WORKSPACE:
            upper = self.private / f"upper-{secrets.token_hex(4)}"
            upper.mkdir(mode=0o700)
            give(upper, self.sandbox.owner_uid(self.slot))
        lower_uid = None if owner_slot is None else self.sandbox.owner_uid(owner_slot)
        return Layer(inside=inside, lower=lower, upper=upper, lower_uid=lower_uid)

    def snapshot(self, files: dict[str, str], slot: int) -> Path:
        """A directory as another slot left it: only its owner can read it."""
        lower = self.private / f"lower-{secrets.token_hex(4)}"
        lower.mkdir(mode=0o700)
        for name, content in files.items():
            path = lower / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        for path in (lower, *lower.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
            give(path, self.sandbox.owner_uid(slot))
        return lower

    def use_layers(self) -> None:
        """For the home directory and the workspace of every task."""
        self.layers = tuple(
            self.layer(inside, self.snapshot({"kept": "from the snapshot"}, slot=5), owner_slot=5)
            for inside in (HOME, WORKSPACE)
        )

    async def run(self, *argv: str, **changes: Any) -> SandboxReport:
        return await self.sandbox.run(self.task(*argv, **changes), self.receive)

    async def shell(self, script: str, **changes: Any) -> SandboxReport:
        return await self.run("sh", "-c", script, **changes)

    def start(self, script: str, **changes: Any) -> asyncio.Task[SandboxReport]:
        return asyncio.ensure_future(self.shell(script, **changes))

    async def close(self) -> None:
        """End what the sandbox keeps between runs, such as connections to a cluster."""
        if (close := getattr(self.sandbox, "close", None)) is not None:
            await close()

    def receive(self, chunk: bytes) -> None:
        self.output += chunk

    async def wait_for_output(self, text: bytes) -> None:
        # A pod of a busy cluster takes a while.
        await eventually(lambda: text in self.output, 60)


def give(path: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)


class ProcessMarker:
    """A unique argument by which a test finds all processes that have it."""

    def __init__(self) -> None:
        self.text = f"marker-{secrets.token_hex(8)}"

    def sleeper(self) -> str:
        """A command that does not end; `sh -c` keeps the marker in its arguments."""
        return f"sh -c 'while :; do sleep 1000; done' {self.text}"

    def processes(self) -> list[int]:
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if self.text.encode() in command:
                    pids.append(int(entry.name))
        return pids


def processes_with(workspace: Path) -> list[int]:
    """The processes that see this workspace in a sandbox."""
    mounted = "/".join(workspace.parts[-3:]) + " /workspace "
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mounted in (entry / "mountinfo").read_text():
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids


async def eventually(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)
