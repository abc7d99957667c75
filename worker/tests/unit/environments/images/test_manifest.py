"""Documents of registries: what is read from them, and what is refused."""

import json
from typing import Any

import pytest

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_worker.environments.images.manifest import (
    MAX_LAYERS,
    Index,
    Manifest,
    choose_manifest,
    compute_digest,
    layout_files,
    parse_config,
    parse_document,
    uncompressed_digests,
)

DOCKER = "application/vnd.docker"
OCI = "application/vnd.oci.image"


def blob(media_type: str, letter: str = "a", size: int = 10) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{letter * 64}", "size": size}


def manifest(*layers: dict[str, Any], **changes: Any) -> bytes:
    fields = {"schemaVersion": 2, "config": blob(f"{OCI}.config.v1+json"), "layers": layers}
    return json.dumps({**fields, **changes}).encode()


def entry(os: str, architecture: str, letter: str) -> dict[str, Any]:
    platform = {"os": os, "architecture": architecture}
    return {**blob(f"{OCI}.manifest.v1+json", letter), "platform": platform}


def parse(document: bytes) -> Manifest:
    parsed = parse_document(document)
    assert isinstance(parsed, Manifest)
    return parsed


def test_a_layer_that_occurs_twice_is_downloaded_once() -> None:
    layer, other = (blob(f"{OCI}.layer.v1.tar+gzip", letter, 7) for letter in "bc")
    document = manifest(layer, other, layer)
    parsed = parse(document)
    assert parsed.digest == compute_digest(document)
    assert len(parsed.layers) == 3
    assert parsed.size_bytes == 14


def test_the_layout_has_the_checked_digests_in_oci_types() -> None:
    layer = blob(f"{DOCKER}.image.rootfs.diff.tar.gzip", "b")
    config = blob(f"{DOCKER}.container.image.v1+json", "c")
    document = manifest(layer, config=config, mediaType=f"{DOCKER}.distribution.manifest.v2+json")
    files = layout_files(parse(document), b"configuration", "image")
    [reference] = json.loads(files["index.json"])["manifests"]
    written = files[f"blobs/sha256/{reference['digest'][7:]}"]
    assert compute_digest(written) == reference["digest"]
    assert json.loads(written)["layers"] == [blob(f"{OCI}.layer.v1.tar+gzip", "b")]
    assert json.loads(written)["config"] == blob(f"{OCI}.config.v1+json", "c")
    assert files[f"blobs/sha256/{'c' * 64}"] == b"configuration"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "invalid"),
        (b"null", "invalid"),
        (b"\xff", "invalid"),
        (manifest(blob(f"{OCI}.layer.v1.tar+zstd")), "tar with gzip"),
        (manifest(blob(f"{OCI}.layer.nondistributable.v1.tar")), "tar with gzip"),
        (manifest(*[blob(f"{OCI}.layer.v1.tar")] * (MAX_LAYERS + 1)), "layers"),
        (manifest(blob(f"{OCI}.layer.v1.tar", size=-1)), "SHA-256"),
        (manifest({**blob(f"{OCI}.layer.v1.tar"), "digest": "../../etc/passwd"}), "SHA-256"),
        (manifest(config=blob("application/vnd.cncf.helm.config.v1+json")), "not the conf"),
        (manifest(mediaType="text/html"), "not the type of an image"),
        (manifest(schemaVersion=1), "schema 1"),
        (b'{"manifests": [{"digest": "x", "size": 1}]}', "SHA-256"),
    ],
)
def test_what_cannot_be_unpacked_is_refused(document: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        parse_document(document)


def test_an_index_offers_one_image_per_platform() -> None:
    document = {"manifests": [entry("windows", "amd64", "a"), entry("linux", "amd64", "b")]}
    index = parse_document(json.dumps(document).encode())
    assert isinstance(index, Index)
    assert choose_manifest(index, "amd64") == f"sha256:{'b' * 64}"
    with pytest.raises(ImageError, match="only for linux/amd64, windows/amd64"):
        choose_manifest(index, "arm64")


def test_an_index_without_platforms_offers_nothing() -> None:
    index = parse_document(json.dumps({"manifests": [blob("x")]}).encode())
    assert isinstance(index, Index)
    with pytest.raises(ImageError, match="only for nothing"):
        choose_manifest(index, "amd64")


def test_a_configuration_without_a_process_has_defaults() -> None:
    config = parse_config(b'{"os": "linux", "architecture": "arm64", "config": null}', "arm64")
    assert (config.entrypoint, config.command, config.variables) == ((), (), {})
    assert config.working_directory == "/"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"[]", "invalid"),
        (b'{"os": "linux", "architecture": "arm64"}', "is for linux/arm64"),
        (b'{"os": "linux", "architecture": "amd64", "config": {"Cmd": "sh"}}', "invalid"),
        (b'{"os": "linux", "architecture": "amd64", "config": {"Cmd": ["\\u0000"]}}', "NUL"),
    ],
)
def test_an_unusable_configuration_is_refused(document: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        parse_config(document, "amd64")


def test_a_configuration_names_the_content_of_every_layer_in_order() -> None:
    layers = [blob(f"{OCI}.layer.v1.tar", letter) for letter in "aba"]
    contents = {"rootfs": {"diff_ids": [f"sha256:{letter * 64}" for letter in "cdc"]}}
    pairs = uncompressed_digests(parse(manifest(*layers)), json.dumps(contents).encode())
    assert pairs == [("a" * 64, "c" * 64), ("b" * 64, "d" * 64), ("a" * 64, "c" * 64)]


@pytest.mark.parametrize(
    "rootfs",
    [None, {}, {"diff_ids": []}, {"diff_ids": ["sha256:$(id)"]}, {"diff_ids": [1]}],
)
def test_a_configuration_that_does_not_name_every_layer_is_refused(rootfs: Any) -> None:
    image = parse(manifest(blob(f"{OCI}.layer.v1.tar")))
    with pytest.raises(ImageError, match="configuration is invalid"):
        uncompressed_digests(image, json.dumps({"rootfs": rootfs}).encode())
