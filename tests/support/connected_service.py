"""A running service with a platform of each kind connected to it with the real command line."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.live_platform import KINDS, LivePlatform
from tests.support.service import Api, Service, wait_until

AGENTS = '''
[[agents]]
id = "edit"
name = "Edit"
command = ["sh", "-c", """
echo changed >> edited.txt
printf 'Edit a file\\n\\nAs asked.' > "$AGENTJOBS_REPORT"
"""]

[[agents]]
id = "thoughtful"
name = "Thoughtful"
command = ["sh", "-c", "echo thinking; echo slowly >> edited.txt; exec sleep 4"]

[[agents]]
id = "thief"
name = "Thief"
# What it looks for is written so that it does not find itself.
command = ["sh", "-c", """
pattern='ghs_[0-9a-f]{36}|(gitlab|gitea|decoy)-token-5e2c7fd[1]|BEGIN RSA PRIVATE KE[Y]'
env > /tmp/environment
grep -rslaE "$pattern" . /tmp /run /var /etc /home /root /proc/[0-9]*/environ \
  /proc/[0-9]*/cmdline > /tmp/found
sort -u /tmp/found | sed 's/^/found: /'
sort -u /tmp/found > edited.txt
"""]
'''
CONFIGURATION = 'labels = ["agents", "needs review"]\nverify = "test -s edited.txt"\n'
FINISHED = ("completed", "failed", "cancelled")


@dataclass
class ConnectedService:
    service: Service
    api: Api
    platforms: dict[str, LivePlatform]

    def restart(self) -> None:
        """Start again after a kill, with a new address."""
        key = self.api.http.headers["Authorization"].removeprefix("Bearer ")
        self.service.start()
        self.api = self.service.client(key)

    def start(self, platform: LivePlatform, agent: str = "edit", **fields: Any) -> str:
        return self.api.create(platform.shop.full_name, agent, **fields)

    def wait_finished(self, job_id: str) -> dict[str, Any]:
        return self.api.wait_status(job_id, *FINISHED)

    def wait_completed(self, job_id: str) -> dict[str, Any]:
        job = self.wait_finished(job_id)
        assert job["status"] == "completed", (job["error"], self.api.log(job_id))
        return job

    def wait_failed(self, job_id: str) -> tuple[str, str]:
        job = self.wait_finished(job_id)
        assert job["status"] == "failed", job
        return job["error"]["code"], job["error"]["message"]

    def jobs(self, full_name: str) -> list[dict[str, Any]]:
        """The newest first."""
        entries: list[dict[str, Any]] = self.api.http.get(
            "/jobs", params={"repo": full_name, "limit": "100"}
        ).json()["jobs"]
        return entries

    def repo(self, full_name: str) -> dict[str, Any] | None:
        repos = self.api.http.get("/repos").json()["repos"]
        return next((repo for repo in repos if repo["full_name"] == full_name), None)

    def wait_indexed(self, full_name: str, commit: str) -> None:
        def is_indexed() -> bool:
            repo = self.repo(full_name)
            return repo is not None and repo["indexed_commit"] == commit

        wait_until(is_indexed, f"{full_name} to be indexed at {commit}")

    def wait_pull_state(self, job_id: str, state: str) -> None:
        wait_until(lambda: self.api.job(job_id)["pr_state"] == state, f"{job_id} to be {state}")


@contextmanager
def open_connected_service(
    directory: Path, kinds: tuple[str, ...] = KINDS, **environment: str
) -> Iterator[ConnectedService]:
    """Yields when each repository is connected and indexed."""
    with ExitStack() as stack:
        platforms = {kind: LivePlatform.create(kind, directory, files_for(kind)) for kind in kinds}
        for platform in platforms.values():
            stack.enter_context(platform.running())
        # All servers of a process have one authority.
        authorities = platforms[kinds[0]].server.authorities
        connected = stack.enter_context(running_service(directory, authorities, **environment))
        connected.platforms = platforms
        service = connected.service
        run_concurrently(
            [lambda platform=platform: platform.connect(service) for platform in platforms.values()]
        )
        for platform in platforms.values():
            connected.api.wait_ready(platform.shop.full_name)
        yield connected


@contextmanager
def running_service(
    directory: Path, authorities: Path, **environment: str
) -> Iterator[ConnectedService]:
    """A service that may reach platforms on loopback; nothing is connected yet."""
    data_dir = directory / "data"
    data_dir.mkdir()
    (data_dir / "agentjobs.toml").write_text(AGENTS)
    service = Service(
        data_dir,
        {
            "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8",
            "AGENTJOBS_WEBHOOKS_ALLOW": "127.0.0.0/8",
            "AGENTJOBS_CA_FILE": str(authorities),
            "AGENTJOBS_SLOTS": "4",
            **environment,
        },
    ).start()
    try:
        yield ConnectedService(service, service.client(service.key()), {})
        assert "Traceback" not in service.log(), service.log()
        assert service.stop() == 0, service.log()
    finally:
        _stop(service)


def run_concurrently(operations: list[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(operations)) as threads:
        for done in [threads.submit(operation) for operation in operations]:
            done.result()


def files_for(kind: str) -> dict[str, str | bytes]:
    """Reviewers come from CODEOWNERS, except where the platform itself reads that file."""
    files: dict[str, str | bytes] = {
        "app.py": "import os\nx = 1\n",
        "decoy.txt": "decoy-token-5e2c7fd1\n",
        ".agentjobs.toml": CONFIGURATION,
    }
    if kind == "gitea":
        return {**files, ".agentjobs.toml": f'{CONFIGURATION}reviewers = ["grace"]\n'}
    return {**files, "CODEOWNERS": "* @nobody\nedited.txt @grace\n"}


def _stop(service: Service) -> None:
    assert service.process is not None
    if service.process.poll() is None:
        service.kill()
