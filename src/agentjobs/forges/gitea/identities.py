"""Whom commits name on Gitea and Forgejo: the account of the token, and other people."""

from urllib.parse import urlsplit

from agentjobs.forges.gitea.responses import User, UserSettings
from agentjobs.forges.http.client import PlatformApi
from agentjobs.git.identity import Identity


async def identity_of_token(api: PlatformApi, url: str, user: User) -> Identity | None:
    """With the account's address, or the no-reply address if the account hides it."""
    settings = await api.get_unless_refused(UserSettings, "user", "settings")
    if settings is None or not settings.hide_email:
        return user.identity
    # The default of NO_REPLY_ADDRESS, which the API does not return.
    host = urlsplit(url).hostname or ""
    email = f"{user.login.lower()}@noreply.{host}"
    return Identity.clean(user.full_name or user.login, email)


async def identity_of_login(api: PlatformApi, login: str) -> Identity | None:
    user = await api.get_unless_refused(User, "users", login)
    return None if user is None else user.identity
