"""Checks the locked dependencies for known vulnerabilities.

Passes with a message if the advisories cannot be read, such as offline.
"""

import json
import subprocess
import sys
from typing import Any

TIMEOUT_SECONDS = 120


Report = dict[str, list[dict[str, Any]]]


def main(locks: list[str]) -> None:
    audited: dict[tuple[str, str], dict[str, Any]] = {}
    for lock in locks:
        # One file at a time: pip-audit rejects the same package in two files.
        report, reason = audit(lock)
        if report is None:
            print(f"Dependency audit: skipped, the advisories could not be read ({reason}).")
            return
        audited |= {
            (package["name"], package.get("version", "")): package
            for package in report["dependencies"]
        }
    vulnerable = [package for package in audited.values() if package.get("vulns")]
    for package in vulnerable:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            print(
                f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}",
                file=sys.stderr,
            )
    if vulnerable:
        sys.exit("Dependency audit: vulnerable dependencies are locked; run `make lock`")
    print(f"Dependency audit: {len(audited)} packages, none known to be vulnerable.")


def audit(lock: str) -> tuple[Report | None, str]:
    """The report, or None and the reason: pip-audit exits with 1 in both cases."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--progress-spinner", "off", "--timeout", "5", "--format", "json"]
    command += ["--requirement", lock]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"no response within {TIMEOUT_SECONDS} s"
    try:
        return json.loads(process.stdout), ""
    except ValueError:
        lines = process.stderr.strip().splitlines() or ["no reason given"]
        return None, lines[-1][:200]


if __name__ == "__main__":
    main(sys.argv[1:])
