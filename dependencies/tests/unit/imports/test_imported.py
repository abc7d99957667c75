"""Whether the imports of a repository lead to a package."""

from collections.abc import Iterable, Mapping

import pytest

from agentjobs_dependencies.imports.external_names import (
    ExternalNames,
    find_complete_families,
    find_external_names,
)
from agentjobs_dependencies.imports.imported import mark_imported
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.model import Locked, ParsedManifest, Requirement, Root
from tests.support.dependencies import package

ALL = frozenset({"python", "javascript"})


def external(complete: Iterable[str] = ALL, **names: str) -> ExternalNames:
    """Names separated by blanks, by family."""
    split = {family: frozenset(text.split()) for family, text in names.items()}
    return ExternalNames(split, frozenset(complete))


def lock(ecosystem: str, requires: Mapping[str, str], **more: object) -> ParsedManifest:
    """`requires` maps each package to those that it requires."""
    names = list(requires)
    packages = tuple(
        Locked(name, "1", tuple(names.index(each) for each in required.split()))
        for name, required in requires.items()
    )
    return ParsedManifest(ecosystem, packages=packages, **more)  # type: ignore[arg-type]


def states(path: str, manifest: ParsedManifest, externals: ExternalNames) -> dict[str, str]:
    names = [each.name for each in manifest.packages] or [r.name for r in manifest.requirements]
    dependencies = [package(manifest.ecosystem, name, "1", manifest=path) for name in names]
    return {
        each.name: each.imported
        for each in mark_imported(dependencies, {path: manifest}, externals)
    }


def test_packages_that_an_imported_one_requires_are_reached() -> None:
    manifest = lock(
        "PyPI",
        {"flask": "jinja2", "jinja2": "markupsafe", "markupsafe": "", "pyyaml": "", "lxml": ""},
    )
    found = states("uv.lock", manifest, external(python="flask lxml.etree lxml os"))
    assert found == {
        "flask": "yes",
        "jinja2": "yes",
        "markupsafe": "yes",
        "pyyaml": "no",
        "lxml": "yes",
    }


def test_distributions_are_known_by_their_modules() -> None:
    names = ("pyyaml", "pillow", "beautifulsoup4", "python-dateutil")
    manifest = lock("PyPI", dict.fromkeys(names, ""))
    found = states("poetry.lock", manifest, external(python="yaml PIL bs4"))
    assert found == {**dict.fromkeys(names, "yes"), "python-dateutil": "no"}


def test_a_shared_namespace_proves_nothing() -> None:
    manifest = lock("PyPI", {"google-auth": "", "azure-core": ""})
    found = states("uv.lock", manifest, external(python="google"))
    assert found == {"google-auth": "unknown", "azure-core": "no"}


def test_a_package_of_unknown_name_may_be_imported_and_so_may_what_it_requires() -> None:
    manifest = lock("PyPI", {"in-house": "pyyaml", "pyyaml": "", "six": ""})
    assert states("uv.lock", manifest, external(python="os")) == {
        "in-house": "unknown",
        "pyyaml": "unknown",
        "six": "no",
    }
    assert states("uv.lock", manifest, external(python="in_house"))["pyyaml"] == "yes"


@pytest.mark.parametrize(
    ("path", "manifest"),
    [
        # Another package may require it.
        ("requirements.txt", ParsedManifest("PyPI", requirements=(Requirement("pyyaml", ""),))),
        ("Pipfile.lock", lock("PyPI", {"pyyaml": ""})),
        ("uv.lock", lock("PyPI", {"pyyaml": ""}, warnings=("truncated",))),
        ("yarn.lock", lock("npm", {"left": ""}, roots=(Root("", (0,)),))),
        # The first version.
        ("package-lock.json", lock("npm", {"left": ""})),
        ("Cargo.lock", lock("crates.io", {"serde": ""})),
        ("go.mod", ParsedManifest("Go", requirements=(Requirement("example.com/a", ""),))),
        ("pom.xml", ParsedManifest("Maven", requirements=(Requirement("org.a:b", ""),))),
    ],
)
def test_without_all_requirements_no_package_is_called_not_imported(
    path: str, manifest: ParsedManifest
) -> None:
    assert set(states(path, manifest, external()).values()) == {"unknown"}


def test_npm_packages_are_imported_by_their_names() -> None:
    names = {"express": "body", "body": "", "@a/b": "", "lodash": "", "@types/node": "", "pad": ""}
    alias = (Requirement("pad", "npm:pad@1"),)
    manifest = lock("npm", names, roots=(Root("", (0,)),), requirements=alias)
    found = states("package-lock.json", manifest, external(javascript="express @a/b fs"))
    assert found == {
        "express": "yes",
        "body": "yes",
        "@a/b": "yes",
        "lodash": "no",
        "@types/node": "unknown",
        "pad": "unknown",
    }


def test_a_go_package_belongs_to_the_longest_module() -> None:
    names = ("example.com/a", "example.com/a/v2", "example.com/b")
    manifest = ParsedManifest("Go", requirements=tuple(Requirement(name, "") for name in names))
    found = states("go.mod", manifest, external(go="example.com/a/v2/x fmt example.com/bb"))
    assert found == {
        "example.com/a": "unknown",
        "example.com/a/v2": "yes",
        "example.com/b": "unknown",
    }


def test_a_crate_is_imported_by_its_name_with_underscores() -> None:
    manifest = lock("crates.io", {"serde-json": "itoa", "itoa": "", "time": ""})
    found = states("Cargo.lock", manifest, external(rust="serde_json std"))
    assert found == {"serde-json": "yes", "itoa": "yes", "time": "unknown"}


def test_names_belong_to_the_language_of_the_file() -> None:
    graph = ModuleGraph(("a.py", "b.ts", "c.txt"), (), ("yaml", "zod"), ((0, 0), (1, 1), (2, 0)))
    assert find_external_names(graph) == {
        "python": {"yaml"},
        "javascript": {"zod"},
    }


@pytest.mark.parametrize(
    ("languages", "unread", "complete"),
    [
        (["Python", "TypeScript"], [], ALL),
        (["Python", "Vue"], [], {"python"}),
        (["Jupyter Notebook"], ["web/a.ts"], set()),
        (["Python"], ["a/b.py", "poetry.lock"], {"javascript"}),
        (["Python"], [""], set()),
    ],
)
def test_imports_are_incomplete_if_files_are_not_read(
    languages: list[str], unread: list[str], complete: set[str]
) -> None:
    assert find_complete_families(languages, unread) == complete
