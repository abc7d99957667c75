"""The services as an operator starts them, and the client commands against them."""

import shutil
import signal
import socket

import httpx
import pytest

from tests.support.cli_process import (
    CommandLine,
    CommandLineInside,
    RunningService,
    make_repository,
    until,
)

AGENTS = """
[[agents]]
id = "write-{word}"
name = "Writes {word}"
command = ["sh", "-c", "echo {word} > app.py; echo wrote {word}"]
"""


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    return CommandLineInside(capsys, data_dir)


def declare_agents(agentjobs: CommandLine, *words: str) -> None:
    tables = "".join(AGENTS.format(word=word) for word in words)
    (agentjobs.data_dir / "agentjobs.toml").write_text(tables)


def as_client(agentjobs: CommandLine, service: RunningService) -> CommandLine:
    """The same command line with the service's address and a key of its own."""
    key = agentjobs("keys", "create").out.strip()
    return agentjobs.with_settings(AGENTJOBS_URL=service.base_url, AGENTJOBS_API_KEY=key)


def connect(agentjobs: CommandLine, client: CommandLine, directory, files) -> None:
    make_repository(directory, files)
    assert agentjobs("repos", "connect", str(directory), "--name", "acme/shop").exit_code == 0
    address = f"{client.settings['AGENTJOBS_URL']}/repos"
    headers = {"Authorization": f"Bearer {client.settings['AGENTJOBS_API_KEY']}"}

    def is_ready() -> bool:
        (repo,) = httpx.get(address, headers=headers).json()["repos"]
        return repo["index_status"] == "ready"

    until(is_ready)


def test_up_says_where_it_is_and_how_to_make_a_key_and_stops_when_asked(agentjobs):
    with agentjobs.running("up", "--port", "0") as service:
        assert service.base_url.startswith("http://127.0.0.1:")
        assert service.base_url.endswith("/v1")
        root = service.base_url.removesuffix("/v1")
        assert httpx.get(f"{root}/healthz").status_code == 200
        assert httpx.get(f"{root}/readyz").status_code == 200
        assert service.process.stdout.readline().startswith(f"{root}/sign-in?token=")
        service.process.send_signal(signal.SIGTERM)
        out, _ = service.process.communicate(timeout=30)
        assert (service.process.returncode, out) == (0, "")
        assert "agentjobs keys create" in agentjobs.log_of(service.process)


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


def test_a_job_goes_from_the_command_line_to_a_merged_pull_request(agentjobs, tmp_path):
    with agentjobs.running("up", "--port", "0") as service:
        client = as_client(agentjobs, service)
        connect(agentjobs, client, tmp_path / "shop", {"app.py": "import os\nx=1\n"})
        made = client("jobs", "create", "--repo", "acme/shop", "--agent", "lint-fixer", "--wait")
        assert made.exit_code == 0, made.err
        root = service.base_url.removesuffix("/v1")
        assert made.out == f"{root}/default/acme/shop/pulls/1\n"

        (job,) = client("jobs", "list", "--json").document["jobs"]
        assert (job["status"], job["pr_number"]) == ("completed", 1)
        assert client("jobs", "show", job["job_id"], "--json").document["pr_url"] == job["pr_url"]
        log = client("jobs", "logs", job["job_id"])
        assert log.out != ""
        assert client("jobs", "logs", job["job_id"], "--follow").out == log.out
        finished = client("jobs", "cancel", job["job_id"])
        assert finished.exit_code == 2
        assert "job_finished" in finished.err

        shown = agentjobs("pulls", "show", "acme/shop", "1").out
        assert "-import os" in shown
        assert "+x = 1" in shown
        merged = agentjobs("pulls", "merge", "acme/shop", "1", "--json").document
        assert merged["state"] == "merged"
        assert len(merged["merge_commit"]) == 40


