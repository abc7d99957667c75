"""Makes OCI images byte by byte, hostile ones too, as layouts that skopeo can push."""

import gzip
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

# Go's names of architectures, which images use.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image"
_PART_BYTES = 32 * 1024**2
_TYPES = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}


@dataclass
class Entry:
    """One entry of a layer; `attributes` are those of a TarInfo."""

    name: str
    kind: str = "file"
    content: bytes = b"x"
    attributes: dict[str, Any] = field(default_factory=dict)


def layer(*entries: Entry) -> bytes:
    """An uncompressed layer."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type = _TYPES[entry.kind]
            info.mode = 0o755 if entry.kind == "directory" else 0o644
            if entry.kind == "file":
                info.size = len(entry.content)
            for name, value in entry.attributes.items():
                setattr(info, name, value)
            archive.addfile(info, io.BytesIO(entry.content) if entry.kind == "file" else None)
    return output.getvalue()


def link(name: str, target: str, kind: str = "link") -> Entry:
    return Entry(name, kind, attributes={"linkname": target})


def bomb(size_bytes: int) -> bytes:
    """A compressed layer with a file of zeros. Its parts are repeated, so making it is quick."""
    header = tarfile.TarInfo("zeros")
    header.size = size_bytes
    part = bytes(_PART_BYTES)
    count = size_bytes // _PART_BYTES
    return gzip.compress(header.tobuf(tarfile.PAX_FORMAT)) + gzip.compress(part) * count


@cache
def busybox_layer() -> bytes:
    """`/bin/sh` and nothing else."""
    program = shutil.which("busybox")
    assert program is not None
    content = Path(program).read_bytes()
    return layer(
        Entry("bin", "directory"),
        Entry("bin/busybox", content=content, attributes={"mode": 0o755}),
        link("bin/sh", "busybox"),
    )


def shell_layer() -> bytes:
    """A file that only looks like a shell, because nothing runs it: it is small."""
    return layer(
        Entry("bin", "directory"), Entry("bin/sh", content=b"#!", attributes={"mode": 0o755})
    )


@dataclass
class ImageLayout:
    """A layout with one image, tagged `image`."""

    path: Path
    digest: str
    manifest: dict[str, Any]

    @property
    def layers(self) -> list[str]:
        return [entry["digest"] for entry in self.manifest["layers"]]

    def blob(self, digest: str) -> Path:
        return self.path / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def push(self, registry: str, name: str, *options: str) -> None:
        """`registry` is reached over plain HTTP. Without a format, the digest stays the same."""
        options = options if "--format" in options else (*options, "--preserve-digests")
        command = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
        target = f"docker://{registry}/{name}"
        subprocess.run(
            [*command, *options, f"oci:{self.path}:image", target], check=True, capture_output=True
        )


def make_image(
    path: Path,
    layers: Sequence[bytes],
    *,
    config: dict[str, Any] | None = None,
    architecture: str | None = None,
    compressed: bool = True,
    last_layer: bytes = b"",
    rootfs: dict[str, Any] | None = None,
) -> ImageLayout:
    """`last_layer` is compressed already. `rootfs` may lie about the layers."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    document = {
        "architecture": architecture or _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": config or {},
        "rootfs": rootfs
        or {
            "type": "layers",
            "diff_ids": [
                f"sha256:{hashlib.sha256(each).hexdigest()}" for each in (*layers, last_layer)
            ][: len(layers) + bool(last_layer)],
        },
    }
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "config": put(json.dumps(document).encode(), f"{OCI}.config.v1+json"),
        "layers": [
            put(gzip.compress(each, 1, mtime=0), f"{OCI}.layer.v1.tar+gzip")
            if compressed
            else put(each, f"{OCI}.layer.v1.tar")
            for each in layers
        ],
    }
    if last_layer:
        manifest["layers"].append(put(last_layer, f"{OCI}.layer.v1.tar+gzip"))
    entry = put(json.dumps(manifest).encode(), f"{OCI}.manifest.v1+json")
    annotated = {**entry, "annotations": {"org.opencontainers.image.ref.name": "image"}}
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [annotated]}))
    return ImageLayout(path, entry["digest"], manifest)
