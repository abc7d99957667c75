"""What the bubblewrap sandbox holds back, and that nothing of it outlives anything."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from agentjobs.agents.builtin_agents import python_files
from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import Door, SandboxError, SandboxUnavailable
from tests.support.sandbox import Mark, Room, eventually

UID_BASE = 900_000
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(BubblewrapSandbox(UID_BASE), tmp_path)


def test_as_root_each_slot_has_its_own_user_and_otherwise_the_services(room: Room) -> None:
    assert room.sandbox.owner_uid(7) == (UID_BASE + 7 if IS_ROOT else None)


async def test_the_agent_is_an_unprivileged_user_with_a_name_and_a_home(room: Room) -> None:
    uid = UID_BASE if IS_ROOT else os.geteuid()
    report = await room.shell(
        "id -u; id -un; id -G | wc -w; echo ~; stat -c %u . $AGENTJOBS_JOB/.."
    )
    assert report.last_lines.split("\n")[:2] == [str(uid), "agent"]
    assert "/home/agent" in report.last_lines


async def test_the_agent_has_no_capability_and_can_gain_none(room: Room) -> None:
    await room.shell("grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    lines = dict(line.split(":") for line in room.output.decode().splitlines())
    granted = {name: int(value, 16) for name, value in lines.items() if name != "NoNewPrivs"}
    assert lines["NoNewPrivs"].strip() == "1"
    assert granted == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)


async def test_no_other_process_is_visible(room: Room) -> None:
    report = await room.shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
    visible, first = report.last_lines.split("\n")
    assert int(visible) <= 5
    assert first == "bwrap"


async def test_only_an_allow_list_of_the_machine_is_visible(room: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await room.shell("ls -A /")
    assert set(room.output.split()) <= {
        *(b"bin", b"dev", b"etc", b"home", b"lib", b"lib32", b"lib64", b"libx32", b"proc"),
        *(b"run", b"sbin", b"tmp", b"usr", b"workspace"),
    }
    hidden = ["/etc/shadow", "/etc/ssl/private", "/root", "/var", "/sys", str(tmp_path / "secret")]
    for path in hidden:
        assert (await room.shell(f"ls -d '{path}'")).exit_code == 2, path
    await room.shell("cut -d: -f1 /etc/passwd")
    assert room.output.endswith(b"root\nagent\n")


async def test_only_the_workspace_the_report_and_scratch_space_can_be_written(room: Room) -> None:
    for path in ("/", "/usr", "/etc", "/dev", "/run", "/run/agentjobs", "/home", "/proc/sys"):
        assert (await room.shell(f"touch {path}/x")).exit_code != 0, path
    assert (await room.shell("echo x >> $AGENTJOBS_JOB")).exit_code != 0
    assert (await room.shell("rm -f $AGENTJOBS_JOB")).exit_code != 0
    for path in (".", "/tmp", "/dev/shm", "$HOME", "/run/agentjobs/report"):
        assert (await room.shell(f"touch {path}/x")).exit_code == 0, path


async def test_there_is_no_network_but_its_own_loopback(room: Room) -> None:
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
        report = await room.run(sys.executable, "-c", script, read_only=python_files())
    assert report.last_lines.split("\n") == ["refused", "Network is unreachable", "lo"]


async def test_named_hosts_lead_to_the_doors_and_nowhere_else(room: Room) -> None:
    hosts = {"packages.test": "127.88.0.1", "files.test": "127.88.0.2"}
    report = await room.shell("getent hosts packages.test files.test", hosts=hosts)
    assert report.last_lines.split() == [
        *("127.88.0.1", "packages.test"),
        *("127.88.0.2", "files.test"),
    ]
    assert (await room.shell("getent hosts example.org", hosts=hosts)).exit_code != 0


async def test_doors_that_cannot_be_opened_keep_the_agent_from_starting(room: Room) -> None:
    door = Door(port=8462, protocol=asyncio.Protocol)
    with pytest.raises(SandboxError, match="doors could not be opened"):
        await room.shell("echo ran", doors=(door, door))
    assert room.output == b""


async def test_a_doorkeeper_that_cannot_be_started_is_told_and_leaves_no_half_made_sandbox(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    mark, door = Mark(), Door(port=8462, protocol=asyncio.Protocol)
    for _ in range(5):
        with pytest.raises(SandboxError, match=r"doors could not be opened: .*No such file"):
            await room.shell(f"echo ran; {mark.sleeper()}", doors=(door,))
        assert mark.processes() == []
    assert room.output == b""


async def test_a_doorkeeper_that_could_not_be_started_is_tried_again_when_the_sandbox_is_up(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(port=8462, protocol=asyncio.Protocol)
    with monkeypatch.context() as missing:
        missing.setattr(sys, "executable", "/nowhere/python")
        running = room.start("echo ran", doors=(door,))
        await asyncio.sleep(0)
    assert (await running).last_lines == "ran"


async def test_read_only_paths_below_closed_directories_are_visible_at_their_own_path(
    room: Room,
) -> None:
    deep = room.private / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "tool").write_text("#!/bin/sh\necho tool\n")
    (deep / "tool").chmod(0o755)
    (deep.parent / "other").write_text("hidden")
    for shown in (deep, deep / "tool"):
        report = await room.run(str(deep / "tool"), read_only=(shown,))
        assert report.last_lines == "tool"
    assert (await room.shell(f"echo x >> {deep}/tool", read_only=(deep,))).exit_code != 0
    assert (await room.shell(f"cat {deep.parent}/other", read_only=(deep,))).exit_code != 0


async def test_the_root_directory_is_never_shown(room: Room) -> None:
    with pytest.raises(SandboxError, match="root directory"):
        await room.run("true", read_only=(Path("/"),))


async def test_a_daemon_that_left_its_session_dies_with_the_command(room: Room) -> None:
    mark = Mark()
    report = await room.shell(
        f"setsid -f {mark.sleeper()}; setsid -f {mark.sleeper()} >/dev/null 2>&1; echo done"
    )
    assert (report.exit_code, report.last_lines) == (0, "done")
    assert mark.processes() == []


async def test_what_still_writes_is_dead_before_the_run_returns(room: Room) -> None:
    mark = Mark()
    writer = f"sh -c 'while :; do echo x >> grows; done' {mark.word}"
    report = await room.shell(f"setsid -f {writer}; while [ ! -s grows ]; do :; done")
    assert report.exit_code == 0
    assert mark.processes() == []


async def test_a_fork_bomb_is_bounded_and_ends_with_the_clock(room: Room) -> None:
    mark = Mark()
    started = time.monotonic()
    report = await room.shell(
        f"bomb() {{ {mark.sleeper()} & bomb & bomb; }}; bomb",
        timeout_seconds=0.5,
        limits=Limits(processes=64),
    )
    assert report.timed_out or report.exit_code != 0
    assert time.monotonic() - started < 3
    assert mark.processes() == []


async def test_limits_of_one_slot_are_not_used_up_by_another(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox(UID_BASE)
    rooms = [Room(sandbox, tmp_path, slot) for slot in range(3)]
    script = "for n in 1 2 3 4 5 6 7; do sleep 0.2 & done; wait; echo all"
    limits = Limits(processes=12)
    reports = await asyncio.gather(*(room.shell(script, limits=limits) for room in rooms))
    assert [report.last_lines for report in reports] == ["all"] * 3


async def test_scratch_space_is_bounded(room: Room) -> None:
    limits = Limits(scratch_bytes=1024 * 1024)
    for path in ("/tmp", "/dev/shm", "$HOME"):
        report = await room.shell(f"head -c 3000000 /dev/zero > {path}/big", limits=limits)
        assert "No space left" in report.last_lines


async def test_what_the_agent_does_to_its_workspace_does_not_hurt_the_run(room: Room) -> None:
    report = await room.shell("mkdir d && chmod 000 d . && rm -rf .git; cd /; exit 0")
    assert report.exit_code == 0


async def test_a_report_directory_cannot_be_replaced(room: Room) -> None:
    report = await room.shell("cd /; rm -rf /run/agentjobs/report; ln -s /etc /run/agentjobs/x")
    assert report.exit_code != 0
    assert not room.report_dir.is_symlink()
    assert [path.name for path in room.run_dir.iterdir()] != ["x"]


async def test_the_command_line_of_bwrap_shows_no_environment_variable(room: Room) -> None:
    mark = Mark()
    running = room.start("echo up; sleep 1000", environment={"PROMPT": mark.word})
    await room.heard(b"up")
    assert mark.processes() == []
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("when", ["started", "running"])
async def test_a_killed_service_takes_its_agents_along(tmp_path: Path, when: str) -> None:
    mark = Mark()
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVICE, str(tmp_path), f"echo running; {mark.sleeper()}"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert service.stdout is not None
    while (await service.stdout.readline()).strip() != when.encode():
        assert service.returncode is None
    service.kill()
    await service.wait()
    await eventually(lambda: mark.processes() == [], seconds=1)


async def test_without_bubblewrap_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = BubblewrapSandbox(UID_BASE)
    with pytest.raises(SandboxUnavailable, match="apt-get install -y bubblewrap"):
        await sandbox.check()
    with pytest.raises(SandboxError, match="not installed"):
        await Room(sandbox, tmp_path).run("true")


async def test_a_bubblewrap_that_cannot_work_here_is_found_out_before_any_job(
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


_SERVICE = """
import asyncio, sys
from pathlib import Path
from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from tests.sandbox_room import Room

async def main():
    room = Room(BubblewrapSandbox(900_000), Path(sys.argv[1]))
    running = room.start(sys.argv[2])
    await asyncio.sleep(0)
    print("started", flush=True)
    await room.heard(b"running")
    print("running", flush=True)
    await running

asyncio.run(main())
"""
