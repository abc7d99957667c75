"""What the bubblewrap sandbox prevents, and that none of its processes survive."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import (
    SandboxError,
    SandboxLost,
    SandboxPort,
    SandboxUnavailable,
)
from tests.support.sandbox import ProcessMarker, SandboxHarness, eventually, unused_uid_base

UID_BASE = unused_uid_base()
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def bare_harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(UID_BASE), tmp_path)


@pytest.fixture(params=["bare", "layers"])
def harness(request: pytest.FixtureRequest, bare_harness: SandboxHarness) -> SandboxHarness:
    if request.param == "layers":
        bare_harness.use_layers()
    return bare_harness


def test_each_slot_has_its_own_uid_for_root_and_the_services_uid_otherwise(
    bare_harness: SandboxHarness,
) -> None:
    assert bare_harness.sandbox.owner_uid(7) == (UID_BASE + 7 if IS_ROOT else None)


async def test_the_agent_is_an_unprivileged_user_with_a_name_and_a_home(
    harness: SandboxHarness,
) -> None:
    uid = UID_BASE if IS_ROOT else os.geteuid()
    report = await harness.shell(
        "id -u; id -un; id -G | wc -w; echo ~; stat -c %u . $AGENTJOBS_JOB/.."
    )
    assert report.last_lines.split("\n")[:2] == [str(uid), "agent"]
    assert "/home/agent" in report.last_lines


async def test_the_agent_has_no_capability_and_can_gain_none(harness: SandboxHarness) -> None:
    await harness.shell("grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    lines = dict(line.split(":") for line in harness.output.decode().splitlines())
    granted = {name: int(value, 16) for name, value in lines.items() if name != "NoNewPrivs"}
    assert lines["NoNewPrivs"].strip() == "1"
    assert granted == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)


async def test_no_other_process_is_visible(harness: SandboxHarness) -> None:
    report = await harness.shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
    visible, first = report.last_lines.split("\n")
    assert int(visible) <= 5
    assert first == "bwrap"


async def test_only_an_allow_list_of_the_machine_is_visible(
    harness: SandboxHarness, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    await harness.shell("ls -A /")
    assert set(harness.output.split()) <= {
        *(b"bin", b"dev", b"etc", b"home", b"lib", b"lib32", b"lib64", b"libx32", b"proc"),
        *(b"run", b"sbin", b"tmp", b"usr", b"workspace"),
    }
    hidden = ["/etc/shadow", "/etc/ssl/private", "/root", "/var", "/sys", str(tmp_path / "secret")]
    for path in hidden:
        assert (await harness.shell(f"ls -d '{path}'")).exit_code == 2, path
    await harness.shell("cut -d: -f1 /etc/passwd")
    assert harness.output.endswith(b"root\nagent\n")


async def test_only_the_workspace_the_report_and_scratch_space_can_be_written(
    harness: SandboxHarness,
) -> None:
    for path in ("/", "/usr", "/etc", "/dev", "/run", "/run/agentjobs", "/home", "/proc/sys"):
        assert (await harness.shell(f"touch {path}/x")).exit_code != 0, path
    assert (await harness.shell("echo x >> $AGENTJOBS_JOB")).exit_code != 0
    assert (await harness.shell("rm -f $AGENTJOBS_JOB")).exit_code != 0
    for path in (".", "/tmp", "/dev/shm", "$HOME", "/run/agentjobs/report"):
        assert (await harness.shell(f"touch {path}/x")).exit_code == 0, path


async def test_the_only_network_is_the_sandboxs_own_loopback(harness: SandboxHarness) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
except ConnectionRefusedError:
    print("refused")
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    print(error.strerror)
listening = socket.create_server(("localhost", 0))
socket.create_connection(listening.getsockname())
print([name for _, name in socket.if_nameindex()][0])
"""
    async with server:
        report = await harness.run(sys.executable, "-c", script, read_only=python_files())
    assert report.last_lines.split("\n") == ["refused", "Network is unreachable", "lo"]


async def test_hosts_resolve_to_their_loopback_addresses_and_others_do_not_resolve(
    harness: SandboxHarness,
) -> None:
    hosts = {"packages.test": "127.88.0.1", "files.test": "127.88.0.2"}
    report = await harness.shell("getent hosts packages.test files.test", hosts=hosts)
    assert report.last_lines.split() == [
        *("127.88.0.1", "packages.test"),
        *("127.88.0.2", "files.test"),
    ]
    assert (await harness.shell("getent hosts example.org", hosts=hosts)).exit_code != 0


async def test_the_agent_does_not_start_if_its_ports_cannot_be_opened(
    harness: SandboxHarness,
) -> None:
    port = SandboxPort(number=8462, protocol=asyncio.Protocol)
    with pytest.raises(SandboxError, match="ports of the sandbox could not be opened"):
        await harness.shell("echo ran", ports=(port, port))
    assert harness.output == b""


