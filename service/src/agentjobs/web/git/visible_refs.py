"""Which refs a push makes git read, so that its cost depends on what is pushed.

git otherwise lists every ref to the client, and checks the pushed objects against all of them.
"""

from collections.abc import Collection
from pathlib import Path

from agentjobs.local_git.repositories import path
from agentjobs.web.git.access import GitAccess
from agentjobs.web.git.push_commands import pkt_line
from agentjobs_runtime.git.environment import Configuration
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.refs import HEADS, has_commit

_SERVICE = pkt_line(b"# service=git-receive-pack\n") + b"0000"
_END = b"0000"
# Job branches are as many as open pull requests; branches of people are few.
_JOB_BRANCHES = f"{HEADS}agentjobs/"
_OWN_REFS = "refs/agentjobs/"
# The configuration is passed in the environment, which is limited.
_MAX_LISTED = 500


def visible_refs(access: GitAccess, pushed: Collection[str] = ()) -> Configuration:
    """git's configuration, in which the last entry that matches a ref counts."""
    if len(pushed) > _MAX_LISTED:
        return {"receive.hideRefs": (_OWN_REFS,)}
    default = HEADS + access.default_branch
    shown = {default, *pushed}
    hidden = [_OWN_REFS, _JOB_BRANCHES]
    if access.only_branch is not None:
        hidden = ["refs/"]
        shown |= {HEADS + name for name in (access.only_branch, access.base_branch) if name}
    return {
        "receive.hideRefs": (*hidden, *(f"!{name}" for name in sorted(shown))),
        # Pushed objects are checked in a directory of their own, from which the repository is an
        # alternate with refs of its own.
        "core.alternateRefsPrefixes": default,
    }


async def job_advertisement(access: GitAccess, root: Path) -> bytes:
    """The refs that a job's push needs, and the commit it started from.

    Without that commit the client would send the whole history if the base branch has moved.
    """
    git_dir, base = path(root, access.repo_id), access.base_commit
    listed = await git(
        "receive-pack",
        "--http-backend-info-refs",
        str(git_dir),
        configuration=visible_refs(access),
    )
    refs = listed.stdout
    is_shown = base is None or base.encode() in refs
    if not is_shown and await has_commit(git_dir, base or ""):
        refs = refs.removesuffix(_END) + pkt_line(f"{base} .have\n".encode()) + _END
    return _SERVICE + refs
