"""Images for the pods of a test cluster, made of Debian packages."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.kubernetes.configuration import PAUSE_IMAGE

BUSYBOX_IMAGE = "localhost/busybox:test"
DEBIAN_IMAGE = "localhost/debian:test"
_PACKAGES = "ca-certificates,git,procps,python3"
_APPLETS = ("cat", "dd", "echo", "env", "head", "id", "ls", "nc", "sh", "sleep", "true", "wget")


def write_small_images(directory: Path) -> list[Path]:
    layer = _busybox_layer()
    pause = ["/bin/busybox", "sleep", "2000000000"]
    return [
        _write_archive(directory / "pause.tar", PAUSE_IMAGE, layer, pause),
        _write_archive(directory / "busybox.tar", BUSYBOX_IMAGE, layer, ["/bin/sh"]),
    ]


def write_debian_image(directory: Path) -> Path:
    """Kept between runs; it takes a minute."""
    path = directory / "debian.tar"
    if not path.exists():
        root = directory / "debian-root.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}"]
        subprocess.run([*command, "bookworm", str(root)], check=True)
        _write_archive(path, DEBIAN_IMAGE, root, ["/bin/sh"])
        root.unlink()
    return path


def _busybox_layer() -> bytes:
    program = shutil.which("busybox")
    assert program is not None, "install busybox-static"
    content = Path(program).read_bytes()
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name in ("bin", "tmp", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o755
            archive.addfile(folder)
        file = tarfile.TarInfo("bin/busybox")
        file.mode = 0o755
        file.size = len(content)
        archive.addfile(file, io.BytesIO(content))
        for name in _APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type = tarfile.SYMTYPE
            link.linkname = "busybox"
            archive.addfile(link)
    return output.getvalue()


def _write_archive(path: Path, name: str, layer: bytes | Path, command: list[str]) -> Path:
    """An archive as `docker save` writes it."""
    digest = hashlib.sha256()
    with io.BytesIO(layer) if isinstance(layer, bytes) else layer.open("rb") as content:
        while part := content.read(1 << 20):
            digest.update(part)
        size = content.tell()
        config = {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        content.seek(0)
        incomplete = path.with_suffix(".incomplete")
        with tarfile.open(incomplete, "w") as archive:
            for file, value in (("config.json", config), ("manifest.json", manifest)):
                encoded = json.dumps(value).encode()
                info = tarfile.TarInfo(file)
                info.size = len(encoded)
                archive.addfile(info, io.BytesIO(encoded))
            info = tarfile.TarInfo("layer.tar")
            info.size = size
            archive.addfile(info, content)
    return incomplete.rename(path)


def _architecture() -> str:
    command = ["dpkg", "--print-architecture"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