async def test_a_port_listener_that_cannot_start_is_reported_and_leaves_no_sandbox(
    bare_harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    marker, port = ProcessMarker(), SandboxPort(number=8462, protocol=asyncio.Protocol)
    for _ in range(5):
        with pytest.raises(
            SandboxError, match=r"ports of the sandbox could not be opened: .*No such file"
        ):
            await bare_harness.shell(f"echo ran; {marker.sleeper()}", ports=(port,))
        assert marker.processes() == []
    assert bare_harness.output == b""


async def test_a_failed_start_of_the_port_listener_is_retried_when_the_sandbox_is_ready(
    bare_harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = SandboxPort(number=8462, protocol=asyncio.Protocol)
    with monkeypatch.context() as missing:
        missing.setattr(sys, "executable", "/nowhere/python")
        running = bare_harness.start("echo ran", ports=(port,))
        await asyncio.sleep(0)
    assert (await running).last_lines == "ran"


async def test_read_only_paths_below_private_directories_are_visible_at_the_same_path(
    harness: SandboxHarness,
) -> None:
    deep = harness.private / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "tool").write_text("#!/bin/sh\necho tool\n")
    (deep / "tool").chmod(0o755)
    (deep.parent / "other").write_text("hidden")
    for shown in (deep, deep / "tool"):
        report = await harness.run(str(deep / "tool"), read_only=(shown,))
        assert report.last_lines == "tool"
    assert (await harness.shell(f"echo x >> {deep}/tool", read_only=(deep,))).exit_code != 0
    assert (await harness.shell(f"cat {deep.parent}/other", read_only=(deep,))).exit_code != 0


async def test_the_root_directory_is_never_shown(harness: SandboxHarness) -> None:
    with pytest.raises(SandboxError, match="root directory"):
        await harness.run("true", read_only=(Path("/"),))


async def test_a_daemon_that_left_its_session_dies_with_the_command(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()
    report = await harness.shell(
        f"setsid -f {marker.sleeper()}; setsid -f {marker.sleeper()} >/dev/null 2>&1; echo done"
    )
    assert (report.exit_code, report.last_lines) == (0, "done")
    assert marker.processes() == []


async def test_background_writers_are_dead_before_the_run_returns(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    writer = f"sh -c 'while :; do echo x >> grows; done' {marker.text}"
    report = await harness.shell(f"setsid -f {writer}; while [ ! -s grows ]; do :; done")
    assert report.exit_code == 0
    assert marker.processes() == []


async def test_a_fork_bomb_is_limited_and_ends_at_the_timeout(harness: SandboxHarness) -> None:
    marker = ProcessMarker()
    report = await harness.shell(
        f"bomb() {{ {marker.sleeper()} & bomb & bomb; }}; bomb",
        timeout_seconds=0.5,
        limits=Limits(processes=64),
    )
    assert report.timed_out or report.exit_code != 0
    assert marker.processes() == []


async def test_process_limits_count_each_slot_separately(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox(unused_uid_base())
    harnesses = [SandboxHarness(sandbox, tmp_path, slot) for slot in range(3)]
    script = "for n in 1 2 3 4 5 6 7; do sleep 0.2 & done; wait; echo all"
    limits = Limits(processes=12)
    reports = await asyncio.gather(*(harness.shell(script, limits=limits) for harness in harnesses))
    assert [report.last_lines for report in reports] == ["all"] * 3


async def test_scratch_space_is_bounded(harness: SandboxHarness) -> None:
    limits = Limits(scratch_bytes=1024 * 1024)
    in_memory = ("/tmp", "/dev/shm") if harness.layers else ("/tmp", "/dev/shm", "$HOME")
    for path in in_memory:
        report = await harness.shell(f"head -c 3000000 /dev/zero > {path}/big", limits=limits)
        assert "No space left" in report.last_lines


async def test_changing_the_permissions_of_the_workspace_does_not_break_the_run(
    harness: SandboxHarness,
) -> None:
    report = await harness.shell("mkdir d && chmod 000 d . && rm -rf .git; cd /; exit 0")
    assert report.exit_code == 0


async def test_a_report_directory_cannot_be_replaced(harness: SandboxHarness) -> None:
    report = await harness.shell("cd /; rm -rf /run/agentjobs/report; ln -s /etc /run/agentjobs/x")
    assert report.exit_code != 0
    assert not harness.report_dir.is_symlink()
    assert [path.name for path in harness.run_dir.iterdir()] != ["x"]


async def test_the_command_line_of_bwrap_shows_no_environment_variable(
    harness: SandboxHarness,
) -> None:
    marker = ProcessMarker()
    running = harness.start("echo up; sleep 1000", environment={"PROMPT": marker.text})
    await harness.wait_for_output(b"up")
    assert marker.processes() == []
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("when", ["started", "running"])
async def test_agents_die_when_the_service_is_killed(tmp_path: Path, when: str) -> None:
    marker = ProcessMarker()
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVICE, str(tmp_path), f"echo running; {marker.sleeper()}"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert service.stdout is not None
    while (await service.stdout.readline()).strip() != when.encode():
        assert service.returncode is None
    service.kill()
    await service.wait()
    await eventually(lambda: marker.processes() == [], seconds=1)


async def test_a_missing_bubblewrap_is_reported_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = BubblewrapSandbox(UID_BASE)
    with pytest.raises(SandboxUnavailable, match="apt-get install -y bubblewrap"):
        await sandbox.check()
    with pytest.raises(SandboxError, match="not installed"):
        await SandboxHarness(sandbox, tmp_path).run("true")


async def test_a_bubblewrap_that_cannot_work_is_detected_before_any_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match="No permissions to create new namespace"):
        await BubblewrapSandbox(UID_BASE).check()


async def test_ctrl_c_while_the_sandbox_starts_is_not_the_agents_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Until a started process has its own session, it gets the signals of the service's group.
    interrupted = tmp_path / "bwrap"
    # Whoever started the tests may ignore the signal.
    interrupted.write_text("#!/bin/sh\nexec env --default-signal=INT sh -c 'kill -INT $$'\n")
    interrupted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxLost):
        await SandboxHarness(BubblewrapSandbox(UID_BASE), tmp_path).run("true")


_SERVICE = """
import asyncio, sys
from pathlib import Path
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from tests.support.sandbox import SandboxHarness, unused_uid_base

async def main():
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), Path(sys.argv[1]))
    running = harness.start(sys.argv[2])
    await asyncio.sleep(0)
    print("started", flush=True)
    await harness.wait_for_output(b"running")
    print("running", flush=True)
    await running

asyncio.run(main())
"""
