"""Webhooks of repositories on any platform: listing, creating and deleting them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

from agentjobs.platforms.http.client import PlatformApi, build_path
from agentjobs.platforms.http.urls import repo_path
from agentjobs.platforms.protocol import PlatformError, RemoteHook, RepoAddress


class ListedHook(Protocol):
    @property
    def remote(self) -> RemoteHook: ...


class RepositoryHooks:
    """`api_for` is given the repository, whose address must have its current name.

    `response` is the type of a webhook, `needs` the permission to manage them, `page` the query
    for a long page of them.
    """

    response: ClassVar[type[ListedHook]]
    needs: ClassVar[str]
    page: ClassVar[Mapping[str, Any]] = {"per_page": 100}

    def __init__(self, api_for: Callable[[RepoAddress], PlatformApi]) -> None:
        self._api_for = api_for

    def body(self, url: str, secret: str) -> dict[str, Any]:
        """The request that creates a webhook."""
        raise NotImplementedError

    def path(self, repo: RepoAddress) -> str:
        return f"{repo_path(repo.full_name)}/hooks"

    async def shared(self) -> RemoteHook | None:
        return None

    async def of_repository(self, repo: RepoAddress) -> list[RemoteHook]:
        with _missing_as_denied():
            hooks = self._api_for(repo).items(
                self.response, self.path(repo), needs=self.needs, **self.page
            )
            return [hook.remote async for hook in hooks]

    async def create(self, repo: RepoAddress, url: str, secret: str) -> RemoteHook:
        body = self.body(url, secret)
        with _missing_as_denied():
            created = await self._api_for(repo).send_as(
                self.response, "POST", self.path(repo), body, needs=self.needs
            )
        return created.remote

    async def delete(self, repo: RepoAddress, hook_id: str) -> None:
        """A webhook that no longer exists is no error."""
        try:
            path = f"{self.path(repo)}{build_path(hook_id)}"
            await self._api_for(repo).request("DELETE", path)
        except PlatformError as error:
            if error.fault != "gone":
                raise


@contextlib.contextmanager
def _missing_as_denied() -> Iterator[None]:
    """Platforms also answer 404 to accounts that may not manage webhooks.

    For requests about a repository that the connection has just read.
    """
    try:
        yield
    except PlatformError as error:
        raise PlatformError(str(error), "denied") if error.fault == "gone" else error from None
