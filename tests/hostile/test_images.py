"""Layers that attack whoever unpacks them: nothing outside of the image changes."""

import os
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import Image
from tests.support.images import MIB, ImagesHarness
from tests.support.oci_images import Entry, bomb, layer, link, make_image, shell_layer
from tests.support.scripted_registry import ScriptedRegistry, scripted_registry

_CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x2000, 0, 0, 0).decode("latin-1")


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with scripted_registry() as registry:
        yield registry


class Attack:
    """Unpacks layers beside a directory that they must not reach."""

    def __init__(self, tmp_path: Path, registry: ScriptedRegistry) -> None:
        self.victim = tmp_path / "victim"
        self.victim.mkdir(mode=0o777)
        self.victim.chmod(0o777)
        (self.victim / "file").write_text("precious")
        (self.victim / "file").chmod(0o666)
        self.harness = ImagesHarness(tmp_path / "environments", [registry.name])
        self._registry = registry
        self._tmp_path = tmp_path

    async def unpack(self, *layers: bytes, last_layer: bytes = b"") -> Image:
        path = self._tmp_path / "image"
        self.image = make_image(path, [shell_layer(), *layers], last_layer=last_layer)
        self._registry.add(self.image, "acme/hostile")
        return await self.harness.fetch(f"{self._registry.name}/acme/hostile:1")

    async def fail(self, *layers: bytes, last_layer: bytes = b"") -> str:
        with pytest.raises(ImageError) as raised:
            await self.unpack(*layers, last_layer=last_layer)
        assert not isinstance(raised.value, RegistryUnavailable)
        assert self.harness.image_directories() == []
        stored = (self.harness.directory / "layouts/org_a/blobs/sha256").iterdir()
        assert {f"sha256:{path.name}" for path in stored}.isdisjoint(self.image.layers)
        return str(raised.value)

    def check(self) -> None:
        assert list(self.victim.iterdir()) == [self.victim / "file"]
        assert (self.victim / "file").read_text() == "precious"
        assert self.harness.leftovers() == []
        self.harness.session.close()
        assert not self.harness.session.directory.exists()


@pytest.fixture
async def attack(tmp_path: Path, registry: ScriptedRegistry) -> AsyncIterator[Attack]:
    attack = Attack(tmp_path, registry)
    yield attack
    attack.check()


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")} - {"bin", "bin/sh"}


async def test_paths_that_leave_the_root_stay_inside(attack: Attack) -> None:
    outside = str(attack.victim)
    image = await attack.unpack(
        layer(
            Entry(f"{outside}/absolute"),
            Entry("../../../../relative"),
            link("link", outside),
            Entry("link/through"),
            link("up", "../" * 30 + outside[1:]),
            Entry("up/climbed"),
        ),
        layer(link("file", f"{outside}/file"), Entry("file", content=b"replaced")),
        layer(Entry("link/.wh.file")),
    )
    inside = image.root / outside[1:]
    assert {path.name for path in inside.iterdir()} == {"absolute", "through", "climbed"}
    assert (image.root / "file").read_bytes() == b"replaced"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../../etc/passwd"])
async def test_a_hard_link_to_a_file_outside_is_refused(attack: Attack, target: str) -> None:
    assert "cannot be unpacked" in await attack.fail(layer(link("stolen", target, "hard link")))


async def test_a_hard_link_through_a_link_to_the_outside_is_refused(attack: Attack) -> None:
    await attack.fail(
        layer(link("out", str(attack.victim)), link("stolen", "out/file", "hard link"))
    )


@pytest.mark.parametrize(
    "entries",
    [
        [Entry("a/.wh...")],
        [Entry(".wh...")],
        [Entry(".wh..")],
    ],
    ids=["the root", "its parent", "itself"],
)
async def test_a_whiteout_of_the_root_is_refused(attack: Attack, entries: list[Entry]) -> None:
    await attack.fail(layer(*entries))


async def test_a_whiteout_of_a_parent_is_refused(attack: Attack) -> None:
    first = layer(Entry("a", "directory"), Entry("a/b", "directory"), Entry("a/c"))
    await attack.fail(first, layer(Entry("a/b/.wh...")))


