"""The lines of a pull request of the platform `local` that can be commented on."""

from pathlib import Path
from typing import Literal

from agentjobs.local_git.diffs import file_diff_between
from agentjobs.local_git.patch import DiffLine
from agentjobs.problems import Problem
from agentjobs.pulls.comments import CodePlace
from agentjobs.pulls.comparison import Tips

# How many lines a comment quotes, and how much of each.
_QUOTED_LINES = 4
QUOTED_CHARACTERS = 300
_MARKS = {"added": "+", "removed": "-", "context": " "}


async def find_place(
    git_dir: Path, tips: Tips, path: str, side: Literal["left", "right"], line: int
) -> CodePlace:
    """The line with what is quoted of it. Raises Problem unless the pull request shows it."""
    file = await file_diff_between(git_dir, tips.base, tips.head, path)
    lines = () if file is None else file.lines
    for index, each in enumerate(lines):
        # Lines that both versions have are those of the new one.
        number = each.new_number if side == "right" else None
        if side == "left" and each.kind == "removed":
            number = each.old_number
        if number == line:
            return CodePlace(path, side, line, tips.head, _quote(lines[: index + 1]))
    raise Problem(
        "invalid_comment",
        f"Line {line} is not part of the changes. Choose a line that the page shows.",
    )


def _quote(lines: tuple[DiffLine, ...]) -> str:
    """The last line, and those before it in the same hunk."""
    quoted: list[str] = []
    for line in reversed(lines[-_QUOTED_LINES:]):
        if line.kind not in _MARKS:
            break
        text = line.text[:QUOTED_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}")
        quoted.append(_MARKS[line.kind] + text)
    return "\n".join(reversed(quoted))
