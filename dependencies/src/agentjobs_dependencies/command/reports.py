"""What `scan` prints: a table, JSON, SARIF 2.1.0 or CycloneDX 1.6."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentjobs_dependencies.advisories.dependency_matching import FindingWithFix
from agentjobs_dependencies.fix_plan import Exposure
from agentjobs_dependencies.index.assembly import digest_dependencies
from agentjobs_dependencies.json_output import json_list, json_text
from agentjobs_dependencies.sbom import Subject, sbom_pieces

Findings = Sequence[FindingWithFix]

_SARIF_LEVELS = {"critical": "error", "high": "error", "medium": "warning"}


def _table(_root: Path, exposure: Exposure, findings: Findings) -> Iterator[str]:
    """The vulnerabilities; without advisories, the packages."""
    if exposure.advisories or not exposure.dependencies:
        rows = [
            (
                finding.name,
                finding.version,
                finding.severity,
                finding.advisory_id,
                finding.manifest,
                finding.fix_reason,
            )
            for finding in findings
        ]
        yield from _aligned(rows)
        yield f"{len(findings)} known vulnerabilities in {len(exposure.dependencies)} packages\n"
    else:
        packages = exposure.dependencies
        yield from _aligned(
            (package.name, package.version or "-", package.manifest) for package in packages
        )


def _aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    texts = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip() + "\n"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _json(_root: Path, exposure: Exposure, findings: Findings) -> Iterator[str]:
    yield "{"
    yield from json_list("dependencies", exposure.dependencies)
    yield ",\n"
    yield from json_list("vulnerabilities", findings)
    yield ",\n"
    yield from json_list("warnings", exposure.warnings)
    yield "}\n"


def _sarif(_root: Path, _exposure: Exposure, findings: Findings) -> Iterator[str]:
    rules = {finding.advisory_id: _rule(finding) for finding in findings}
    driver = {"name": "agentjobs-dependencies", "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in findings]}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    yield json_text({"$schema": schema, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(finding: FindingWithFix) -> dict[str, Any]:
    text = finding.summary or finding.advisory_id
    rule: dict[str, Any] = {"id": finding.advisory_id, "shortDescription": {"text": text}}
    if finding.score is not None:
        rule["properties"] = {"security-severity": str(finding.score)}
    return rule


def _result(finding: FindingWithFix) -> dict[str, Any]:
    text = f"{finding.name} {finding.version}: {finding.advisory_id}, {finding.fix_reason}"
    location = {"artifactLocation": {"uri": quote(finding.manifest)}, "region": {"startLine": 1}}
    return {
        "ruleId": finding.advisory_id,
        "level": _SARIF_LEVELS.get(finding.severity, "note"),
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
    }


def _cyclonedx(root: Path, exposure: Exposure, findings: Findings) -> Iterator[str]:
    subject = Subject(root.name, root.name, digest_dependencies(exposure.dependencies))
    return sbom_pieces(subject, exposure.dependencies, findings)


REPORTS: Mapping[str, Callable[[Path, Exposure, Findings], Iterator[str]]] = {
    "table": _table,
    "json": _json,
    "sarif": _sarif,
    "cyclonedx": _cyclonedx,
}
