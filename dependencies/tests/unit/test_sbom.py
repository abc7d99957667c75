"""The SBOM is valid by the format's schema for any repository."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentjobs_dependencies.advisories.dependency_matching import Finding, FindingWithFix
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.sbom import Subject, sbom_pieces
from tests.support.dependencies import COMMIT, fault, package

SUBJECT = Subject("repo_1", "acme/shop", COMMIT)
HOSTILE = 'a"\n\\\x1b[31m\x9b</script>&\u202e ?#@%2F'
REQUESTS = package("PyPI", "requests", "2.30.0")
URLLIB3 = package("PyPI", "urllib3", "1.26.0", "requests")
STRANGE = package("npm", HOSTILE, HOSTILE)
DEPENDENCIES = [
    REQUESTS,
    URLLIB3,
    package("PyPI", "requests", "2.30.0", manifest="docs/requirements.txt", scope="dev"),
    package("PyPI", "pytest", "8.0", scope="dev"),
    package("npm", "@babel/core", "7.0.0"),
    package("npm", "left-pad", None, scope="optional"),
    package("npm", "loop", "1", "loop"),
    STRANGE,
    package("npm", "child", "1", HOSTILE),
    package("Go", "github.com/Acme/Tool", "1.0.0"),
    package("Go", "github.com/acme/tool", "1.0.0"),
    package("Maven", "org.example:core", "1.0"),
    package("crates.io", "time", "0.2.0"),
    package("RubyGems", "rails", "6.1.0"),
    package("Packagist", "symfony/http-kernel", "v5.0.0", "missing"),
    package("npm", "sample", "1", manifest="examples/package.json", fixture=True),
    package("npm", "", ""),
    package("Elsewhere", "///", ""),
]


def make_findings(*faults: Finding) -> list[FindingWithFix]:
    """Returns findings as the store does, worst first."""
    return [
        FindingWithFix(
            fix_version=None if fault.score is None else "9",
            fix_reason="no version is free of it",
            **{name: getattr(fault, name) for name in Finding.__struct_fields__},
        )
        for fault in faults
    ]


FINDINGS = make_findings(
    fault(REQUESTS, "GHSA-1", "critical", 9.8),
    fault(URLLIB3, "GHSA-1", "high", 7.5),
    fault(STRANGE, HOSTILE),
    fault(URLLIB3, "GHSA-2", "unknown", None),
    fault(package("npm", "gone", "1"), "GHSA-3"),
)


def text_of(dependencies: Sequence[Dependency], findings: Sequence[FindingWithFix]) -> str:
    return "".join(sbom_pieces(SUBJECT, dependencies, findings))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text_of(DEPENDENCIES, FINDINGS))
    return read


@pytest.mark.parametrize(
    ("dependencies", "findings"), [(DEPENDENCIES, FINDINGS), ([], [])], ids=["hostile", "empty"]
)
def test_the_document_is_valid_by_the_strict_schema(
    dependencies: list[Dependency], findings: list[FindingWithFix]
) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # takes seconds

    text = text_of(dependencies, findings)
    faults = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text, all_errors=True)
    assert [error.data.message for error in faults or ()] == []
    assert "\x9b" not in text


def test_the_same_index_produces_the_same_document() -> None:
    assert text_of(DEPENDENCIES, FINDINGS) == text_of(DEPENDENCIES, FINDINGS)
    other = "".join(sbom_pieces(Subject("repo_1", "acme/shop", "d" * 40), [], []))
    assert json.loads(other)["serialNumber"] != json.loads(text_of([], []))["serialNumber"]


def test_a_package_of_several_manifests_is_one_component(
    document: dict[str, Any],
) -> None:
    components = document["components"]
    assert len(components) == len(DEPENDENCIES) - 1
    assert len({component["bom-ref"] for component in components}) == len(components)
    requests = components[0]
    assert (requests["purl"], requests["scope"]) == ("pkg:pypi/requests@2.30.0", "required")
    places = [occurrence["location"] for occurrence in requests["evidence"]["occurrences"]]
    assert places == ["PyPI.lock", "docs/requirements.txt"]
    by_name = {component["name"]: component for component in components}
    assert by_name["pytest"]["scope"] == "excluded"
    assert "version" not in by_name["left-pad"]
    assert by_name[HOSTILE]["version"] == HOSTILE
    assert by_name["@babel/core"]["purl"] == "pkg:npm/%40babel/core@7.0.0"


def test_a_package_that_only_fixtures_use_is_excluded_and_marked() -> None:
    example = package("PyPI", "flask", "1.0", manifest="examples/a.txt", fixture=True)
    copy = package("PyPI", "requests", "2.30.0", manifest="examples/a.txt", fixture=True)
    pytest_ = package("PyPI", "pytest", "8.0", scope="dev")
    tested = package("PyPI", "pytest", "8.0", manifest="examples/a.txt", fixture=True)
    components = json.loads(text_of([example, REQUESTS, copy, pytest_, tested], []))["components"]
    fixture = {"name": "agentjobs:fixture", "value": "true"}
    scopes = {each["name"]: (each["scope"], fixture in each["properties"]) for each in components}
    assert scopes == {
        "flask": ("excluded", True),
        "requests": ("required", False),
        "pytest": ("excluded", False),
    }


def test_a_package_is_imported_if_it_is_for_any_manifest() -> None:
    unused = replace(REQUESTS, imported="no")
    used = package("PyPI", "requests", "2.30.0", manifest="docs/requirements.txt")
    used = replace(used, imported="yes")
    for dependencies, state in (([unused], "no"), ([unused, used], "yes"), ([REQUESTS], "unknown")):
        (component,) = json.loads(text_of(dependencies, []))["components"]
        assert component["properties"] == [{"name": "agentjobs:imported", "value": state}]


def test_dependencies_start_at_the_repository(
    document: dict[str, Any],
) -> None:
    asks_for = {
        dependency["ref"]: dependency["dependsOn"] for dependency in document["dependencies"]
    }
    refs = {component["name"]: component["bom-ref"] for component in document["components"]}
    assert asks_for[refs["requests"]] == [refs["urllib3"]]
    assert asks_for[refs[HOSTILE]] == [refs["child"]]
    root = asks_for[SUBJECT.repo_id]
    assert refs["requests"] in root
    assert not {refs["urllib3"], refs["loop"], refs["symfony/http-kernel"]} & set(root)
    assert set(asks_for) <= {SUBJECT.repo_id, *refs.values()}


def test_a_finding_is_one_vulnerability_with_rating_and_affected_packages(
    document: dict[str, Any],
) -> None:
    vulnerabilities = {
        vulnerability["id"]: vulnerability for vulnerability in document["vulnerabilities"]
    }
    assert list(vulnerabilities) == sorted(["GHSA-1", "GHSA-2", HOSTILE])
    first = vulnerabilities["GHSA-1"]
    assert first["source"] == {"name": "OSV", "url": "https://advisories.example/GHSA-1"}
    assert first["ratings"] == [
        {
            "source": {"name": "CVSS 3.1 of GHSA-1"},
            "severity": "critical",
            "method": "CVSSv31",
            "score": 9.8,
        }
    ]
    refs = ["pkg:pypi/requests@2.30.0", "pkg:pypi/urllib3@1.26.0"]
    assert first["affects"] == [{"ref": ref} for ref in refs]
    assert [reference["id"] for reference in first["references"]] == ["CVE-of-GHSA-1"]
    assert first["recommendation"].startswith("Upgrade requests 2.30.0 to 9.")
    unrated = vulnerabilities["GHSA-2"]
    assert unrated["ratings"][0]["severity"] == "unknown"
    assert unrated["recommendation"] == "urllib3 1.26.0: no version is free of it"
