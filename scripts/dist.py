"""Builds the packages of this repository; one commit always gives the same bytes."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import install

PYTHON_PACKAGES = install.PACKAGES
TYPESCRIPT_PACKAGE = install.PROJECT / "clients" / "typescript"
EPOCH = "SOURCE_DATE_EPOCH"


def main(target: str) -> None:
    # Archives contain the modes of files.
    os.umask(0o022)
    directory = Path(target).resolve()
    with replacement_of(directory) as partial:
        build(partial)
    for package in sorted(directory.iterdir()):
        print(package)


@contextlib.contextmanager
def replacement_of(directory: Path) -> Iterator[Path]:
    """A build that fails or is interrupted leaves the files of the last one."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".dist-") as temporary:
        partial = Path(temporary) / directory.name
        partial.mkdir()
        yield partial
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)


def build(directory: Path) -> None:
    build_python(directory)
    build_typescript(directory)


def build_python(directory: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"]
    for package in PYTHON_PACKAGES:
        run([*command, "-d", str(directory)], package)


def build_typescript(directory: Path) -> None:
    """In a copy: npm packs what earlier builds left, and the modes that files happen to have."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        tracked = git("ls-files", "-z", str(TYPESCRIPT_PACKAGE), "LICENSE", "docs/openapi.json")
        for name in filter(None, tracked.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(install.PROJECT / name, copy / name)
        package = copy / TYPESCRIPT_PACKAGE.relative_to(install.PROJECT)
        (package / "node_modules").symlink_to(TYPESCRIPT_PACKAGE / "node_modules")
        run(["npm", "pack", "--pack-destination", str(directory)], package)


def run(command: list[str], cwd: Path) -> None:
    environment = {**os.environ, EPOCH: source_date_epoch()}
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{process.stdout}{process.stderr}dist: {' '.join(command)} failed, see above")


def source_date_epoch() -> str:
    """The time of the last commit: the only time that files of a build contain."""
    if epoch := os.environ.get(EPOCH):
        return epoch
    return git("log", "-1", "--no-show-signature", "--format=%ct")


def git(*arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments], cwd=install.PROJECT, capture_output=True, text=True
    )
    if process.returncode:
        sys.exit(f"dist: git {arguments[0]} failed: {process.stderr.strip()}")
    return process.stdout.strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
