"""Webhooks of a project on GitLab."""

from typing import Any

import msgspec

from agentjobs.platforms.http.client import build_path
from agentjobs.platforms.protocol import RemoteHook, RepoAddress
from agentjobs.platforms.repository_hooks import RepositoryHooks
from agentjobs.platforms.text import one_line

_DISABLED = "disabled"
_PAUSED = "temporarily_disabled"


class Hook(msgspec.Struct, frozen=True):
    """`alert_status` is missing before GitLab 15.2."""

    id: int
    url: str
    push_events: bool = False
    merge_requests_events: bool = False
    note_events: bool = False
    push_events_branch_filter: str | None = None
    alert_status: str = "executable"
    disabled_until: str | None = None

    @property
    def remote(self) -> RemoteHook:
        has_events = self.push_events and self.merge_requests_events and self.note_events
        is_limited = bool(self.push_events_branch_filter)
        return RemoteHook(
            hook_id=str(self.id),
            target_url=self.url,
            is_complete=has_events and not is_limited and self.alert_status != _DISABLED,
            is_failing=self.alert_status in {_DISABLED, _PAUSED},
            delivery=self._delivery,
        )

    @property
    def _delivery(self) -> str:
        if self.alert_status == _DISABLED:
            return "GitLab has disabled the webhook because deliveries failed"
        if self.alert_status == _PAUSED:
            until = one_line(self.disabled_until or "later", 40)
            return f"GitLab has paused the webhook until {until} because deliveries failed"
        return ""


class GitLabHooks(RepositoryHooks):
    response = Hook
    needs = "role Maintainer, scope api"

    def path(self, repo: RepoAddress) -> str:
        return f"{build_path('projects', repo.external_id or repo.full_name)}/hooks"

    def body(self, url: str, secret: str) -> dict[str, Any]:
        return {
            "url": url,
            "token": secret,
            "push_events": True,
            "merge_requests_events": True,
            "note_events": True,
            "enable_ssl_verification": True,
        }
