"""The same commit gives the same bytes, whoever builds it and where."""

import shutil
from pathlib import Path

from tests.support.installed_program import build_packages, run
from tests.support.paths import PROJECT


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_two_clones_with_other_modes_and_times_give_the_same_packages(tmp_path: Path) -> None:
    builds = []
    for number, mask in enumerate(("022", "077")):
        clone = tmp_path / f"clone-{number}"
        script = f"umask {mask}; git clone -q {PROJECT} {clone}"
        run("sh", "-c", script, cwd=tmp_path)
        shutil.copytree(
            PROJECT / "clients" / "typescript" / "node_modules",
            clone / "clients" / "typescript" / "node_modules",
            symlinks=True,
        )
        target = tmp_path / f"packages-{number}"
        target.mkdir()
        builds.append(contents(build_packages(target, clone)))
    assert builds[0] == builds[1]
    assert len(builds[0]) == 5
