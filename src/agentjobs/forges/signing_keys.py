"""Registers the public key with which commits are signed, once, with a platform's account."""

from typing import Any

import msgspec

from agentjobs.forges.http.client import PlatformApi
from agentjobs.forges.protocol import ForgeError


class _Key(msgspec.Struct, frozen=True):
    key: str


async def register_signing_key(
    api: PlatformApi, path: str, body: dict[str, Any], *, needs: str
) -> None:
    """`body["key"]` is the public key; `path` lists the account's keys and adds one."""
    wanted = _without_comment(body["key"])
    try:
        async for page in api.pages(list[_Key], path, needs=needs):
            if any(_without_comment(key.key) == wanted for key in page):
                return
        await api.post(path, body, needs=needs)
    except ForgeError as error:
        if error.fault != "gone":
            raise
        # GitHub answers a classic token that lacks the scope as if there were no keys.
        reason = (
            f"The connection needs the permission {needs} to add a key. GitHub Enterprise Server"
            " older than 3.7 has no keys for signatures."
        )
        raise ForgeError(reason, "denied") from None


def _without_comment(public_key: str) -> list[str]:
    return public_key.split()[:2]
