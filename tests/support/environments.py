"""A running service with repositories that define environments, and what it knows of them."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.service import Api, Service, git, sample_repository

ENDED = ("completed", "failed", "cancelled")
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.com")


@dataclass(frozen=True)
class EnvironmentService:
    """On SQLite. `sources` is an empty directory."""

    service: Service
    api: Api
    sources: Path

    @property
    def directory(self) -> Path:
        return self.service.data_dir / "environments"

    def connect(
        self,
        repo: str,
        files: Mapping[str, str],
        branches: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`branches` start at `main` and change the given files."""
        source = sample_repository(self.sources / repo, dict(files))
        for branch, changes in (branches or {}).items():
            git(source, "checkout", "-qb", branch, "main")
            for name, text in changes.items():
                (source / name).write_text(text)
            git(source, "add", "-A")
            git(source, *IDENTITY, "commit", "-qm", f"Start {branch}")
        git(source, "checkout", "-q", "main")
        self.service.connect(source, repo)
        self.api.wait_ready(repo)

    def run(self, repo: str, agent: str, branch: str = "") -> tuple[dict[str, Any], str]:
        """The finished job and its log."""
        fields = {"config_override": {"base_branch": branch}} if branch else {}
        return self.end(self.api.create(repo, agent, **fields))

    def follow_up(self, job: Mapping[str, Any], agent: str) -> tuple[dict[str, Any], str]:
        body = {"prompt": "Go on.", "agent": agent}
        response = self.api.http.post(f"/jobs/{job['job_id']}/follow-ups", json=body)
        assert response.status_code == 202, response.text
        return self.end(response.json()["job_id"])

    def end(self, job_id: str) -> tuple[dict[str, Any], str]:
        return self.api.wait_status(job_id, *ENDED), self.api.log(job_id)

    def complete(self, repo: str, agent: str, branch: str = "") -> tuple[dict[str, Any], str]:
        job, log = self.run(repo, agent, branch)
        assert job["status"] == "completed", (job, log, self.service.log())
        return job, log

    def environment_error(self, repo: str, agent: str, branch: str = "") -> str:
        job, log = self.run(repo, agent, branch)
        assert job["error"] is not None, log
        assert job["error"]["code"] == "environment_failed", (job, log)
        message: str = job["error"]["message"]
        return message

    def set_secret(self, name: str, value: str, repo: str) -> None:
        self.service.admin("secrets", "set", name, "--repo", repo, "--for", "setup", typed=value)

    def trust(self, repo: str, *branches: str) -> None:
        self.service.admin("repos", "environment", "trust-branch", repo, *branches)

    def rebuild(self, repo: str) -> None:
        self.service.admin("repos", "environment", "rebuild", repo)

    def builds(self, repo: str) -> list[dict[str, Any]]:
        """Oldest first."""
        shown = json.loads(self.service.admin("repos", "environment", "show", repo, "--json"))
        return sorted(shown["builds"], key=lambda build: build["id"])

    def build_log(self, build: Mapping[str, Any]) -> str:
        return self.service.admin("repos", "environment", "log", build["id"])

    def changed_files(self, log: str) -> list[str]:
        """What the commit that the job pushed changes, read from the hosted repository."""
        pushed = re.search(r"^\[agentjobs\] pushed \w+ to (\S+)$", log, re.MULTILINE)
        assert pushed is not None, log
        for git_dir in (self.service.data_dir / "git").glob("*.git"):
            if git(git_dir, "branch", "--list", pushed[1]):
                return git(git_dir, "diff", "--name-only", f"{pushed[1]}~", pushed[1]).split()
        raise AssertionError(f"no repository has {pushed[1]}")

    def unfinished(self) -> list[Path]:
        """What builds and runs have left in the directories of running processes."""
        return list(self.directory.glob("sessions/*/*"))


@contextlib.contextmanager
def environment_service(
    directory: Path, settings: str, **environment: str
) -> Iterator[EnvironmentService]:
    data_dir = directory / "data"
    data_dir.mkdir(parents=True)
    (data_dir / "agentjobs.toml").write_text(settings)
    service = Service(data_dir, environment).start()
    yield EnvironmentService(service, service.client(service.key()), directory / "sources")
    assert service.stop() == 0, service.log()
