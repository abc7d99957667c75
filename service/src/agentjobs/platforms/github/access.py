"""Access to GitHub's API with a connection's credential: a token, or an App and its tokens."""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from agentjobs.platforms.connection import Connection
from agentjobs.platforms.github.app import (
    InstallationToken,
    Scope,
    TokenCache,
    app_jwt,
    choose_permissions,
)
from agentjobs.platforms.http.client import ApiError, PlatformApi, RetryBudget, build_path
from agentjobs.platforms.protocol import PlatformError, RepoAddress

_VERSION = "2022-11-28"


class App(msgspec.Struct, frozen=True):
    slug: str


class Installation(msgspec.Struct, frozen=True):
    permissions: dict[str, str]
    suspended_at: str | None = None
    target_type: str = "Organization"


class GitHubAccess:
    def __init__(
        self,
        connection: Connection,
        credential: str,
        retry_budget: RetryBudget,
        tokens: TokenCache,
        new_api: Callable[..., PlatformApi],
    ) -> None:
        self.is_app = connection.kind == "app"
        self.app_id = connection.app_id
        self._connection = connection
        self._credential = credential
        self._retry_budget = retry_budget
        self._tokens = tokens
        self._new_api = new_api
        self._base_url = api_url(connection.url)

    def api(self, scope: Scope) -> PlatformApi:
        async def headers() -> Mapping[str, str]:
            if not self.is_app:
                return _headers(self._credential)
            return _headers((await self._app_token(scope)).token)

        def renew() -> bool:
            return self.is_app and self._tokens.forget(self._key(scope))

        is_fresh = partial(self.is_fresh, scope)
        return self._new_api(self._base_url, headers, renew=renew, is_fresh=is_fresh)

    def api_for(self, repo: RepoAddress) -> PlatformApi:
        return self.api(Scope(repo.external_id, repo.full_name))

    def as_app(self, retry_budget: RetryBudget | None = None) -> PlatformApi:
        """An API for requests that only the App itself may make."""

        async def headers() -> Mapping[str, str]:
            app_id, now = self._connection.app_id or "", self._retry_budget.time_of_day()
            return _headers(app_jwt(app_id, self._credential, now))

        # The App has another rate limit than its installations.
        budget = retry_budget or self._retry_budget
        return self._new_api(self._base_url, headers, retry_budget=budget, traffic=None)

    async def installation(self, api: PlatformApi) -> Installation:
        try:
            return await api.get_as(Installation, self._installation_path())
        except ApiError as error:
            raise self._installation_error(error) from None

    def forget_permissions(self, scope: Scope) -> None:
        """Ask for them again, and for a new token, after one was missing."""
        self._tokens.forget_granted(self._installation_key)
        self._tokens.forget(self._key(scope))

    async def token(self, scope: Scope) -> str:
        """A token for git, with retries."""
        return (await self.app_token(scope)).token if self.is_app else self._credential

    async def app_token(self, scope: Scope) -> InstallationToken:
        """A token of the installation, with retries."""
        attempt = 0
        while True:
            try:
                return await self._app_token(scope)
            except ApiError as error:
                if not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    def is_fresh(self, scope: Scope) -> bool:
        """Whether the token was issued so recently that GitHub may not accept it yet."""
        return self.is_app and self._tokens.is_fresh(self._key(scope))

    async def _app_token(self, scope: Scope) -> InstallationToken:
        try:
            return await self._tokens.token(self._key(scope), lambda: self._mint(scope))
        except ApiError as error:
            # The request that needs the token was not sent.
            error.is_unprocessed = True
            raise

    async def _mint(self, scope: Scope) -> InstallationToken:
        # Other callers wait for this token with their own retry budgets, so they wait outside.
        api = self.as_app(RetryBudget(0, time_of_day=self._retry_budget.time_of_day))
        is_known = self._tokens.granted(self._installation_key) is not None
        try:
            return await self._request_token(api, scope)
        except PlatformError as error:
            if error.fault not in {"denied", "gone"}:
                raise
            # The installation may have got or lost permissions since it was asked for them.
            self._tokens.forget_granted(self._installation_key)
            if not is_known:
                raise
        return await self._request_token(api, scope)

    async def _request_token(self, api: PlatformApi, scope: Scope) -> InstallationToken:
        granted = self._tokens.granted(self._installation_key)
        if granted is None:
            granted = (await self.installation(api)).permissions
            self._tokens.put_granted(self._installation_key, granted)
        chosen = choose_permissions(granted, scope.permissions)
        body, path = {**scope.fields, "permissions": chosen}, self._installation_path()
        try:
            token = await api.send_as(InstallationToken, "POST", f"{path}/access_tokens", body)
        except ApiError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise self._installation_error(error) from None
            where = scope.full_name or "any repository"
            raise PlatformError(
                f"The GitHub App is not installed on {where}, or the repository was deleted:"
                f" {error}",
                "gone",
            ) from None
        return msgspec.structs.replace(token, permissions=chosen)

    def _installation_error(self, error: ApiError) -> PlatformError:
        """Without its installation, the App can do nothing at all."""
        number = self._connection.installation_id
        if error.fault == "gone":
            return PlatformError(
                f"The GitHub App has no installation {number}; install it again, and enter its new"
                " ID on the connection's page or with `agentjobs platforms set-installation`.",
                "unauthorized",
            )
        if error.fault == "denied":
            return PlatformError(
                f"{error} If the installation {number} of the GitHub App is suspended, unsuspend it"
                " on GitHub.",
                "unauthorized",
            )
        return error

    def _installation_path(self) -> str:
        return build_path("app", "installations", self._connection.installation_id or "0")

    def _key(self, scope: Scope) -> tuple[str | None, ...]:
        # The ID stays the same after a rename.
        return (*self._installation_key, scope.repository_id or scope.full_name)

    @property
    def _installation_key(self) -> tuple[str | None, ...]:
        connection = self._connection
        return (connection.id, connection.app_id, connection.installation_id)


def api_url(url: str) -> str:
    """The URL of the API of the GitHub instance at `url`."""
    host = urlsplit(url).hostname or ""
    if host in {"github.com", "www.github.com"}:
        return "https://api.github.com"
    if host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"{url.rstrip('/')}/api/v3"


def _headers(token: str) -> Mapping[str, str]:
    return {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": _VERSION,
    }
