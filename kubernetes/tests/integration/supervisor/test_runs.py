"""The life of a command under the supervisor: start, output, end, and what it leaves behind."""

import pytest

from tests.support.supervisor import command, shell
from tests.support.supervisor_client import archive_of, contents_of


def test_files_go_in_and_the_changed_ones_come_out(client):
    files = {"src": None, "src/kept.py": b"kept", "src/old.py": b"old", "gone.txt": b"gone"}
    client.upload(archive_of(files))
    ended = client.run(
        shell("echo new > src/old.py; rm gone.txt; mkdir made; echo more > made/file")
    )
    assert ended["exit_code"] == 0
    changes = client.download()
    assert contents_of(changes) == {"src/old.py": b"new\n", "made/file": b"more\n"}
    assert list(changes) == ["made", "made/file", "src/old.py"]
    assert client.deletions() == [b"gone.txt"]


def test_the_output_of_both_streams_and_the_exit_code_arrive(client):
    ended = client.run(shell("echo one; echo two >&2; exit 7"))
    assert bytes(client.output) == b"one\ntwo\n"
    assert (ended["exit_code"], ended["exceeded"]) == (7, None)
    assert ended["duration_ms"] >= 0


def test_a_signal_gives_the_exit_code_of_a_shell(client):
    assert client.run(shell("kill -9 $$"))["exit_code"] == 137


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["no-such-program"], 127, b"no-such-program: not found\n"),
        (["/no/such/program"], 127, b"/no/such/program: not found\n"),
        (["/etc/passwd"], 126, b"/etc/passwd: permission denied\n"),
        (["/workspace"], 126, b"/workspace: permission denied\n"),
    ],
)
def test_a_program_that_cannot_run_ends_as_in_a_shell(client, argv, code, text):
    assert client.run(command(*argv))["exit_code"] == code
    assert bytes(client.output) == text


@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        (b"echo $1", 0, b"argument\n"),
        (b"#!/bin/sh\necho $1", 0, b"argument\n"),
        (b"#!/no/such/interpreter\n", 127, b"./script: not found\n"),
    ],
)
def test_scripts_run_as_in_a_shell(client, script, code, output):
    client.upload(archive_of({"script": script}, modes={"script": 0o755}))
    assert client.run(command("./script", "argument"))["exit_code"] == code
    assert bytes(client.output) == output


@pytest.mark.parametrize(
    "changes",
    [{"argv": ["a\0b"]}, {"environment": {"A": "b\0"}}, {"environment": {"A=B": ""}}],
)
def test_a_command_that_no_kernel_can_start_is_refused(client, changes):
    with pytest.raises(RuntimeError, match="environment variable"):
        client.request("prepare", **command("true", **changes))


def test_kill_ends_every_process_and_reports_no_exit_code(client, supervisor):
    client.start(
        shell("(setsid sh -c 'while :; do sleep 100 & wait; done' &) ; echo up; sleep 100")
    )
    client.wait_for_output(b"up")
    client.send(type="kill")
    ended = client.expect("ended")
    assert ended["exit_code"] is None
    assert supervisor.processes() == []


def test_what_the_command_leaves_running_is_killed_at_its_end(client, supervisor):
    ended = client.run(
        shell("(setsid sh -c 'trap \"\" TERM HUP; sleep 100; sleep 100' &) ; exit 3")
    )
    assert ended["exit_code"] == 3
    assert supervisor.processes() == []


def test_exit_ends_the_supervisor_with_success(client, supervisor):
    client.start(shell("sleep 100"))
    client.send(type="exit")
    assert supervisor.wait() == 0
