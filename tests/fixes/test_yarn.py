"""Fixes of yarn.lock of yarn 1 and later releases, which then install exactly what it says."""

import json

import pytest

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
from tests.support.fix_corpus import Corpus, FixJob, advisory

FIRST = "1.22.22"
SECOND = "2.4.2"
# The last release that writes each version of the lock file.
LATER = {4: "3.0.2", 5: "3.1.1", 6: "3.8.7", 8: "4.13.0", 9: "4.14.1", 10: "4.18.1"}


def locked_versions(job: FixJob, package: str) -> list[str]:
    lines = job.read("yarn.lock").splitlines()
    starts = (line.lstrip('"').startswith(f"{package}@") for line in lines)
    rows = zip(starts, lines[1:], strict=False)
    return [line.split()[1].strip('"') for is_entry, line in rows if is_entry]


def lock_at(project: JavaScriptProject, requirement: str, version: str) -> None:
    """Lock a transitive dependency at a version that its range allows."""
    if project.manager.major > 1:
        project.manager.run(project.tree, "set", "resolution", requirement, f"npm:{version}")
        project.lock()
        return
    text = project.read("package.json")
    name, _, _ = requirement.partition("@")
    project.write({"package.json": {**json.loads(text), "resolutions": {name: version}}})
    project.lock()
    project.write({"package.json": text})
    project.lock()


@pytest.mark.parametrize("release", [FIRST, SECOND, *LATER.values()])
def test_direct_and_transitive_packages_are_updated(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    """A range that allows the version stays, another one is raised or overridden."""
    yarn = package_managers.get("yarn", release)
    required = {"lodash": "4.17.15", "mkdirp": "0.5.1", "micromatch": "4.0.2", **UNRELATED}
    manifest = {"name": "app", "private": True, "dependencies": required}
    files = {**TOGETHER, "package.json": manifest}
    project = JavaScriptProject(corpus, yarn, files)
    project.lock()
    lock_at(project, "braces@npm:^3.0.1", "3.0.1")
    before = project.read("yarn.lock")
    job = project.fix(LODASH, MINIMIST, BRACES)
    after = manifest_of(job)
    assert after["dependencies"] == {**required, "lodash": "4.17.21"}
    key = "**/mkdirp/minimist" if release == FIRST else "mkdirp/minimist"
    assert after["resolutions"] == {key: "0.2.4"}
    assert locked_versions(job, "lodash") == ["4.17.21"]
    assert locked_versions(job, "minimist") == ["0.2.4"]
    assert locked_versions(job, "braces") == ["3.0.3"]
    touched = ("lodash", "minimist", "braces", "fill-range", "mkdirp", "app@workspace:.")
    assert rest_of(job.read("yarn.lock"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", [FIRST, LATER[6], LATER[8]])
def test_workspaces_get_the_version_that_each_of_them_needs(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    files = {
        "package.json": {
            "name": "app",
            "private": True,
            "workspaces": ["packages/*"],
            "devDependencies": {"chalk": "^4.1.0"},
        },
        "packages/a/package.json": {
            "name": "a",
            "version": "1.0.0",
            "dependencies": {"lodash": "~4.17.15", "b": "1.0.0"},
        },
        "packages/b/package.json": {
            "name": "b",
            "version": "1.0.0",
            "dependencies": {"lodash": "3.10.0"},
        },
    }
    yarn = package_managers.get("yarn", release)
    project = JavaScriptProject(corpus, yarn, files)
    before = project.lock()
    job = project.fix(advisory("npm", "lodash", "3.10.1"))
    assert manifest_of(job, "packages/b/package.json")["dependencies"] == {"lodash": "3.10.1"}
    assert "packages/a/package.json" not in job.changed
    touched = (
        *("lodash@3.10.0", "lodash@npm:3.10.0", "b@workspace"),
        *("lodash@3.10.1", "lodash@npm:3.10.1", "b@1.0.0"),
    )
    assert rest_of(job.read("yarn.lock"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", [FIRST, LATER[8]])
def test_a_resolution_that_keeps_the_old_version_is_raised(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    manifest = {
        "name": "app",
        "private": True,
        "dependencies": {"async": "2.6.3", **UNRELATED},
        "resolutions": {"lodash": "4.17.15"},
    }
    yarn = package_managers.get("yarn", release)
    project = JavaScriptProject(corpus, yarn, {"package.json": manifest})
    before = project.lock()
    job = project.fix(LODASH)
    assert "The resolution `lodash` in `package.json` kept it at 4.17.15" in job.report
    assert manifest_of(job)["resolutions"] == {"lodash": "4.17.21"}
    assert locked_versions(job, "lodash") == ["4.17.21"]
    assert rest_of(job.read("yarn.lock"), "lodash") == rest_of(before, "lodash")


def test_ranges_in_catalogs_are_raised(corpus: Corpus, package_managers: PackageManagers) -> None:
    yarn = package_managers.get("yarn", LATER[8])
    rc = "# ours\ncatalog:\n  lodash: 4.17.15 # why\n\ncatalogs:\n  old:\n    ms: 2.0.0\n"
    required = {"lodash": "catalog:", "ms": "catalog:old", **UNRELATED}
    files = {
        **TOGETHER,
        "package.json": {"name": "app", "private": True, "dependencies": required},
        ".yarnrc.yml": rc,
    }
    project = JavaScriptProject(corpus, yarn, files)
    before = project.lock()
    job = project.fix(LODASH, advisory("npm", "ms", "2.1.0"))
    raised = rc.replace("4.17.15", "4.17.21").replace("2.0.0", "2.1.0")
    assert job.read(".yarnrc.yml") == raised
    touched = ("lodash", "ms")
    assert rest_of(job.read("yarn.lock"), *touched) == rest_of(before, *touched)


def test_a_lock_file_that_was_not_up_to_date_gives_a_draft(
    corpus: Corpus, package_managers: PackageManagers
) -> None:
    yarn = package_managers.get("yarn", LATER[8])
    manifest = {"name": "app", "private": True, "dependencies": {"lodash": "^4.17.15"}}
    project = JavaScriptProject(corpus, yarn, {"package.json": manifest})
    project.lock()
    lock_at(project, "lodash@npm:^4.17.15", "4.17.15")
    project.write({"package.json": {**manifest, "devDependencies": {"ms": "2.1.3"}}})
    job = project.fix(LODASH, expect="draft")
    assert locked_versions(job, "lodash") == ["4.17.21"]
    assert "was not up to date" in job.reason


def test_other_packages_of_a_large_project_stay_at_their_old_versions(
    corpus: Corpus, package_managers: PackageManagers
) -> None:
    yarn = package_managers.get("yarn", FIRST)
    project = large_old_project(corpus, yarn, {"resolutions": OLD_VERSIONS})
    before = project.read("yarn.lock")
    job = project.fix(advisory("npm", "glob-parent", "5.1.2"))
    assert job.changed == {"yarn.lock"}
    assert rest_of(job.read("yarn.lock"), "glob-parent") == rest_of(before, "glob-parent")
