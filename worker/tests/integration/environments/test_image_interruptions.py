"""Pulls that are cut off, cancelled or killed: what is kept, and that nothing half-made is used."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs_runtime.environments.images.errors import RegistryUnavailable
from tests.support.images import UID_BASE, ImagesHarness
from tests.support.oci_images import Entry, ImageLayout, layer, make_image, shell_layer
from tests.support.paths import PROJECT
from tests.support.sandbox import eventually, processes_with
from tests.support.scripted_registry import ScriptedRegistry, scripted_registry

# Killed by its test.
_FETCH = """
import asyncio, sys
from pathlib import Path
from tests.support.images import ImagesHarness
directory, registry, uid_base = sys.argv[1:]
harness = ImagesHarness(Path(directory), [registry], uid_base=int(uid_base))
asyncio.run(harness.fetch(f"{registry}/acme/build:1"))
"""


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with scripted_registry() as registry:
        yield registry


@pytest.fixture
def harness(tmp_path: Path, registry: ScriptedRegistry) -> ImagesHarness:
    return ImagesHarness(tmp_path / "environments", [registry.name])


@pytest.fixture
def image(tmp_path: Path, registry: ScriptedRegistry) -> ImageLayout:
    image = make_image(
        tmp_path / "image", [shell_layer(), layer(Entry("large", content=bytes(99_999)))]
    )
    registry.add(image, "acme/build")
    return image


def stored_layers(directory: Path) -> set[str]:
    blobs = directory / "layouts/org_a/blobs/sha256"
    return {f"sha256:{path.name}" for path in blobs.glob("*")}


async def start_and_kill(
    harness: ImagesHarness, registry: ScriptedRegistry, is_time: "asyncio.Future[None]"
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _FETCH),
        *(str(harness.directory), registry.name, str(UID_BASE)),
        cwd=PROJECT,
    )
    try:
        await is_time
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def check_recovery(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    """After the sweep of the next start, only complete layers are left."""
    assert harness.image_directories() == []
    await eventually(lambda: not processes_with(harness.directory))
    harness.session.sweep()
    harness.images.sweep()
    assert harness.leftovers() == []
    assert list((harness.directory / "sessions").iterdir()) == [harness.session.directory]
    registry.requests.clear()
    registry.add(image, "acme/build")
    fetched = await harness.fetch(f"{registry.name}/acme/build:1")
    assert fetched.digest == image.digest
    assert harness.leftovers() == []
    harness.session.close()


async def test_a_killed_download_keeps_its_complete_layers_and_nothing_else(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    first, second = image.layers
    registry.send_half(image, "acme/build", second)

    async def half_sent() -> None:
        await registry.half_sent.wait()
        await eventually(lambda: first in stored_layers(harness.directory))

    await start_and_kill(harness, registry, asyncio.ensure_future(half_sent()))
    assert second not in stored_layers(harness.directory)
    await check_recovery(harness, registry, image)
    assert first not in registry.downloads()
    assert registry.downloads().count(second) == 1


async def test_a_killed_unpacking_is_started_again_without_a_download(
    harness: ImagesHarness, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    files = [Entry(f"files/{number}", content=b"") for number in range(4_000)]
    image = make_image(tmp_path / "image", [shell_layer(), layer(*files)])
    registry.add(image, "acme/build")

    def is_unpacking() -> bool:
        return any(harness.directory.glob("sessions/*/*/workspace/root/files/1"))

    await start_and_kill(
        harness, registry, asyncio.ensure_future(eventually(is_unpacking, seconds=60))
    )
    await check_recovery(harness, registry, image)
    assert set(registry.downloads()).isdisjoint(image.layers)


async def test_a_cancelled_download_is_resumed(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    first, second = image.layers
    registry.send_half(image, "acme/build", second)
    fetching = asyncio.ensure_future(harness.fetch(f"{registry.name}/acme/build:1"))
    await registry.half_sent.wait()
    await eventually(lambda: first in stored_layers(harness.directory))
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert processes_with(harness.directory) == []
    assert harness.leftovers() == []
    await check_recovery(harness, registry, image)
    assert first not in registry.downloads()


async def test_a_connection_that_breaks_is_an_outage_and_is_resumed(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    first, second = image.layers
    registry.cut(f"/v2/acme/build/blobs/{second}")
    with pytest.raises(RegistryUnavailable):
        await harness.fetch(f"{registry.name}/acme/build:1")
    assert harness.leftovers() == []
    await check_recovery(harness, registry, image)
    assert first not in registry.downloads()
