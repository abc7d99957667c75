"""Writes archives of images as `docker save` does, from layers that are tar archives."""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Image:
    name: str
    layers: tuple[Path, ...]
    command: tuple[str, ...] = ("/bin/sh",)


def write_archive(path: Path, images: Sequence[Image]) -> None:
    """Left as it is where nothing changed."""
    digests = {layer: _digest(layer) for image in images for layer in image.layers}
    contents = json.dumps([[image.name, *map(digests.get, image.layers)] for image in images])
    record = path.with_suffix(".json")
    if path.exists() and record.exists() and record.read_text() == contents:
        return
    incomplete = path.with_suffix(".incomplete")
    with tarfile.open(incomplete, "w") as archive:
        manifest = []
        for number, image in enumerate(images):
            config = f"{number}.json"
            layer_digests = [digests[layer] for layer in image.layers]
            add_file(archive, config, _configuration(image, layer_digests))
            layers = [f"{digest}.tar" for digest in layer_digests]
            manifest.append({"Config": config, "RepoTags": [image.name], "Layers": layers})
        add_file(archive, "manifest.json", json.dumps(manifest).encode())
        for layer, digest in digests.items():
            archive.add(layer, f"{digest}.tar")
    record.unlink(missing_ok=True)
    incomplete.rename(path)
    record.write_text(contents)


def _configuration(image: Image, digests: Sequence[str]) -> bytes:
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Cmd": image.command, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }
    return json.dumps(config).encode()


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type = tarfile.SYMTYPE
    info.linkname = target
    archive.addfile(info)


def add_directory(archive: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    info.mode = 0o755
    archive.addfile(info)


def architecture() -> str:
    command = ["dpkg", "--print-architecture"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _digest(path: Path) -> str:
    """Remembered, because layers are large."""
    status = path.stat()
    version = f"{status.st_size} {status.st_mtime_ns}"
    record = path.with_suffix(".digest")
    if record.exists():
        digest, _, of = record.read_text().partition(" ")
        if of == version:
            return digest
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record.write_text(f"{digest} {version}")
    return digest
