"""An image as the root directory of a sandbox, also one that was made to lead out of it."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.directories import HOME, ROOT
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxPort
from tests.support.image_roots import create_image, give_image
from tests.support.sandbox import SandboxHarness, unused_uid_base
from tests.support.trees import describe_tree

BUILDER = 5
Change = Callable[[Path], object]


class ImageHarness(SandboxHarness):
    """All tasks run in one image."""

    def __init__(self, base: Path) -> None:
        super().__init__(BubblewrapSandbox(unused_uid_base()), base)
        self.image = create_image(self.private / "image")

    def use(self, change: Change = lambda _image: None) -> None:
        change(self.image)
        give_image(self.image, self.sandbox.owner_uid(BUILDER))
        self.layers = (self.layer(ROOT, self.image, BUILDER),)


@pytest.fixture
def harness(tmp_path: Path) -> ImageHarness:
    return ImageHarness(tmp_path)


async def test_nothing_of_the_machine_is_in_an_image(harness: ImageHarness) -> None:
    harness.use()
    report = await harness.shell("ls -A /; ls /dev/null /proc/self/cmdline; pwd; readlink /bin/sh")
    assert report.last_lines.split() == [
        *("bin", "dev", "etc", "home", "proc", "run", "tmp", "workspace"),
        *("/dev/null", "/proc/self/cmdline", "/workspace", "busybox"),
    ]


async def test_the_agent_is_a_user_of_the_image_beside_the_others(harness: ImageHarness) -> None:
    harness.use()
    names = []
    # A second sandbox with the same layer must not add a second line.
    for _ in range(2):
        report = await harness.shell("id -un; cut -d: -f1 /etc/passwd /etc/group; echo ~")
        names.append(report.last_lines.split())
    assert names == [["agent", "agent", "root", "node", "agent", "/home/agent"]] * 2


async def test_an_image_is_writable_in_private(harness: ImageHarness) -> None:
    harness.use()
    before = describe_tree(harness.image)
    script = (
        "cd /; rm -r bin/ls bin/cat etc; echo x > bin/cat; mkdir /opt; touch /opt/x && echo written"
    )
    assert (await harness.shell(script)).last_lines == "written"
    assert describe_tree(harness.image) == before
    (layer,) = harness.layers
    assert (layer.upper / "opt" / "x").exists()
    harness.use()
    assert (await harness.shell("ls /etc/passwd; ls /opt")).exit_code == 1


async def test_names_resolve_as_the_task_says(harness: ImageHarness) -> None:
    harness.use(lambda image: (image / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n"))
    hosts = {"packages.test": "127.88.0.1"}
    report = await harness.shell("cat /etc/hosts /etc/resolv.conf", hosts=hosts)
    assert report.last_lines.split() == [
        *("127.0.0.1", "localhost", "::1", "localhost"),
        *("127.88.0.1", "packages.test"),
    ]


async def test_programs_of_the_machine_are_shown_if_the_task_needs_them(
    harness: ImageHarness, tmp_path: Path
) -> None:
    program, library = tmp_path / "program", tmp_path / "library"
    program.write_text("#!/bin/sh\ncat $1/file\n")
    program.chmod(0o755)
    library.mkdir()
    (library / "file").write_text("shown\n")
    harness.use()
    report = await harness.run(str(program), str(library), read_only=(program, library))
    assert report.last_lines == "shown"


async def test_a_port_is_served_inside_an_image(harness: ImageHarness) -> None:
    class Greeter(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.write(b"hello")
            transport.close()

    harness.use()
    port = SandboxPort(number=8462, protocol=Greeter)
    report = await harness.shell("nc 127.0.0.1 8462", ports=(port,))
    assert report.last_lines == "hello"


async def test_a_home_of_its_own_is_mounted_into_an_image(harness: ImageHarness) -> None:
    harness.use()
    snapshot = harness.snapshot({".profile": "from setup\n"}, slot=3)
    harness.layers += (harness.layer(HOME, snapshot, owner_slot=3),)
    assert (await harness.shell("cat ~/.profile; id -un")).last_lines == "from setup\nagent"


async def test_variables_of_the_image_reach_the_command(harness: ImageHarness) -> None:
    def add_program(image: Path) -> None:
        (image / "opt").mkdir()
        (image / "opt/own").write_text('#!/bin/sh\necho "$OF_THE_IMAGE"\n')
        (image / "opt/own").chmod(0o755)

    harness.use(add_program)
    environment = {"PATH": "/opt:/bin", "OF_THE_IMAGE": "its value"}
    assert (await harness.run("own", environment=environment)).last_lines == "its value"


@pytest.mark.parametrize(
    "path",
    ["etc", "etc/passwd", "etc/hosts", "tmp", "home", "home/agent", "workspace", "run", "proc"],
)
@pytest.mark.parametrize("is_absolute", [True, False], ids=["absolute", "relative"])
async def test_links_of_an_image_lead_nowhere(
    harness: ImageHarness, tmp_path: Path, path: str, is_absolute: bool
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "passwd").write_text("unharmed")
    trap.chmod(0o777)
    before = describe_tree(trap)
    # bwrap sees the machine's root directory in `oldroot` while it mounts.
    target = trap if is_absolute else Path(f"../../../oldroot/{trap}")

    def plant(image: Path) -> None:
        link = image / path
        if link.is_dir():
            shutil.rmtree(link)
        link.unlink(missing_ok=True)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target / "passwd" if path.startswith("etc/") else target)

    harness.use(plant)
    report = await harness.shell("id -un; touch /tmp/x /workspace/x ~/x /run/x; ls -A ~ /workspace")
    assert report.last_lines.startswith("agent\n")
    assert describe_tree(trap) == before


async def test_files_where_directories_are_needed_are_replaced(harness: ImageHarness) -> None:
    def plant(image: Path) -> None:
        for name in ("tmp", "home", "workspace", "dev"):
            (image / name).write_text("")
        os.mkfifo(image / "proc")
        (image / "etc/passwd").unlink()
        os.mkfifo(image / "etc/passwd")

    harness.use(plant)
    assert (await harness.shell("id -un; touch ~/x /tmp/x x")).last_lines == "agent"


async def test_a_directory_where_a_file_is_needed_is_reported(harness: ImageHarness) -> None:
    harness.use(lambda image: (image / "etc/hosts").mkdir())
    with pytest.raises(SandboxError, match="the image has a directory /etc/hosts"):
        await harness.run("true")


@pytest.mark.parametrize("content", [None, b"\x7fELF of another machine"])
async def test_an_image_without_a_shell_is_reported(
    harness: ImageHarness, content: bytes | None
) -> None:
    def change(image: Path) -> None:
        (image / "bin/sh").unlink()
        if content is not None:
            (image / "bin/sh").write_bytes(content)
            (image / "bin/sh").chmod(0o755)

    harness.use(change)
    with pytest.raises(SandboxError, match="no /bin/sh that runs on this machine"):
        await harness.run("true")


async def test_limits_hold_even_if_the_shell_of_an_image_does_not_set_them(
    harness: ImageHarness,
) -> None:
    def replace_shell(image: Path) -> None:
        (image / "bin/sh").unlink()
        (image / "bin/sh").write_text("#!/bin/ash\ncat /proc/self/limits\n")
        (image / "bin/sh").chmod(0o755)

    harness.use(replace_shell)
    limits = Limits(file_bytes=8192, processes=77)
    with pytest.raises(SandboxError) as raised:
        await harness.run("true", limits=limits)
    lines = (line.rsplit(maxsplit=3) for line in str(raised.value).split("\n"))
    values = {name: (soft, hard) for name, soft, hard, _unit in lines}
    assert values["Max file size"] == ("8192", "8192")
    assert values["Max processes"] == ("77", "77")
    assert values["Max core file size"] == ("0", "0")


async def test_programs_with_the_bits_of_another_user_gain_nothing(harness: ImageHarness) -> None:
    harness.use()
    for path in ("bin/busybox", "bin"):
        (harness.image / path).chmod(0o6755)
    report = await harness.shell("id -u; id -g; grep -c nosuid /proc/mounts; mknod /dev/x c 1 1")
    owner = harness.sandbox.owner_uid(0)
    expected = (os.geteuid(), os.getegid()) if owner is None else (owner, owner)
    assert tuple(map(int, report.last_lines.split()[:2])) == expected
    assert report.exit_code != 0
