"""`agentjobs jobs`, `me` and `usage` as a user runs them against a service."""

import asyncio
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.store.opening import open_database
from tests.support.cli_process import PROGRAM, CommandLine, make_repository
from tests.support.steps import insert_steps

AGENTS = """
[[agents]]
id = "prompted"
name = "Writes its prompt"
command = ["sh", "-c", 'echo "$AGENTJOBS_PROMPT" > app.py; echo x > "$AGENTJOBS_ARTIFACTS/x.txt"']

[[agents]]
id = "sleepy"
name = "Sleepy"
command = ["sh", "-c", "echo going to sleep; exec sleep 600"]
"""
REPO = "acme/shop"


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[CommandLine]:
    """Logged in to a service with one repository."""
    directory = tmp_path_factory.mktemp("jobs")
    data_dir = directory / "data"
    data_dir.mkdir()
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    (data_dir / "agentjobs.toml").write_text(AGENTS)
    admin = CommandLine(data_dir)
    with admin.running("up", "--port", "0") as service:
        source = make_repository(directory / "shop", {"app.py": "x = 1\n"})
        connected = admin("repos", "connect", str(source), "--name", REPO, "--wait")
        assert connected.exit_code == 0, connected.err
        key = admin("keys", "create", "--name", "laptop").out
        assert admin("login", service.base_url, typed=key).exit_code == 0
        yield admin


def create(client: CommandLine, agent: str, *options: str):
    return client("jobs", "create", "--repo", REPO, "--agent", agent, *options)


def test_a_job_with_labels_and_a_prompt_from_a_file_is_found_shown_and_retried(client, tmp_path):
    (tmp_path / "prompt.md").write_text("Say hello.\n")
    options = ("--label", "team=web", "--label", "run=", "--ticket", "SHOP-1", "--wait", "--json")
    created = create(client, "prompted", "--prompt", f"@{tmp_path / 'prompt.md'}", *options)
    job = created.document
    job_id = job["job_id"]
    assert job["labels"] == {"team": "web", "run": ""}
    assert "Say hello." in client("jobs", "prompt", job_id).out

    filters = ("--label", "team=web", "--ticket", "SHOP-1", "--created-after", "1h")
    statuses = ("--status", "completed", "--status", "failed", "--created-before", "2999-01-01")
    listed = client("jobs", "list", *filters, *statuses, "--json").document["jobs"]
    assert [each["job_id"] for each in listed] == [job_id]
    assert client("jobs", "list", "--label", "team=api", "--json").document == {"jobs": []}
    assert client("jobs", "list", "--created-before", "1h", "--json").document == {"jobs": []}
    assert client("jobs", "list", "--follows", job_id, "--json").document == {"jobs": []}
    shown = client("jobs", "show", job_id).out
    assert "labels: team=web, run=\n" in shown
    assert "elapsed: " in shown

    assert "+Say hello." in client("jobs", "diff", job_id).out
    (file,) = client("jobs", "diff", job_id, "--json").document["files"]
    assert file["path"] == "app.py"
    assert "app.py\tmodified\t" in client("jobs", "diff", job_id, "--files").out

    retried = client("jobs", "retry", job_id, "--wait", "--json").document
    assert (retried["labels"], retried["job_id"] != job_id) == (job["labels"], True)
    assert client("jobs", "wait", job_id).out == f"{job['pr_url']}\n"


def test_artifacts_are_listed_and_downloaded_without_overwriting(client, tmp_path):
    job_id = create(client, "prompted", "--prompt", "x", "--wait", "--json").document["job_id"]
    (artifact,) = client("jobs", "artifacts", job_id, "--json").document["artifacts"]
    assert (artifact["name"], artifact["size_bytes"]) == ("x.txt", 2)
    target = tmp_path / "downloaded"
    assert client("jobs", "artifacts", job_id, "x.txt", "-o", str(target)).out == f"{target}\n"
    assert target.read_text() == "x\n"
    repeated = client("jobs", "artifacts", job_id, "x.txt", "-o", str(target))
    assert (repeated.exit_code, "already exists" in repeated.err) == (2, True)
    assert client("jobs", "artifacts", job_id, "x.txt", "-o", "-").out == "x\n"
    missing = client("jobs", "artifacts", job_id, "y.txt")
    assert (missing.exit_code, "artifact_not_found" in missing.err) == (2, True)
    # The job was found, so that the address and the key are not in doubt.
    assert "AGENTJOBS_URL" not in missing.err
    no_report = client("jobs", "report", job_id)
    assert (no_report.exit_code, "has no report" in no_report.err) == (2, True)


