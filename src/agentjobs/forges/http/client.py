"""Client for a platform's JSON API: bounds responses, classifies errors, retries within a budget.

All adapters speak through it. Knows no platform's paths; credentials pass through as headers and
never get into a message.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, Literal, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from agentjobs.forges.http.decode import shaped, unknown_shape, value_of
from agentjobs.forges.http.pagination import Bounds, PagesRead, without_an_end
from agentjobs.forges.http.responses import Answer, ApiError, fault_of, is_redirect, linked
from agentjobs.forges.http.retry import RetryBudget
from agentjobs.forges.http.transport_errors import (
    bounded_body,
    connection_fault,
    without_credentials,
)
from agentjobs.forges.http.urls import Query, address_of, path_of, same_origin

__all__ = ["ApiError", "Headers", "PlatformApi", "RetryBudget", "path_of"]

ANSWER_BYTES = 8 * 2**20
REQUEST_SECONDS = 30.0
MOST_REDIRECTS = 3
_USUAL = Bounds()
# Asking twice changes nothing that asking once does not.
_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})

Headers = Callable[[], Awaitable[Mapping[str, str]]]
Shape = TypeVar("Shape")


class PlatformApi:
    """`headers` are made anew for each attempt. `base_url` may have a path, as `…/api/v4`.

    `renew` is told that the credential was not accepted; True: the headers are others now.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        *,
        platform: str,
        headers: Headers,
        retry_budget: RetryBudget,
        renew: Callable[[], bool] = lambda: False,
    ) -> None:
        self.platform = platform
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._origin = URL(self._base_url).origin()
        self._headers = headers
        self._retry_budget = retry_budget
        self._renew = renew

    async def get(self, path: str, *, needs: str = "", **query: Query) -> Any:
        return value_of(self.platform, await self.ask("GET", path, needs=needs, **query))

    async def post(self, path: str, body: Any = None, *, needs: str = "") -> Any:
        """Asked again only where certainly nothing was done; else `away`: look, then repeat."""
        return value_of(self.platform, await self.ask("POST", path, body, needs=needs))

    async def put(self, path: str, body: Any = None, *, needs: str = "") -> Any:
        return value_of(self.platform, await self.ask("PUT", path, body, needs=needs))

    async def patch(self, path: str, body: Any = None, *, needs: str = "") -> Any:
        return value_of(self.platform, await self.ask("PATCH", path, body, needs=needs))

    async def delete(self, path: str, body: Any = None, *, needs: str = "") -> Any:
        return value_of(self.platform, await self.ask("DELETE", path, body, needs=needs))

    async def get_as(
        self, shape: type[Shape], path: str, *, needs: str = "", **query: Query
    ) -> Shape:
        return shaped(self.platform, await self.ask("GET", path, needs=needs, **query), shape)

    async def send_as(
        self,
        shape: type[Shape],
        method: Literal["POST", "PUT", "PATCH"],
        path: str,
        body: Any,
        *,
        needs: str = "",
    ) -> Shape:
        return shaped(self.platform, await self.ask(method, path, body, needs=needs), shape)

    async def pages(
        self,
        shape: type[Shape],
        path: str,
        *,
        needs: str = "",
        bounds: Bounds = _USUAL,
        **query: Query,
    ) -> AsyncIterator[Shape]:
        """Each page's whole value, as long as the answer names a next one."""
        url = self._address(path, query)
        answer = await self._ask("GET", url, None, needs)
        async for page in self._linked_pages(shape, url, answer, "next", needs, bounds):
            yield page

    async def pages_from_the_end(
        self,
        shape: type[Shape],
        path: str,
        *,
        needs: str = "",
        bounds: Bounds = _USUAL,
        **query: Query,
    ) -> AsyncIterator[Shape]:
        """The last page first; each in its own order.

        What is removed meanwhile makes others move to a page that is read later, not earlier.
        """
        url = self._address(path, query)
        answer = await self._ask("GET", url, None, needs)
        last = linked(answer, "last")
        if last is None:
            # The only one; or else nobody knows yet which is the last.
            forward = self._linked_pages(shape, url, answer, "next", needs, bounds)
            for page in reversed([page async for page in forward]):
                yield page
            return
        url = self._onward(url, last)
        answer = await self._ask("GET", url, None, needs)
        async for page in self._linked_pages(shape, url, answer, "prev", needs, bounds):
            yield page

    async def _linked_pages(
        self,
        shape: type[Shape],
        url: URL,
        answer: Answer,
        relation: Literal["next", "prev"],
        needs: str,
        bounds: Bounds,
    ) -> AsyncIterator[Shape]:
        read = PagesRead(self.platform, bounds)
        seen = {url}
        while True:
            read.note(answer)
            page = shaped(self.platform, answer, shape)
            read.plausible(page)
            yield page
            following = linked(answer, relation)
            if following is None:
                return
            url = self._onward(url, following)
            if url in seen:
                raise without_an_end(self.platform)
            seen.add(url)
            answer = await self._ask("GET", url, None, needs)

    async def ask(
        self, method: str, path: str, body: Any = None, *, needs: str = "", **query: Query
    ) -> Answer:
        """A success, with its headers. Raises ForgeError, an ApiError if the platform said it."""
        return await self._ask(method, self._address(path, query), body, needs)

    def shaped(self, value: Any, kind: type[Shape]) -> Shape:
        """What was answered, as the type says that it looks. Raises ForgeError."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise unknown_shape(self.platform, error) from None

    async def _ask(self, method: str, url: URL, body: Any, needs: str) -> Answer:
        attempt = 0
        is_renewed = False
        while True:
            try:
                return await self._follow(method, url, body, needs)
            except ApiError as error:
                if error.fault == "unauthorized" and not is_renewed and self._renew():
                    is_renewed = True
                    continue
                may_repeat = method in _REPEATABLE or error.is_undone
                if not may_repeat or not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    async def _follow(self, method: str, url: URL, body: Any, needs: str) -> Answer:
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._once(method, url, body, needs)
            if not is_redirect(answer.status):
                return answer
            url = self._onward(url, answer.headers.get("Location", ""))
        raise ApiError(f"{self.platform} redirects in a circle; check the address.", "refused")

    async def _once(self, method: str, url: URL, body: Any, needs: str) -> Answer:
        """One request; a redirect is an answer where it may be followed."""
        headers = _complete(await self._headers())
        answer = await self._send(method, url, headers, body)
        is_followed = method == "GET" and is_redirect(answer.status)
        if 200 <= answer.status < 300 or is_followed:
            return answer
        quotable = msgspec.structs.replace(answer, body=without_credentials(answer.body, headers))
        raise fault_of(self.platform, quotable, needs, self._retry_budget.time_of_day())

    async def _send(self, method: str, url: URL, headers: dict[str, str], body: Any) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method,
                url,
                headers=headers,
                data=content,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            ) as response:
                answered = await bounded_body(self.platform, response, ANSWER_BYTES)
                return Answer(response.status, CIMultiDict(response.headers), answered)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise connection_fault(self.platform, self._origin, error) from None

    def _address(self, path: str, query: Mapping[str, Query]) -> URL:
        return address_of(self._base_url, path, query)

    def _onward(self, url: URL, address: str) -> URL:
        """The credential goes to the host it was given for, and nowhere else."""
        target = same_origin(self._origin, url, address)
        if target is None:
            words = f"{self.platform} sends us away from {self._origin}, which is not followed"
            raise ApiError(f"{words}; connect the address that it calls its own.", "refused")
        return target


def _complete(given: Mapping[str, str]) -> dict[str, str]:
    return {
        "Accept": "application/json",
        # Nothing here undoes compression, so a small answer stays a small one.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"agentjobs/{version('agentjobs')}",
        **given,
    }
