"""Raises this process's limit of open files: each running agent may open many connections."""

import resource

# The limit in the systemd units. A shell's usual 1,024 is too low for four agents.
_OPEN_FILES = 65_536


def raise_open_files_limit() -> None:
    """Raise the soft limit as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
