"""Images for the pods of a test cluster, made of Debian packages and this checkout."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.kubernetes.configuration import PAUSE_IMAGE
from tests.kubernetes.image_archives import Image, add_directory, add_file, add_link, write_archive
from tests.support.paths import PROJECT, SOURCES

AGENT_IMAGE = "localhost/agentjobs-agent:test"
BUSYBOX_IMAGE = "localhost/busybox:test"
DEBIAN_IMAGE = "localhost/debian:test"
SUPERVISOR = PROJECT / ".supervisor" / "agentjobs-supervisor"
_SUITE = "bookworm"
_PYTHON = "3.11"
_PACKAGES = "ca-certificates,git,procps,python3,skopeo"
_APPLETS = ("cat", "dd", "echo", "env", "head", "id", "ls", "nc", "sh", "sleep", "true", "wget")
_VENV = "opt/agentjobs"
_SITE_PACKAGES = f"{_VENV}/lib/python{_PYTHON}/site-packages"


def write_images(directory: Path) -> Path:
    """One archive. What stays the same is kept between runs: the packages take a minute."""
    directory.mkdir(parents=True, exist_ok=True)
    busybox, debian = _busybox_layer(directory), _debian_layer(directory)
    agent = (debian, _dependencies_layer(directory), _checkout_layer(directory))
    path = directory / "images.tar"
    images = (
        Image(PAUSE_IMAGE, (busybox,), ("/bin/busybox", "sleep", "2000000000")),
        Image(BUSYBOX_IMAGE, (busybox,)),
        Image(DEBIAN_IMAGE, (debian,)),
        Image(AGENT_IMAGE, agent),
    )
    write_archive(path, images)
    return path


def _busybox_layer(directory: Path) -> Path:
    program = shutil.which("busybox")
    assert program is not None, "install busybox-static"
    path = directory / "busybox.layer"
    with tarfile.open(path, "w") as archive:
        for name in ("bin", "tmp", "etc"):
            add_directory(archive, name)
        add_file(archive, "bin/busybox", Path(program).read_bytes(), 0o755)
        for name in _APPLETS:
            add_link(archive, f"bin/{name}", "busybox")
    return path


def _debian_layer(directory: Path) -> Path:
    path = directory / f"{_SUITE}-{_short_hash(_PACKAGES.encode())}.layer"
    if not path.exists():
        incomplete = directory / "debian.incomplete.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}"]
        subprocess.run([*command, _SUITE, str(incomplete)], check=True)
        incomplete.rename(path)
    return path


def _dependencies_layer(directory: Path) -> Path:
    """What the service needs, for the Python of the image."""
    lock = PROJECT / "requirements.lock"
    path = directory / f"dependencies-{_short_hash(lock.read_bytes())}.layer"
    if not path.exists():
        target = directory / "dependencies"
        shutil.rmtree(target, ignore_errors=True)
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"]
        options += [f"--python-version={_PYTHON}", f"--target={target}", f"--requirement={lock}"]
        subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True)
        incomplete = path.with_suffix(".incomplete")
        with tarfile.open(incomplete, "w") as archive:
            archive.add(target / "bin", f"{_VENV}/bin", filter=_owned_by_root)
            shutil.rmtree(target / "bin")
            archive.add(target, _SITE_PACKAGES, filter=_owned_by_root)
        incomplete.rename(path)
        shutil.rmtree(target)
    return path


def _checkout_layer(directory: Path) -> Path:
    assert SUPERVISOR.exists(), "run `make supervisor` first"
    path = directory / "checkout.layer"
    with tarfile.open(path, "w") as archive:
        add_link(archive, f"{_VENV}/bin/python", "/usr/bin/python3")
        add_link(archive, f"{_VENV}/bin/python3", "/usr/bin/python3")
        settings = f"home = /usr/bin\nversion = {_PYTHON}\n"
        add_file(archive, f"{_VENV}/pyvenv.cfg", settings.encode())
        for source in (*SOURCES, PROJECT / "clients" / "python" / "src"):
            archive.add(source, _SITE_PACKAGES, filter=_owned_by_root)
        add_file(archive, "usr/local/bin/agentjobs-supervisor", SUPERVISOR.read_bytes(), 0o755)
        add_directory(archive, "workspace")
    return path


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.name.endswith("/__pycache__"):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
