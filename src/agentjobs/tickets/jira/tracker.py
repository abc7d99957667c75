"""Jira as a tracker: `ABC-123`, or the address of its page. Cloud and Data Center.

Cloud (REST v3) is shown an e-mail address with its API token, Data Center (v2) a personal token.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.forges.protocol import ForgeError
from agentjobs.git.remote import basic_authorization
from agentjobs.tickets.bounds import bounded_ticket, one_line
from agentjobs.tickets.jira.document_text import adf_text
from agentjobs.tickets.protocol import ResultLink, Ticket
from agentjobs.tickets.validate import GATEWAY_HOST

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,99}-[1-9][0-9]{0,17}")
_FIELDS = "summary,description,labels"
_MOST_LINK_TITLE = 255
_MOST_NAME = 100


class _Fields(msgspec.Struct):
    """A field that a project hides is left out or null."""

    summary: str | None = None
    description: Any = None
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


def key_of(ticket_id: str, url: str) -> str | None:
    """The key that is meant, in capitals; None: it is written otherwise. `url` is the site's."""
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
        self._rest = "/rest/api/3" if self._is_cloud else "/rest/api/2"
        shown = f"Bearer {token}" if account is None else basic_authorization(account, token)

        async def headers() -> Mapping[str, str]:
            return {"Authorization": shown, "Accept": "application/json"}

        self._api = PlatformApi(
            session, url, platform="Jira", headers=headers, retry_budget=retry_budget
        )

    async def check(self) -> str:
        """Who we are to it. Raises ForgeError."""
        told = await self._get("/myself")
        user = self._api.decode_as(told, _User)
        name = user.emailAddress or user.name or user.displayName or ""
        return one_line(name, _MOST_NAME) or "somebody without a name"

    async def find(self, ticket_id: str) -> Ticket | None:
        key = key_of(ticket_id, self._url)
        if key is None:
            return None
        try:
            told = await self._get(f"/issue/{key}", needs="Browse projects", fields=_FIELDS)
        except ForgeError as error:
            if error.fault != "gone":
                raise
            # To a credential it does not know, Jira shows what it shows to everybody: nothing.
            await self.check()
            return None
        return await self._ticket(self._api.decode_as(told, _Issue))

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None:
        """A link beside the issue; that of the same job is replaced, so it can be made again."""
        body = {
            "globalId": link.job_id,
            "application": {"name": "agentjobs"},
            "relationship": "pull request",
            "object": {"url": link.url, "title": one_line(link.title, _MOST_LINK_TITLE)},
        }
        attempt = 0
        while True:
            try:
                await self._api.post(
                    f"{self._rest}/issue/{ticket.id}/remotelink", body, needs="Link issues"
                )
                return
            except ApiError as error:
                if not error.is_temporary or not await self._retry_budget.wait(
                    error.summary, attempt, error.retry_after_seconds
                ):
                    raise self._in_clear_words(error) from None
            attempt += 1

    async def _ticket(self, issue: _Issue) -> Ticket:
        # An issue that was moved answers to its former key, and tells the one it has now.
        key = issue.key.upper()
        if not _KEY.fullmatch(key):
            raise ForgeError("Jira answered with an issue whose key is none; check the address.")
        fields = issue.fields
        return bounded_ticket(
            key,
            fields.summary or "",
            adf_text(fields.description),
            fields.labels or (),
            f"{await self._site()}/browse/{key}",
        )

    async def _site(self) -> str:
        """Where people reach it, which is not where the tokens with scopes do."""
        if urlsplit(self._url).hostname != GATEWAY_HOST:
            return self._url
        server = self._api.decode_as(await self._get("/serverInfo"), _Server)
        return server.baseUrl.rstrip("/")

    async def _get(self, path: str, *, needs: str = "", **query: str) -> Any:
        try:
            return await self._api.get(f"{self._rest}{path}", needs=needs, **query)
        except ApiError as error:
            raise self._in_clear_words(error) from None

    def _in_clear_words(self, error: ApiError) -> ForgeError:
        """It says no with a page to sign in as often as with an answer of its API."""
        if error.status == HTTPStatus.UNAUTHORIZED:
            what = "e-mail address and API token" if self._is_cloud else "personal access token"
            words = f"Jira does not accept the {what}: one may be mistyped, expired or revoked"
            return ForgeError(f"{words}; give the tracker a new token.", "unauthorized")
        if error.status == HTTPStatus.FORBIDDEN and error.fault == "refused":
            words = "Jira does not let the account in; after failed attempts it wants to be signed"
            return ForgeError(f"{words} in to with a browser once.", "denied")
        return error