async def test_a_root_that_was_removed_and_made_again_is_the_image(attack: Attack) -> None:
    shell = Entry("bin/sh", attributes={"mode": 0o755})
    image = await attack.unpack(layer(Entry("a/.wh..."), shell, Entry("new")))
    assert files(image.root) == {"new"}


async def test_device_nodes_become_empty_files_and_fifos_stay(attack: Attack) -> None:
    null = {"devmajor": 1, "devminor": 3}
    image = await attack.unpack(
        layer(
            Entry("null", "character device", attributes=null),
            Entry("disk", "block device", attributes={"devmajor": 8}),
            Entry("fifo", "fifo"),
        )
    )
    assert (image.root / "null").read_bytes() == (image.root / "disk").read_bytes() == b""
    assert (image.root / "fifo").is_fifo()


async def test_capabilities_and_attributes_of_the_system_are_left_out(attack: Attack) -> None:
    def with_attribute(name: str, value: str) -> Entry:
        return Entry(name, attributes={"pax_headers": {f"SCHILY.xattr.{name}": value}})

    image = await attack.unpack(
        layer(
            with_attribute("security.capability", _CAPABILITY),
            with_attribute("trusted.overlay.opaque", "y"),
            with_attribute("security.selinux", "label"),
        )
    )
    assert {
        name for path in image.root.rglob("*") for name in os.listxattr(path, follow_symlinks=False)
    } == set()


@pytest.mark.parametrize(
    "content",
    [
        b"this is no archive" * 1000,
        layer(Entry("n" * 300)),
        layer(link("loop", "loop"), Entry("loop/file")),
        layer(link("a", "a", "hard link")),
        layer(Entry("f", attributes={"pax_headers": {"SCHILY.xattr.user.a": "a" * 70_000}})),
        layer(link(".", "/etc")),
        layer(Entry("d/" * 2500)),
    ],
    ids=["no tar", "long name", "loop", "own link", "attribute", "root is a link", "deep"],
)
async def test_layers_that_cannot_be_unpacked_are_refused_with_a_reason(
    attack: Attack, content: bytes
) -> None:
    assert (await attack.fail(content)).startswith("The image's layers cannot be unpacked: ")


async def test_unusual_names_are_kept(attack: Attack) -> None:
    # A tree this deep is not measured: what other processes write counts as its files.
    attack.harness.images._max_bytes = 1024**4
    names = ["n" * 255, os.fsdecode(b"\xff\xfe"), "a\nb\x1b[31m", "-rf", "d/" * 900 + "f"]
    image = await attack.unpack(layer(*map(Entry, names)))
    assert {name for name in files(image.root) if not name.startswith("d")} == set(names[:4])
    assert await attack.harness.images.remove(image.digest)


async def test_ten_gigabytes_in_a_small_layer_meet_the_limit(attack: Attack) -> None:
    message = await attack.fail(last_layer=bomb(10 * 1024 * MIB))
    assert "larger than 64 MiB" in message


async def test_many_files_of_a_legal_size_meet_the_limit(attack: Attack) -> None:
    zeros = bytes(10 * MIB)
    message = await attack.fail(layer(*(Entry(f"{n}", content=zeros) for n in range(10))))
    assert "larger than 64 MiB" in message


async def test_empty_files_count_too(attack: Attack) -> None:
    attack.harness.images._max_bytes = 2 * MIB
    entries = (Entry(str(n), content=b"") for n in range(5_000))
    assert "larger than 2 MiB" in await attack.fail(layer(*entries))


async def test_an_image_without_a_shell_is_refused(
    attack: Attack, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    for number, entries in enumerate(
        (
            [Entry("hello", attributes={"mode": 0o755})],
            [Entry("bin/sh", attributes={"mode": 0o644})],
            [link("bin", "/usr/bin"), link("usr/bin/sh", "sh")],
            [link("bin", "../../../../../bin")],
        )
    ):
        image = make_image(tmp_path / f"shell-{number}", [layer(*entries)])
        registry.add(image, "acme/shell")
        with pytest.raises(ImageError, match="has no /bin/sh"):
            await attack.harness.fetch(f"{registry.name}/acme/shell:1")
    assert attack.harness.image_directories() == []
