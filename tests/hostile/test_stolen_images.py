"""An organization that knows the manifest of another's image, and does not have its content."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import Image
from tests.support.images import ImagesHarness
from tests.support.oci_images import Entry, ImageLayout, layer, make_image, shell_layer
from tests.support.scripted_registry import ScriptedRegistry, scripted_registry

VICTIM, THIEF = "org_a", "org_b"
Lie = Callable[[ScriptedRegistry, ImageLayout], None]


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with scripted_registry() as registry:
        yield registry


@pytest.fixture
def image(tmp_path: Path, registry: ScriptedRegistry) -> ImageLayout:
    """`acme/private:1`, and all of it as `thief/copy:1`, of which lies take something away."""
    secret = layer(Entry("secret", content=b"of the victim"))
    config = {"Env": ["PASSWORD=of the victim"]}
    image = make_image(tmp_path / "image", [shell_layer(), secret], config=config)
    registry.add(image, "acme/private")
    registry.add(image, "thief/copy")
    return image


@pytest.fixture(params=[False, True], ids=["worker", "cluster"])
def harness(
    tmp_path: Path, registry: ScriptedRegistry, request: pytest.FixtureRequest
) -> ImagesHarness:
    directory = tmp_path / "environments"
    return ImagesHarness(directory, [registry.name], fetches_images=request.param)


async def fetch_as_victim(harness: ImagesHarness, registry: ScriptedRegistry) -> Image:
    return await harness.fetch(f"{registry.name}/acme/private:1", organization=VICTIM)


async def fetch_as_thief(harness: ImagesHarness, registry: ScriptedRegistry) -> Image:
    return await harness.fetch(f"{registry.name}/thief/copy:1", organization=THIEF)


def blob_path(digest: str) -> str:
    return f"/v2/thief/copy/blobs/{digest}"


def manifest_alone(registry: ScriptedRegistry, image: ImageLayout) -> None:
    configuration_and_no_layer(registry, image)
    registry.fail(blob_path(image.manifest["config"]["digest"]), 404)


def configuration_and_no_layer(registry: ScriptedRegistry, image: ImageLayout) -> None:
    for digest in image.layers:
        registry.fail(blob_path(digest), 404)


def all_layers_but_one(registry: ScriptedRegistry, image: ImageLayout) -> None:
    registry.fail(blob_path(image.layers[1]), 404)


def another_configuration(registry: ScriptedRegistry, image: ImageLayout) -> None:
    digest = image.manifest["config"]["digest"]
    registry.answers[blob_path(digest)] = _same_size(image, digest)


def claims_in_response_to_head(registry: ScriptedRegistry, image: ImageLayout) -> None:
    """A check of existence finds every layer."""

    def answer_for(digest: str) -> Callable[[web.BaseRequest], object]:
        size = image.blob(digest).stat().st_size

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            headers = {"Content-Length": str(size), "Docker-Content-Digest": digest}
            is_head = request.method == "HEAD"
            return web.Response(headers=headers) if is_head else web.Response(status=404)

        return answer

    for digest in image.layers:
        registry.answers[blob_path(digest)] = answer_for(digest)  # type: ignore[assignment]


def other_content_of_the_same_size(registry: ScriptedRegistry, image: ImageLayout) -> None:
    for digest in image.layers:
        registry.answers[blob_path(digest)] = _same_size(image, digest)


def _same_size(image: ImageLayout, digest: str) -> Callable[..., object]:
    size = image.blob(digest).stat().st_size

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"{" + b" " * (size - 2) + b"}")

    return answer


@pytest.mark.parametrize(
    "lie",
    [
        manifest_alone,
        configuration_and_no_layer,
        all_layers_but_one,
        another_configuration,
        claims_in_response_to_head,
        other_content_of_the_same_size,
    ],
)
async def test_a_registry_without_all_of_the_content_gets_no_image_of_others(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout, lie: Lie
) -> None:
    victims = await fetch_as_victim(harness, registry)
    lie(registry, image)
    # Neither does a second attempt, which finds what the first one left.
    for _ in range(2):
        with pytest.raises(ImageError) as refusal:
            await fetch_as_thief(harness, registry)
        assert not isinstance(refusal.value, RegistryUnavailable)
        assert harness.images.find(THIEF, image.digest) is None
    assert harness.images.find(VICTIM, image.digest) == victims
    [stored] = await harness.images.images()
    assert stored.organization_ids == {VICTIM}
    assert harness.leftovers() == []
    harness.session.close()


async def test_a_configuration_that_claims_the_content_of_others_is_refused(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout, tmp_path: Path
) -> None:
    """Nodes of a cluster look for unpacked layers by the digests in the configuration."""
    await fetch_as_victim(harness, registry)
    stolen = json.loads(image.blob(image.manifest["config"]["digest"]).read_bytes())
    own = [shell_layer(), layer(Entry("own"))]
    forged = make_image(tmp_path / "forged", own, rootfs=stolen["rootfs"])
    registry.add(forged, "thief/copy")
    with pytest.raises(ImageError) as refusal:
        await fetch_as_thief(harness, registry)
    assert not isinstance(refusal.value, RegistryUnavailable)
    assert harness.images.find(THIEF, forged.digest) is None
    assert harness.leftovers() == []
    harness.session.close()


@pytest.mark.parametrize("compressed", [True, False])
async def test_layers_with_and_without_compression_are_compared(
    harness: ImagesHarness, registry: ScriptedRegistry, tmp_path: Path, *, compressed: bool
) -> None:
    layers = [shell_layer(), layer(Entry("a"))]
    image = make_image(tmp_path / "image", layers, compressed=compressed)
    registry.add(image, "acme/private")
    assert (await fetch_as_victim(harness, registry)).digest == image.digest
    harness.session.close()


async def test_whoever_has_all_of_the_content_uses_the_same_image(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    victims = await fetch_as_victim(harness, registry)
    assert (await fetch_as_thief(harness, registry)).root == victims.root
    [stored] = await harness.images.images()
    assert stored.organization_ids == {VICTIM, THIEF}
    harness.session.close()


async def test_having_read_the_manifest_before_an_update_is_no_proof(
    harness: ImagesHarness, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    await fetch_as_victim(harness, registry)
    [stored] = harness.directory.glob(f"*/{image.digest.removeprefix('sha256:')}")
    (stored / "organizations").mkdir()
    (stored / "organizations" / THIEF).write_text("as earlier versions did")
    assert harness.images.find(THIEF, image.digest) is None
    harness.session.close()


@pytest.mark.parametrize("linked", ["blobs", "blobs/sha256", "a layer"])
async def test_links_that_a_download_left_lead_to_no_layers_of_others(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout, linked: str
) -> None:
    harness = ImagesHarness(tmp_path / "environments", [registry.name])
    await fetch_as_victim(harness, registry)
    configuration_and_no_layer(registry, image)
    own, others = (harness.directory / "layouts" / name for name in (THIEF, VICTIM))
    with pytest.raises(ImageError):
        await fetch_as_thief(harness, registry)
    names = (
        [f"blobs/sha256/{digest.removeprefix('sha256:')}" for digest in image.layers]
        if linked == "a layer"
        else [linked]
    )
    for name in names:
        if (own / name).is_dir():
            (own / name).rename(tmp_path / "moved")
        (own / name).symlink_to(others / name)
    with pytest.raises(ImageError):
        await fetch_as_thief(harness, registry)
    assert harness.images.find(THIEF, image.digest) is None
    # Nothing of the victim is gone, and the thief's own images still work.
    assert len(list((others / "blobs/sha256").iterdir())) >= len(image.layers)
    registry.add(image, "thief/copy")
    await fetch_as_thief(harness, registry)
    harness.session.close()
