"""Fixes of pnpm-lock.yaml in every format, with the release of pnpm that writes it.

The same release then installs exactly what the lock file says.
"""

from typing import Any

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

# The formats that each release writes.
FORMATS = {
    "6.34.0": "5.3",
    "7.33.7": "5.4",
    "8.15.9": "'6.0'",
    "9.15.9": "'9.0'",
    "10.34.9": "'9.0'",
}


def open_project(
    corpus: Corpus, managers: PackageManagers, release: str, files: dict[str, Any]
) -> JavaScriptProject:
    project = JavaScriptProject(corpus, managers.get("pnpm", release), files)
    assert project.lock().startswith(f"lockfileVersion: {FORMATS[release]}\n")
    return project


def overrides_of(job: FixJob, release: str) -> str:
    """Where the project's pnpm reads them."""
    if not release.startswith("10."):
        return str(manifest_of(job)["pnpm"]["overrides"])
    return job.read("pnpm-workspace.yaml")


@pytest.mark.parametrize("release", FORMATS)
def test_direct_and_transitive_packages_are_updated(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    required = {"lodash": "^4.17.15", "mkdirp": "0.5.1", "micromatch": "4.0.2", **UNRELATED}
    manifest = {"name": "app", "packageManager": f"pnpm@{release}", "private": True}
    pinned = {**required, "lodash": "4.17.15", "braces": "3.0.1"}
    files = {**TOGETHER, "package.json": {**manifest, "dependencies": pinned}}
    project = open_project(corpus, package_managers, release, files)
    project.write({"package.json": {**manifest, "dependencies": required}})
    project.lock()
    before = project.read("pnpm-lock.yaml")
    assert "4.17.15" in before
    job = project.fix(LODASH, MINIMIST, BRACES)
    assert manifest_of(job)["dependencies"] == required
    assert "mkdirp>minimist" in overrides_of(job, release)
    after = job.read("pnpm-lock.yaml")
    assert all(version not in after for version in ("4.17.15:", "minimist: 0.0.8", "3.0.1"))
    touched = (
        *("lodash", "minimist", "braces", "fill-range", "mkdirp", "micromatch"),
        *(".", "overrides", "mkdirp>minimist"),
    )
    assert rest_of(after, *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", FORMATS)
def test_only_the_projects_of_a_workspace_that_have_the_version_change(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    """react-dom requires the react of each project as a peer."""
    files = {
        "package.json": {
            "name": "app",
            "private": True,
            "packageManager": f"pnpm@{release}",
            "devDependencies": {"chalk": "^4.1.0"},
        },
        "pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n",
        "packages/a/package.json": {
            "name": "a",
            "version": "1.0.0",
            "dependencies": {"lodash": "~4.17.15", "react": "17.0.2", "react-dom": "17.0.2"},
        },
        "packages/b/package.json": {
            "name": "b",
            "version": "1.0.0",
            "dependencies": {
                "lodash": "3.10.0",
                "a": "workspace:*",
                "react": "16.14.0",
                "react-dom": "16.14.0",
            },
        },
    }
    project = open_project(corpus, package_managers, release, files)
    before = project.read("pnpm-lock.yaml")
    job = project.fix(advisory("npm", "lodash", "3.10.1"))
    assert manifest_of(job, "packages/b/package.json")["dependencies"]["lodash"] == "3.10.1"
    assert "packages/a/package.json" not in job.changed
    touched = ("/lodash/3.10.0", "lodash@3.10.0", "/lodash/3.10.1", "lodash@3.10.1", "packages/b")
    assert rest_of(job.read("pnpm-lock.yaml"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["7.33.7", "8.15.9", "9.15.9"])
def test_settings_of_package_json_are_kept(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    """An override that keeps the old version is raised."""
    settings = {
        "overrides": {"lodash": "4.17.15", "ms": "2.1.2"},
        "packageExtensions": {"async@2": {"dependencies": {"picocolors": "1.0.0"}}},
        "peerDependencyRules": {"ignoreMissing": ["react"]},
    }
    manifest = {
        "name": "app",
        "private": True,
        "packageManager": f"pnpm@{release}",
        "dependencies": {"async": "2.6.3", **UNRELATED},
        "pnpm": settings,
    }
    project = open_project(
        corpus,
        package_managers,
        release,
        {"package.json": manifest, ".npmrc": "auto-install-peers=false\n"},
    )
    before = project.read("pnpm-lock.yaml")
    assert "packageExtensionsChecksum" in before
    job = project.fix(LODASH)
    raised = {"lodash": "4.17.21", "ms": "2.1.2"}
    assert manifest_of(job)["pnpm"] == {**settings, "overrides": raised}
    touched = ("lodash", "async")
    assert rest_of(job.read("pnpm-lock.yaml"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["9.15.9", "10.34.9"])
def test_ranges_in_catalogs_are_raised(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    workspace = (
        "packages:\n  - 'packages/*'\n\n# ours\ncatalog:\n  lodash: 4.17.15 # why\n\n"
        "catalogs:\n  old:\n    ms: 2.0.0\n"
    )
    catalogs = {"lodash": "catalog:", "ms": "catalog:old", **UNRELATED}
    files = {
        **TOGETHER,
        "package.json": {"name": "app", "private": True, "packageManager": f"pnpm@{release}"},
        "pnpm-workspace.yaml": workspace,
        "packages/a/package.json": {"name": "a", "dependencies": catalogs},
        "packages/b/package.json": {"name": "b", "dependencies": {"lodash": "catalog:"}},
    }
    project = open_project(corpus, package_managers, release, files)
    before = project.read("pnpm-lock.yaml")
    job = project.fix(LODASH, advisory("npm", "ms", "2.1.0"))
    raised = workspace.replace("4.17.15", "4.17.21").replace("2.0.0", "2.1.0")
    assert job.read("pnpm-workspace.yaml") == raised
    touched = ("lodash", "ms", "packages/a", "packages/b", "default", "old")
    assert rest_of(job.read("pnpm-lock.yaml"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", FORMATS)
def test_other_packages_of_a_large_project_stay_at_their_old_versions(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    pnpm = package_managers.get("pnpm", release)
    stated = {"packageManager": f"pnpm@{release}"}
    project = large_old_project(corpus, pnpm, {"pnpm": {"overrides": OLD_VERSIONS}}, stated)
    before = project.read("pnpm-lock.yaml")
    job = project.fix(advisory("npm", "glob-parent", "5.1.2"))
    assert job.changed == {"pnpm-lock.yaml"}
    touched = ("glob-parent", "eslint")
    assert rest_of(job.read("pnpm-lock.yaml"), *touched) == rest_of(before, *touched)


@pytest.mark.parametrize("release", ["9.15.9", "10.34.9"])
def test_the_pnpm_of_the_worker_keeps_the_text_of_an_earlier_release(
    corpus: Corpus, package_managers: PackageManagers, release: str
) -> None:
    """package.json does not say which release the project uses."""
    pnpm = package_managers.get("pnpm", release)
    project = large_old_project(corpus, pnpm, {"pnpm": {"overrides": OLD_VERSIONS}})
    before = project.read("pnpm-lock.yaml")
    job = project.fix(advisory("npm", "glob-parent", "5.1.2"))
    assert job.changed == {"pnpm-lock.yaml"}
    touched = ("glob-parent", "eslint")
    assert rest_of(job.read("pnpm-lock.yaml"), *touched) == rest_of(before, *touched)
