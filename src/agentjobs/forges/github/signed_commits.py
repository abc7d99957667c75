"""Commits that GitHub makes and signs itself, as it does for the bot of an App."""

import msgspec

from agentjobs.forges.http.client import PlatformApi, build_path
from agentjobs.forges.protocol import ForgeError, NewCommit

_CONTENTS = "Contents: read and write"


class Verification(msgspec.Struct, frozen=True):
    verified: bool
    reason: str = ""


class Commit(msgspec.Struct, frozen=True):
    sha: str
    verification: Verification


async def create_signed_commit(
    api: PlatformApi, repository: str, ref: str, commit: NewCommit
) -> None:
    """`repository` is its API path; `ref` has the tree of the commit, and the result afterwards.

    Raises ForgeError if GitHub does not sign it.
    """
    # With an author, a committer or a date of our own, GitHub would not sign.
    body = {"message": commit.message, "tree": commit.tree, "parents": [commit.parent]}
    created = await api.send_as(Commit, "POST", f"{repository}/git/commits", body, needs=_CONTENTS)
    if not created.verification.verified:
        reason = created.verification.reason or "no reason given"
        raise ForgeError(f"GitHub did not sign the commit ({reason}).")
    path = f"{repository}/git/refs{build_path(ref.removeprefix('refs/'))}"
    await api.patch(path, {"sha": created.sha, "force": True}, needs=_CONTENTS)
