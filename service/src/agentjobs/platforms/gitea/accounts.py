"""Accounts on Gitea and Forgejo: whom commits name, and who may write through a team.

The permission that Gitea tells of a person does not include the units of teams (Gitea 1.24 and
newer; Forgejo and older versions if a team may do less with another unit).
"""

from urllib.parse import urlsplit

from agentjobs.platforms.gitea.pulls import READ_REPOSITORY
from agentjobs.platforms.gitea.responses import Team, User, UserSettings
from agentjobs.platforms.http.client import ApiError, PlatformApi, build_path
from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.git.identity import Identity

# Each team costs a request for each person who asks.
MAX_TEAMS = 20
READ_ORGANIZATION = "read:organization"
_NOT_AN_ORGANIZATION = 405
_READ_MEMBERS = f"{READ_ORGANIZATION}, of an owner of the organization or a member of the team"


class TeamAccess:
    """`repository` is an API path such as /repos/owner/name."""

    def __init__(self, api: PlatformApi, repository: str) -> None:
        self._api = api
        self._repository = repository

    async def may_write(self, login: str) -> bool:
        """Raises PlatformError if the account cannot read who is in a team that may write."""
        teams = [team for team in await self._teams() if team.may_write]
        hidden: PlatformError | None = None
        for team in teams[:MAX_TEAMS]:
            try:
                if await self._has_member(team, login):
                    return True
            except PlatformError as error:
                if error.fault != "denied":
                    raise
                hidden = error
        if hidden is not None:
            raise hidden
        if len(teams) > MAX_TEAMS:
            raise PlatformError(
                f"More than {MAX_TEAMS} teams may write to the repository, and not all of them are"
                " asked; add the person as a collaborator.",
                "denied",
            )
        if teams:
            await self._check_visible(teams[0])
        return False

    async def _teams(self) -> list[Team]:
        """Empty if the owner is a person."""
        try:
            path = f"{self._repository}/teams"
            return await self._api.get_as(list[Team], path, needs=READ_REPOSITORY)
        except ApiError as error:
            if error.status == _NOT_AN_ORGANIZATION or error.fault == "gone":
                return []
            raise

    async def _has_member(self, team: Team, login: str) -> bool:
        path = build_path("teams", team.id, "members", login)
        return await self._api.get_or_none(User, path, needs=_READ_MEMBERS) is not None

    async def _check_visible(self, team: Team) -> None:
        """Outside of the organization, the account finds neither teams nor their members.

        Raises PlatformError.
        """
        try:
            await self._api.get_as(Team, build_path("teams", team.id), needs=_READ_MEMBERS)
        except PlatformError as error:
            if error.fault != "gone":
                raise
            raise PlatformError(str(error), "denied") from None


async def identity_of_token(api: PlatformApi, url: str, user: User) -> Identity | None:
    """Uses the account's address, or the no-reply address if the account hides it."""
    settings = await api.get_unless_refused(UserSettings, "user", "settings")
    if settings is None or not settings.hide_email:
        return user.identity
    # The default of NO_REPLY_ADDRESS, which the API does not return.
    host = urlsplit(url).hostname or ""
    email = f"{user.login.lower()}@noreply.{host}"
    return Identity.clean(user.full_name or user.login, email)
