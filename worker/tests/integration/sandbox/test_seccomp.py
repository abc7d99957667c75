"""The installed system call filter: what it refuses, and that ordinary tools still work."""

import platform
import stat
import sys
from pathlib import Path

import pytest

from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.allowed_calls import REFUSED
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.syscalls import ARCHITECTURES
from tests.support.sandbox import SandboxHarness, unused_uid_base


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


async def python(harness: SandboxHarness, script: str) -> str:
    report = await harness.run(sys.executable, "-c", script, read_only=python_files())
    assert report.exit_code == 0, report.last_lines
    return report.last_lines


async def test_the_agent_and_the_first_process_are_filtered(harness: SandboxHarness) -> None:
    await harness.shell("grep -h ^Seccomp: /proc/self/status /proc/1/status")
    assert harness.output.split() == [b"Seccomp:", b"2"] * 2


async def test_every_refused_call_fails_for_the_agent(harness: SandboxHarness) -> None:
    numbers = ARCHITECTURES[platform.machine()].numbers
    calls = {name: numbers[name] for name in REFUSED if name in numbers}
    script = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {calls!r}.items():
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    if (result, ctypes.get_errno()) != (-1, errno.EPERM):
        print(name, result, errno.errorcode.get(ctypes.get_errno()))
"""
    assert await python(harness, script) == ""


@pytest.mark.parametrize("flag", ["--user", "--mount", "--net", "--pid", "--user --map-root-user"])
async def test_no_namespace_can_be_created(harness: SandboxHarness, flag: str) -> None:
    report = await harness.shell(f"unshare {flag} true")
    assert report.exit_code != 0
    assert "Operation not permitted" in report.last_lines


async def test_no_sandbox_can_be_created_in_the_sandbox(harness: SandboxHarness) -> None:
    report = await harness.shell("bwrap --unshare-user --ro-bind / / true")
    assert report.exit_code != 0


async def test_another_process_cannot_be_traced(harness: SandboxHarness) -> None:
    script = """
import ctypes, subprocess
libc = ctypes.CDLL(None, use_errno=True)
child = subprocess.Popen(["sleep", "5"])
PTRACE_ATTACH = 16
print(libc.ptrace(PTRACE_ATTACH, child.pid, None, None), ctypes.get_errno())
child.kill()
"""
    assert await python(harness, script) == "-1 1"


async def test_unusual_socket_families_are_refused_and_names_can_be_looked_up(
    harness: SandboxHarness,
) -> None:
    script = """
import errno, socket
for family, protocol in ((17, 0), (16, 15), (38, 0), (40, 0), (31, 0), (44, 0)):
    try:
        socket.socket(family, socket.SOCK_RAW, protocol)
        print("opened", family)
    except OSError as error:
        assert error.errno == errno.EAFNOSUPPORT, error
print(socket.getaddrinfo("localhost", 80)[0][4][0] in ("127.0.0.1", "::1"), socket.if_nameindex())
"""
    assert await python(harness, script) == "True [(1, 'lo')]"


async def test_a_setuid_file_cannot_be_created(harness: SandboxHarness) -> None:
    report = await harness.shell("touch tool; chmod 4755 tool || chmod 755 tool; stat -c %a tool")
    assert report.last_lines.endswith("755")
    assert (harness.workspace / "tool").stat().st_mode & 0o7777 == 0o755


async def test_a_task_may_set_setuid_bits_and_gains_nothing_from_them(
    harness: SandboxHarness,
) -> None:
    script = "cp /bin/cat c && chmod 4755 c && ./c /proc/self/status | grep -e ^Uid -e ^NoNew"
    report = await harness.shell(script, allows_setuid_bits=True)
    assert report.exit_code == 0
    assert harness.workspace.joinpath("c").stat().st_mode & stat.S_ISUID
    uid = harness.workspace.stat().st_uid
    lines = dict(line.split(":") for line in harness.output.decode().splitlines())
    assert {int(number) for number in lines["Uid"].split()} == {uid}
    assert lines["NoNewPrivs"].strip() == "1"


async def test_no_call_creates_a_setuid_file(harness: SandboxHarness) -> None:
    script = """
import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
O_TMPFILE = os.O_TMPFILE | os.O_RDWR
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, error.strerror)
attempt("open", lambda: os.open("open", os.O_CREAT | os.O_RDWR, 0o4755))
attempt("temporary", lambda: os.open(".", O_TMPFILE, 0o4755))
attempt("mknod", lambda: os.mknod("mknod", 0o4755 | stat.S_IFREG))
attempt("mkdir", lambda: os.mkdir("mkdir", 0o4755))
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_RDWR, 0o4755, 0)
if libc.syscall(437, -100, b"openat2", how, 24) < 0:
    print("openat2", os.strerror(ctypes.get_errno()))
libc.creat(b"creat", 0o4755)
print([name for name in os.listdir() if os.stat(name).st_mode & stat.S_ISUID])
os.open("usual", os.O_CREAT | os.O_RDWR, 0o755)
"""
    *refused, created = (await python(harness, script)).split("\n")
    calls = ("open", "temporary", "mknod", "mkdir")
    assert refused == [
        *(f"{name} Operation not permitted" for name in calls),
        "openat2 Function not implemented",
    ]
    assert created == "[]"
    assert [path.name for path in harness.workspace.iterdir()] == ["usual"]


async def test_memory_cannot_be_hidden_from_the_watchdog(harness: SandboxHarness) -> None:
    script = """
import errno, os
try:
    os.memfd_create("hidden")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert await python(harness, script) == "ENOSYS"


async def test_ordinary_tools_work(harness: SandboxHarness) -> None:
    (harness.workspace / "hello.c").write_text(
        '#include <stdio.h>\n#include <pthread.h>\nstatic void *say(void *x) { puts("built");'
        " return x; }\nint main(void) { pthread_t t; pthread_create(&t, 0, say, 0);"
        " return pthread_join(t, 0); }\n"
    )
    (harness.workspace / "Makefile").write_text("hello: hello.c\n\tgcc -pthread -o hello hello.c\n")
    report = await harness.shell(
        "set -e; make -s hello; ./hello; git init -q .; git add hello.c; "
        "git -c user.name=a -c user.email=a@b commit -qm one; git log --format=%s; "
        "mkfifo pipe; tar cf - hello.c | tar tf -; "
    )
    assert report.exit_code == 0, report.last_lines
    assert report.last_lines.split("\n") == ["built", "one", "hello.c"]


async def test_node_runs_with_its_threads_and_children(harness: SandboxHarness) -> None:
    script = """
const {Worker, isMainThread} = require("worker_threads");
const {execFileSync} = require("child_process");
if (isMainThread) new Worker(__filename).on("exit", () =>
  console.log(execFileSync("echo", ["child"]).toString().trim(), require("os").hostname()));
"""
    (harness.workspace / "run.js").write_text(script)
    report = await harness.run("node", "run.js")
    assert (report.exit_code, report.last_lines) == (0, "child agentjobs")


async def test_python_runs_threads_pools_and_shared_memory(harness: SandboxHarness) -> None:
    script = """
import concurrent.futures as futures, multiprocessing, subprocess, threading
from multiprocessing import shared_memory
threading.Thread(target=lambda: print("thread")).start()
block = shared_memory.SharedMemory(create=True, size=4096)
block.close(); block.unlink()
with futures.ProcessPoolExecutor(2) as pool:
    print(sum(pool.map(abs, range(-3, 0))))
print(subprocess.check_output(["echo", "child"], text=True).strip())
"""
    assert (await python(harness, script)).split("\n") == ["thread", "6", "child"]
