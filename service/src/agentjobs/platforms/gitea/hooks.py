"""Webhooks of a repository on Gitea and Forgejo, whose APIs do not tell whether they succeed."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from agentjobs.platforms.gitea.pulls import PAGE
from agentjobs.platforms.protocol import RemoteHook
from agentjobs.platforms.repository_hooks import RepositoryHooks

# `pull_request` includes all events of pull requests, their comments and reviews.
EVENTS = ("push", "pull_request", "repository")
# What Gitea lists for them in every version.
_LISTED_EVENTS = frozenset({*EVENTS, "pull_request_comment"})


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


class GiteaHooks(RepositoryHooks):
    response = Hook
    needs = "admin of the repository, scope write:repository"
    page: ClassVar[Mapping[str, Any]] = {"limit": PAGE}

    def body(self, url: str, secret: str) -> dict[str, Any]:
        return {
            "type": "gitea",
            "active": True,
            "events": list(EVENTS),
            "config": {"url": url, "content_type": "json", "secret": secret},
        }
