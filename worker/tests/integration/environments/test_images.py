"""Images of a real registry: what is downloaded, unpacked, shared and kept."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_worker.environments.images import images as images_module
from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry, with_password
from tests.support.images import ImagesHarness
from tests.support.oci_images import Entry, ImageLayout, busybox_layer, layer, link, make_image


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageRegistry]:
    registry = ImageRegistry(tmp_path_factory.mktemp("registry") / "open")
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def private_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageRegistry]:
    registry = with_password(tmp_path_factory.mktemp("registry") / "private")
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def build_image(
    tmp_path_factory: pytest.TempPathFactory,
    registry: ImageRegistry,
    private_registry: ImageRegistry,
) -> ImageLayout:
    """`acme/build:1` in both registries."""
    image = make_image(
        tmp_path_factory.mktemp("images") / "build",
        [busybox_layer(), layer(Entry("etc", "directory"), Entry("etc/name", content=b"build"))],
        config={
            "Entrypoint": ["/bin/entry"],
            "Cmd": ["serve", "--all"],
            "Env": ["A=1=2", "EMPTY=", "not a name=x"],
            "WorkingDir": "/srv",
        },
    )
    image.push(registry.address, "acme/build:1")
    image.push(private_registry.address, "acme/build:1", "--dest-creds", f"{USERNAME}:{PASSWORD}")
    return image


@pytest.fixture
def harness(
    tmp_path: Path, registry: ImageRegistry, private_registry: ImageRegistry
) -> Iterator[ImagesHarness]:
    harness = ImagesHarness(tmp_path / "environments", [registry.name, private_registry.name])
    registry.forget_requests()
    private_registry.forget_requests()
    yield harness
    assert harness.leftovers() == []
    harness.session.close()


async def test_an_image_is_pulled_unpacked_and_described(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    image = await harness.fetch(f"{registry.name}/acme/build:1")
    assert image.digest == build_image.digest
    assert image.reference == f"{registry.name}/acme/build:1"
    assert (image.root / "etc/name").read_bytes() == b"build"
    assert (image.root / "bin/sh").readlink() == Path("busybox")
    assert image.entrypoint == ("/bin/entry",)
    assert image.command == ("serve", "--all")
    assert image.variables == {"A": "1=2", "EMPTY": ""}
    assert image.working_directory == "/srv"
    assert (image.root / "bin/busybox").stat().st_size < image.size_bytes < 10**7
    owner = os.geteuid() if image.owner_uid is None else image.owner_uid
    assert {path.lstat().st_uid for path in [image.root, *image.root.rglob("*")]} == {owner}
    assert harness.images.find("org_a", image.digest) == image
    assert await harness.images.resolve("org_a", image.reference, ()) == image.digest


async def test_an_image_that_the_sandbox_fetches_is_only_described(
    tmp_path: Path, private_registry: ImageRegistry, build_image: ImageLayout
) -> None:
    harness = ImagesHarness(tmp_path / "described", [private_registry.name], fetches_images=True)
    credential = RegistryCredential(private_registry.name, USERNAME, PASSWORD)
    reference = f"{private_registry.name}/acme/build:1"
    private_registry.forget_requests()
    image = await harness.fetch(reference, credential)
    assert (image.digest, image.root, image.size_bytes) == (build_image.digest, None, 0)
    assert image.entrypoint == ("/bin/entry",)
    assert harness.images.find("org_a", image.digest) == image
    assert harness.images.find("org_b", image.digest) is None
    # Its layers were downloaded as a proof, and not kept.
    assert set(private_registry.downloads()) >= set(build_image.layers)
    assert not (harness.directory / "layouts").exists()
    private_registry.forget_requests()
    assert await harness.fetch(reference, credential) == image
    assert private_registry.downloads() == []
    with harness.images.hold(image.digest):
        assert not await harness.images.remove(image.digest)
    assert await harness.images.remove(image.digest)
    assert harness.leftovers() == []
    harness.session.close()


async def test_a_second_fetch_reads_the_manifest_only(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    await harness.fetch(f"{registry.name}/acme/build:1")
    registry.forget_requests()
    await harness.fetch(f"{registry.name}/acme/build:1")
    assert registry.downloads() == []
    assert {request.split()[1] for request in registry.requests()} == {
        "/v2/",
        "/v2/acme/build/manifests/1",
    }


async def test_another_organization_downloads_an_image_that_is_then_shared(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    reference = f"{registry.name}/acme/build:1"
    first = await harness.fetch(reference)
    registry.forget_requests()
    other = await harness.fetch(reference, organization="org_b")
    assert set(registry.downloads()) >= set(build_image.layers)
    assert other.root.stat().st_ino == first.root.stat().st_ino
    assert harness.output.count(b"Unpacking the image") == 1


async def test_a_pinned_image_that_is_here_needs_no_registry(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    reference = f"{registry.name}/acme/build@{build_image.digest}"
    await harness.fetch(reference)
    registry.forget_requests()
    assert await harness.images.resolve("org_a", reference, ()) == build_image.digest
    assert registry.requests() == []
    await harness.images.resolve("org_b", reference, ())
    assert registry.requests() != []


@pytest.mark.parametrize("fetches_images", [False, True], ids=["unpacked", "described"])
async def test_fetches_at_the_same_time_download_and_unpack_once(
    tmp_path: Path, registry: ImageRegistry, build_image: ImageLayout, *, fetches_images: bool
) -> None:
    harness = ImagesHarness(
        tmp_path / "environments", [registry.name], fetches_images=fetches_images
    )
    reference = f"{registry.name}/acme/build:1"
    registry.forget_requests()
    images = await asyncio.gather(*(harness.fetch(reference) for _ in range(3)))
    assert len(set(map(str, images))) == 1
    layers = [digest for digest in registry.downloads() if digest in build_image.layers]
    assert sorted(layers) == sorted(build_image.layers)
    assert harness.output.count(b"Unpacking the image") == (0 if fetches_images else 1)
    harness.session.close()


async def test_an_organization_without_the_right_gets_no_image_that_another_unpacked(
    harness: ImagesHarness, private_registry: ImageRegistry, build_image: ImageLayout
) -> None:
    reference = f"{private_registry.name}/acme/build:1"
    right = RegistryCredential(private_registry.name, USERNAME, PASSWORD)
    image = await harness.fetch(reference, right)
    with pytest.raises(ImageError, match="agentjobs secrets set NAME --for registry --host"):
        await harness.fetch(reference, organization="org_b")
    wrong = RegistryCredential(private_registry.name, USERNAME, "guess")
    with pytest.raises(ImageError, match="does not accept the stored credential") as refusal:
        await harness.fetch(reference, wrong, organization="org_b")
    assert not isinstance(refusal.value, RegistryUnavailable)
    assert harness.images.find("org_b", image.digest) is None
    assert harness.images.find("org_a", image.digest) == image


async def test_a_credential_is_only_sent_to_its_host(
    harness: ImagesHarness, private_registry: ImageRegistry, build_image: ImageLayout
) -> None:
    elsewhere = RegistryCredential("other.test", USERNAME, PASSWORD)
    with pytest.raises(ImageError, match="asks for one"):
        await harness.fetch(f"{private_registry.name}/acme/build:1", elsewhere)


async def test_images_of_one_organization_share_downloaded_layers(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout, tmp_path: Path
) -> None:
    newer = make_image(tmp_path / "newer", [busybox_layer(), layer(Entry("new"))], compressed=True)
    newer.push(registry.address, "acme/build:2")
    await harness.fetch(f"{registry.name}/acme/build:1")
    registry.forget_requests()
    await harness.fetch(f"{registry.name}/acme/build:2")
    assert newer.layers[1] in registry.downloads()
    assert newer.layers[0] not in registry.downloads()


@pytest.mark.parametrize("options", [("--format", "v2s2"), ()])
async def test_formats_of_docker_and_uncompressed_layers_are_read(
    harness: ImagesHarness, registry: ImageRegistry, tmp_path: Path, options: tuple[str, ...]
) -> None:
    image = make_image(tmp_path / "image", [busybox_layer()], compressed=bool(options))
    image.push(registry.address, "acme/format:1", *options)
    fetched = await harness.fetch(f"{registry.name}/acme/format:1")
    assert (fetched.digest == image.digest) == (not options)
    assert (fetched.root / "bin/sh").is_symlink()


async def test_later_layers_remove_and_replace_what_earlier_ones_have(
    harness: ImagesHarness, registry: ImageRegistry, tmp_path: Path
) -> None:
    image = make_image(
        tmp_path / "image",
        [
            busybox_layer(),
            layer(
                *(Entry(name, "directory") for name in ("kept", "emptied", "replaced")),
                *(Entry(name) for name in ("kept/a", "kept/b", "emptied/a", "replaced/a")),
            ),
            layer(Entry("kept/.wh.a"), Entry("emptied/.wh..wh..opq"), Entry("emptied/new")),
            layer(link("replaced", "kept"), Entry(".wh.missing")),
        ],
    )
    image.push(registry.address, "acme/whiteouts:1")
    root = (await harness.fetch(f"{registry.name}/acme/whiteouts:1")).root
    assert list((root / "kept").iterdir()) == [root / "kept/b"]
    assert list((root / "emptied").iterdir()) == [root / "emptied/new"]
    assert (root / "replaced").is_symlink()


async def test_modes_let_the_owner_remove_and_others_read_what_the_image_allows(
    harness: ImagesHarness, registry: ImageRegistry, tmp_path: Path
) -> None:
    def entry(name: str, mode: int, kind: str = "file") -> Entry:
        return Entry(name, kind, attributes={"mode": mode})

    image = make_image(
        tmp_path / "image",
        [
            busybox_layer(),
            layer(
                entry(".", 0, "directory"),
                entry("closed", 0, "directory"),
                entry("closed/file", 0),
                entry("setuid", 0o6755),
                entry("tmp", 0o1777, "directory"),
                entry("private", 0o600),
            ),
        ],
    )
    image.push(registry.address, "acme/modes:1")
    fetched = await harness.fetch(f"{registry.name}/acme/modes:1")
    modes = {
        name: stat.S_IMODE((fetched.root / name).stat().st_mode)
        for name in ("", "closed", "closed/file", "setuid", "tmp", "private")
    }
    assert modes == {
        "": 0o755,
        "closed": 0o700,
        "closed/file": 0o600,
        "setuid": 0o755,
        "tmp": 0o1777,
        "private": 0o600,
    }
    assert await harness.images.remove(fetched.digest)


async def test_an_image_in_use_is_not_removed(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    image = await harness.fetch(f"{registry.name}/acme/build:1")
    with harness.images.hold(image.digest), harness.images.hold(image.digest):
        assert not await harness.images.remove(image.digest)
    assert harness.images.find("org_a", image.digest) is not None
    assert await harness.images.remove(image.digest)
    assert not await harness.images.remove(image.digest)
    assert harness.images.find("org_a", image.digest) is None
    assert harness.image_directories() == []
    with pytest.raises(ImageError), harness.images.hold(image.digest):
        pass


async def test_an_evicted_image_is_unpacked_again_from_its_layers(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    image = await harness.fetch(f"{registry.name}/acme/build:1")
    await harness.images.remove(image.digest)
    registry.forget_requests()
    assert await harness.fetch(f"{registry.name}/acme/build:1") == image
    assert set(registry.downloads()).isdisjoint(build_image.layers)


async def test_the_cache_is_listed_with_its_owners(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    assert (await harness.images.images(), await harness.images.layers()) == ([], [])
    image = await harness.fetch(f"{registry.name}/acme/build:1")
    await harness.fetch(f"{registry.name}/acme/build:1", organization="org_b")
    [stored] = await harness.images.images()
    assert stored.name == image.digest
    assert stored.organization_ids == {"org_a", "org_b"}
    assert stored.size_bytes == image.size_bytes
    layers = await harness.images.layers()
    assert {entry.name for entry in layers} == {"org_a", "org_b"}
    size_bytes = sum(build_image.blob(digest).stat().st_size for digest in build_image.layers)
    assert all(entry.size_bytes >= size_bytes for entry in layers)
    await harness.images.remove_layers("org_a")
    assert [entry.name for entry in await harness.images.layers()] == ["org_b"]


async def test_a_changed_layer_on_disk_is_noticed_and_downloaded_again(
    harness: ImagesHarness, registry: ImageRegistry, build_image: ImageLayout
) -> None:
    image = await harness.fetch(f"{registry.name}/acme/build:1")
    await harness.images.remove(image.digest)
    blob = harness.directory / "layouts/org_a/blobs/sha256" / build_image.layers[0][7:]
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    registry.forget_requests()
    assert await harness.fetch(f"{registry.name}/acme/build:1") == image
    assert build_image.layers[0] in registry.downloads()
    assert build_image.layers[1] not in registry.downloads()


async def test_layers_of_a_download_that_lasts_are_not_waited_for(
    harness: ImagesHarness,
    registry: ImageRegistry,
    build_image: ImageLayout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images_module, "LAYERS_WAIT_SECONDS", 0.01)
    await harness.fetch(f"{registry.name}/acme/build:1")
    async with harness.images._locks.hold("layers-org_a"):
        assert not await harness.images.remove_layers("org_a")
    assert await harness.images.layers() != []
    assert await harness.images.remove_layers("org_a")
