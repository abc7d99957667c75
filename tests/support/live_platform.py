"""A contract server in its own thread, with a repository that has commits. Tests push and comment
on it, and it sends hooks as the platform does."""

import asyncio
import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
from aiohttp import web

from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.forge_servers.state import CommentRow, IssueRow, PullRow, RepositoryRow
from tests.support.git_commands import git_output
from tests.support.platform_hooks import Delivery, delivery
from tests.support.service import Service, wait_until

KINDS = ("github-app", "gitlab", "gitea")
WRITER, REVIEWER, READER = "ada", "grace", "rea"

_SERVERS: dict[str, type[ContractServer]] = {
    "github": GitHubServer,
    "gitlab": GitLabServer,
    "gitea": GiteaServer,
}
# GitLab has groups in groups.
_SHOPS = {"github-app": "acme/shop", "gitlab": "acme/tools/shop", "gitea": "forest/shop"}
_CREATES = {
    "github": "POST /repos/{owner}/{repo}/pulls",
    "gitlab": "POST /projects/{id}/merge_requests",
    "gitea": "POST /repos/{owner}/{repo}/pulls",
}
_NO_BRANCHES_OF_OURS = """#!/bin/sh
case "$1" in refs/heads/agentjobs/*) echo "error: GH013: a rule protects $1" >&2; exit 1;; esac
"""
_LISTS_COMMENTS = re.compile(r"GET (?!.*/reviews/).*/(comments|notes)")
_WAIT_SECONDS = 30.0
Result = TypeVar("Result")


