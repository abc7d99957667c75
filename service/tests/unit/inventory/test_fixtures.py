"""Manifests of tests and examples are recognized by their paths."""

import pytest

from agentjobs.inventory.index.fixtures import mark_fixtures
from tests.support.dependencies import package


def fixtures_among(paths: list[str], configuration: bytes | None = None) -> list[str]:
    dependencies = [package("npm", "a", "1", manifest=path) for path in paths]
    return [each.manifest for each in mark_fixtures(dependencies, configuration) if each.fixture]


@pytest.mark.parametrize(
    "path",
    [
        "tests/fixtures/a/package.json",
        "packages/web/tests/fixtures/package.json",
        "testdata/go.mod",
        "internal/parse/testdata/x/go.mod",
        "examples/package.json",
        "docs/examples/a/package.json",
        "Examples/package.json",
    ],
)
def test_default_directories_are_fixtures_at_any_depth(path: str) -> None:
    assert fixtures_among([path]) == [path]


@pytest.mark.parametrize(
    "path", ["package.json", "tests/package.json", "fixtures/go.mod", "example/go.mod"]
)
def test_other_directories_are_no_fixtures(path: str) -> None:
    assert fixtures_among([path]) == []


def test_the_repository_configures_its_own() -> None:
    paths = ["demo/package.json", "examples/package.json", "package.json"]
    text = b'[inventory]\nfixtures = ["/demo"]\n'
    assert fixtures_among(paths, text) == ["demo/package.json"]
    assert fixtures_among(paths, b"inventory.fixtures = []") == []
    # The index warns about an invalid file; the defaults apply.
    assert fixtures_among(paths, b"inventory.fixtures = 1") == ["examples/package.json"]
