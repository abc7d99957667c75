"""npm version ranges: whether they allow a version, and how they are raised."""

import pytest

from agentjobs_dependencies.versions.npm import allows, pin_exactly, raise_range


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ("^4.17.15", "4.17.15 4.17.21 4.99.0", "4.17.14 5.0.0 5.0.0-rc.1 4.17.16-beta"),
        ("^0.2.1", "0.2.1 0.2.4", "0.3.0 0.2.0"),
        ("^0.0.8", "0.0.8", "0.0.9 0.2.4"),
        ("^0", "0.0.1 0.9.0", "1.0.0"),
        ("~1.2.3", "1.2.3 1.2.9", "1.3.0"),
        ("~> 1.2", "1.2.0", "1.3.0"),
        ("~1", "1.9.0", "2.0.0"),
        ("1.2.3", "1.2.3 1.2.3+build", "1.2.4"),
        ("=v1.2.3", "1.2.3", "1.2.4"),
        ("1.2.x", "1.2.0 1.2.99", "1.3.0 1.2.5-beta"),
        ("1", "1.0.0 1.9.9", "2.0.0"),
        ("", "0.0.1 9.9.9", "1.0.0-rc"),
        ("*", "0.0.1 9.9.9", "1.0.0-rc"),
        (">=1.2 <2", "1.2.0 1.99.0", "1.1.9 2.0.0 2.0.0-rc"),
        (">1.2", "1.3.0", "1.2.9"),
        ("<=1.2", "1.2.9 0.1.0", "1.3.0"),
        ("<= 1.2.3", "1.2.3", "1.2.4"),
        ("1.2.3 - 2.3", "1.2.3 2.3.9", "2.4.0"),
        ("1.2.3 - 2.3.4", "2.3.4", "2.3.5"),
        ("^1.0.0 || ^3.1.0", "1.5.0 3.1.0", "2.0.0 3.0.9"),
        (">=1.2.3-beta.2", "1.2.3-beta.10 1.2.3 2.0.0", "1.2.3-beta.1 1.2.4-beta.1"),
        ("npm:lodash@^4.17.15", "4.17.21", "5.0.0"),
        ("npm:@scope/name@1.2.3", "1.2.3", "1.2.4"),
    ],
)
def test_a_range_allows_the_same_versions_as_in_npm(spec: str, inside: str, outside: str) -> None:
    assert {version: allows(spec, version) for version in inside.split()} == dict.fromkeys(
        inside.split(), True
    )
    assert {version: allows(spec, version) for version in outside.split()} == dict.fromkeys(
        outside.split(), False
    )


@pytest.mark.parametrize(
    "spec",
    [
        "latest",
        "file:../lib",
        "git+https://git.example/a.git",
        "workspace:^",
        "catalog:",
        ">=",
        "1.a",
    ],
)
def test_other_specs_are_not_ranges(spec: str) -> None:
    assert allows(spec, "1.0.0") is None


def test_an_invalid_version_is_neither_allowed_nor_excluded() -> None:
    assert allows("^1.0.0", "one") is None
    assert allows("^1.0.0", "1.0") is None


@pytest.mark.parametrize(
    ("spec", "version", "after"),
    [
        ("4.17.15", "4.17.21", "4.17.21"),
        ("=4.17.15", "4.17.21", "=4.17.21"),
        ("^3.1.0", "4.17.21", "^4.17.21"),
        ("~4.16.0", "4.17.21", "~4.17.21"),
        ("~ 4.16", "4.17.21", "~4.17.21"),
        ("4.16.x", "4.17.21", "4.17.x"),
        ("3", "4.17.21", "4"),
        ("3.x", "4.17.21", "4.x"),
        (">=1.0.0 <4.17.20", "4.17.21", "^4.17.21"),
        ("<4.17.20", "4.17.21", "^4.17.21"),
        ("1.0.0 - 2.0.0", "4.17.21", "^4.17.21"),
        ("^2.0.0 || ^3.0.0", "4.17.21", "^2.0.0 || ^3.0.0 || ^4.17.21"),
        ("npm:lodash@4.17.15", "4.17.21", "npm:lodash@4.17.21"),
    ],
)
def test_a_range_that_excludes_a_version_is_raised_in_the_same_form(
    spec: str, version: str, after: str
) -> None:
    assert allows(spec, version) is False
    assert raise_range(spec, version) == after
    assert allows(after, version)


def test_an_exact_version_keeps_the_alias() -> None:
    assert pin_exactly("^4.0.0", "4.17.21") == "4.17.21"
    assert pin_exactly("npm:@scope/name@^4.0.0", "4.17.21") == "npm:@scope/name@4.17.21"
