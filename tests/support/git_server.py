"""The web half on a real socket inside the test's own event loop, for real git clients."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.types import Receive, Scope, Send

from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from agentjobs.web.server import bind, server_for
from agentjobs_worker.agents.catalog import Catalog
from tests.support.git_commands import GitResult, run_git_command
from tests.support.local_repository import Platform


@dataclass
class GitServer:
    platform: Platform
    url: str
    directory: Path
    request_headers: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request so far."""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def repository(self, token: str = "", name: str = "acme/acme/shop") -> str:
        user = f"me:{token}@" if token else ""
        return f"http://{user}{self.url.removeprefix('http://')}/git/{name}.git"

    async def git(self, *arguments: str, cwd: Path | None = None) -> GitResult:
        return await run_git_command(*arguments, cwd=cwd or self.directory)

    async def clone(self, token: str, directory: str = "clone", *options: str) -> Path:
        ran = await self.git("clone", "-q", *options, self.repository(token), directory)
        assert ran.exit_code == 0, ran.output
        return self.directory / directory


@asynccontextmanager
async def serving(platform: Platform, directory: Path) -> AsyncIterator[GitServer]:
    settings = platform.settings
    jobs = JobsContext(platform.db, settings, Catalog([]))
    context = WebContext(jobs, ApiKeyAuthenticator(platform.db))
    listener = bind("127.0.0.1", 0)
    application = build_application(context)
    request_headers: list[dict[str, str]] = []

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        request_headers.append(
            {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}
        )
        await application(scope, receive, send)

    server = server_for(watched)
    serving_task = asyncio.create_task(server.serve(sockets=[listener]))
    host, port = listener.getsockname()
    try:
        yield GitServer(platform, f"http://{host}:{port}", directory, request_headers)
    finally:
        server.stop()
        server.force_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving_task
        listener.close()


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for a condition without an event, such as the end of a process."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event for the end of another process
            await asyncio.sleep(0.01)


def running_backends() -> list[int]:
    """The git processes that serve a request of this test process right now."""
    pids = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            environment = (directory / "environ").read_bytes()
            parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
            is_ours = int(parent) == os.getpid()
            if is_ours and b"GIT_PROJECT_ROOT=" in environment:
                pids.append(int(directory.name))
    return pids
