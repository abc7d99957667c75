"""Registries that ask for credentials, fail or lie: which error it is, and what it says."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_worker.environments.images import registry as registry_module
from tests.support.https_git_server import silent_server
from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry
from tests.support.images import MIB, ImagesHarness
from tests.support.oci_images import OCI, Entry, ImageLayout, layer, make_image, shell_layer
from tests.support.scripted_registry import ScriptedRegistry, scripted_registry
from tests.support.token_server import registry_with_tokens

MANIFEST = "/v2/acme/build/manifests/1"


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with scripted_registry() as registry:
        yield registry


@pytest.fixture
def image(tmp_path: Path, registry: ScriptedRegistry) -> ImageLayout:
    image = make_image(tmp_path / "image", [shell_layer()])
    registry.add(image, "acme/build")
    return image


async def failure(tmp_path: Path, reference: str, insecure: str = "", **options: Any) -> ImageError:
    """The error of a fetch that leaves nothing behind."""
    harness = ImagesHarness(tmp_path / "environments", [insecure], **options)
    with pytest.raises(ImageError) as raised:
        await harness.fetch(reference)
    assert harness.image_directories() == []
    assert harness.leftovers() == []
    harness.session.close()
    assert str(raised.value).endswith((".", "USER")), raised.value
    assert "\n" not in str(raised.value)
    return raised.value


async def pull_failure(tmp_path: Path, registry: ScriptedRegistry, **options: Any) -> ImageError:
    return await failure(tmp_path, f"{registry.name}/acme/build:1", registry.name, **options)


async def test_a_token_server_gets_the_credential_and_decides(tmp_path: Path) -> None:
    source = ImageRegistry(tmp_path / "source")
    make_image(tmp_path / "image", [shell_layer()]).push(source.address, "acme/build:1")
    source.stop()
    async with registry_with_tokens(tmp_path / "tokens", source.storage) as (registry, tokens):
        harness = ImagesHarness(tmp_path / "environments", [registry.name])
        reference = f"{registry.name}/acme/build:1"
        right = RegistryCredential(registry.name, USERNAME, PASSWORD)
        image = await harness.fetch(reference, right)
        assert any("scope=repository" in request for request in tokens.requests)
        with pytest.raises(ImageError, match="secrets set NAME --for registry --host registry"):
            await harness.fetch(reference, organization="org_b")
        wrong = RegistryCredential(registry.name, USERNAME, "guess")
        with pytest.raises(ImageError, match="does not accept the stored credential"):
            await harness.fetch(reference, wrong, organization="org_b")
        assert harness.images.find("org_b", image.digest) is None
        harness.session.close()


async def test_the_operators_certificates_are_trusted_and_no_others(tmp_path: Path) -> None:
    authority = trustme.CA()
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    context = trustme_context(authority)
    async with scripted_registry(context) as registry:
        image = make_image(tmp_path / "image", [shell_layer()])
        registry.add(image, "acme/build")
        reference = f"{registry.name}/acme/build:1"
        error = await failure(tmp_path, reference)
        assert isinstance(error, RegistryUnavailable)
        assert "certificate" in str(error)
        assert "ca_file" in str(error)
        harness = ImagesHarness(tmp_path / "environments", certificates=bundle)
        assert (await harness.fetch(reference)).digest == image.digest
        harness.session.close()


def trustme_context(authority: trustme.CA) -> Any:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("scripted.test").configure_cert(context)
    return context


async def test_plain_http_needs_the_operators_consent(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    error = await failure(tmp_path, f"{registry.name}/acme/build:1")
    assert not isinstance(error, RegistryUnavailable)
    assert "insecure_registries" in str(error)


async def test_a_private_address_needs_the_operators_consent(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    error = await pull_failure(tmp_path, registry, allowed=AllowList())
    assert not isinstance(error, RegistryUnavailable)
    assert "127.0.0.1 is a loopback address" in str(error)
    assert "AGENTJOBS_EGRESS_ALLOW" in str(error)
    assert registry.requests == []


async def test_a_redirect_leads_to_no_address_that_the_guard_refuses(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    target = f"http://inside.test:{registry.port}/latest/meta-data"
    registry.fail(f"/v2/acme/build/blobs/{image.layers[0]}", 307, Location=target)
    error = await pull_failure(
        tmp_path,
        registry,
        lookup=lambda host: ["169.254.169.254" if host == "inside.test" else "127.0.0.1"],
    )
    assert "169.254.169.254 is a link-local address" in str(error)
    assert "/latest/meta-data" not in registry.requests


async def test_storage_on_another_host_is_reached(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    path = f"/v2/acme/build/blobs/{image.layers[0]}"
    registry.answers["/stored"] = registry.answers[path]
    registry.fail(path, 307, Location=f"http://storage.test:{registry.port}/stored")
    harness = ImagesHarness(tmp_path / "environments", [registry.name])
    await harness.fetch(f"{registry.name}/acme/build:1")
    assert "/stored" in registry.requests
    harness.session.close()


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_an_error_of_the_registry_is_an_outage(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout, status: int
) -> None:
    registry.fail(MANIFEST, status, "<html>sorry")
    assert isinstance(await pull_failure(tmp_path, registry), RegistryUnavailable)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "asks for one"), (403, "asks for one"), (404, "does not have it"), (418, "418")],
)
async def test_a_refusal_of_the_registry_is_final(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout, status: int, words: str
) -> None:
    registry.fail(MANIFEST, status, "no")
    error = await pull_failure(tmp_path, registry)
    assert not isinstance(error, RegistryUnavailable)
    assert words in str(error)


async def test_a_registry_that_limits_requests_is_an_outage(
    tmp_path: Path, registry: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # skopeo waits and tries again for minutes.
    monkeypatch.setattr(registry_module, "MANIFEST_SECONDS", 1)
    registry.fail(MANIFEST, 429)
    error = await pull_failure(tmp_path, registry)
    assert isinstance(error, RegistryUnavailable)
    assert "in time" in str(error)


async def test_a_registry_that_is_silent_closed_or_unknown_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with silent_server() as (port, _):
        name = f"silent.test:{port}"
        # Only here: a busy machine may take longer than this to find the others closed.
        with monkeypatch.context() as patch:
            patch.setattr(registry_module, "MANIFEST_SECONDS", 1)
            silent = await failure(tmp_path, f"{name}/a:1", name)
    assert isinstance(silent, RegistryUnavailable)
    closed = await failure(tmp_path, f"{name}/a:1")
    assert isinstance(closed, RegistryUnavailable)
    assert "could not be reached" in str(closed)

    def lookup(host: str) -> list[str]:
        raise OSError("Name or service not known")

    unknown = await failure(tmp_path, "nowhere.test/a:1", lookup=lookup)
    assert isinstance(unknown, RegistryUnavailable)
    assert "nowhere.test:443 could not be reached" in str(unknown)


async def test_an_answer_that_breaks_off_is_an_outage(
    tmp_path: Path, registry: ScriptedRegistry
) -> None:
    registry.cut(MANIFEST)
    assert isinstance(await pull_failure(tmp_path, registry), RegistryUnavailable)


async def test_an_endless_redirect_ends(tmp_path: Path, registry: ScriptedRegistry) -> None:
    registry.fail(MANIFEST, 302, Location=MANIFEST)
    assert "redirects" in str(await pull_failure(tmp_path, registry))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"<html>", "invalid"),
        (b"{}", "invalid"),
        (b"[" * 100_000, "invalid"),
        (b'{"schemaVersion": 1, "fsLayers": []}', "schema 1"),
        (b'{"a": "' + b"a" * 10 * MIB + b'"}', "4194304 bytes"),
        (b'{"config": {"digest": "md5:1", "size": 1}, "layers": []}', "SHA-256"),
    ],
    ids=["a page", "empty", "deep", "schema 1", "10 MB", "digest"],
)
async def test_a_manifest_that_is_none_is_refused(
    tmp_path: Path, registry: ScriptedRegistry, document: bytes, words: str
) -> None:
    registry.add_manifest("acme/build", "1", document)
    error = await pull_failure(tmp_path, registry)
    assert not isinstance(error, RegistryUnavailable)
    assert words in str(error)


def make_index(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def index_entry(digest: str, architecture: str, media_type: str = "manifest") -> dict[str, Any]:
    return {
        "mediaType": f"{OCI}.{media_type}.v1+json",
        "digest": digest,
        "size": 1,
        "platform": {"os": "linux", "architecture": architecture},
    }


async def test_the_image_of_this_machine_is_chosen_from_an_index(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    architecture = json.loads(image.blob(image.manifest["config"]["digest"]).read_bytes())[
        "architecture"
    ]
    document = make_index(
        index_entry(f"sha256:{'0' * 64}", "s390x"), index_entry(image.digest, architecture)
    )
    registry.add_manifest("acme/build", "1", document, f"{OCI}.index.v1+json")
    harness = ImagesHarness(tmp_path / "environments", [registry.name])
    assert (await harness.fetch(f"{registry.name}/acme/build:1")).digest == image.digest
    harness.session.close()


async def test_an_index_without_this_architecture_names_those_it_has(
    tmp_path: Path, registry: ScriptedRegistry
) -> None:
    document = make_index(index_entry(f"sha256:{'0' * 64}", "s390x"))
    registry.add_manifest("acme/build", "1", document, f"{OCI}.index.v1+json")
    assert "only for linux/s390x" in str(await pull_failure(tmp_path, registry))


async def test_an_image_of_another_architecture_is_refused_before_its_download(
    tmp_path: Path, registry: ScriptedRegistry
) -> None:
    image = make_image(tmp_path / "other", [shell_layer()], architecture="s390x")
    registry.add(image, "acme/build")
    assert "is for linux/s390x" in str(await pull_failure(tmp_path, registry))
    assert image.layers[0] not in registry.downloads()


async def test_an_index_that_points_to_itself_ends(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    for kind in ("index", "manifest"):
        digest = f"sha256:{'0' * 64}"
        document = make_index(
            *(index_entry(digest, architecture, kind) for architecture in ("amd64", "arm64"))
        )
        for version in ("1", digest):
            registry.add_manifest("acme/build", version, document, f"{OCI}.index.v1+json")
        error = await pull_failure(tmp_path, registry)
        assert not isinstance(error, RegistryUnavailable)


async def test_content_with_another_digest_is_refused(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    other = make_image(tmp_path / "other", [shell_layer(), layer(Entry("added"))])
    pinned = f"{registry.name}/acme/build@{image.digest}"
    registry.add_manifest("acme/build", image.digest, other.blob(other.digest).read_bytes())
    assert "digest" in str(await failure(tmp_path, pinned, registry.name))
    registry.add(image, "acme/build")
    for digest in (image.manifest["config"]["digest"], image.layers[0]):
        path = f"/v2/acme/build/blobs/{digest}"
        original = registry.answers[path]
        size = image.blob(digest).stat().st_size
        registry.fail(path, 200, "x" * size)
        error = await pull_failure(tmp_path, registry)
        assert not isinstance(error, RegistryUnavailable), error
        registry.answers[path] = original
    harness = ImagesHarness(tmp_path / "environments", [registry.name])
    await harness.fetch(f"{registry.name}/acme/build:1")
    harness.session.close()


async def test_an_image_that_is_too_large_is_not_downloaded(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    error = await pull_failure(tmp_path, registry, max_bytes=100)
    assert "environment_image_max_mib" in str(error)
    assert registry.downloads() == []


async def test_a_layer_that_does_not_end_is_cut_off(
    tmp_path: Path, registry: ScriptedRegistry, image: ImageLayout
) -> None:
    from aiohttp import web

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(MIB))

    registry.answers[f"/v2/acme/build/blobs/{image.layers[0]}"] = endless
    error = await pull_failure(tmp_path, registry)
    assert "more than the manifest says" in str(error)
