"""Requests about webhooks that are the same on all platforms."""

import contextlib
from collections.abc import Iterator

from agentjobs.forges.http.client import PlatformApi, build_path
from agentjobs.forges.protocol import ForgeError


@contextlib.contextmanager
def missing_as_denied() -> Iterator[None]:
    """Platforms also answer 404 to accounts that may not manage webhooks.

    For requests about a repository that the connection has just read.
    """
    try:
        yield
    except ForgeError as error:
        raise ForgeError(str(error), "denied") if error.fault == "gone" else error from None


async def delete_hook(api: PlatformApi, hooks_path: str, hook_id: str) -> None:
    """A webhook that no longer exists is no error."""
    try:
        await api.delete(f"{hooks_path}{build_path(hook_id)}")
    except ForgeError as error:
        if error.fault != "gone":
            raise
