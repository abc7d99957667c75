"""A real service in its own process, for tests over HTTP."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar

import httpx

from tests.support import preloaded_cli

# For tests of the start itself.
PROGRAM = str(Path(sys.executable).with_name("agentjobs"))
AGENTS = '''
[[agents]]
id = "edit"
name = "Edit"
command = ["sh", "-c", """
echo editing
echo changed >> edited.txt
printf 'Edit a file\\n\\nAs asked.' > "$AGENTJOBS_REPORT"
"""]

[[agents]]
id = "idle"
name = "Idle"
command = ["true"]

[[agents]]
id = "crash"
name = "Crash"
command = ["sh", "-c", """
echo these are my last words gh''p_0123456789abcdefghijABCDEFGHIJ456789
exit 3
"""]

[[agents]]
id = "sleepy"
name = "Sleepy"
command = ["sh", "-c", "echo asleep; exec sleep 600"]

[[agents]]
id = "premium"
name = "Premium"
plan_required = "enterprise"
command = ["true"]
'''
_WAIT_SECONDS = 300.0


def wait_until(condition: Callable[[], Any], what: str, seconds: float = _WAIT_SECONDS) -> Any:
    """The first true result of `condition`; fails after the timeout."""
    for interval_seconds in poll_intervals(seconds):
        result = condition()
        if result:
            return result
        time.sleep(interval_seconds)
    raise AssertionError(f"timed out after {seconds} s waiting for: {what}")


def poll_intervals(seconds: float) -> Iterator[float]:
    """A tenth of the time waited so far, because each poll costs the service a request."""
    started_at = time.monotonic()
    while (waited := time.monotonic() - started_at) < seconds:
        yield min(max(waited / 10, 0.01), 0.25)


def sample_repository(path: Path, files: dict[str, str] | None = None) -> Path:
    """A real git repository with one commit on `main`. Scripts can be executed."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    for name, text in (files or {"app.py": "import os\nx=1\n", "README.md": "# Sample\n"}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
        (path / name).chmod(0o755 if text.startswith("#!") else 0o644)
    git(path, "add", "-A")
    git(path, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "First")
    return path


