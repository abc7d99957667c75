"""Parses manifests, indexes and configurations of images, which are untrusted. Pure."""

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.reference import DIGEST
from agentjobs_runtime.safe_text import ellipsize, single_line

# The size of a manifest or a configuration.
MAX_DOCUMENT_BYTES = 4 * 1024**2
MAX_LAYERS = 512

_OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
_OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
_INDEXES = (_OCI_INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = (_OCI_MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
_CONFIGS = (_OCI_CONFIG, "application/vnd.docker.container.image.v1+json")
# Docker's formats differ from OCI's in their names only.
_LAYERS = {
    _OCI_LAYER: _OCI_LAYER,
    f"{_OCI_LAYER}+gzip": f"{_OCI_LAYER}+gzip",
    "application/vnd.docker.image.rootfs.diff.tar": _OCI_LAYER,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": f"{_OCI_LAYER}+gzip",
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_SHOWN = 80


class _Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename={"media_type": "mediaType"}):
    digest: str
    size: int
    media_type: str = ""
    platform: _Platform | None = None

    @property
    def hex(self) -> str:
        return self.digest.removeprefix("sha256:")


class Index(msgspec.Struct, frozen=True):
    manifests: tuple[Descriptor, ...]


class Manifest(msgspec.Struct, frozen=True):
    """`digest` is that of the registry's document."""

    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def unique_layers(self) -> tuple[Descriptor, ...]:
        return tuple({layer.digest: layer for layer in self.layers}.values())

    @property
    def size_bytes(self) -> int:
        return sum(layer.size for layer in self.unique_layers)


class _Process(msgspec.Struct, frozen=True, rename="pascal"):
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    working_dir: str | None = None


class _Config(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    config: _Process | None = None


class _RootFiles(msgspec.Struct, frozen=True):
    diff_ids: tuple[str, ...]


class _Contents(msgspec.Struct, frozen=True):
    rootfs: _RootFiles


class ImageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the image's author starts it."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    variables: Mapping[str, str]
    working_directory: str


def compute_digest(document: bytes) -> str:
    return f"sha256:{hashlib.sha256(document).hexdigest()}"


def parse_document(document: bytes) -> Manifest | Index:
    """Raises ImageError."""
    fields = _decode(document, dict[str, Any], "manifest")
    if fields.get("schemaVersion") == 1:
        raise ImageError(
            "The image has the outdated format of schema 1. Push it again with a current tool."
        )
    media_type = fields.get("mediaType")
    if media_type in _INDEXES or (media_type is None and "manifests" in fields):
        index: Index = _decode(document, Index, "index")
        _check_digests(index.manifests)
        return index
    if media_type not in (None, *_MANIFESTS):
        raise ImageError(f"{_shown(media_type)} is not the type of an image.")
    manifest = _decode(document, _ManifestFields, "manifest")
    return _check_manifest(Manifest(compute_digest(document), manifest.config, manifest.layers))


def choose_manifest(index: Index, architecture: str | None = None) -> str:
    """The digest of the image for this machine. Raises ImageError."""
    wanted = architecture or machine_architecture()
    for entry in index.manifests:
        target = entry.platform
        if target is not None and (target.os, target.architecture) == ("linux", wanted):
            if entry.media_type not in ("", *_MANIFESTS):
                raise ImageError(f"{_shown(entry.media_type)} is not the type of an image.")
            return entry.digest
    offered = {f"{e.platform.os}/{e.platform.architecture}" for e in index.manifests if e.platform}
    raise ImageError(
        f"There is no image for linux/{wanted}, only for {_shown(', '.join(sorted(offered)))}."
    )


def machine_architecture() -> str:
    """The architecture by the name that images use, which is Go's."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def parse_config(document: bytes, architecture: str | None = None) -> ImageConfig:
    """Raises ImageError."""
    config = _decode(document, _Config, "configuration")
    wanted = ("linux", architecture or machine_architecture())
    if (config.os, config.architecture) != wanted:
        raise ImageError(
            f"The image is for {_shown(f'{config.os}/{config.architecture}')}, and this worker "
            f"needs {'/'.join(wanted)}."
        )
    if b"\\u0000" in document:
        raise ImageError("The image's configuration contains a NUL.")
    process = config.config or _Process()
    pairs = (text.partition("=") for text in process.env or ())
    return ImageConfig(
        entrypoint=process.entrypoint or (),
        command=process.cmd or (),
        # A shell sets the variables, and knows no other names.
        variables={name: value for name, _, value in pairs if _VARIABLE.fullmatch(name)},
        working_directory=process.working_dir or "/",
    )


def uncompressed_digests(manifest: Manifest, config: bytes) -> list[tuple[str, str]]:
    """The digest of each layer, and that of its uncompressed content. Raises ImageError."""
    contents: tuple[str, ...] = _decode(config, _Contents, "configuration").rootfs.diff_ids
    if len(contents) != len(manifest.layers) or not all(map(DIGEST.fullmatch, contents)):
        raise ImageError("The image's configuration is invalid: it must name every layer.")
    return [
        (layer.hex, content.removeprefix("sha256:"))
        for layer, content in zip(manifest.layers, contents, strict=True)
    ]


def layout_files(manifest: Manifest, config: bytes, tag: str) -> dict[str, bytes]:
    """An OCI layout with this one image, without its layers.

    It is made of the checked manifest, so that the unpacked files depend on nothing else.
    """
    document = _encode(
        {
            "schemaVersion": 2,
            "config": _reference(manifest.config, _OCI_CONFIG),
            "layers": [_reference(layer, _LAYERS[layer.media_type]) for layer in manifest.layers],
        }
    )
    entry = Descriptor(compute_digest(document), len(document))
    index = {
        "schemaVersion": 2,
        "manifests": [
            _reference(entry, _OCI_MANIFEST)
            | {"annotations": {"org.opencontainers.image.ref.name": tag}}
        ],
    }
    return {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": _encode(index),
        f"blobs/sha256/{entry.hex}": document,
        f"blobs/sha256/{manifest.config.hex}": config,
    }


class _ManifestFields(msgspec.Struct, frozen=True):
    config: Descriptor
    layers: tuple[Descriptor, ...]


def _check_manifest(manifest: Manifest) -> Manifest:
    _check_digests((manifest.config, *manifest.layers))
    if manifest.config.media_type not in _CONFIGS:
        raise ImageError(
            f"{_shown(manifest.config.media_type)} is not the configuration of an image."
        )
    if len(manifest.layers) > MAX_LAYERS:
        raise ImageError(f"The image has more than {MAX_LAYERS} layers.")
    for layer in manifest.layers:
        if layer.media_type not in _LAYERS:
            raise ImageError(
                f"A layer of the image is {_shown(layer.media_type)}. Only tar and tar with gzip "
                "can be unpacked: push it again with such layers."
            )
    return manifest


def _check_digests(descriptors: tuple[Descriptor, ...]) -> None:
    for descriptor in descriptors:
        if not DIGEST.fullmatch(descriptor.digest) or descriptor.size < 0:
            raise ImageError("The registry's manifest is invalid: it needs SHA-256 digests.")


def _decode(document: bytes, kind: Any, name: str) -> Any:
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ImageError(f"The image's {name} is invalid: {_shown(str(error))}.") from None


def _reference(blob: Descriptor, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": blob.digest, "size": blob.size}


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _shown(text: object) -> str:
    return ellipsize(single_line(str(text)), _MAX_SHOWN) or "nothing"
