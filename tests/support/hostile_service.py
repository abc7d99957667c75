"""A running service whose agents run the code in their job, and checks for what they leave.

Every attempt ends with the same check: the service responds, and nothing of the hostile job is
left. The next attempt, and an ordinary job after the last one of a file, use the same service.
"""

import re
import resource
import secrets
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.hostile_agents import ACTOR, settings
from tests.support.leftovers import Traces
from tests.support.service import PROGRAM, Api, Service, sample_repository, wait_until

REPO = "acme/shop"
FILES = {"app.py": "x = 1\n", "docs/guide.md": "# Guide\n", ".gitignore": "*.log\n"}
OPEN_FILES = 256
MODEL_KEY = "the-real-key-of-the-organization-0123456789"


@dataclass(frozen=True)
class FinishedJob:
    job: dict[str, Any]
    log: str
    pushed: "Branch | None"

    @property
    def outcome(self) -> str:
        """The job's status, or its error code."""
        return str(self.job["error"]["code"] if self.job["error"] else self.job["status"])

    @property
    def branch(self) -> "Branch":
        assert self.pushed is not None, self.job
        return self.pushed

    @property
    def message(self) -> str:
        return str(self.job["error"]["message"])


@dataclass(frozen=True)
class Branch:
    """The pushed branch of a job, read from the platform's repository."""

    git_dir: Path
    name: str

    def files(self) -> dict[bytes, str]:
        """Modes by path."""
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", self.name)
        records = [record.split(b"\t", 1) for record in listing.split(b"\0") if record]
        return {path: description.split()[0].decode() for description, path in records}

    def content(self, path: str) -> bytes:
        return self._git("cat-file", "blob", f"{self.name}:{path}")

    def _git(self, *arguments: str) -> bytes:
        command = ["git", f"--git-dir={self.git_dir}", *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout


@dataclass(frozen=True)
class HostileService:
    service: Service
    api: Api
    outside: Path
    git_dir: Path
    mark: str
    uids: range
    sandbox: AttackedSandbox
    repo: str = REPO

    @property
    def trap(self) -> Path:
        """Exists if something ran outside the sandbox."""
        return self.outside / "trap"

    def shell(self, script: str, agent: str = "hostile", **override: Any) -> FinishedJob:
        return self.end(self.start(agent, shell=_dedent(script), **override))

    def python(self, script: str, agent: str = "hostile", **override: Any) -> FinishedJob:
        return self.end(self.start(agent, python=_dedent(script), **override))

    def start(self, agent: str = "hostile", **override: Any) -> str:
        return self.api.create(self.repo, agent, config_override=override)

    def wait_for_output(self, job_id: str, text: str) -> None:
        wait_until(lambda: text in self.api.log(job_id), f"{text!r} in the log")

    def end(self, job_id: str) -> FinishedJob:
        job = self.api.wait_status(job_id, "completed", "failed", "cancelled")
        self.check_unharmed()
        log = self.api.log(job_id)
        pushed = re.search(r"^\[agentjobs\] pushed \w+ to (\S+)$", log, re.MULTILINE)
        return FinishedJob(job, log, Branch(self.git_dir, pushed[1]) if pushed else None)

    def page(self, finished: FinishedJob) -> str:
        response = self.api.http.get(finished.job["pr_url"])
        assert response.status_code == 200, response.text
        return response.text

    def check_unharmed(self) -> None:
        # Without waiting: a job is over only when nothing of it is left.
        leftovers = self.leftovers()
        assert leftovers == [], leftovers
        assert self.api.http.get(f"{self.service.root_url}/healthz").status_code == 200
        assert "Traceback" not in self.service.log()

    def check_ordinary_job(self) -> None:
        job = self.api.finish(REPO, "ordinary")
        assert job["status"] == "completed", (job, self.api.log(job["job_id"]))
        self.check_unharmed()

    def descriptors(self) -> int:
        """The number of descriptors that the service has open."""
        assert self.service.process is not None
        return len(list(Path(f"/proc/{self.service.process.pid}/fd").iterdir()))

    def leftovers(self) -> list[str]:
        assert self.service.process is not None
        return Traces(
            service_pid=self.service.process.pid,
            data_dir=self.service.data_dir,
            outside=self.outside,
            mark=f"HOSTILE_MARK={self.mark}".encode(),
            uids=self.uids,
            known=frozenset({*(Path(name).parts[0] for name in FILES), ".git", ".agentjobs.toml"}),
            frame=self.sandbox.frame,
        ).all()


@contextmanager
def hostile_service(base: Path, sandbox: AttackedSandbox) -> Iterator[HostileService]:
    data_dir, outside, actor = base / "data", base / "outside", base / "actor.py"
    mark, uids = secrets.token_hex(8), sandbox.new_uids()
    for directory in (data_dir, outside):
        directory.mkdir()
    actor.write_text(ACTOR)
    (data_dir / "agentjobs.toml").write_text(settings(actor, mark, uids.start))
    # The service's own temporary files must be removed, too.
    environment = {"TMPDIR": str(outside), "OF_THE_SERVICE": f"only-{mark}"}
    service = Service(data_dir, {**environment, **sandbox.variables})
    with few_open_files():
        service.start()
    service.connect(sample_repository(base / "source", FILES), REPO)
    api = service.client(service.key())
    api.wait_ready(REPO)
    set_secret = [PROGRAM, "secrets", "set", "OPENAI_API_KEY", "--data-dir", str(data_dir)]
    subprocess.run(set_secret, input=MODEL_KEY, text=True, check=True, capture_output=True)
    (git_dir,) = (data_dir / "git").glob("*.git")
    yield HostileService(service, api, outside, git_dir, mark, uids, sandbox)
    assert service.stop() == 0, service.log()


@contextmanager
def few_open_files() -> Iterator[None]:
    """Start with a low limit, so that the service has to raise it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _dedent(script: str) -> str:
    return textwrap.dedent(script).strip()
