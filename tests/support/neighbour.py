"""Two tenants of one running service: one attacks it, and the other must not notice.

The neighbour uses the service in a thread while the attack runs. `check` then asserts what it saw,
without looking at a clock: every request succeeded, every job completed at its first attempt, no
lease was lost, and the service's own memory stayed small.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.hostile_agents import ACTOR, settings
from tests.support.service import Api, Service, sample_repository

REPO = "shop/app"
MAX_MEMORY_MIB = 300


@dataclass
class Neighbour:
    """Uses the service as an ordinary client does, until it is stopped."""

    api: Api
    root_url: str
    pause_seconds: float = 0.1
    failures: list[str] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    job_ids: list[str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._threads = [
            threading.Thread(target=self._send_requests),
            threading.Thread(target=self._run_jobs),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _send_requests(self) -> None:
        while not self._stopped.wait(self.pause_seconds):
            for url in ("/agents", "/repos", f"{self.root_url}/readyz"):
                self._request("GET", url)

    def _run_jobs(self) -> None:
        while True:
            body = {"repo": REPO, "agent": "ordinary"}
            response = self._request("POST", "/jobs", json=body)
            if response is not None and response.status_code == 202:
                job_id = response.json()["job_id"]
                self.job_ids.append(job_id)
                self._wait_for(job_id)
            # At least one whole job, however short the attack.
            if self._stopped.is_set():
                return

    def _wait_for(self, job_id: str) -> None:
        for _ in range(20):
            response = self._request("GET", f"/jobs/{job_id}?wait_seconds=30")
            if response is not None and response.json()["status"] not in ("queued", "running"):
                return

    def _request(self, method: str, url: str, **options: Any) -> httpx.Response | None:
        try:
            response = self.api.http.request(method, url, **options)
        except httpx.HTTPError as error:
            self.failures.append(f"{method} {url}: {error!r}")
            return None
        if not response.is_success:
            self.failures.append(f"{method} {url}: {response.status_code} {response.text}")
        elif "wait_seconds" not in url:
            self.durations.append(response.elapsed.total_seconds())
        return response


@dataclass
class SharedService:
    service: Service
    attacker: Api
    attacker_key: str
    neighbour_api: Api

    @contextmanager
    def neighbour(self) -> Iterator[Neighbour]:
        """Everything inside the block happens beside the neighbour, who is then checked."""
        with Neighbour(self.neighbour_api, self.service.root_url) as neighbour:
            yield neighbour
        self.check(neighbour)

    def check(self, neighbour: Neighbour) -> None:
        assert neighbour.failures == []
        assert neighbour.job_ids
        for job_id in neighbour.job_ids:
            job = self.neighbour_api.job(job_id)
            assert (job["status"], job["attempt"]) == ("completed", 1), job
        log = self.service.log()
        lost = [line for line in log.splitlines() if "lost the claims" in line]
        assert not any(job_id in line for job_id in neighbour.job_ids for line in lost)
        assert "rescued a job" not in log
        assert "Traceback" not in log
        assert self.memory_mib() <= MAX_MEMORY_MIB

    def memory_mib(self) -> int:
        """The most that the service's process has ever used, in MiB."""
        assert self.service.process is not None
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert peak is not None
        return int(peak[1]) // 1024

    def attack(self, repo: str = "evil/app", **override: Any) -> dict[str, Any]:
        """Run code as an agent of the attacker until it ends."""
        return self.attacker.finish(repo, "hostile", config_override=override)

    def git_url(self, repo: str) -> str:
        host = self.service.root_url.removeprefix("http://")
        return f"http://evil:{self.attacker_key}@{host}/git/evil/{repo}.git"


@contextmanager
def shared_service(
    base: Path, environment: dict[str, str] | None = None
) -> Iterator[SharedService]:
    data_dir, actor = base / "data", base / "actor.py"
    data_dir.mkdir(parents=True)
    actor.write_text(ACTOR)
    (data_dir / "agentjobs.toml").write_text(settings(actor, "neighbour", 1_500_000))
    service = Service(data_dir, environment or {}).start()
    keys, clients = {}, {}
    for organization, repo in (("evil", "evil/app"), ("shop", REPO)):
        service.admin("orgs", "create", organization)
        source = sample_repository(base / organization)
        service.connect(source, repo, organization)
        keys[organization] = service.key("--org", organization, "--git-write")
        clients[organization] = service.client(keys[organization])
        clients[organization].wait_ready(repo)
    try:
        yield SharedService(service, clients["evil"], keys["evil"], clients["shop"])
    finally:
        assert service.stop() == 0, service.log()
