"""Asks for known vulnerabilities of the locked dependencies.

Where nobody can be asked (offline), says so and passes.
"""

import json
import subprocess
import sys
from typing import Any

ANSWER_WITHIN_SECONDS = 120


Report = dict[str, list[dict[str, Any]]]


def main(locks: list[str]) -> None:
    audited: dict[tuple[str, str], dict[str, Any]] = {}
    for lock in locks:
        # One by one: the same package in two files is a fault to pip-audit.
        report, reason = audit(lock)
        if report is None:
            print(f"Dependency audit: left out, the advisories could not be read ({reason}).")
            return
        audited |= {
            (each["name"], each.get("version", "")): each for each in report["dependencies"]
        }
    vulnerable = [each for each in audited.values() if each.get("vulns")]
    for dependency in vulnerable:
        for found in dependency["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(
                f"{dependency['name']} {dependency['version']}: {found['id']}, fixed in {fixed}",
                file=sys.stderr,
            )
    if vulnerable:
        sys.exit("Dependency audit: vulnerable dependencies are locked; run `make lock`")
    print(f"Dependency audit: {len(audited)} packages, none known to be vulnerable.")


def audit(lock: str) -> tuple[Report | None, str]:
    """The report, or None and why there is none: pip-audit exits 1 in both cases."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--progress-spinner", "off", "--timeout", "5", "--format", "json"]
    command += ["--requirement", lock]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_WITHIN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"no answer within {ANSWER_WITHIN_SECONDS} s"
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        return None, lines[-1][:200]


if __name__ == "__main__":
    main(sys.argv[1:])