def test_a_merge_with_conflicts_exits_1_and_names_the_files(agentjobs, tmp_path):
    declare_agents(agentjobs, "one", "two")
    with agentjobs.running("up", "--port", "0") as service:
        client = as_client(agentjobs, service)
        connect(agentjobs, client, tmp_path / "shop", {"app.py": "zero\n"})
        for word in ("one", "two"):
            made = client(
                "jobs", "create", "--repo", "acme/shop", "--agent", f"write-{word}", "--wait"
            )
            assert made.exit_code == 0, made.err
        assert agentjobs("pulls", "merge", "acme/shop", "1").exit_code == 0
        refused = agentjobs("pulls", "merge", "acme/shop", "2")
        assert (refused.exit_code, refused.out) == (1, "app.py\n")
        assert "app.py" in refused.err
        found = agentjobs("pulls", "list", "--repo", "acme/shop", "--json").document["pulls"]
        assert [(pull["number"], pull["state"]) for pull in found] == [(2, "open"), (1, "merged")]
        assert agentjobs("pulls", "close", "acme/shop", "2").exit_code == 0


def test_a_job_that_fails_makes_waiting_fail(agentjobs, tmp_path):
    declare_agents(agentjobs, "same")
    with agentjobs.running("up", "--port", "0") as service:
        client = as_client(agentjobs, service)
        connect(agentjobs, client, tmp_path / "shop", {"app.py": "same\n"})
        made = client("jobs", "create", "--repo", "acme/shop", "--agent", "write-same", "--wait")
        assert (made.exit_code, made.out) == (1, "")
        assert "no_changes" in made.err
        refused = client("jobs", "create", "--repo", "acme/none", "--agent", "write-same")
        assert (refused.exit_code, refused.out) == (2, "")
        assert "repo_not_connected" in refused.err


def test_a_draft_is_merged_only_when_it_is_ready_and_its_review_is_asked_for_once(
    agentjobs, tmp_path
):
    with agentjobs.running("up", "--port", "0") as service:
        client = as_client(agentjobs, service)
        connect(agentjobs, client, tmp_path / "shop", {"app.py": "import os\n"})
        made = client(
            *("jobs", "create", "--repo", "acme/shop", "--agent", "lint-fixer", "--wait", "--json"),
            *("--set", "draft=true", "--set", "title=42"),
        )
        job_id = made.document["job_id"]
        refused = agentjobs("pulls", "merge", "acme/shop", "1")
        assert refused.exit_code == 2
        assert "pulls ready" in refused.err
        for _ in range(2):
            ready = agentjobs("pulls", "ready", "acme/shop", "1", "--json").document
            assert (ready["draft"], ready["title"]) == (False, "42")
        events = httpx.get(
            f"{service.base_url}/jobs/{job_id}/events",
            headers={"Authorization": f"Bearer {client.settings['AGENTJOBS_API_KEY']}"},
        ).json()["events"]
        assert [each["event"] for each in events][-2:] == ["job.completed", "pr.review_requested"]
        assert agentjobs("pulls", "merge", "acme/shop", "1").exit_code == 0


def test_serve_and_worker_are_the_two_halves_over_postgresql(tmp_path, postgres_url, capsys):
    server = CommandLineInside(capsys, tmp_path / "server", AGENTJOBS_DATABASE_URL=postgres_url)
    with server.running("serve", "--port", "0") as service:
        root = service.base_url.removesuffix("/v1")
        remote = CommandLine(
            tmp_path / "elsewhere",
            AGENTJOBS_DATABASE_URL=postgres_url,
            AGENTJOBS_PUBLIC_URL=root,
        )
        client = as_client(server, service)
        connect(server, client, tmp_path / "shop", {"app.py": "import os\n"})
        with remote.started("worker", "--slots", "1"):
            made = client(
                "jobs", "create", "--repo", "acme/shop", "--agent", "lint-fixer", "--wait"
            )
            assert (made.exit_code, made.out) == (0, f"{root}/default/acme/shop/pulls/1\n")
