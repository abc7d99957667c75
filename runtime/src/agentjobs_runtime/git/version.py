"""Checks that the installed git can do everything the service needs."""

import re

from agentjobs_runtime.git.process import GitError, git

# A pull request is merged with `git merge-tree --write-tree`.
_MIN_VERSION = (2, 38)
_REMEDY = "install git 2.38 or newer, for example with `sudo apt-get install -y git`"


class UnsuitableGit(Exception):
    """The message says what to install."""


async def check_git() -> str:
    """The installed version; raises UnsuitableGit."""
    try:
        output = (await git("--version")).stdout.decode(errors="replace")
    except GitError as error:
        raise UnsuitableGit(f"git does not run ({error.reason}): {_REMEDY}") from None
    except OSError as error:
        # `prlimit` starts git.
        raise UnsuitableGit(f"git does not run ({error}): install util-linux") from None
    version = re.search(r"(\d+)\.(\d+)\S*", output)
    if version is None or tuple(map(int, version.groups())) < _MIN_VERSION:
        name = version[0] if version else output.strip()[:50]
        raise UnsuitableGit(f"git {name} cannot merge pull requests: {_REMEDY}")
    return version[0]
