"""The words of a pull request as a platform takes them: an agent wrote them, and nobody checked.

Pure; knows no platform, only how much one takes.
"""

from agentjobs.forges.protocol import PullRequestRequest
from agentjobs.safe_text import replace_unstorable, single_line, truncate_bytes

# In all that the service writes on a platform, so that it knows its own words again.
OWN_MARK = "<!-- agentjobs -->"
MAX_TITLE_CHARACTERS = 255
_MOST_PATH_CHARACTERS = 300
_MOST_LINE = 10**9
_CUT_SHORT = "\n\n… (cut short here)"


def title_of(request: PullRequestRequest, prefix: str = "") -> str:
    """One line, never empty; `prefix` such as "Draft: " counts for its length."""
    line = shown(request.title, MAX_TITLE_CHARACTERS) or request.head_branch
    return f"{prefix}{line}"[:MAX_TITLE_CHARACTERS].rstrip()


def body_of(request: PullRequestRequest, most: int) -> str:
    return cut(request.body, most)


def cut(text: str, most: int) -> str:
    """At most so many characters, and as many bytes where it is longer: platforms count either."""
    return truncate_bytes(replace_unstorable(text), most, _CUT_SHORT)


def shown(text: str, most: int = 300) -> str:
    """Somebody else's words as a part of a message: one printable line."""
    return single_line(replace_unstorable(text))[:most].rstrip()


def place_of(path: str, line: int | None, old_line: int | None = None) -> str:
    """Of a comment on a line: `old_line` is one that the change took away. Empty without a path."""
    shown_path = shown(path, _MOST_PATH_CHARACTERS)
    if not shown_path:
        return ""
    if line is not None and 0 < line < _MOST_LINE:
        return f"{shown_path}, line {line}"
    if old_line is not None and 0 < old_line < _MOST_LINE:
        return f"{shown_path}, line {old_line} before the change"
    return shown_path
