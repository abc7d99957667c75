"""The server's packages: what they contain, and a service that starts from nothing else."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import httpx
import pytest

from tests.support.installed_program import (
    InstalledService,
    build_packages,
    create_environment,
    install,
    run,
    wheel_of,
)
from tests.support.paths import PARTS, PROJECT

RECORD = "agentjobs/build_record.py"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_packages(tmp_path_factory.mktemp("packages"), only_python=True)


@pytest.fixture(scope="module")
def programs(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with all wheels; what they require comes from this one."""
    programs = create_environment(tmp_path_factory.mktemp("installed") / "environment")
    wheels = sorted(packages.glob("*.whl"))
    install(programs, "--offline", "--no-cache", "--no-deps", *wheels)
    (site_packages,) = programs.parent.glob("lib/python*/site-packages")
    # Python does not read the .pth files there, which would add the checkout.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return programs


@pytest.fixture
def service(programs: Path, tmp_path: Path) -> Iterator[InstalledService]:
    service = InstalledService(tmp_path / "data", program=programs / "agentjobs").start()
    yield service
    service.stop()


@pytest.mark.parametrize("part", PARTS)
def test_a_wheel_contains_every_source_file_of_its_part(packages: Path, part: str) -> None:
    source = PROJECT / part / "src"
    tracked = run("git", "ls-files", "--", ".", cwd=source).splitlines()
    sources = {name for name in tracked if (source / name).exists()}
    name = "agentjobs" if part == "service" else f"agentjobs_{part}"
    with zipfile.ZipFile(wheel_of(packages, name)) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name} - {RECORD}
    assert sources <= files
    # New files may not be tracked yet.
    assert all((source / name).exists() for name in files)


def test_the_sdist_of_the_service_has_its_pages_and_its_files_for_systemd(packages: Path) -> None:
    (sdist,) = packages.glob("agentjobs-[0-9]*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = (*(PROJECT / "docs").glob("*.md"), *(PROJECT / "packaging" / "systemd").iterdir())
    assert {str(path.relative_to(PROJECT)) for path in files} <= names
    assert {"CHANGELOG.md", "SECURITY.md", "requirements.lock"} <= names


def test_the_wheel_of_the_service_names_its_build(packages: Path) -> None:
    with zipfile.ZipFile(wheel_of(packages, "agentjobs")) as wheel:
        record = wheel.read(RECORD).decode()
    assert run("git", "rev-parse", "HEAD", cwd=PROJECT).strip() in record


def test_wheels_refuse_pythons_that_are_too_old(packages: Path) -> None:
    for path in packages.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
            metadata = message_from_bytes(wheel.read(name))
        assert metadata["Requires-Python"] == ">=3.11"


def test_an_installed_program_names_its_build(programs: Path, tmp_path: Path) -> None:
    output = run(programs / "agentjobs", "--version", cwd=tmp_path)
    commit = run("git", "rev-parse", "--short=12", "HEAD", cwd=PROJECT).strip()
    assert re.fullmatch(
        rf"agentjobs [\d.]+ \(commit {commit}( with changes)?, \d{{4}}-\d\d-\d\d\)\n", output
    )


def test_an_installed_service_has_its_migrations_agents_pages_and_files(
    service: InstalledService, programs: Path
) -> None:
    place = (
        "import agentjobs, agentjobs_worker, agentjobs_dependencies;"
        "print(agentjobs.__file__, agentjobs_worker.__file__, agentjobs_dependencies.__file__)"
    )
    for file in run(programs / "python", "-c", place, cwd=service.data_dir).split():
        assert Path(file).is_relative_to(programs.parent)
    agents = service.admin("agents", "list")
    assert "lint-fixer" in agents
    assert "cve-fixer" in agents
    page = httpx.get(f"{service.root_url}/sign-in")
    assert page.status_code == 200
    files = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text))
    assert files
    for file in files:
        assert httpx.get(f"{service.root_url}{file}").status_code == 200


def test_an_sdist_builds_the_same_wheel(packages: Path, tmp_path: Path) -> None:
    """Where there is no repository, the record of the sdist is used."""
    (sdist,) = packages.glob("agentjobs-[0-9]*.tar.gz")
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    (source,) = tmp_path.iterdir()
    date = run("git", "log", "-1", "--format=%ct", cwd=PROJECT).strip()
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
    run(*build, cwd=source, **os.environ, SOURCE_DATE_EPOCH=date)
    rebuilt, wheel = (wheel_of(each, "agentjobs") for each in (source / "dist", packages))
    assert rebuilt.read_bytes() == wheel.read_bytes()
