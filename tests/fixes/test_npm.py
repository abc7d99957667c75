"""Fixes of package-lock.json in every format, with the release of npm that wrote it.

The same release then installs exactly what the lock file says.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.model import Fix
from tests.fixes.javascript import (
    BRACES,
    LODASH,
    MINIMIST,
    OLD_VERSIONS,
    TOGETHER,
    UNRELATED,
    JavaScriptProject,
    PackageManagers,
    large_old_project,
    manifest_of,
    rest_of,
)
from tests.support.fix_corpus import Corpus, advisory

# The formats that each release writes.
FORMATS = {"6.14.18": 1, "8.19.4": 2, "10.9.9": 3}


def check_format(lock: str, release: str) -> None:
    assert json.loads(lock)["lockfileVersion"] == FORMATS[release]


@pytest.mark.parametrize("release", FORMATS)
def test_direct_and_transitive_packages_are_updated(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    required = {"lodash": "^4.17.15", "mkdirp": "0.5.1", "micromatch": "4.0.2", **UNRELATED}
    manifest = {"name": "app", "version": "1.0.0"}
    pinned = {**required, "lodash": "4.17.15", "braces": "3.0.1"}
    project = JavaScriptProject(
        corpus,
        package_managers.get("npm", release),
        {**TOGETHER, "package.json": {**manifest, "dependencies": pinned}},
    )
    project.lock()
    project.write({"package.json": {**manifest, "dependencies": required}})
    before = project.lock()
    check_format(before, release)
    job = project.fix(LODASH, MINIMIST, BRACES)
    assert manifest_of(job)["dependencies"] == required
    assert manifest_of(job)["overrides"] == {"mkdirp": {"minimist": "0.2.4"}}
    touched = ("lodash", "minimist", "braces", "fill-range", "mkdirp")
    after = job.read("package-lock.json")
    assert rest_of(after, *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["8.19.4", "10.9.9"])
def test_only_the_workspaces_that_have_the_version_change(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    files = {
        "package.json": {
            "name": "app",
            "workspaces": ["packages/*"],
            "devDependencies": {"chalk": "^4.1.0"},
        },
        "packages/a/package.json": {
            "name": "a",
            "version": "1.0.0",
            "dependencies": {"lodash": "~4.17.15"},
        },
        "packages/b/package.json": {
            "name": "b",
            "version": "1.0.0",
            "bin": "b.js",
            "dependencies": {"lodash": "3.10.0", "a": "1.0.0"},
        },
    }
    project = JavaScriptProject(corpus, package_managers.get("npm", release), files)
    before = project.lock()
    check_format(before, release)
    job = project.fix(advisory("npm", "lodash", "3.10.1"))
    assert manifest_of(job, "packages/b/package.json")["dependencies"]["lodash"] == "3.10.1"
    assert "packages/a/package.json" not in job.changed
    touched = ("packages/b", "b")
    after = job.read("package-lock.json")
    assert rest_of(after, *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["8.19.4", "10.9.9"])
def test_an_override_that_keeps_the_old_version_is_raised(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    manifest = {
        "name": "app",
        "dependencies": {"async": "2.6.3", **UNRELATED},
        "overrides": {"lodash": "4.17.15"},
    }
    npm = package_managers.get("npm", release)
    project = JavaScriptProject(corpus, npm, {"package.json": manifest})
    before = project.lock()
    check_format(before, release)
    job = project.fix(LODASH)
    assert manifest_of(job)["overrides"] == {"lodash": "4.17.21"}
    after = job.read("package-lock.json")
    # Format 2 says what async requires with the override.
    touched = ("lodash", "async") if release == "8.19.4" else ("lodash",)
    assert rest_of(after, *touched) == rest_of(before, *touched)


def test_every_lock_file_of_a_repository_is_updated_in_its_own_format(
    corpus: Corpus, package_managers: PackageManagers
) -> None:
    """A service and a page, which their authors lock with different releases."""
    first, second = (package_managers.get("npm", release) for release in ("6.14.18", "10.9.9"))
    required = {"dependencies": {"express": "4.17.1"}}
    files = {
        "page/package.json": {"name": "page", **required},
        "service/package.json": {"name": "service", **required},
    }
    project = JavaScriptProject(corpus, first, files)
    first.lock(project.tree / "page")
    second.lock(project.tree / "service")
    names = ("page/package-lock.json", "service/package-lock.json")
    locks = {name: project.read(name) for name in names}

    def prove(tree: Path, _fixes: Sequence[Fix]) -> None:
        first.prove(tree / "page")
        second.prove(tree / "service")

    job = project.fix(advisory("npm", "qs", "6.7.3"), prove=prove)
    for directory, release in (("page", first.release), ("service", second.release)):
        name = f"{directory}/package-lock.json"
        before = locks[name]
        check_format(before, release)
        expected = {"body-parser": {"qs": "6.7.3"}, "express": {"qs": "6.7.3"}}
        assert manifest_of(job, f"{directory}/package.json")["overrides"] == expected
        touched = ("qs", "express", "body-parser")
        assert rest_of(job.read(name), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["8.19.4", "10.9.9"])
def test_other_packages_of_a_large_project_stay_at_their_old_versions(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    npm = package_managers.get("npm", release)
    project = large_old_project(corpus, npm, {"overrides": OLD_VERSIONS})
    before = project.read("package-lock.json")
    job = project.fix(advisory("npm", "glob-parent", "5.1.2"))
    assert job.changed == {"package-lock.json"}
    assert rest_of(job.read("package-lock.json"), "glob-parent") == rest_of(before, "glob-parent")