def git(cwd: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@dataclass
class Service:
    data_dir: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("up",)
    process: preloaded_cli.ForkedProcess | subprocess.Popen[str] | None = None
    base_url: str = ""
    port: int = 0
    clients: list[httpx.Client] = field(default_factory=list)
    # Copied to a new data directory, because migrations take most of the time of a first start.
    sqlite_template: ClassVar[Path | None] = None

    @property
    def root_url(self) -> str:
        return self.base_url.removesuffix("/v1")

    def start(self) -> "Service":
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config = self.data_dir / "agentjobs.toml"
        if not config.exists():
            config.write_text(AGENTS)
        self._copy_template()
        listening = () if "worker" in self.command else ("--port", str(self.port))
        with (self.data_dir / f"{self.command[0]}.log").open("a") as log:
            arguments = [*self.command, "--data-dir", str(self.data_dir), *listening]
            self.process = self._spawn(arguments, log)
        if listening:
            assert self.process.stdout is not None
            self.base_url = self.process.stdout.readline().strip()
            assert self.base_url.startswith("http"), self.log()
        return self

    def _spawn(
        self, arguments: list[str], log: IO[str]
    ) -> preloaded_cli.ForkedProcess | subprocess.Popen[str]:
        return preloaded_cli.start(arguments, self._environment(), log)

    def _copy_template(self) -> None:
        store = self.data_dir / "agentjobs.db"
        if (
            self.sqlite_template is not None
            and "AGENTJOBS_DATABASE_URL" not in self.environment
            and not store.exists()
        ):
            shutil.copy(self.sqlite_template, store)

    def log(self) -> str:
        return (self.data_dir / f"{self.command[0]}.log").read_text()

    def kill(self) -> None:
        """Like the kernel's out-of-memory killer."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._wait(10)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def is_stopped(self) -> bool:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    def press_ctrl_c(self) -> int:
        """Like a terminal: every process of the group gets the signal."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGINT)
        return self._wait(60)

    def stop(self, seconds: float = 60) -> int:
        """Like systemd; returns the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait(seconds)

    def _wait(self, seconds: float) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s\n{self._hang_log()}") from None
        finally:
            self.process.stdout.close()
            while self.clients:
                self.clients.pop().close()

    def _hang_log(self) -> str:
        """Make a hanging service log its tasks and stacks, and kill it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Time to write the log, if the event loop still runs.
            self.process.wait(2)
        self.process.send_signal(signal.SIGABRT)
        self.process.wait(10)
        return self.log()[-20_000:]

    def admin(self, *arguments: str, typed: str = "") -> str:
        """Run an admin command beside the running service; returns its stdout."""
        result = self.try_admin(*arguments, typed=typed)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def try_admin(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return preloaded_cli.run(
            [*arguments, "--data-dir", str(self.data_dir)], self._environment(), typed
        )

    def key(self, *options: str) -> str:
        return self.admin("keys", "create", *options).strip()

    def client(self, key: str) -> "Api":
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.Client(base_url=self.base_url, headers=headers, timeout=70)
        self.clients.append(client)
        return Api(client)

    def connect(self, path: Path, name: str, org: str = "default") -> None:
        self.admin("repos", "connect", str(path), "--name", name, "--org", org)

    def _environment(self) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            # SIGABRT then logs the stacks of all threads.
            "PYTHONFAULTHANDLER": "1",
            **self.environment,
        }


@dataclass
class Api:
    """The API as a client of the plain specification uses it."""

    http: httpx.Client

    def wait_ready(self, full_name: str) -> dict[str, Any]:
        def ready() -> dict[str, Any] | None:
            repos: list[dict[str, Any]] = self.http.get("/repos").json()["repos"]
            matching = [repo for repo in repos if repo["full_name"] == full_name]
            return matching[0] if matching and matching[0]["index_status"] == "ready" else None

        ready_repo: dict[str, Any] = wait_until(ready, f"{full_name} to be indexed")
        return ready_repo

    def create(self, repo: str, agent: str, **fields: Any) -> str:
        response = self.http.post("/jobs", json={"repo": repo, "agent": agent, **fields})
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = self.http.get(f"/jobs/{job_id}").json()
        return job

    def wait_status(self, job_id: str, *statuses: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["status"] in statuses else None

        try:
            job: dict[str, Any] = wait_until(reached, f"{job_id} to be {' or '.join(statuses)}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps(self.job(job_id))}") from None
        return job

    def finish(self, repo: str, agent: str, **fields: Any) -> dict[str, Any]:
        job_id = self.create(repo, agent, **fields)
        return self.wait_status(job_id, "completed", "failed", "cancelled")

    def log(self, job_id: str) -> str:
        return self.http.get(f"/jobs/{job_id}/logs").text

    def events(self, job_id: str) -> list[str]:
        body = self.http.get(f"/jobs/{job_id}/events").json()
        return [event["event"] for event in body["events"]]


StartService = Callable[..., Service]
StartWorker = Callable[..., Service]


def worker_beside(serve: Service, directory: Path, **environment: str) -> Service:
    """A worker of a `serve` that runs, on a machine of its own unless the directory is shared."""
    store = f"sqlite:///{serve.data_dir / 'agentjobs.db'}"
    settings = {
        "AGENTJOBS_DATABASE_URL": serve.environment.get("AGENTJOBS_DATABASE_URL", store),
        "AGENTJOBS_PUBLIC_URL": serve.root_url,
    }
    return Service(directory, {**settings, **environment}, ("worker",))


def connected(service: Service, tmp_path: Path) -> Api:
    service.connect(sample_repository(tmp_path / "source"), "acme/shop")
    api = service.client(service.key())
    api.wait_ready("acme/shop")
    return api


def pull_requests(service: Service) -> int:
    return service.admin("pulls", "list", "--json").count('"number"')
