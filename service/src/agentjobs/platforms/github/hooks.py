"""Webhooks on GitHub: of a repository, and the one of an App."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentjobs.platforms.github.access import GitHubAccess
from agentjobs.platforms.http.client import PlatformApi
from agentjobs.platforms.protocol import RemoteHook
from agentjobs.platforms.repository_hooks import RepositoryHooks
from agentjobs.platforms.text import one_line

EVENTS = (
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "repository",
)
_MAX_DELIVERY_CHARACTERS = 200


class HookConfig(msgspec.Struct, frozen=True):
    url: str = ""
    content_type: str = "form"


class HookResponse(msgspec.Struct, frozen=True):
    """Without a delivery, `code` is null and `status` is `unused`."""

    code: int | None = None
    status: str | None = None
    message: str | None = None


class Hook(msgspec.Struct, frozen=True):
    id: int
    active: bool
    events: list[str]
    config: HookConfig
    last_response: HookResponse | None = None

    @property
    def remote(self) -> RemoteHook:
        is_everything = "*" in self.events
        has_events = is_everything or set(EVENTS) <= set(self.events)
        last = self.last_response or HookResponse()
        is_failing = last.code is not None and not 200 <= last.code < 300
        return RemoteHook(
            hook_id=str(self.id),
            target_url=self.config.url,
            is_complete=self.active and has_events and self.config.content_type == "json",
            is_failing=is_failing,
            delivery=_delivery_text(last),
        )


class AppDelivery(msgspec.Struct, frozen=True):
    status: str
    status_code: int

    @property
    def is_failing(self) -> bool:
        return not 200 <= self.status_code < 300


class GitHubHooks(RepositoryHooks):
    response = Hook
    needs = "Webhooks: read and write (with a classic token, the role admin in the repository)"

    def __init__(self, access: GitHubAccess) -> None:
        super().__init__(access.api_for)
        self._access = access

    async def shared(self) -> RemoteHook | None:
        if not self._access.is_app:
            return None
        api = self._access.as_app()
        url = await app_hook_url(api)
        if not url:
            return None
        deliveries = await api.get_as(list[AppDelivery], "/app/hook/deliveries", per_page=1)
        latest = deliveries[0] if deliveries else None
        return RemoteHook(
            hook_id="app",
            target_url=url,
            is_complete=True,
            is_failing=latest is not None and latest.is_failing,
            delivery="" if latest is None else _line(f"{latest.status_code} {latest.status}"),
        )

    def body(self, url: str, secret: str) -> dict[str, Any]:
        return {
            "name": "web",
            "active": True,
            "events": list(EVENTS),
            "config": {
                "url": url,
                "content_type": "json",
                "secret": secret,
                "insecure_ssl": "0",
            },
        }


async def app_hook_url(api: PlatformApi) -> str:
    """Where the App's webhook delivers to; empty if the App has none."""
    config = await api.get_or_none(HookConfig, "/app/hook/config")
    url = "" if config is None else config.url
    return url if urlsplit(url).scheme in {"http", "https"} else ""


def _delivery_text(response: HookResponse) -> str:
    if response.code is None:
        return "" if response.status in {None, "unused"} else _line(str(response.status))
    return _line(f"{response.code} {response.message or response.status or ''}")


def _line(text: str) -> str:
    return one_line(text, _MAX_DELIVERY_CHARACTERS).strip()
