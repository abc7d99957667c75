"""Why a repository could not be read from its place, in words for the one who named the place."""

import re

from agentjobs.git.process import GitError, GitTimeout
from agentjobs.git.remote import is_access_denied
from agentjobs.problems import Problem

# What git says, and what that means for a person; the first that is found.
_MEANINGS = (
    (
        re.compile(r"returned error: 30\d"),
        "redirects, which is not followed: connect the address at which a browser ends up",
    ),
    (
        re.compile(r"Operation too slow"),
        "was silent for too long; try again later",
    ),
    (
        re.compile(r"SSL certificate problem|certificate verification failed|SSL: no alternative"),
        "shows a certificate of nobody we trust; the operator can add it with AGENTJOBS_CA_FILE",
    ),
    (
        re.compile(r"not valid: is this a git repository|invalid server response"),
        "answers, but not as a git repository: give the address that `git clone` takes",
    ),
    (
        re.compile(r"repository '[^']*' not found|returned error: 404"),
        "is not found; check the address, and whether it needs a name and a token",
    ),
)


def unreadable(shown: str, error: GitError) -> Problem:
    """`shown` is where it lies, without any credential."""
    return Problem("repo_unavailable", _words(shown, error))


def _words(shown: str, error: GitError) -> str:
    if isinstance(error, GitTimeout):
        return f"{shown} did not arrive in time; try again, or ask the operator to connect it."
    if error.is_lack_of_space:
        return f"There is no space left to keep {shown}; tell the operator."
    if is_access_denied(error.stderr):
        return f"{shown} does not let us in; check the name and the token, and what they may read."
    for pattern, meaning in _MEANINGS:
        if pattern.search(error.stderr):
            return f"{shown} {meaning}."
    return f"{shown} cannot be read as a git repository: {error.reason}"
