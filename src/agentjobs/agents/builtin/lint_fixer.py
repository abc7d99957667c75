"""The agent `lint-fixer`: lets ruff fix and format the Python files of the working directory.

Runs inside the sandbox and stands alone: it imports nothing of the service.
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
LISTED = 50

FileStates = dict[str, tuple[int, int, int]]


class RuffFailed(Exception):
    """ruff could not do its work, e.g. because the repository's configuration is invalid."""


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
    ruff("check", "--fix", "--statistics", accepted=(CLEAN, VIOLATIONS_LEFT), is_shown=True)


def format_files(*, some_do_not_parse: bool) -> None:
    """ruff formats every file it can, and fails for those it cannot parse: those may stay."""
    print("ruff format")
    try:
        ruff("format", accepted=(CLEAN,), is_shown=True)
    except RuffFailed:
        if not some_do_not_parse:
            raise
        print("files with syntax errors were left as they are")


def count_violations() -> Counter[str]:
    """By rule."""
    output = ruff(
        *("check", "--statistics", "--output-format", "json"), accepted=(CLEAN, VIOLATIONS_LEFT)
    )
    rules = json.loads(output or "[]")
    return Counter({rule["code"] or rule["name"]: rule["count"] for rule in rules})


def file_states() -> FileStates:
    """Enough of every file that ruff looks at to see whether it was written."""
    names = ruff("check", "--show-files", accepted=(CLEAN,)).split("\n")
    states: FileStates = {}
    for name in names:
        if os.path.isfile(name):  # noqa: PTH113 - called once per file of a large repository
            state = os.stat(name)  # noqa: PTH116 - likewise
            states[os.path.relpath(name)] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return states


def changed_files(before: FileStates, after: FileStates) -> list[str]:
    return sorted(name for name, state in after.items() if before.get(name) != state)


def ruff(*arguments: str, accepted: Sequence[int], is_shown: bool = False) -> str:
    done = subprocess.run(
        [find_ruff(), *arguments, "--no-cache", "."],
        check=False,
        stdout=None if is_shown else subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
    )
    if done.returncode not in accepted:
        raise RuffFailed(f"ruff {' '.join(arguments)} failed with exit code {done.returncode}")
    return done.stdout or ""


def find_ruff() -> str:
    beside_python = Path(sys.executable).with_name("ruff")
    found = str(beside_python) if beside_python.is_file() else shutil.which("ruff")
    if found is None:
        raise RuffFailed("ruff is not installed beside this Python")
    return found


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
    lines += [f"- {as_code(name)}" for name in changed[:LISTED]]
    if len(changed) > LISTED:
        lines.append(f"- … and {len(changed) - LISTED} more")
    lines += section("Left for a person", left)
    return "\n".join(lines) + "\n"


def section(heading: str, violations: Counter[str]) -> list[str]:
    if not violations:
        return []
    rows = [f"- {as_code(rule)}: {count}" for rule, count in violations.most_common(LISTED)]
    return ["", f"### {heading}", "", *rows]


def as_code(name: str) -> str:
    """A file's name may hold anything but a slash: nothing of it may become Markdown."""
    shown = "".join(c if c.isprintable() and c != "`" else "?" for c in name)
    return f"`{shown}`"


if __name__ == "__main__":
    sys.exit(main())
