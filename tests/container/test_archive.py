"""The image as a file of a release."""

import sys
from pathlib import Path

from tests.container.harness import run
from tests.support.paths import PROJECT


def archive(image: str, path: Path) -> bytes:
    program = f"import release; release.archive_image({image!r}, release.Path({str(path)!r}), 0)"
    run(sys.executable, "-c", program, cwd=PROJECT / "scripts")
    return path.read_bytes()


def test_two_archives_of_an_image_have_the_same_bytes_and_can_be_loaded(
    image: str, tmp_path: Path
) -> None:
    identifier = run("podman", "image", "inspect", image, "--format", "{{.Id}}")
    assert archive(image, tmp_path / "first.tar") == archive(image, tmp_path / "second.tar")
    run("podman", "untag", image)
    assert image in run("podman", "load", "--input", tmp_path / "first.tar")
    assert run("podman", "image", "inspect", image, "--format", "{{.Id}}") == identifier
