"""Builds images from Debian's packages and runs containers, with a storage of its own."""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import PROJECT

STORAGE = PROJECT / ".container"
PACKAGING = PROJECT / "packaging" / "container"
IMAGES = PROJECT / "tests" / "container" / "images"
# What docs/installation.md gives to workers.
SANDBOX_OPTIONS = (
    *("--security-opt", "seccomp=unconfined"),
    *("--security-opt", "apparmor=unconfined"),
    *("--security-opt", "systempaths=unconfined"),
)
# Not all machines let a test raise limits, and crun refuses mixed versions of cgroups.
CONFIGURATION = """\
[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
"""
BUILD_OPTIONS = ("--isolation", "chroot", "--network", "host")
_CERTIFICATES = "/usr/local/share/ca-certificates"
# A machine whose package index has a private authority passes it on.
_CERTIFICATES_HOOK = (
    f'mkdir -p "$1{_CERTIFICATES}"; cp {_CERTIFICATES}/*.crt "$1{_CERTIFICATES}" 2>/dev/null; '
    'chroot "$1" update-ca-certificates'
)
# What the slim images of Debian leave out.
_LEFT_OUT = ("doc/*", "info/*", "locale/*", "man/*")
_WAIT_SECONDS = 240.0


def prepare_storage() -> None:
    assert os.geteuid() == 0, "these tests mount file systems and create networks; run them as root"
    STORAGE.mkdir(exist_ok=True)
    (STORAGE / "containers.conf").write_text(CONFIGURATION)
    paths = f'graphroot = "{STORAGE}/images"\nrunroot = "{STORAGE}/run"\n'
    (STORAGE / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\n{paths}')


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "CONTAINERS_CONF": str(STORAGE / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(STORAGE / "storage.conf"),
    }


def run(*command: str | Path, cwd: Path = PROJECT, **variables: str) -> str:
    process = attempt(*command, cwd=cwd, **variables)
    assert process.returncode == 0, f"{command}\n{process.stdout[-3000:]}\n{process.stderr[-3000:]}"
    return process.stdout.strip()


def attempt(
    *command: str | Path, cwd: Path = PROJECT, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        check=False,
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def wait_for(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + _WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, f"{what} did not happen"
        time.sleep(0.2)


def base_image() -> str:
    """The Debian release of the Containerfile's default base, as a fresh image of packages."""
    default = re.search(r"ARG BASE=.*:(\w+)-slim\n", (PACKAGING / "Containerfile").read_text())
    assert default
    suite = default[1]
    name = f"localhost/debian:{suite}"
    if attempt("podman", "image", "exists", name).returncode:
        archive = STORAGE / "base.tar"
        excluded = (f"--dpkgopt=path-exclude=/usr/share/{name}" for name in _LEFT_OUT)
        options = (
            *("--variant=minbase", "--include=ca-certificates"),
            *excluded,
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        )
        run("mmdebstrap", *options, f"--customize-hook={_CERTIFICATES_HOOK}", suite, archive)
        run("podman", "import", "--quiet", archive, name)
        archive.unlink()
    return name


def build(name: str, target: str = "service") -> str:
    """Builds an image from the checkout without a cache, and returns its identifier."""
    options = ("--target", target, "--build-arg", f"BASE={base_image()}", *BUILD_OPTIONS)
    run(PACKAGING / "build", name, *options)
    return run("podman", "image", "inspect", name, "--format", "{{.Id}}")


def build_other_images(**names: str) -> None:
    for target, name in names.items():
        if attempt("podman", "image", "exists", name).returncode:
            options = ("--layers", "--target", target, "--tag", name, *BUILD_OPTIONS)
            run("buildah", "build", *options, "--build-arg", f"BASE={base_image()}", IMAGES)


def in_container(name: str, *command: str) -> str:
    return run("podman", "exec", name, *command)


def create_repository(container: str) -> None:
    """A repository whose unused import the lint-fixer removes."""
    script = (
        "git init -q -b main /tmp/shop && cd /tmp/shop && printf 'import os\\n' > shop.py"
        # Otherwise git leaves a process behind, which only an init process would reap.
        " && git add . && git -c user.name=A -c user.email=a@b.c -c maintenance.auto=false"
        " commit -qm Start"
        " && agentjobs repos connect /tmp/shop --name acme/shop --wait"
    )
    in_container(container, "sh", "-c", script)


def run_job(container: str, url: str) -> str:
    """Runs a job with the command line in a container, and returns its pull request's URL."""
    script = (
        f"agentjobs keys create | agentjobs login {url} >&2"
        " && agentjobs jobs create --repo acme/shop --agent lint-fixer --wait"
    )
    return in_container(container, "sh", "-c", script).splitlines()[-1]


def exit_code(container: str) -> int:
    state = json.loads(run("podman", "inspect", container))[0]["State"]
    return int(state["ExitCode"])


@contextmanager
def health_checks() -> Iterator[None]:
    """Runs health checks, which podman leaves to timers of systemd."""
    ended = threading.Event()

    def check() -> None:
        while not ended.wait(1):
            for container in run("podman", "ps", "--quiet").split():
                attempt("podman", "healthcheck", "run", container)

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
