"""What the supervisor enforces: rlimits, the filter of system calls, disk space and CPU time."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.seccomp import filter_program
from agentjobs_worker.sandbox.syscalls import ARCHITECTURES
from tests.support.supervisor import python, running_supervisor, shell
from tests.support.supervisor_client import archive_of, encoded

MIB = 1024 * 1024


def test_the_command_has_its_limits_and_priority(client):
    limits = {"file_bytes": MIB, "processes": 100, "open_files": 99, "cpu_seconds": 50}
    script = """if True:
        import json, os, resource
        names = ("CORE", "FSIZE", "NPROC", "NOFILE", "CPU")
        values = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(json.dumps({
            **{name: value[1] for name, value in values.items()},
            "nice": os.nice(0),
            "oom": int(open("/proc/self/oom_score_adj").read()),
            "privileges": status["NoNewPrivs"].strip(),
            "is_leader": os.getsid(0) == os.getpid(),
            "descriptors": sorted(os.listdir("/proc/self/fd"))[:3],
            "input": os.readlink("/proc/self/fd/0"),
            "environment": sorted(os.environ),
            "umask": os.umask(0),
        }))
    """
    assert client.run(python(script, limits=limits))["exit_code"] == 0
    seen = json.loads(client.output)
    assert (seen["CORE"], seen["FSIZE"], seen["NOFILE"], seen["CPU"]) == (0, MIB, 99, 52)
    # The supervisor's threads have the same user.
    assert 100 < seen["NPROC"] < 150
    assert (seen["nice"], seen["privileges"], seen["is_leader"]) == (10, "1", True)
    assert seen["oom"] >= 500
    assert (seen["descriptors"], seen["input"]) == (["0", "1", "2"], "/dev/null")
    assert seen["umask"] == 0o022
    assert {"HOME", "PATH"} <= set(seen["environment"]) <= {"HOME", "PATH", "LC_CTYPE"}


def test_the_filter_of_system_calls_is_applied(client):
    architecture = ARCHITECTURES[client.hello["architecture"]]
    program = filter_program(architecture, all_memory_is_counted=True)
    script = "unshare --user true || echo refused; python3 -c 'import os; print(os.getpid() > 1)'"
    assert client.run(shell(script, seccomp=encoded(program)))["exit_code"] == 0
    assert b"refused" in client.output
    assert b"True" in client.output


@pytest.mark.parametrize("program", [b"\0" * 7, b"\xff" * 8])
def test_a_filter_that_cannot_be_applied_is_said_before_the_start(client, program):
    client.request("prepare", **shell("echo ran", seccomp=encoded(program)))
    with pytest.raises(RuntimeError) as failed:
        client.request("start")
    assert "system call filter" in str(failed.value)
    assert bytes(client.output) == b""


def test_a_working_directory_that_does_not_exist_is_said_before_the_start(client):
    client.request("prepare", **shell("true", directory="/no/such/directory"))
    with pytest.raises(RuntimeError, match="/no/such/directory"):
        client.request("start")


WRITES = {
    "files": "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > file-$i; done",
    "empty files": "mkdir d; cd d; seq -f 'f%g' 100000 | xargs touch; sleep 1000",
    "unreadable directories": (
        "mkdir -p a/b; head -c 30000000 /dev/zero > a/b/file; chmod 0 a/b a; sleep 1000"
    ),
    "deleted files": "exec 5>file; rm file; head -c 30000000 /dev/zero >&5; sleep 1000",
    "deep directories": (
        "for i in $(seq 300); do mkdir d; cd d; done; head -c 30000000 /dev/zero > file; sleep 1000"
    ),
}


@pytest.mark.parametrize("script", WRITES.values(), ids=WRITES.keys())
def test_an_agent_that_writes_too_much_is_killed(client, script):
    ended = client.run(shell(script, limits={"workspace_bytes": 20 * MIB}))
    assert (ended["exit_code"], ended["exceeded"]) == (None, "workspace")


# How a process keeps the deleted `file` where nobody can read its size.
HIDES = {
    "in a process that may not be inspected": "libc.prctl(4, 0, 0, 0, 0); write(file)",
    "mapped": "write(file); libc.mmap(None, 4096, 1, 1, file, 0); os.close(file)",
    "in flight": "write(file); socket.send_fds(sockets[0], [b'x'], [file]); os.close(file)",
    "in another thread": "threading.Thread(target=write, args=(file,)).start(); exit(0)",
}


@pytest.mark.parametrize("hide", HIDES.values(), ids=HIDES.keys())
def test_an_agent_that_hides_deleted_files_is_killed(client, hide):
    script = f"""if True:
        import ctypes, os, socket, threading, time
        libc, sockets = ctypes.CDLL(None), socket.socketpair()
        exit = libc.pthread_exit
        file = os.open("file", os.O_RDWR | os.O_CREAT)
        os.unlink("file")
        def write(file):
            os.write(file, bytes(30_000_000))
            if threading.current_thread() is not threading.main_thread():
                time.sleep(1000)
        {hide}
        time.sleep(1000)
    """
    ended = client.run(python(script, limits={"workspace_bytes": 20 * MIB}))
    assert (ended["exit_code"], ended["exceeded"]) == (None, "workspace"), bytes(client.output)


def test_an_agent_that_deletes_what_it_writes_goes_on(client):
    """Beside processes that have ended, which nobody may inspect."""
    script = """if True:
        import os, subprocess, time
        ended = [subprocess.Popen(["true"]) for _ in range(5)]
        for _ in range(10):
            with open("file", "wb") as file:
                file.write(bytes(3_000_000))
            # Longer than the supervisor waits between two looks.
            time.sleep(0.11)
            os.unlink("file")
    """
    ended = client.run(python(script, limits={"workspace_bytes": 20 * MIB}))
    assert (ended["exit_code"], ended["exceeded"]) == (0, None)


@pytest.mark.parametrize("place", ["volume/file", "message"])
def test_what_is_written_outside_of_the_volumes_of_the_worker_counts(place):
    """A volume that the image declares, and the file for the runtime's last message."""
    # Not in memory, as directories of tests may be.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        base = Path(directory)
        (base / "volume").mkdir()
        (base / "message").touch()
        volumes = {f"/tmp/{name}": base / name for name in ("volume", "message")}
        script = f"head -c 30000000 /dev/zero > /tmp/{place}; sleep 1000"
        with running_supervisor(base / "pod", volumes) as supervisor:
            client = supervisor.connect()
            ended = client.run(shell(script, limits={"workspace_bytes": 20 * MIB}))
            client.close()
    assert (ended["exit_code"], ended["exceeded"]) == (None, "workspace")


