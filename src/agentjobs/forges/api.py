"""A platform's JSON API: bounded answers, faults told apart, asked again as long as patience lasts.

All adapters speak through it. Knows no platform's paths; credentials pass through as headers and
never get into a message.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from agentjobs.forges.api_answers import (
    Answer,
    ApiError,
    fault_of,
    is_redirect,
    next_page,
    value_of,
)
from agentjobs.forges.api_faults import bounded_body, connection_fault, without_credentials
from agentjobs.forges.protocol import ForgeError
from agentjobs.forges.words import plain, shown

__all__ = ["ApiError", "Headers", "Patience", "PlatformApi", "path_of"]

ANSWER_BYTES = 8 * 2**20
REQUEST_SECONDS = 30.0
MOST_REDIRECTS = 3
MOST_PAGES = 1_000
LONGEST_BACKOFF_SECONDS = 60.0
# Asking twice changes nothing that asking once does not.
_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})

Headers = Callable[[], Awaitable[Mapping[str, str]]]
Query = str | int | bool | None
Shape = TypeVar("Shape")


def _say_nothing(_: str) -> None:
    pass


class Patience:
    """How long trouble may be sat out in all, counted from the moment in which this is made.

    `say` is told before each wait. One for each piece of work: it runs out.
    """

    def __init__(
        self,
        seconds: float,
        say: Callable[[str], None] = _say_nothing,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.time_of_day = time_of_day
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._ends_at = clock() + seconds

    async def wait(self, trouble: str, attempt: int, asked_seconds: float = 0.0) -> bool:
        """False at once if what is left is too short; `attempt` counts from 0."""
        backoff = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(attempt, 10))
        # Those who met the trouble together shall not come back together.
        seconds = max(backoff, asked_seconds) + backoff * random.random() / 4  # noqa: S311 - a pace, no secret
        if self._clock() + seconds > self._ends_at:
            return False
        self._say(f"{trouble}; trying again in {round(seconds)} s")
        await self._sleep(seconds)
        return True

    async def outlasts(self, error: ApiError, attempt: int) -> bool:
        """Whether to ask once more now, after the wait that this takes."""
        if not error.may_pass:
            return False
        return await self.wait(error.trouble, attempt, error.wait_seconds)


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
        patience: Patience,
        renew: Callable[[], bool] = lambda: False,
    ) -> None:
        self.platform = platform
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._origin = URL(self._base_url).origin()
        self._headers = headers
        self._patience = patience
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

    async def pages(self, path: str, *, needs: str = "", **query: Query) -> AsyncIterator[Any]:
        """Each page's whole value, as long as the answer names a next one."""
        url = self._url(path, query)
        seen = {url}
        while True:
            answer = await self._ask("GET", url, None, needs)
            yield value_of(self.platform, answer)
            following = next_page(answer)
            if following is None:
                return
            url = self._same_origin(url, following)
            if url in seen or len(seen) >= MOST_PAGES:
                raise ApiError(f"{self.platform} lists without an end.", "refused")
            seen.add(url)

    async def ask(
        self, method: str, path: str, body: Any = None, *, needs: str = "", **query: Query
    ) -> Answer:
        """A success, with its headers. Raises ForgeError, an ApiError if the platform said it."""
        return await self._ask(method, self._url(path, query), body, needs)

    def shaped(self, value: Any, kind: type[Shape]) -> Shape:
        """What was answered, as the type says that it looks. Raises ForgeError."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            words = (
                f"{self.platform} answered in a way that is not known here ({shown(str(error))})"
            )
            raise ForgeError(f"{words}; check the address and its version.") from None

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
                if not may_repeat or not await self._patience.outlasts(error, attempt):
                    raise
            attempt += 1

    async def _follow(self, method: str, url: URL, body: Any, needs: str) -> Answer:
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._once(method, url, body, needs)
            if not is_redirect(answer.status):
                return answer
            url = self._same_origin(url, answer.headers.get("Location", ""))
        raise ApiError(f"{self.platform} redirects in a circle; check the address.", "refused")

    async def _once(self, method: str, url: URL, body: Any, needs: str) -> Answer:
        """One request; a redirect is an answer where it may be followed."""
        headers = _complete(await self._headers())
        answer = await self._send(method, url, headers, body)
        is_followed = method == "GET" and is_redirect(answer.status)
        if 200 <= answer.status < 300 or is_followed:
            return answer
        quotable = msgspec.structs.replace(answer, body=without_credentials(answer.body, headers))
        raise fault_of(self.platform, quotable, needs, self._patience.time_of_day())

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

    def _url(self, path: str, query: Mapping[str, Query]) -> URL:
        given = {name: value for name, value in query.items() if value is not None}
        pairs = [f"{quote(name)}={_written(value)}" for name, value in given.items()]
        asked = f"?{'&'.join(pairs)}" if pairs else ""
        return URL(f"{self._base_url}{path}{asked}", encoded=True)

    def _same_origin(self, url: URL, address: str) -> URL:
        """The credential goes to the host it was given for, and nowhere else."""
        try:
            target = url.join(URL(address, encoded=True)).with_fragment(None)
            is_same = target.origin() == self._origin and target.user is None
        except ValueError:
            target, is_same = url, False
        if not is_same:
            words = f"{self.platform} sends us away from {self._origin}, which is not followed"
            raise ApiError(f"{words}; connect the address that it calls its own.", "refused")
        return target


def path_of(*parts: str | int) -> str:
    """`/a/b/c`, whatever characters the parts have. Raises ForgeError for what is no name."""
    names = [str(part) for part in parts]
    if any(name in {"", ".", ".."} for name in names):
        raise ForgeError(f"{'/'.join(names)!r} is no name of anything on a platform.", "gone")
    return "".join(f"/{quote(plain(name), safe='')}" for name in names)


def _written(value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(plain(text), safe="")


def _complete(given: Mapping[str, str]) -> dict[str, str]:
    return {
        "Accept": "application/json",
        # Nothing here undoes compression, so a small answer stays a small one.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"agentjobs/{version('agentjobs')}",
        **given,
    }
