"""One request to a registry: bounded in bytes and time, and never led away to another host.

Knows HTTP and its failures; what an answer means is the dialects'.
"""

import aiohttp
import msgspec
from yarl import URL

from agentjobs.advisories.registries.versions import InvalidResponse

TIMEOUT_SECONDS = 20
CONNECT_SECONDS = 10
# `/simple/Requests` leads to `/simple/requests/`, say.
MAX_REDIRECTS = 3

_ABSENT = frozenset({404, 410, 451})
_TIMEOUT = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=CONNECT_SECONDS)


class NoAnswer(Exception):
    """Nothing came from there, and so might it be for other packages; the message says why."""


class Answer(msgspec.Struct, frozen=True):
    content_type: str
    body: bytearray


async def ask(
    session: aiohttp.ClientSession, url: URL, accept: str, most_bytes: int
) -> Answer | None:
    """None: there is no such page. Raises NoAnswer or InvalidResponse."""
    # Nothing here undoes compression, so a small answer stays a small one.
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    for _ in range(MAX_REDIRECTS + 1):
        try:
            async with session.get(
                url, headers=headers, allow_redirects=False, timeout=_TIMEOUT
            ) as response:
                if not 300 <= response.status < 400:
                    return await _read(response, most_bytes)
                url = _followed(url, response.headers.get("Location", ""))
        except TimeoutError:
            raise NoAnswer(f"no answer within {TIMEOUT_SECONDS} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Why a connection failed, or was not even tried, is told inside.
            told = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            raise NoAnswer(f"{type(told).__name__}: {told}") from None
    raise InvalidResponse(f"it redirects more than {MAX_REDIRECTS} times")


def _followed(url: URL, location: str) -> URL:
    try:
        target = url.join(URL(location, encoded=True))
    except ValueError:
        raise InvalidResponse("it redirects to what is no address") from None
    if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
        raise InvalidResponse(f"it redirects to {target.scheme}://{target.host}, another host")
    # A password given with the registry's address goes on to the same host only.
    return target.with_user(url.user).with_password(url.password)


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> Answer | None:
    if response.status in _ABSENT:
        return None
    if response.status != 200:
        raise InvalidResponse(f"it answered {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}:
        raise InvalidResponse("it answered compressed, which was not asked for")
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most_bytes:
            raise InvalidResponse(f"its answer is longer than {most_bytes // (1024 * 1024)} MiB")
    return Answer(response.headers.get("Content-Type", ""), body)
