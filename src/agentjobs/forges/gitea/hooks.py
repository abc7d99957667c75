"""Webhooks of a repository on Gitea and Forgejo, whose APIs do not tell whether they succeed."""

import msgspec

from agentjobs.forges.gitea.pulls import numbered_pages
from agentjobs.forges.hook_requests import delete_hook, missing_as_denied
from agentjobs.forges.http.client import PlatformApi
from agentjobs.forges.http.urls import repo_path
from agentjobs.forges.protocol import RemoteHook, RepoAddress

# `pull_request` includes all events of pull requests, their comments and reviews.
EVENTS = ("push", "pull_request", "repository")
# What Gitea lists for them in every version.
_LISTED_EVENTS = frozenset({*EVENTS, "pull_request_comment"})
_NEEDS = "admin of the repository, scope write:repository"


class HookConfig(msgspec.Struct, frozen=True):
    url: str = ""
    content_type: str = ""


class Hook(msgspec.Struct, frozen=True):
    id: int
    active: bool
    config: HookConfig
    events: list[str] | None = None
    branch_filter: str = ""

    @property
    def remote(self) -> RemoteHook:
        is_limited = self.branch_filter not in {"", "*"}
        has_events = set(self.events or ()) >= _LISTED_EVENTS and not is_limited
        return RemoteHook(
            hook_id=str(self.id),
            target_url=self.config.url,
            is_complete=self.active and has_events and self.config.content_type == "json",
        )


class GiteaHooks:
    """Addresses must have the repository's current name."""

    def __init__(self, api: PlatformApi) -> None:
        self._api = api

    async def shared(self) -> RemoteHook | None:
        return None

    async def of_repository(self, repo: RepoAddress) -> list[RemoteHook]:
        hooks: list[RemoteHook] = []
        with missing_as_denied():
            async for page in numbered_pages(self._api, list[Hook], _path(repo), needs=_NEEDS):
                hooks += [hook.remote for hook in page]
        return hooks

    async def create(self, repo: RepoAddress, url: str, secret: str) -> RemoteHook:
        body = {
            "type": "gitea",
            "active": True,
            "events": list(EVENTS),
            "config": {"url": url, "content_type": "json", "secret": secret},
        }
        with missing_as_denied():
            return (await self._api.send_as(Hook, "POST", _path(repo), body, needs=_NEEDS)).remote

    async def delete(self, repo: RepoAddress, hook_id: str) -> None:
        await delete_hook(self._api, _path(repo), hook_id)


def _path(repo: RepoAddress) -> str:
    return f"{repo_path(repo.full_name)}/hooks"
