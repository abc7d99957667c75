"""The agent `lint-fixer`: fixes and formats the Python files of the working directory with ruff.

Runs inside the sandbox and imports nothing of the service.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

CLEAN, VIOLATIONS_LEFT = 0, 1
MAX_LISTED = 50

FileStates = dict[str, tuple[int, int, int]]


class RuffFailed(Exception):
    """ruff failed, for example because the repository's configuration is invalid."""


def main() -> int:
    try:
        before = file_states()
        if not before:
            print("no Python files: nothing to do")
            return 0
        violations_before = count_violations()
        print(f"Python files: {len(before)}, violations: {sum(violations_before.values())}")
        fix()
        format_files(some_do_not_parse="invalid-syntax" in violations_before)
        violations_left = count_violations()
    except RuffFailed as error:
        print(error)
        return 1
    changed = changed_files(before, file_states())
    fixed = violations_before - violations_left
    print(f"files changed: {len(changed)}, violations fixed: {sum(fixed.values())}")
    if changed:
        write_report(changed, fixed, violations_left)
    return 0


def fix() -> None:
    print("ruff check --fix")
    ruff("check", "--fix", "--statistics", accepted=(CLEAN, VIOLATIONS_LEFT), show_output=True)


def format_files(*, some_do_not_parse: bool) -> None:
    """ruff formats every file it can and fails for those it cannot parse, which are left alone."""
    print("ruff format")
    try:
        ruff("format", accepted=(CLEAN,), show_output=True)
    except RuffFailed:
        if not some_do_not_parse:
            raise
        print("files with syntax errors were left unchanged")


def count_violations() -> Counter[str]:
    """The number of violations by rule."""
    output = ruff(
        *("check", "--statistics", "--output-format", "json"), accepted=(CLEAN, VIOLATIONS_LEFT)
    )
    rules = json.loads(output or "[]")
    return Counter({rule["code"] or rule["name"]: rule["count"] for rule in rules})


def file_states() -> FileStates:
    """The status of every file that ruff checks, to detect changes."""
    names = ruff("check", "--show-files", accepted=(CLEAN,)).split("\n")
    states: FileStates = {}
    for name in names:
        if os.path.isfile(name):  # noqa: PTH113 - called once per file of a large repository
            state = os.stat(name)  # noqa: PTH116 - likewise
            states[os.path.relpath(name)] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return states


def changed_files(before: FileStates, after: FileStates) -> list[str]:
    return sorted(name for name, state in after.items() if before.get(name) != state)


def ruff(*arguments: str, accepted: Sequence[int], show_output: bool = False) -> str:
    result = subprocess.run(
        [find_ruff(), *arguments, "--no-cache", "."],
        check=False,
        stdout=None if show_output else subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
    )
    if result.returncode not in accepted:
        raise RuffFailed(f"ruff {' '.join(arguments)} failed with exit code {result.returncode}")
    return result.stdout or ""


def find_ruff() -> str:
    beside_python = Path(sys.executable).with_name("ruff")
    path = str(beside_python) if beside_python.is_file() else shutil.which("ruff")
    if path is None:
        raise RuffFailed("ruff is not installed next to this Python")
    return path


def write_report(changed: Sequence[str], fixed: Counter[str], left: Counter[str]) -> None:
    path = os.environ.get("AGENTJOBS_REPORT")
    if path:
        Path(path).write_text(report(changed, fixed, left), encoding="utf-8")


def report(changed: Sequence[str], fixed: Counter[str], left: Counter[str]) -> str:
    files = "1 file" if len(changed) == 1 else f"{len(changed)} files"
    action = "Fix lint and format" if fixed else "Format"
    lines = [f"{action} {files}", "", "`ruff check --fix` and `ruff format`, with safe fixes only."]
    lines += section("Fixed", fixed)
    lines += ["", "### Changed files", ""]
    lines += [f"- {as_code(name)}" for name in changed[:MAX_LISTED]]
    if len(changed) > MAX_LISTED:
        lines.append(f"- … and {len(changed) - MAX_LISTED} more")
    lines += section("Needs a manual fix", left)
    return "\n".join(lines) + "\n"


def section(heading: str, violations: Counter[str]) -> list[str]:
    if not violations:
        return []
    rows = [f"- {as_code(rule)}: {count}" for rule, count in violations.most_common(MAX_LISTED)]
    return ["", f"### {heading}", "", *rows]


def as_code(name: str) -> str:
    """A file name may contain anything but a slash; none of it may become Markdown."""
    printable = "".join(c if c.isprintable() and c != "`" else "?" for c in name)
    return f"`{printable}`"


if __name__ == "__main__":
    sys.exit(main())
