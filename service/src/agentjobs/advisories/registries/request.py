"""One HTTP request to a registry, limited in bytes and time, without redirects to other hosts."""

import aiohttp
import msgspec
from yarl import URL

from agentjobs_dependencies.registries.versions import InvalidResponse
from agentjobs_runtime.outbound.guard.failures import describe_failure

TIMEOUT_SECONDS = 20
CONNECT_SECONDS = 10
# For example, `/simple/Requests` redirects to `/simple/requests/`.
MAX_REDIRECTS = 3

_ABSENT = frozenset({404, 410, 451})
_TIMEOUT = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=CONNECT_SECONDS)


class RegistryUnreachable(Exception):
    """No response; requests for other packages would probably fail, too."""


class RegistryResponse(msgspec.Struct, frozen=True):
    content_type: str
    body: bytearray


async def fetch(
    session: aiohttp.ClientSession, url: URL, accept: str, max_bytes: int
) -> RegistryResponse | None:
    """None if the page does not exist. Raises RegistryUnreachable or InvalidResponse."""
    # Without compression, the size limit also limits the decoded size.
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    for _ in range(MAX_REDIRECTS + 1):
        try:
            async with session.get(
                url, headers=headers, allow_redirects=False, timeout=_TIMEOUT
            ) as response:
                if not 300 <= response.status < 400:
                    return await _read(response, max_bytes)
                url = _redirect_target(url, response.headers.get("Location", ""))
        except TimeoutError:
            raise RegistryUnreachable(f"no response within {TIMEOUT_SECONDS} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RegistryUnreachable(describe_failure(error)) from None
    raise InvalidResponse(f"it redirects more than {MAX_REDIRECTS} times")


def _redirect_target(url: URL, location: str) -> URL:
    try:
        target = url.join(URL(location, encoded=True))
    except ValueError:
        raise InvalidResponse("it redirects to an invalid URL") from None
    if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
        raise InvalidResponse(f"it redirects to {target.scheme}://{target.host}, another host")
    # The registry's password is sent to the same host only.
    return target.with_user(url.user).with_password(url.password)


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> RegistryResponse | None:
    if response.status in _ABSENT:
        return None
    if response.status != 200:
        raise InvalidResponse(f"it responded with status {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}:
        raise InvalidResponse("its response is compressed, which was not requested")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise InvalidResponse(f"its response is larger than {max_bytes // (1024 * 1024)} MiB")
    return RegistryResponse(response.headers.get("Content-Type", ""), body)