@dataclass
class LivePlatform:
    """`shop` is its repository; `command_lines` are those of all processes during requests."""

    kind: str
    server: ContractServer = field(repr=False)
    shop: RepositoryRow = field(repr=False)
    hook_url: str = ""
    hook_secret: str = ""
    command_lines: set[str] = field(default_factory=set, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)

    @classmethod
    def create(cls, kind: str, directory: Path, files: dict[str, str | bytes]) -> Self:
        server = _SERVERS[kind.partition("-")[0]](directory / kind)
        roles = {WRITER: "write", REVIEWER: "write", READER: "read"}
        for login in roles:
            server.state.add_user(login)
        if isinstance(server, GitHubServer):
            server.app.permissions["checks"] = "write"
        return cls(kind, server, server.add_repository(_SHOPS[kind], files, roles=roles))

    @property
    def platform(self) -> str:
        return self.server.platform

    @property
    def creates(self) -> str:
        """The operation that opens a pull request, for ordering faults."""
        return _CREATES[self.platform]

    @property
    def credential(self) -> str:
        is_app = isinstance(self.server, GitHubServer)
        return self.server.app.private_key if is_app else self.server.token  # type: ignore[attr-defined]

    @property
    def secrets(self) -> set[str]:
        """Everything that must not leak, as it appears in files, rows and requests."""
        if not isinstance(self.server, GitHubServer):
            return {self.server.token, self.hook_secret}
        # Each line of a key identifies it.
        key = [line for line in self.credential.splitlines() if not line.startswith("-----")]
        return {*key[:3], *self.server.app.tokens, self.hook_secret}

    # Joining a service

    def connect(self, service: Service, org: str = "default") -> None:
        """Connect the platform and its repository with the command line."""
        added = self.add_to(service, "--org", org)
        self.hook_url, self.hook_secret = added["hook_url"], added["hook_secret"]
        service.admin("platforms", "connect", self.platform, self.shop.full_name, "--org", org)

    def add_to(self, service: Service, *options: str) -> dict[str, Any]:
        if isinstance(self.server, GitHubServer):
            app = self.server.app
            numbers = ("--app-id", str(app.id), "--installation-id", str(app.installation_id))
            options = (*options, *numbers, "--private-key-file", "-")
        command = ("platforms", "add", self.platform, "--url", self.server.url, "--json")
        added: dict[str, Any] = json.loads(service.admin(*command, *options, typed=self.credential))
        return added

    # Actions of people on the platform

    def push(self, files: dict[str, str | bytes], repository: RepositoryRow | None = None) -> str:
        """Push to the default branch as a developer; returns the commit."""
        row = repository or self.shop
        return self.server.git.commit(row, row.default_branch, files)

    def comment(self, number: int, author: str, text: str) -> CommentRow:
        pull = self.pull(number)
        return self._do(lambda: self.server.state.add_comment(pull, author, text))

    def comment_on_line(self, number: int, author: str, text: str, path: str, line: int) -> None:
        pull, state = self.pull(number), self.server.state
        self._do(lambda: state.add_line(state.add_review(pull, author), text, path, line=line))

    def mark_ready(self, number: int) -> None:
        pull = self.pull(number)
        # On Gitea, the title marks a draft.
        ready = {"title": pull.title.removeprefix("WIP: "), "is_draft": False}
        self._do(lambda: vars(pull).update(ready))

    def merge(self, number: int) -> None:
        self._end(number, is_merged=True)

    def close(self, number: int) -> None:
        self._end(number, is_merged=False)

    def rename(self, repository: RepositoryRow, full_name: str) -> None:
        self._do(lambda: self.server.state.rename(repository, full_name))

    def delete(self, repository: RepositoryRow) -> None:
        self._do(lambda: self.server.state.repositories.pop(repository.id))

    def open_issue(self, number: int, title: str, text: str, *labels: str) -> IssueRow:
        issue = IssueRow(number, title, text, labels=list(labels), author=WRITER)
        self._do(lambda: self.shop.issues.update({number: issue}))
        return issue

    def forbid_our_branches(self, *, forbidden: bool = True) -> None:
        hook = self.server.git.directory(self.shop) / "hooks" / "update"
        if not forbidden:
            hook.unlink()
            return
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(_NO_BRANCHES_OF_OURS)
        hook.chmod(0o755)

    def order(self, fault: Fault) -> Fault:
        self._do(lambda: self.server.next(fault))
        return fault

    def clear_faults(self) -> None:
        self._do(self.server.clear_faults)

    # State of the platform

    def pull(self, number: int) -> PullRow:
        return self.shop.pulls[number]

    def pulls_of(self, branch: str, repository: RepositoryRow | None = None) -> list[PullRow]:
        return self._do(lambda: list((repository or self.shop).pull_of_branch(branch)))

    def log(self, branch: str, form: str) -> list[str]:
        """The commits that the default branch lacks, oldest first."""
        directory = self.server.git.directory(self.shop)
        between = f"{self.shop.default_branch}..{branch}"
        return git_output("log", "--reverse", f"--format={form}", between, cwd=directory).split(
            "\n"
        )

    def show(self, branch: str, path: str) -> str:
        return git_output("show", f"{branch}:{path}", cwd=self.server.git.directory(self.shop))

    def request_count(self) -> int:
        """The number of API and git requests so far."""
        return self._do(lambda: len(self.server.calls) + len(self.server.git_requests))

    def wait_until_quiet(self) -> int:
        """The number of requests, once none has come for two seconds."""
        last = (self.request_count(), time.monotonic())

        def is_quiet() -> bool:
            nonlocal last
            if self.request_count() != last[0]:
                last = (self.request_count(), time.monotonic())
            return time.monotonic() - last[1] > 2

        wait_until(is_quiet, "the platform to get no requests")
        return last[0]

    # Hooks

    def delivery(self, event: str, number: int = 0, secret: str | None = None) -> Delivery:
        """`event` is push, pull, comment, review or repository; by default about the shop."""
        return self.delivery_about(self.shop, event, number, secret)

    def delivery_about(
        self, repository: RepositoryRow, event: str, number: int = 0, secret: str | None = None
    ) -> Delivery:
        signed_with = self.hook_secret if secret is None else secret
        return delivery(self.platform, signed_with, event, repository, number)

    def send(self, sent: Delivery, url: str | None = None) -> tuple[int, str]:
        response = httpx.post(url or self.hook_url, content=sent.body, headers=sent.headers)
        content = response.json()
        return response.status_code, str(content.get("status") or content["error"]["code"])

    def tell(self, event: str, number: int = 0, repository: RepositoryRow | None = None) -> None:
        """Send a hook with a valid signature."""
        sent = self.delivery_about(repository or self.shop, event, number)
        assert self.send(sent) == (202, "accepted")

    def wait_for_reading_comments(self, number: int) -> None:
        """Until the service has handled every comment that the pull request has now.

        It has when it lists them again, because it handles what it has listed first.
        """
        before = self._listings_of_comments(number)
        for times in (1, 2):
            self.tell("comment", number)
            wait_until(
                lambda times=times: (
                    max((self._listings_of_comments(number) - before).values(), default=0) >= times
                ),
                "the comments to be listed",
            )

    def _listings_of_comments(self, number: int) -> Counter[str]:
        calls = self._do(lambda: list(self.server.calls))
        return Counter(
            call.name
            for call in calls
            if _LISTS_COMMENTS.fullmatch(call.name) and str(number) in call.values.values()
        )

    # Running

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Fails at the end if a request violated the platform's description."""
        self._watch_command_lines()
        with served(self.server) as self._loop:
            yield self

    def _end(self, number: int, *, is_merged: bool) -> None:
        pull = self.pull(number)
        head = self.server.git.head(self.shop, pull.head) or ""
        ended = {"state": "closed", "is_merged": is_merged, "head_commit": head}
        self._do(lambda: vars(pull).update(ended))

    def _do(self, change: Callable[[], Result]) -> Result:
        """Run on the server's event loop, so that no request is handled meanwhile."""

        async def changed() -> Result:
            return change()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(changed(), self._loop).result(_WAIT_SECONDS)

    def _watch_command_lines(self) -> None:
        handle = self.server.handle

        async def watched(request: web.Request) -> web.StreamResponse:
            self.command_lines.update(_command_lines())
            return await handle(request)

        self.server.handle = watched  # type: ignore[method-assign]


@contextlib.contextmanager
def served(server: ContractServer) -> Iterator[asyncio.AbstractEventLoop]:
    """Serve in a thread; fails at the end if a request violated the description."""
    loops: list[asyncio.AbstractEventLoop] = []
    is_up, is_over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server.serving():
            loops.append(asyncio.get_running_loop())
            is_up.set()
            await is_over.wait()

    with ThreadPoolExecutor(1, "platform") as thread:
        serving = thread.submit(asyncio.run, serve())
        assert is_up.wait(_WAIT_SECONDS)
        try:
            yield loops[0]
        finally:
            loops[0].call_soon_threadsafe(is_over.set)
        serving.result(_WAIT_SECONDS)


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        # A process may end while it is read.
        with contextlib.suppress(OSError):
            yield entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
