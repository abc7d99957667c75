"""What the suites of the sandbox share: a prepared task, collected output, processes by a mark."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentjobs.sandbox.protocol import Sandbox, SandboxReport, SandboxTask


class Room:
    """A workspace and a run directory below a directory that only its owner may enter."""

    def __init__(self, sandbox: Sandbox, base: Path, slot: int = 0) -> None:
        self.sandbox = sandbox
        self.slot = slot
        self.output = b""
        self.private = base / f"private-{slot}"
        self.workspace = self.private / "workspace"
        self.run_dir = self.private / "run"
        self.report_dir = self.run_dir / "report"
        self.private.mkdir(mode=0o700)
        self.workspace.mkdir(mode=0o700)
        self.report_dir.mkdir(parents=True, mode=0o700)
        (self.run_dir / "job.json").write_text('{"job_id": "job_1"}')
        owner = sandbox.owner_uid(slot)
        if owner is not None:
            os.chown(self.workspace, owner, owner)
            os.chown(self.report_dir, owner, owner)

    def task(self, *argv: str, **changes: Any) -> SandboxTask:
        fields: dict[str, Any] = {
            "argv": argv,
            "environment": {},
            "workspace": self.workspace,
            "run_dir": self.run_dir,
            "timeout_seconds": 30,
            "slot": self.slot,
        }
        return SandboxTask(**{**fields, **changes})

    async def run(self, *argv: str, **changes: Any) -> SandboxReport:
        return await self.sandbox.run(self.task(*argv, **changes), self.receive)

    async def shell(self, script: str, **changes: Any) -> SandboxReport:
        return await self.run("sh", "-c", script, **changes)

    def start(self, script: str, **changes: Any) -> asyncio.Task[SandboxReport]:
        return asyncio.ensure_future(self.shell(script, **changes))

    def receive(self, chunk: bytes) -> None:
        self.output += chunk

    async def heard(self, words: bytes) -> None:
        await eventually(lambda: words in self.output)


class Mark:
    """A word for a command line, by which a test finds all processes that carry it."""

    def __init__(self) -> None:
        self.word = f"mark-{secrets.token_hex(8)}"

    def sleeper(self) -> str:
        """A command that lives on for long; `sh -c` keeps the mark in its arguments."""
        return f"sh -c 'while :; do sleep 1000; done' {self.word}"

    def processes(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if self.word.encode() in command:
                    found.append(int(entry.name))
        return found


async def eventually(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)
