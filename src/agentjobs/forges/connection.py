"""An organization's connection to a platform, as adapters and pages see it: no credential."""

from typing import Literal

import msgspec

ConnectionKind = Literal["app", "token"]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the platform's web address; `account` the login of its credential, once checked."""

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