def test_reading_a_closed_directory_leaves_its_mode_as_it_is(client):
    client.upload(archive_of({"closed": None, "closed/file": b"x"}, modes={"closed": 0}))
    assert client.run(shell("stat -c %a closed"))["exit_code"] == 0
    assert bytes(client.output) == b"0\n"


def test_an_agent_that_uses_too_much_processor_time_is_killed(client):
    # Also the time of children that are not waited for.
    script = "trap '' CHLD; while :; do timeout 0.2 sh -c 'while :; do :; done'; done"
    ended = client.run(shell(script, limits={"cpu_seconds": 1}))
    assert (ended["exit_code"], ended["exceeded"]) == (None, "cpu")


def test_an_image_cannot_hide_processor_time_behind_a_volume(tmp_path):
    (tmp_path / "volume").mkdir()
    # Whoever waits for it waits for ever.
    os.mkfifo(tmp_path / "volume" / "cpu.stat")
    with running_supervisor(
        tmp_path / "pod", {"/sys/fs/cgroup": tmp_path / "volume"}
    ) as supervisor:
        client = supervisor.connect()
        ended = client.run(shell("while :; do :; done", limits={"cpu_seconds": 1}))
        client.close()
    assert (ended["exit_code"], ended["exceeded"]) == (None, "cpu")
