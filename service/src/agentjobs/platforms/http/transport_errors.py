"""Errors of connections to a platform, with messages for the person who set up the connection.

Messages of aiohttp are never passed on: they may contain a request's headers.
"""

import ssl

import aiohttp
from yarl import URL

from agentjobs.platforms.http.responses import ApiError
from agentjobs.platforms.text import one_line
from agentjobs_runtime.outbound.guard.addresses import BlockedAddress


def connection_error(platform: str, origin: URL, error: Exception) -> ApiError:
    """The error for any exception that aiohttp raises instead of returning a response."""
    if isinstance(error, TimeoutError):
        return _unavailable(f"{platform} at {origin} did not answer in time", is_unprocessed=False)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ApiError(_certificate_message(origin, error.certificate_error), "unusable")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _connect_error(platform, origin, error.os_error)
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        message = "The credential contains invalid characters; replace it."
        return ApiError(message, "unauthorized")
    summary = f"The connection to {platform} at {origin} was interrupted ({type(error).__name__})"
    return _unavailable(summary, is_unprocessed=False)


async def read_bounded(platform: str, response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Raises ApiError for a body that is too large, or compressed."""
    if response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}:
        message = f"{platform} returned a compressed response; check the address."
        raise ApiError(message, "unusable", status=response.status, is_unprocessed=False)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            message = f"{platform} returned more than {max_bytes // 2**20} MiB."
            raise ApiError(message, "unusable", status=response.status, is_unprocessed=False)
    return bytes(body)


def redact_credentials(body: bytes, headers: dict[str, str]) -> bytes:
    """Keep credentials that a server echoes out of messages."""
    for value in headers.values():
        for secret in {value, value.rpartition(" ")[2]}:
            if len(secret) >= 8:
                body = body.replace(secret.encode(), b"(redacted)")
    return body


def _connect_error(platform: str, origin: URL, error: OSError) -> ApiError:
    if isinstance(error, BlockedAddress):
        return ApiError(f"{error}. Ask the operator to allow it.", "unusable")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ApiError(_certificate_message(origin, error), "unusable")
    reason = one_line(error.strerror or type(error).__name__, 100)
    return _unavailable(
        f"{platform} at {origin} could not be reached ({reason})", is_unprocessed=True
    )


def _certificate_message(origin: URL, error: Exception) -> str:
    reason = getattr(error, "verify_message", "") or "its certificate is not valid"
    return (
        f"{origin} has a certificate that is not trusted ({one_line(str(reason), 100)}); the "
        "operator can add its CA with AGENTJOBS_CA_FILE."
    )


def _unavailable(summary: str, *, is_unprocessed: bool) -> ApiError:
    return ApiError(f"{summary}; try again later.", "away", is_unprocessed=is_unprocessed)
