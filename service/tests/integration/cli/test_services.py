"""The services as an operator starts them, and the client commands against them."""

import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from agentjobs.build_info import describe_build
from tests.support.cli_process import (
    CommandLine,
    RunningService,
    make_repository,
    until,
)
from tests.support.in_process_cli import InProcessCommandLine

AGENTS = "".join(
    f"""
[[agents]]
id = "write-{word}"
name = "Writes {word}"
command = ["sh", "-c", "echo {word} > app.py; echo wrote {word}"]
"""
    for word in ("one", "two")
)


@dataclass(frozen=True)
class Shop:
    """A running service with one connected repository, as an admin and a client use it."""

    service: RunningService
    admin: CommandLine
    client: CommandLine
    repo: str

    def create_job(self, agent: str, *options: str):
        return self.client(
            "jobs", "create", "--repo", self.repo, "--agent", agent, "--wait", *options
        )


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    return InProcessCommandLine(capsys, new_data_dir(tmp_path, sqlite_template))


@pytest.fixture(scope="module")
def up(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[tuple[RunningService, Path]]:
    """One `agentjobs up`, and its data directory."""
    data_dir = new_data_dir(tmp_path_factory.mktemp("up"), sqlite_template)
    (data_dir / "agentjobs.toml").write_text(AGENTS)
    with CommandLine(data_dir).running("up", "--port", "0") as service:
        yield service, data_dir


@pytest.fixture
def shop(up: tuple[RunningService, Path], tmp_path: Path, capsys) -> Shop:
    service, data_dir = up
    admin = InProcessCommandLine(capsys, data_dir)
    client = as_client(admin, service)
    repo = f"acme/{tmp_path.name.lower()}"[:60]
    connect(admin, client, tmp_path / "shop", repo)
    return Shop(service, admin, client, repo)


def new_data_dir(parent: Path, sqlite_template: Path) -> Path:
    data_dir = parent / "data"
    data_dir.mkdir(mode=0o700)
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    return data_dir


def as_client(agentjobs: CommandLine, service: RunningService) -> CommandLine:
    """The same command line with the service's address and a new key."""
    key = agentjobs("keys", "create").out.strip()
    return agentjobs.with_settings(AGENTJOBS_URL=service.base_url, AGENTJOBS_API_KEY=key)


def connect(agentjobs: CommandLine, client: CommandLine, directory: Path, name: str) -> None:
    make_repository(directory, {"app.py": "import os\nx=1\n"})
    assert agentjobs("repos", "connect", str(directory), "--name", name).exit_code == 0
    address = f"{client.settings['AGENTJOBS_URL']}/repos"
    headers = {"Authorization": f"Bearer {client.settings['AGENTJOBS_API_KEY']}"}

    def is_ready() -> bool:
        repos = httpx.get(address, headers=headers).json()["repos"]
        return {"ready"} == {repo["index_status"] for repo in repos if repo["full_name"] == name}

    until(is_ready)


def test_up_prints_its_address_and_how_to_create_a_key_and_stops_on_sigterm(agentjobs):
    with agentjobs.running("up", "--port", "0") as service:
        assert service.base_url.startswith("http://127.0.0.1:")
        assert service.base_url.endswith("/v1")
        root = service.base_url.removesuffix("/v1")
        assert httpx.get(f"{root}/healthz").status_code == 200
        assert httpx.get(f"{root}/readyz").status_code == 200
        # The output is a pipe, so the link is in a file that only its owner can read.
        link_file = Path(service.process.stdout.readline().strip())
        assert link_file == agentjobs.data_dir / "sign-in-link"
        assert link_file.stat().st_mode & 0o777 == 0o600
        link = link_file.read_text().strip()
        assert link.startswith(f"{root}/sign-in?token=")
        assert link not in agentjobs.log_of(service.process)
        assert f"agentjobs {describe_build()} is starting" in agentjobs.log_of(service.process)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.stdout.read() == ""
        assert service.process.wait(30) == 0
        assert "agentjobs keys create" in agentjobs.log_of(service.process)


@pytest.mark.parametrize("command", ["up", "serve", "worker"])
def test_without_a_suitable_git_no_service_starts(agentjobs, tmp_path, command):
    admin = CommandLine(agentjobs.data_dir, PATH=str(tmp_path), AGENTJOBS_PORT="0")
    refused = admin(command)
    assert (refused.exit_code, refused.out) == (2, "")
    line = refused.err.splitlines()[-1]
    assert line.startswith("agentjobs: git does not run (git is not installed")
    assert "install git 2.38 or newer" in line
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("command", ["up", "worker"])
def test_without_bubblewrap_no_worker_starts(agentjobs, tmp_path, command):
    for name in ("git", "prlimit", "setpriv", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name))
    admin = CommandLine(agentjobs.data_dir, PATH=str(tmp_path), AGENTJOBS_PORT="0")
    refused = admin(command)
    assert (refused.exit_code, refused.out) == (2, "")
    line = refused.err.splitlines()[-1]
    assert line.startswith("agentjobs: bwrap is not installed, and agents only run in a sandbox")
    assert "apt-get install -y bubblewrap" in line
    assert "Traceback" not in refused.err


