"""Tells people why their comments start no follow-up: once for each person and pull request.

The replies themselves record who was notified, so that restarts do not repeat them.
"""

import hashlib
import re

from agentjobs.platforms.comments import MAX_COMMENTS
from agentjobs.platforms.protocol import CommentCursor, Platform, RepoAddress
from agentjobs.platforms.text import OWN_MARK

# On a public repository anybody can comment, and must not make the service write without limit.
MAX_REFUSALS = 10
_MARK = re.compile(r"<!-- agentjobs:refused ([0-9a-f]{16}) -->")
_MENTIONABLE = re.compile(r"[\w.-]+(\[bot\])?", re.ASCII)


async def tell_refusal(
    platform: Platform, repo: RepoAddress, number: int, author: str, reason: str, *, own_login: str
) -> None:
    """Reply as `own_login` with the reason, unless it was already given to the author.

    Raises PlatformError.
    """
    if not author:
        return
    notified, person = await _read_notified(platform, repo, number, own_login), _digest(author)
    if notified is not None and person not in notified:
        mention = f"@{author}: " if _MENTIONABLE.fullmatch(author) else ""
        mark = f"<!-- agentjobs:refused {person} -->"
        await platform.comment(repo, number, f"{OWN_MARK}\n{mark}\n{mention}{reason}")


async def _read_notified(
    platform: Platform, repo: RepoAddress, number: int, own_login: str
) -> set[str] | None:
    # Replies are comments, not reviews or comments on lines.
    comments = await platform.comments(repo, number, CommentCursor(lines=None, reviews=None))
    notified = {
        match[1]
        for comment in comments
        # Anybody can write the mark.
        if comment.author.casefold() == own_login.casefold()
        and (match := _MARK.search(comment.text[:200]))
    }
    # Not all comments of a longer conversation were read.
    return None if len(notified) >= MAX_REFUSALS or len(comments) >= MAX_COMMENTS else notified


def _digest(login: str) -> str:
    """Logins may contain characters that would end the mark."""
    return hashlib.sha256(login.casefold().encode(errors="replace")).hexdigest()[:16]
