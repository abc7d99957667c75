"""Messages for people about why git could not fetch a repository."""

import re

from agentjobs_runtime.git.process import GitError, GitTimeout
from agentjobs_runtime.git.remote import is_access_denied
from agentjobs_runtime.problems import Problem

# Patterns of git's messages and their meaning; the first match counts.
_MEANINGS = (
    (
        re.compile(r"returned error: 30\d"),
        "redirects, which is not followed; use the address that a browser ends up at",
    ),
    (
        re.compile(r"Operation too slow"),
        "sent too little for too long; try again later",
    ),
    (
        re.compile(r"SSL certificate problem|certificate verification failed|SSL: no alternative"),
        "has a certificate that is not trusted; the operator can add its CA with AGENTJOBS_CA_FILE",
    ),
    (
        re.compile(r"not valid: is this a git repository|invalid server response"),
        "is not a git repository; use the address that `git clone` takes",
    ),
    (
        re.compile(r"repository '[^']*' not found|returned error: 404"),
        "was not found; check the address, and whether it needs a user name and a token",
    ),
)


def fetch_problem(name: str, error: GitError) -> Problem:
    """`name` is the repository's name or address, without a credential."""
    return Problem("repo_unavailable", _message(name, error))


def _message(name: str, error: GitError) -> str:
    if isinstance(error, GitTimeout):
        return f"{name} could not be fetched in time; try again, or ask the operator to connect it."
    if error.is_lack_of_space:
        return f"There is not enough disk space for {name}; ask the operator."
    if is_access_denied(error.stderr):
        return f"{name} denies access; check the user name, the token and its permissions."
    for pattern, meaning in _MEANINGS:
        if pattern.search(error.stderr):
            return f"{name} {meaning}."
    return f"{name} cannot be fetched: {error.reason}"
