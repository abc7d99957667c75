"""Why no whole answer came from a platform, in words for those who set the connection up.

Nothing of what aiohttp says is passed on unread: its errors may hold a request's headers.
"""

import ssl

import aiohttp
from yarl import URL

from agentjobs.forges.http.responses import ApiError
from agentjobs.forges.text import shown
from agentjobs.outbound.guard.addresses import BlockedAddress


def connection_fault(platform: str, origin: URL, error: Exception) -> ApiError:
    """Whatever aiohttp raises instead of an answer."""
    if isinstance(error, TimeoutError):
        return _away(f"{platform} at {origin} did not answer in time", is_undone=False)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ApiError(_untrusted(origin, error.certificate_error), "refused")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _not_reached(platform, origin, error.os_error)
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        words = "The credential has characters that no credential has; give the connection another."
        return ApiError(words, "unauthorized")
    trouble = f"The connection to {platform} at {origin} was cut ({type(error).__name__})"
    return _away(trouble, is_undone=False)


async def bounded_body(platform: str, response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Raises ApiError if it is larger, or compressed, which was not asked for."""
    if response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}:
        words = f"{platform} answered compressed, which was not asked for; check the address."
        raise ApiError(words, "refused", status=response.status, is_undone=False)
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most_bytes:
            words = f"{platform} answered with more than {most_bytes // 2**20} MiB."
            raise ApiError(words, "refused", status=response.status, is_undone=False)
    return bytes(body)


def without_credentials(body: bytes, headers: dict[str, str]) -> bytes:
    """A server that tells back what it was shown does not get it into our messages."""
    for value in headers.values():
        for secret in {value, value.rpartition(" ")[2]}:
            if len(secret) >= 8:
                body = body.replace(secret.encode(), b"(hidden)")
    return body


def _not_reached(platform: str, origin: URL, error: OSError) -> ApiError:
    if isinstance(error, BlockedAddress):
        return ApiError(f"{error}. Ask the operator to allow it.", "refused")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ApiError(_untrusted(origin, error), "refused")
    reason = shown(error.strerror or type(error).__name__, 100)
    return _away(f"{platform} at {origin} could not be reached ({reason})", is_undone=True)


def _untrusted(origin: URL, error: Exception) -> str:
    reason = getattr(error, "verify_message", "") or "its certificate is not valid"
    return (
        f"{origin} shows a certificate that is not trusted ({shown(str(reason), 100)}); the "
        "operator can add its authority with AGENTJOBS_CA_FILE."
    )


def _away(trouble: str, *, is_undone: bool) -> ApiError:
    words = f"{trouble}; try again later."
    return ApiError(words, "away", is_undone=is_undone, trouble=trouble)
