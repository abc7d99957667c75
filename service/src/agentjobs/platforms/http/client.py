"""Client for a platform's JSON API: bounds responses, classifies errors, retries within a budget.

All adapters use it. Knows no platform's paths; credentials are headers here and never become part
of a message.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Literal, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from agentjobs.platforms.http.responses import (
    ApiError,
    Relation,
    Response,
    decode_as,
    error_from,
    is_redirect,
    is_web_page,
    link_url,
    not_an_api,
)
from agentjobs.platforms.http.retry import RetryBudget
from agentjobs.platforms.http.traffic import ConnectionTraffic, confirmed
from agentjobs.platforms.http.transport_errors import (
    connection_error,
    read_bounded,
    redact_credentials,
)
from agentjobs.platforms.http.urls import Query, build_path, build_url, resolve_same_origin
from agentjobs.platforms.protocol import PlatformError
from agentjobs.platforms.validate import parse_count

__all__ = ["ApiError", "Headers", "PlatformApi", "RetryBudget", "build_path"]

MAX_RESPONSE_BYTES = 8 * 2**20
REQUEST_SECONDS = 30.0
MAX_REDIRECTS = 3
# A list beyond these limits counts as endless. Adapters ask for at most a hundred items at once.
MAX_PAGES = 50
MAX_PAGE_LENGTH = 1_000
MEAN_PAGE_BYTES = 2**20
# For listing a connection's repositories, of which the caller keeps only a few fields.
MAX_REPOSITORY_PAGES = 1_000
# Between requests with a credential that the platform may not know everywhere yet.
_REPLICATION_WAITS = (1.0, 2.0, 4.0)
# Idempotent, so they are safe to retry.
_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})

_SAME_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})

Headers = Callable[[], Awaitable[Mapping[str, str]]]
Shape = TypeVar("Shape")


class PlatformApi:
    """`headers` is called for each attempt. `base_url` may have a path, such as `…/api/v4`.

    `renew` is called when the credential was not accepted; it returns True if `headers` will
    return another one. While `is_fresh` returns True, the credential was issued so recently that
    some servers of the platform may not know it or its permissions yet. `traffic` is shared by all
    requests of the connection. `numbers_pages`: pages of lists are requested by number, because
    the platform does not link all of them.
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
        is_fresh: Callable[[], bool] = lambda: False,
        traffic: ConnectionTraffic | None = None,
        numbers_pages: bool = False,
    ) -> None:
        self.platform = platform
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._origin = URL(self._base_url).origin()
        self._headers = headers
        self.retry_budget = retry_budget
        self._renew = renew
        self._is_fresh = is_fresh
        self._traffic = traffic or ConnectionTraffic()
        self._numbers_pages = numbers_pages

    async def post(self, path: str, body: Any = None, *, needs: str = "") -> Response:
        """Retried only if the request was certainly not processed; after any other temporary error
        the caller has to check what happened."""
        return await self.request("POST", path, body, needs=needs)

    async def get_as(
        self, shape: type[Shape], path: str, *, needs: str = "", **query: Query
    ) -> Shape:
        return decode_as(
            self.platform, await self.request("GET", path, needs=needs, **query), shape
        )

    async def get_or_none(self, shape: type[Shape], path: str, *, needs: str = "") -> Shape | None:
        """None if the platform does not have it, or hides it."""
        try:
            return await self.get_as(shape, path, needs=needs)
        except ApiError as error:
            if error.fault != "gone":
                raise
            return None

    async def get_unless_refused(
        self, shape: type[Shape], *parts: str | int, needs: str = ""
    ) -> Shape | None:
        """The resource at a path; None for every error that is not temporary."""
        try:
            return await self.get_as(shape, build_path(*parts), needs=needs)
        except PlatformError as error:
            if error.is_temporary:
                raise
            return None

    async def send_as(
        self,
        shape: type[Shape],
        method: Literal["POST", "PUT", "PATCH"],
        path: str,
        body: Any,
        *,
        needs: str = "",
    ) -> Shape:
        return decode_as(self.platform, await self.request(method, path, body, needs=needs), shape)

    async def items(
        self,
        item: type[Shape],
        path: str,
        *,
        needs: str = "",
        max_pages: int = MAX_PAGES,
        **query: Query,
    ) -> AsyncIterator[Shape]:
        """The items of all pages."""
        page_type: type[list[Shape]] = list[item]  # type: ignore[valid-type]
        async for page in self.pages(page_type, path, needs=needs, max_pages=max_pages, **query):
            for value in page:
                yield value

    async def pages(
        self,
        shape: type[Shape],
        path: str,
        *,
        needs: str = "",
        max_pages: int = MAX_PAGES,
        **query: Query,
    ) -> AsyncIterator[Shape]:
        """Each page, as long as the platform has a next one."""
        url = build_url(self._base_url, path, query)
        response = await self._request("GET", url, None, needs)
        async for page in self._pages(shape, url, response, "next", needs, max_pages):
            yield page

    async def pages_backwards(
        self,
        shape: type[Shape],
        path: str,
        *,
        needs: str = "",
        max_pages: int = MAX_PAGES,
        **query: Query,
    ) -> AsyncIterator[Shape]:
        """The last page first, each page in its own order.

        Items that move when others are deleted move to a page that is read later: none is missed.
        """
        url = build_url(self._base_url, path, query)
        response = await self._request("GET", url, None, needs)
        last = self._linked(url, response, "last")
        if last is None:
            # Either there is only one page, or the platform does not name the last one.
            forward = self._pages(shape, url, response, "next", needs, max_pages)
            for page in reversed([page async for page in forward]):
                yield page
            return
        response = await self._request("GET", last, None, needs)
        async for page in self._pages(shape, last, response, "prev", needs, max_pages):
            yield page

    async def _pages(
        self,
        shape: type[Shape],
        url: URL,
        response: Response,
        relation: Relation,
        needs: str,
        max_pages: int,
    ) -> AsyncIterator[Shape]:
        items = size_bytes = 0
        for _ in range(max_pages):
            page = decode_as(self.platform, response, shape)
            length = len(page) if isinstance(page, list) else 0
            items += length
            size_bytes += len(response.body)
            if length > MAX_PAGE_LENGTH or size_bytes > max_pages * MEAN_PAGE_BYTES:
                break
            yield page
            if self._numbers_pages:
                next_url = _next_number(url, response, items) if length else None
            else:
                next_url = self._linked(url, response, relation)
            if next_url is None:
                return
            url = next_url
            response = await self._request("GET", url, None, needs)
        raise ApiError(f"{self.platform} returned an endless list.", "unusable")

    async def request(
        self, method: str, path: str, body: Any = None, *, needs: str = "", **query: Query
    ) -> Response:
        """A successful response. Raises PlatformError, or ApiError for errors of the platform."""
        url = build_url(self._base_url, path, query)
        return await self._request(method, url, body, needs, is_page=False)

    async def _request(
        self, method: str, url: URL, body: Any, needs: str, *, is_page: bool = True
    ) -> Response:
        attempt = 0
        has_renewed = False
        replication_waits = iter(_REPLICATION_WAITS)
        while True:
            try:
                return await self._follow_redirects(method, url, body, needs, is_page=is_page)
            except ApiError as error:
                if await self._wait_for_replication(error, replication_waits):
                    continue
                if error.fault == "unauthorized" and not has_renewed and self._renew():
                    has_renewed = True
                    continue
                may_repeat = method in _REPEATABLE or error.is_unprocessed
                if not may_repeat or not await self.retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    async def _wait_for_replication(self, error: ApiError, waits: Iterator[float]) -> bool:
        """Whether the request should be repeated with the same credential."""
        if error.fault not in {"unauthorized", "denied"} or not self._is_fresh():
            return False
        seconds = next(waits, None)
        if seconds is None:
            return False
        await self.retry_budget.pause(
            f"{self.platform} does not accept a new credential yet ({error.status})", seconds
        )
        return True

    async def _follow_redirects(
        self, method: str, url: URL, body: Any, needs: str, *, is_page: bool
    ) -> Response:
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._attempt(method, url, body, needs, is_page=is_page)
            if not is_redirect(response.status):
                return response
            url = self._resolve(url, response.headers.get("Location", ""))
        raise ApiError(f"{self.platform} redirects endlessly; check the address.", "unusable")

    async def _attempt(
        self, method: str, url: URL, body: Any, needs: str, *, is_page: bool
    ) -> Response:
        """Send one request; redirects that ask for the same request are returned, to be followed.

        Pages of lists are always sent whole: a page that has not changed says nothing about the
        pages after it.
        """
        now = self.retry_budget.time_of_day()
        self._traffic.check(self.platform, now, is_poll=self.retry_budget.is_poll)
        headers = _with_defaults(await self._headers())
        is_conditional = method == "GET" and not is_page
        cached = self._traffic.cached(str(url)) if is_conditional else None
        if cached is not None:
            headers["If-None-Match"] = cached.headers["ETag"]
        response = await self._send(method, url, headers, body)
        self._traffic.observe(response, now)
        if cached is not None and response.status == HTTPStatus.NOT_MODIFIED:
            return confirmed(cached, response)
        if is_conditional:
            self._traffic.remember(str(url), response)
        is_same_method = method == "GET" or response.status in _SAME_METHOD
        is_followed = is_same_method and is_redirect(response.status)
        if is_followed:
            return response
        if 200 <= response.status < 300:
            if response.body.strip() and is_web_page(response):
                raise not_an_api(self.platform, response.status)
            return response
        redacted = msgspec.structs.replace(
            response, body=redact_credentials(response.body, headers)
        )
        error = error_from(self.platform, redacted, needs, now)
        if error.is_rate_limit:
            self._traffic.block(error.retry_after_seconds, now)
        raise error

    async def _send(self, method: str, url: URL, headers: dict[str, str], body: Any) -> Response:
        payload = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method,
                url,
                headers=headers,
                data=payload,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            ) as received:
                content = await read_bounded(self.platform, received, MAX_RESPONSE_BYTES)
                return Response(received.status, CIMultiDict(received.headers), content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise connection_error(self.platform, self._origin, error) from None

    def _linked(self, url: URL, response: Response, relation: Relation) -> URL | None:
        """The address of another page of the list at `url`; None if there is none.

        Only the query of a link is taken: servers behind a proxy may name their own host, port or
        path in it.
        """
        link = link_url(response, relation)
        if link is None:
            return None
        query = link.partition("#")[0].partition("?")[2]
        try:
            return URL(f"{url.with_query(None)}?{query}", encoded=True)
        except ValueError:
            return url

    def _resolve(self, url: URL, address: str) -> URL:
        """Resolve a redirect. The credential is never sent to another host."""
        target = resolve_same_origin(self._origin, url, address)
        if target is None:
            raise ApiError(
                f"{self.platform} redirects to another host than {self._origin}, which is not"
                " followed; connect it by its canonical address.",
                "unusable",
            )
        return target


def _next_number(url: URL, response: Response, items: int) -> URL | None:
    """The page with the next number; None once all items were read."""
    total = parse_count(response.headers.get("X-Total-Count", ""))
    if total is not None and items >= total:
        return None
    return url.update_query(page=int(url.query.get("page", "1")) + 1)


def _with_defaults(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "Accept": "application/json",
        # Responses are not decompressed, so their size is bounded by what is read.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"agentjobs/{version('agentjobs')}",
        **headers,
    }