async def write_steps(data_dir: Path, job_id: str, *steps: dict[str, object]) -> None:
    db = await open_database(f"sqlite:///{data_dir / 'agentjobs.db'}", migrate=False)
    await insert_steps(db, job_id, *steps)
    await db.close()


def test_the_steps_of_an_agent_are_listed(client):
    job_id = create(client, "prompted", "--prompt", "x", "--wait", "--json").document["job_id"]
    assert client("jobs", "steps", job_id, "--json").document == {"steps": []}
    model = {"kind": "model", "title": "large", "duration_ms": 2_000, "cost_nanousd": 12_400_000}
    command = {"kind": "command", "title": "make", "state": "failed", "exit_code": 2}
    asyncio.run(write_steps(client.data_dir, job_id, model, command))
    table = client("jobs", "steps", job_id).out
    assert "\tmodel\tlarge\tsucceeded\t2 s\t$0.0124\n" in table
    assert "make\texit 2\t-\t-\n" in table
    (step,) = client("jobs", "steps", job_id, "--kind", "command", "--json").document["steps"]
    assert (step["sequence"], step["exit_code"]) == (2, 2)
    unknown = client("jobs", "steps", job_id, "--kind", "thought")
    assert unknown.exit_code == 2
    assert "kind: must be one of change, command" in unknown.err


def test_what_the_service_offers_is_listed(client):
    agents = client("jobs", "agents", "--json").document["agents"]
    assert {"prompted", "sleepy"} <= {agent["id"] for agent in agents}
    assert "prompted\tWrites its prompt\tyes\t" in client("jobs", "agents").out
    (shop,) = (
        repo
        for repo in client("jobs", "repos", "--json").document["repos"]
        if repo["full_name"] == REPO
    )
    assert shop["index_status"] == "ready"
    assert f"{REPO}\tlocal\tready\t1\tmain\t-" in client("jobs", "repos").out


def test_the_caller_and_usage_are_shown(client):
    assert client("me", "--json").document["key"]["name"] == "laptop"
    assert "organization: default\n" in client("me").out
    usage = client("usage", "--from", "7d", "--group-by", "agent", "--json").document
    assert usage["total"]["jobs"]["total"] >= 0
    assert client("usage").out.splitlines()[-1].startswith("total\t")
    refused = client("usage", "--group-by", "moon")
    assert (refused.exit_code, refused.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "options",
    [
        ("--label", "team"),
        ("--label", "a=1", "--label", "a=2"),
        ("--prompt", "@/no/such/file"),
        ("--prompt", "a", "--set", "prompt=b"),
        ("--timeout", "5"),
        ("--timeout", "-1", "--wait"),
    ],
)
def test_options_that_cannot_be_meant_are_one_line_and_no_job(client, options):
    refused = create(client, "prompted", *options)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_waiting_ends_with_the_timeout_and_the_job_goes_on(client):
    timed_out = create(client, "sleepy", "--wait", "--timeout", "0.1", "--json")
    assert timed_out.exit_code == 3, timed_out.err
    (job,) = client("jobs", "list", "--agent", "sleepy", "--limit", "1", "--json").document["jobs"]
    assert job["status"] in ("queued", "running")
    assert f"agentjobs jobs cancel {job['job_id']}" in timed_out.err
    assert client("jobs", "cancel", job["job_id"]).exit_code == 0
    assert client("jobs", "wait", job["job_id"]).exit_code == 1


def test_a_terminal_follows_the_job_until_ctrl_c(client):
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 34, 0, 0))
    command = ("jobs", "create", "--repo", REPO, "--agent", "sleepy", "--wait")
    with subprocess.Popen(
        [*PROGRAM, *command],
        env={**client.environment, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        # A shell that runs the tests in the background lets them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        os.close(terminal)
        screen = read_until(controller, "s: going to")
        process.send_signal(signal.SIGINT)
        screen += read_until(controller, "cancels it.")
        assert process.wait(60) == 130
    os.close(controller)
    assert " is running\r\n" in screen
    lines = re.findall(r"\x1b\[K([^\r]+: going to[^\r]*)", screen)
    assert max(map(len, lines)) < 34
    assert "The job goes on" in screen
    (job,) = client("jobs", "list", "--status", "running", "--json").document["jobs"]
    assert client("jobs", "cancel", job["job_id"]).exit_code == 0


def test_connecting_a_repository_waits_until_it_is_indexed(client, tmp_path):
    source = make_repository(tmp_path / "other", {"a.py": "x = 1\n"})
    done = client("repos", "connect", str(source), "--name", "acme/other", "--wait", "--json")
    assert done.document["index_status"] == "ready"
    assert done.document["line_count"] == 1


def read_until(controller: int, end: str) -> str:
    screen = ""
    while end not in screen:
        screen += os.read(controller, 4096).decode()
    return screen
