"""`make demo`, on a terminal and without one."""

import asyncio
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from agentjobs.cli.demo.receiver import running_receiver
from agentjobs.cli.demo.service import DemoFailed, DemoService
from tests.support.cli_process import PROGRAM
from tests.support.service import wait_until


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "tmp"
    directory.mkdir()
    return directory


def demo(place: Path, **options) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, "demo"],
        env={
            **os.environ,
            "TMPDIR": str(place),
            "AGENTJOBS_DATABASE_URL": "postgresql://elsewhere/x",
        },
        stderr=subprocess.PIPE,
        text=True,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options},
    )


def services_in(place: Path) -> list[str]:
    """Returns the command lines of processes that run below `place`."""
    commands = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(place) in command:
            commands.append(command)
    return commands


def test_a_demo_that_is_stopped_leaves_nothing_behind(place):
    with demo(place) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().startswith("http://"):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert services_in(place) == []
    assert list(place.iterdir()) == []


async def test_a_command_that_runs_when_the_demo_is_stopped_is_stopped_too(place):
    service = DemoService(place / "data", "http://127.0.0.1:1")
    command = asyncio.create_task(service.command("up", "--port=0"))
    await asyncio.to_thread(wait_until, lambda: services_in(place), "the command")
    command.cancel()
    await asyncio.wait({command})
    assert services_in(place) == []


def test_the_demo_shows_a_real_pull_request_and_stays_open_until_ctrl_c(place):
    ours, theirs = pty.openpty()
    with demo(place, stdin=theirs, stdout=theirs) as process:
        os.close(theirs)
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            output = b""
            while b"until you press Ctrl-C" not in output:
                output += terminal.read(4096)
            shown = re.sub(r"\x1b\[[\d;]*m|\r", "", output.decode())
            check_pull_request(shown)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
    assert services_in(place) == []
    assert list(place.iterdir()) == []


def check_pull_request(shown: str) -> None:
    assert re.search(r"http://127\.0\.0\.1:\d+/default/demo/shop/pulls/1\n", shown)
    assert "diff --git a/shop/cart.py b/shop/cart.py" in shown
    assert "-import os, sys" in shown
    events = re.findall(r"^  (\S+) +dlv_\w+  signature valid$", shown, re.MULTILINE)
    assert events == ["job.queued", "job.started", "job.completed", "pr.review_requested"]
    addresses = re.findall(r"http://127\.0\.0\.1:\d+", shown)
    assert httpx.get(f"{addresses[0]}/healthz").status_code == 200
    link = re.search(r"http://127\.0\.0\.1:\d+/sign-in\?token=\w+", shown)
    assert link is not None
    assert httpx.get(link[0]).status_code == 303


async def test_the_demos_receiver_refuses_what_the_service_did_not_sign():
    async with running_receiver() as receiver, httpx.AsyncClient(trust_env=False) as client:
        receiver.secret = "whsec_c2VjcmV0"
        answer = await client.post(receiver.url, json={"event": "job.completed"})
        assert answer.status_code == 401
        with pytest.raises(DemoFailed, match="X-Service-Signature-256 is missing"):
            await receiver.next_event()
