"""The files of a repository that decide what the service does.

One declaration for readers and for the guard: a file is read as configuration only if it is here,
and agents cannot change what is here.
"""

from enum import Enum


class ServiceFile(Enum):
    """The paths at which a file is looked for; the first one that exists is read."""

    CONFIGURATION = (".agentjobs.toml",)
    DEVCONTAINER = (".devcontainer/devcontainer.json", ".devcontainer.json")
    GITHUB_CODE_OWNERS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
    GITLAB_CODE_OWNERS = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
