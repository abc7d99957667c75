"""Checks the locked dependencies for known vulnerabilities.

pip-audit asks the package index; what it could not audit is matched by the service's own matcher
with the OSV records of AUDIT_FEED, a directory or a zip file. In CI, an audit that could read
nothing fails unless AUDIT_EXCEPTION states why that is acceptable.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentjobs_dependencies.advisories.matching import affects, by_package, fixed_versions
from agentjobs_dependencies.advisories.model import (
    Advisory,
    BadAdvisory,
    package_name,
    parse_advisory,
)

ECOSYSTEM = "PyPI"
TIMEOUT_SECONDS = 120
_LOCKED = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)

Package = tuple[str, str]


@dataclass(frozen=True)
class Audit:
    """What one source could read of the packages; a reason for each one that it could not."""

    vulnerable: Mapping[Package, list[str]]
    unread: Mapping[Package, str]


def main(locks: list[str]) -> None:
    packages = {package for lock in locks for package in read_lock(Path(lock).read_text())}
    index = audit_with_index(packages)
    feed = audit_with_feed(os.environ.get("AUDIT_FEED", ""), set(index.unread))
    lines, error = judge(packages, index, feed, os.environ)
    print("\n".join(lines))
    if error:
        sys.exit(f"Dependency audit: {error}")


def judge(
    packages: set[Package], index: Audit, feed: Audit, environment: Mapping[str, str]
) -> tuple[list[str], str]:
    """The report, and why the audit fails, or "" if it passes."""
    vulnerable = {**feed.vulnerable, **index.vulnerable}
    lines = [
        f"{' '.join(package)}: {text}" for package in vulnerable for text in vulnerable[package]
    ]
    read = len(packages) - len(feed.unread)
    lines.append(f"Dependency audit: {read} of {len(packages)} packages were read.")
    if feed.unread:
        some = next(iter(feed.unread))
        reasons = f"by the index: {index.unread[some]}; by the feed: {feed.unread[some]}"
        lines.append(f"{len(feed.unread)} packages were skipped ({' '.join(some)} {reasons}).")
    if vulnerable:
        return lines, "vulnerable dependencies are locked; run `make lock`"
    if read or not packages:
        return lines, ""
    exception = environment.get("AUDIT_EXCEPTION", "")
    if exception:
        lines.append(f"NOTHING WAS AUDITED. Accepted because: {exception}")
    elif environment.get("CI"):
        return lines, (
            "no advisories could be read. Let this machine reach the package index, name a"
            " directory or a zip file of OSV records in AUDIT_FEED, or state in AUDIT_EXCEPTION"
            " why nothing needs to be audited here"
        )
    return lines, ""


def read_lock(text: str) -> Iterator[Package]:
    for name, version in _LOCKED.findall(text):
        yield package_name(ECOSYSTEM, name), version


def audit_with_index(packages: set[Package]) -> Audit:
    vulnerable: dict[Package, list[str]] = {}
    unread: dict[Package, str] = {}
    for batch in split_by_name(packages):
        entries, reason = run_pip_audit(batch)
        unread |= dict.fromkeys(batch.items(), reason)
        for entry in entries:
            name = package_name(ECOSYSTEM, entry["name"])
            package = (name, batch[name])
            if "skip_reason" in entry:
                unread[package] = entry["skip_reason"]
                continue
            del unread[package]
            if entry["vulns"]:
                vulnerable[package] = [
                    describe(advisory["id"], advisory["fix_versions"])
                    for advisory in entry["vulns"]
                ]
    return Audit(vulnerable, unread)


def split_by_name(packages: set[Package]) -> list[dict[str, str]]:
    """pip-audit rejects two versions of one package, which different lock files may have."""
    batches: list[dict[str, str]] = []
    for name, version in sorted(packages):
        free = (batch for batch in batches if name not in batch)
        batch = next(free, None)
        if batch is None:
            batch = {}
            batches.append(batch)
        batch[name] = version
    return batches


def run_pip_audit(packages: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """The entries of the report, or none and the reason: pip-audit exits with 1 in both cases."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps"]
    command += ["--progress-spinner", "off", "--timeout", "5", "--format", "json"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{name}=={version}\n" for name, version in packages.items()))
        file.flush()
        try:
            process = subprocess.run(
                [*command, "--requirement", file.name],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [], f"no response within {TIMEOUT_SECONDS} s"
    try:
        return json.loads(process.stdout)["dependencies"], "not in the report"
    except ValueError:
        lines = process.stderr.strip().splitlines() or ["no reason given"]
        return [], lines[-1][:200]


def audit_with_feed(source: str, packages: set[Package]) -> Audit:
    if not source:
        return Audit({}, dict.fromkeys(packages, "AUDIT_FEED names none"))
    try:
        advisories = list(read_feed(Path(source)))
    except (OSError, zipfile.BadZipFile, BadAdvisory) as error:
        return Audit({}, dict.fromkeys(packages, str(error)))
    if not advisories:
        return Audit({}, dict.fromkeys(packages, f"{source} has no records"))
    named = by_package(advisories, {(ECOSYSTEM, name) for name, _ in packages})
    vulnerable = {
        (name, version): [
            describe(advisory.id, fixed_versions(advisory, ECOSYSTEM, name))
            for advisory in named.get((ECOSYSTEM, name), ())
            if affects(advisory, ECOSYSTEM, name, version)
        ]
        for name, version in packages
    }
    return Audit({package: texts for package, texts in vulnerable.items() if texts}, {})


def read_feed(source: Path) -> Iterator[Advisory]:
    """The OSV records of a directory or a zip file."""
    if source.is_dir():
        records = (path.read_bytes() for path in source.rglob("*.json"))
    else:
        archive = zipfile.ZipFile(source)
        records = (archive.read(name) for name in archive.namelist() if name.endswith(".json"))
    for record in records:
        advisory = parse_advisory(record)
        if advisory is not None:
            yield advisory


def describe(advisory_id: str, fixed: Iterable[str]) -> str:
    return f"{advisory_id}, fixed in {', '.join(fixed) or 'no version yet'}"


if __name__ == "__main__":
    main(sys.argv[1:])
