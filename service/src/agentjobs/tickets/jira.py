"""Jira as a tracker: `ABC-123`, or the URL of an issue. Cloud and Data Center.

Cloud authenticates with an e-mail address and API token, Data Center with a personal access token.
Both return texts in Jira's own markup in version 2 of the API.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from agentjobs.platforms.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.tickets.bounds import build_ticket, one_line
from agentjobs.tickets.protocol import ResultLink, Ticket
from agentjobs.tickets.validate import GATEWAY_HOST
from agentjobs_runtime.git.remote import basic_authorization

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,99}-[1-9][0-9]{0,17}")
_REST = "/rest/api/2"
_FIELDS = "summary,description,labels"
_MAX_LINK_TITLE = 255
_MAX_NAME = 100


Shape = TypeVar("Shape")


class _Fields(msgspec.Struct):
    """Fields that a project hides are missing or null."""

    summary: str | None = None
    description: str | None = None
    labels: list[str] | None = None


class _Issue(msgspec.Struct):
    key: str
    fields: _Fields = msgspec.field(default_factory=_Fields)


class _User(msgspec.Struct):
    name: str | None = None
    displayName: str | None = None  # noqa: N815 - Jira's name
    emailAddress: str | None = None  # noqa: N815 - Jira's name


class _Server(msgspec.Struct):
    baseUrl: str  # noqa: N815 - Jira's name


def parse_key(ticket_id: str, url: str) -> str | None:
    """The issue key in upper case; None for another format. `url` is the site's."""
    text = ticket_id.strip().removeprefix(f"{url}/browse/")
    key = re.split(r"[?#]", text, maxsplit=1)[0].upper()
    return key if _KEY.fullmatch(key) else None


class JiraTracker:
    """`account` is None for Data Center."""

    def __init__(
        self,
        url: str,
        account: str | None,
        token: str,
        session: aiohttp.ClientSession,
        retry_budget: RetryBudget,
    ) -> None:
        self._url = url
        self._is_cloud = account is not None
        self._retry_budget = retry_budget
        authorization = (
            f"Bearer {token}" if account is None else basic_authorization(account, token)
        )

        async def headers() -> Mapping[str, str]:
            return {"Authorization": authorization, "Accept": "application/json"}

        self._api = PlatformApi(
            session, url, platform="Jira", headers=headers, retry_budget=retry_budget
        )

    async def check(self) -> str:
        """The name of the token's account. Raises PlatformError."""
        user = await self._get(_User, "/myself")
        name = user.emailAddress or user.name or user.displayName or ""
        return one_line(name, _MAX_NAME) or "an unnamed account"

    async def find(self, ticket_id: str) -> Ticket | None:
        key = parse_key(ticket_id, self._url)
        if key is None:
            return None
        try:
            issue = await self._get(
                _Issue, f"/issue/{key}", needs="Browse projects", fields=_FIELDS
            )
        except PlatformError as error:
            if error.fault != "gone":
                raise
            # Jira treats an invalid credential as anonymous, which sees nothing.
            await self.check()
            return None
        return await self._ticket(issue)

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None:
        """Add a remote link to the issue; one of the same job is replaced."""
        body = {
            "globalId": link.job_id,
            "application": {"name": "agentjobs"},
            "relationship": "pull request",
            "object": {"url": link.url, "title": one_line(link.title, _MAX_LINK_TITLE)},
        }
        attempt = 0
        while True:
            try:
                await self._api.post(
                    f"{_REST}/issue/{ticket.id}/remotelink", body, needs="Link issues"
                )
                return
            except ApiError as error:
                if not await self._retry_budget.wait_before_retry(error, attempt):
                    raise self._explain(error) from None
            attempt += 1

    async def _ticket(self, issue: _Issue) -> Ticket:
        # A moved issue is found by its former key and returns the current one.
        key = issue.key.upper()
        if not _KEY.fullmatch(key):
            message = "Jira returned an issue with an invalid key; check the address."
            raise PlatformError(message, "unusable")
        fields = issue.fields
        return build_ticket(
            key,
            fields.summary or "",
            fields.description or "",
            fields.labels or (),
            f"{await self._site()}/browse/{key}",
        )

    async def _site(self) -> str:
        """The web address, which differs from the API host for tokens with scopes."""
        if urlsplit(self._url).hostname != GATEWAY_HOST:
            return self._url
        server = await self._get(_Server, "/serverInfo")
        return server.baseUrl.rstrip("/")

    async def _get(self, shape: type[Shape], path: str, *, needs: str = "", **query: str) -> Shape:
        try:
            return await self._api.get_as(shape, f"{_REST}{path}", needs=needs, **query)
        except ApiError as error:
            raise self._explain(error) from None

    def _explain(self, error: ApiError) -> PlatformError:
        """Jira may refuse with a sign-in page instead of an API response."""
        if error.status == HTTPStatus.UNAUTHORIZED:
            what = "email address and API token" if self._is_cloud else "personal access token"
            return PlatformError(
                f"Jira does not accept the {what}, which may be mistyped, expired or revoked;"
                " replace the token.",
                "unauthorized",
            )
        if error.status == HTTPStatus.FORBIDDEN and error.fault == "unusable":
            return PlatformError(
                "Jira denies access to the account; after failed attempts it requires a sign-in"
                " with a browser.",
                "denied",
            )
        return error
