"""Texts for platforms: titles, bodies and comments that an agent wrote, bounded and printable.

Pure functions; knows no platform.
"""

import re
from dataclasses import dataclass

import msgspec

from agentjobs.platforms.protocol import PullRequestRequest
from agentjobs_runtime.safe_text import replace_unstorable, single_line, truncate_bytes

# Part of every comment that the service writes, so that it recognizes its own.
OWN_MARK = "<!-- agentjobs -->"
MAX_TITLE_CHARACTERS = 255
_MAX_PATH_CHARACTERS = 300
_MAX_LINE = 10**9
_TRUNCATED = "\n\n… (truncated)"


@dataclass(frozen=True, slots=True)
class DraftMark:
    """What a title starts with if the pull request is a draft. `pattern` matches every spelling."""

    prefix: str
    pattern: re.Pattern[str]

    def is_in(self, title: str) -> bool:
        return self.pattern.match(title) is not None

    def add(self, title: str) -> str:
        return f"{self.prefix}{self.remove(title)}"[:MAX_TITLE_CHARACTERS].rstrip()

    def remove(self, title: str) -> str:
        match = self.pattern.match(title)
        return title if match is None else title[match.end() :]

    def build_title(self, request: PullRequestRequest) -> str:
        """Only the request decides whether it is a draft, whatever title the agent wrote."""
        plain = msgspec.structs.replace(request, title=self.remove(request.title))
        return pull_title(plain, self.prefix if request.draft else "")


def pull_title(request: PullRequestRequest, prefix: str = "") -> str:
    """One line, never empty, with a prefix such as "Draft: " that counts towards its length."""
    line = one_line(request.title, MAX_TITLE_CHARACTERS) or request.head_branch
    return f"{prefix}{line}"[:MAX_TITLE_CHARACTERS].rstrip()


def truncate(text: str, max_bytes: int) -> str:
    """Bytes are never fewer than characters, so this holds for platforms that count either."""
    return truncate_bytes(replace_unstorable(text), max_bytes, _TRUNCATED)


def one_line(text: str, max_characters: int = 300) -> str:
    """Untrusted text as part of a message: one printable line."""
    return single_line(replace_unstorable(text))[:max_characters].rstrip()


def line_location(path: str, line: int | None, old_line: int | None = None) -> str:
    """Where a comment on a line is; `old_line` is a deleted line. Empty without a path."""
    file = one_line(path, _MAX_PATH_CHARACTERS)
    if not file:
        return ""
    if line is not None and 0 < line < _MAX_LINE:
        return f"{file}, line {line}"
    if old_line is not None and 0 < old_line < _MAX_LINE:
        return f"{file}, line {old_line} before the change"
    return file
