"""An organization's connection to a platform, as adapters and pages see it: no credential."""

from typing import Literal, Self

import msgspec

from agentjobs.platforms.protocol import Account
from agentjobs_runtime.git.identity import Identity

ConnectionKind = Literal["app", "token"]
# Who signs commits: nobody, the service with an SSH key, or the platform.
Signing = Literal["none", "ssh", "platform"]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the platform's web address; `account` the login of its credential, once checked.

    `commit_name` and `commit_email` are the account's, as commits name it.
    """

    id: str
    organization_id: str
    platform: str
    kind: ConnectionKind
    name: str
    url: str
    app_id: str | None = None
    installation_id: str | None = None
    account: str | None = None
    error: str | None = None
    checked_at: int | None = None
    hook_seen_at: int | None = None
    created_at: int = 0
    commit_name: str | None = None
    commit_email: str | None = None
    signing: Signing = "none"
    signing_public_key: str | None = None

    def checked_as(self, account: Account) -> Self:
        """Adds the results of a check of the credential."""
        identity = account.identity or self.identity
        return msgspec.structs.replace(
            self,
            account=account.login,
            commit_name=None if identity is None else identity.name,
            commit_email=None if identity is None else identity.email,
        )

    @property
    def identity(self) -> Identity | None:
        """Whom commits name, unless the operator's settings say otherwise."""
        if self.commit_name is None or self.commit_email is None:
            return None
        return Identity(self.commit_name, self.commit_email)