def test_a_port_that_is_taken_is_one_line_and_exit_code_2(agentjobs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = CommandLine(agentjobs.data_dir)
        refused = command("up", "--port", str(taken.getsockname()[1]))
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.splitlines()[-1].startswith("agentjobs: ")
    assert "Traceback" not in refused.err


def test_an_agent_file_that_cannot_be_used_stops_the_start_with_line_and_reason(agentjobs):
    (agentjobs.data_dir / "agentjobs.toml").write_text('[[agents]]\nid = "x"\nname = "X"\n')
    refused = agentjobs("up", "--port", "0")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "agentjobs.toml, line 1" in refused.err
    assert "command" in refused.err


def test_a_job_goes_from_the_command_line_to_a_merged_pull_request(shop):
    admin, client = shop.admin, shop.client
    created = shop.create_job("lint-fixer")
    assert created.exit_code == 0, created.err
    root = shop.service.base_url.removesuffix("/v1")
    assert created.out == f"{root}/default/{shop.repo}/pulls/1\n"

    (job,) = client("jobs", "list", "--repo", shop.repo, "--json").document["jobs"]
    assert (job["status"], job["pr_number"]) == ("completed", 1)
    assert client("jobs", "show", job["job_id"], "--json").document["pr_url"] == job["pr_url"]
    log = client("jobs", "logs", job["job_id"])
    assert log.out != ""
    assert client("jobs", "logs", job["job_id"], "--follow").out == log.out
    finished = client("jobs", "cancel", job["job_id"])
    assert finished.exit_code == 2
    assert "job_finished" in finished.err

    shown = admin("pulls", "show", shop.repo, "1").out
    assert "-import os" in shown
    assert "+x = 1" in shown
    merged = admin("pulls", "merge", shop.repo, "1", "--json").document
    assert merged["state"] == "merged"
    assert len(merged["merge_commit"]) == 40


def test_a_merge_with_conflicts_exits_1_and_names_the_files(shop):
    for word in ("one", "two"):
        created = shop.create_job(f"write-{word}")
        assert created.exit_code == 0, created.err
    assert shop.admin("pulls", "merge", shop.repo, "1").exit_code == 0
    refused = shop.admin("pulls", "merge", shop.repo, "2")
    assert (refused.exit_code, refused.out) == (1, "app.py\n")
    assert "app.py" in refused.err
    pulls = shop.admin("pulls", "list", "--repo", shop.repo, "--json").document["pulls"]
    assert [(pull["number"], pull["state"]) for pull in pulls] == [(2, "open"), (1, "merged")]
    assert shop.admin("pulls", "close", shop.repo, "2").exit_code == 0

    no_changes = shop.create_job("write-one")
    assert (no_changes.exit_code, no_changes.out) == (1, "")
    assert "no_changes" in no_changes.err


def test_creating_a_job_for_an_unknown_repository_fails(shop):
    refused = shop.client("jobs", "create", "--repo", "acme/none", "--agent", "write-one")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "repo_not_connected" in refused.err


def test_a_draft_is_merged_only_when_it_is_ready_and_review_is_requested_once(shop):
    options = ("--json", "--set", "draft=true", "--set", "title=42")
    job_id = shop.create_job("write-one", *options).document["job_id"]
    refused = shop.admin("pulls", "merge", shop.repo, "1")
    assert refused.exit_code == 2
    assert "pulls ready" in refused.err
    for _ in range(2):
        ready = shop.admin("pulls", "ready", shop.repo, "1", "--json").document
        assert (ready["draft"], ready["title"]) == (False, "42")
    events = httpx.get(
        f"{shop.service.base_url}/jobs/{job_id}/events",
        headers={"Authorization": f"Bearer {shop.client.settings['AGENTJOBS_API_KEY']}"},
    ).json()["events"]
    assert [event["event"] for event in events][-2:] == ["job.completed", "pr.review_requested"]
    assert shop.admin("pulls", "merge", shop.repo, "1").exit_code == 0


def test_serve_and_worker_share_the_work_over_postgresql(tmp_path, postgres_url, capsys):
    server = InProcessCommandLine(capsys, tmp_path / "server", AGENTJOBS_DATABASE_URL=postgres_url)
    with server.running("serve", "--port", "0") as service:
        root = service.base_url.removesuffix("/v1")
        worker = CommandLine(
            tmp_path / "worker",
            AGENTJOBS_DATABASE_URL=postgres_url,
            AGENTJOBS_PUBLIC_URL=root,
        )
        client = as_client(server, service)
        connect(server, client, tmp_path / "shop", "acme/shop")
        with worker.started("worker", "--slots", "1"):
            created = client(
                "jobs", "create", "--repo", "acme/shop", "--agent", "lint-fixer", "--wait"
            )
            assert (created.exit_code, created.out) == (0, f"{root}/default/acme/shop/pulls/1\n")
