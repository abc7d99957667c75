"""Whom commits name on Gitea and Forgejo: the account of the token, and other people."""

from urllib.parse import urlsplit

from agentjobs.forges.gitea.responses import User, UserSettings
from agentjobs.forges.http.client import PlatformApi, build_path
from agentjobs.forges.protocol import ForgeError
from agentjobs.git.identity import Identity


async def identity_of_token(api: PlatformApi, url: str, user: User) -> Identity | None:
    """With the account's address, or the no-reply address if the account hides it."""
    try:
        is_hidden = (await api.get_as(UserSettings, "/user/settings")).hide_email
    except ForgeError as error:
        if error.is_temporary:
            raise
        is_hidden = False
    if not is_hidden:
        return user.identity
    # The default of NO_REPLY_ADDRESS, which the API does not return.
    host = urlsplit(url).hostname or ""
    email = f"{user.login.lower()}@noreply.{host}"
    return Identity.clean(user.full_name or user.login, email)


async def identity_of_login(api: PlatformApi, login: str) -> Identity | None:
    try:
        return (await api.get_as(User, build_path("users", login))).identity
    except ForgeError as error:
        if error.is_temporary:
            raise
        return None
