"""Fixes of packages that are installed under another name: `"alias": "npm:name@range"`."""

import pytest

from tests.fixes.javascript import (
    LODASH,
    UNRELATED,
    JavaScriptProject,
    PackageManagers,
    manifest_of,
)
from tests.support.fix_corpus import Corpus


@pytest.mark.parametrize(
    ("tool", "release"),
    [
        ("npm", "6.14.18"),
        ("npm", "10.9.9"),
        ("pnpm", "8.15.9"),
        ("pnpm", "10.34.9"),
        ("yarn", "1.22.22"),
        ("yarn", "4.13.0"),
    ],
)
def test_an_alias_of_a_vulnerable_package(
    corpus: Corpus, package_managers: PackageManagers, tool: str, release: str
) -> None:
    dependencies = {"old-lodash": "npm:lodash@4.17.15", **UNRELATED}
    manifest = {"name": "app", "version": "1.0.0", "dependencies": dependencies}
    manager = package_managers.get(tool, release)
    project = JavaScriptProject(corpus, manager, {"package.json": manifest})
    project.lock()
    job = project.fix(LODASH)
    assert manifest_of(job)["dependencies"]["old-lodash"] == "npm:lodash@4.17.21"
