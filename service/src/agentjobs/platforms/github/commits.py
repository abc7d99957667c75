"""Commits on GitHub: whom they name (the bot of an App, the account of a token, other people), and
those that GitHub makes and signs itself, as it does for the bot of an App."""

from urllib.parse import urlsplit

import msgspec

from agentjobs.platforms.github.responses import User
from agentjobs.platforms.http.client import PlatformApi, build_path
from agentjobs.platforms.protocol import NewCommit, PlatformError
from agentjobs_runtime.git.identity import Identity

_CONTENTS = "Contents: read and write"


class Email(msgspec.Struct, frozen=True):
    email: str
    primary: bool = False
    verified: bool = False
    visibility: str | None = None

    @property
    def is_usable(self) -> bool:
        """GitHub may refuse pushes that would publish a private address (GH007)."""
        return self.primary and self.verified and self.visibility != "private"


class Verification(msgspec.Struct, frozen=True):
    verified: bool
    reason: str = ""


class Commit(msgspec.Struct, frozen=True):
    sha: str
    verification: Verification


async def load_identity(api: PlatformApi, url: str, login: str) -> Identity | None:
    """Finds a person, or an App as `<slug>[bot]`; None if GitHub does not know the login."""
    user = await api.get_unless_refused(User, "users", login)
    return None if user is None else _with_noreply_address(user, url, user.login)


async def identity_of_token(api: PlatformApi, url: str, user: User) -> Identity | None:
    """Uses the account's primary address if the token may read it and it is public."""
    name = user.name or user.login
    for email in await api.get_unless_refused(list[Email], "user", "emails") or ():
        if email.is_usable:
            return Identity.clean(name, email.email)
    return _with_noreply_address(user, url, name)


def _with_noreply_address(user: User, url: str, name: str) -> Identity | None:
    """GitHub links this address to the account, also after a rename."""
    host = urlsplit(url).hostname or ""
    return Identity.clean(name, f"{user.id}+{user.login}@users.noreply.{host}")


async def create_signed_commit(
    api: PlatformApi, repository: str, ref: str, commit: NewCommit
) -> None:
    """`repository` is its API path; `ref` has the tree of the commit, and the result afterwards.

    Raises PlatformError if GitHub does not sign it.
    """
    # With an author, a committer or a date of our own, GitHub would not sign.
    body = {"message": commit.message, "tree": commit.tree, "parents": [commit.parent]}
    created = await api.send_as(Commit, "POST", f"{repository}/git/commits", body, needs=_CONTENTS)
    if not created.verification.verified:
        reason = created.verification.reason or "no reason given"
        raise PlatformError(f"GitHub did not sign the commit ({reason}).")
    path = f"{repository}/git/refs{build_path(ref.removeprefix('refs/'))}"
    await api.request("PATCH", path, {"sha": created.sha, "force": True}, needs=_CONTENTS)
