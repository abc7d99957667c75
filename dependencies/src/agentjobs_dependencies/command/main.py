"""The command `agentjobs-dependencies`: what the service does for a commit, for a directory."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agentjobs_dependencies.advisories.dependency_matching import FindingWithFix
from agentjobs_dependencies.advisories.severity import rank_level
from agentjobs_dependencies.advisories.sources.source import SourceError
from agentjobs_dependencies.command.directory import read_exposure
from agentjobs_dependencies.command.fix import fix_directory
from agentjobs_dependencies.command.reports import REPORTS
from agentjobs_dependencies.fix_plan import Exposure

_VULNERABLE, _FAILED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing vulnerable is left, 1 if something is, 2 for an error."""
    options = _parser().parse_args(arguments)
    root: Path = options.path.resolve()
    try:
        if not root.is_dir():
            raise NotADirectoryError(f"{options.path} is not a directory")
        exposure = read_exposure(root, options.advisories)
        for warning in exposure.warnings:
            print(f"{warning.path}: {warning.reason}".lstrip(": "), file=sys.stderr)
        if options.command == "fix":
            exposure = fix_directory(root, exposure, options.advisories)
        else:
            if options.advisories is None:
                print("No --advisories were given: this is only the inventory.", file=sys.stderr)
            sys.stdout.writelines(REPORTS[options.report](root, exposure, _worst_first(exposure)))
    except (OSError, SourceError) as error:
        print(f"agentjobs-dependencies: {error}", file=sys.stderr)
        return _FAILED
    return _VULNERABLE if exposure.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentjobs-dependencies", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    scan = commands.add_parser("scan", help="list packages and their known vulnerabilities")
    fix = commands.add_parser("fix", help="upgrade vulnerable packages")
    for command in (scan, fix):
        command.add_argument("path", type=Path, nargs="?", default=Path())
        command.add_argument(
            "--advisories",
            type=Path,
            required=command is fix,
            help="a directory or zip of advisories in the layout of OSV's bucket",
        )
    formats = scan.add_mutually_exclusive_group()
    for name in ("json", "sarif", "cyclonedx"):
        formats.add_argument(f"--{name}", dest="report", action="store_const", const=name)
    scan.set_defaults(report="table")
    return parser


def _worst_first(exposure: Exposure) -> list[FindingWithFix]:
    findings = []
    for finding in sorted(exposure.findings, key=lambda f: (-rank_level(f.severity), f.key)):
        fixed = dict.fromkeys(
            version for advisory in finding.advisories for version in advisory.fixed
        )
        reason = f"fixed in {', '.join(fixed)}" if fixed else "no fixed version is known"
        findings.append(finding.with_fix(None, reason))
    return findings
