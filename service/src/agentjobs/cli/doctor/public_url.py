"""Checks of `agentjobs doctor` whether the public URL leads to this service."""

import asyncio
import json
import os
import ssl
from collections.abc import Collection
from http import HTTPStatus
from typing import TYPE_CHECKING

from agentjobs.cli.doctor.finding import Finding, State

if TYPE_CHECKING:
    import aiohttp

    from agentjobs.store.database import Database
    from agentjobs_runtime.settings import Settings

SUBJECT = "address"
_SECONDS = 10.0
_MAX_BYTES = 64 * 1024
# A proxy may compress otherwise.
_HEADERS = {"Accept-Encoding": "identity"}
_SETTING = "AGENTJOBS_PUBLIC_URL"
_GATEWAY_ERRORS = frozenset(
    {
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_SIGN_IN = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    }
)


async def check_public_url(settings: "Settings", db: "Database | None") -> list[Finding]:
    """Without a database, only a URL that was configured is tried."""
    from agentjobs.fleet.processes import running_instances
    from agentjobs.organizations.effective_settings import load_public_url

    if db is None:
        url = settings.effective_public_url
        return [await try_public_url(settings, url, None)] if settings.public_url else []
    url = await load_public_url(db, settings)
    instances = await running_instances(db)
    if not instances:
        reason = f"{url} was not tried: no `agentjobs serve` or `up` is running on this database"
        return [Finding(SUBJECT, "note", f"{reason}; start one")]
    return [await try_public_url(settings, url, instances)]


async def try_public_url(
    settings: "Settings", url: str, instances: Collection[str] | None
) -> Finding:
    """`instances` are those of the processes on this database; None if that is unknown."""
    import aiohttp

    try:
        async with asyncio.timeout(_SECONDS), _session(settings) as session:
            target = f"{url}/healthz"
            async with session.get(target, headers=_HEADERS, allow_redirects=False) as response:
                body = await _read(response)
                location = response.headers.get("Location", "")
                state, text = _judge_response(response.status, location, body, instances)
    except (TimeoutError, OSError, ValueError, aiohttp.ClientError) as error:
        state, text = "problem", _explain_failure(url, error)
    return Finding(SUBJECT, state, f"{url} {text}")


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    """The first part of a body that may have any size."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            break
    return bytes(body)


def _session(settings: "Settings") -> "aiohttp.ClientSession":
    """Like git of workers: the operator chose the address, so that it may be a private one."""
    import aiohttp

    from agentjobs_runtime.outbound.guard.sessions import load_tls_context

    connector = aiohttp.TCPConnector(ssl=load_tls_context(settings.ca_file))
    return aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=False)


def _judge_response(
    status: int, location: str, body: bytes, instances: Collection[str] | None
) -> tuple[State, str]:
    document = _parse(body)
    if status == HTTPStatus.OK and document.get("status") == "ok":
        return _judge_instance(document.get("instance"), instances)
    return "problem", _explain_status(status, location, is_page=body.lstrip()[:1] == b"<")


def _judge_instance(instance: object, instances: Collection[str] | None) -> tuple[State, str]:
    if instances is None:
        return "ok", "leads to an agentjobs"
    if isinstance(instance, str) and instance in instances:
        return "ok", "leads to this service"
    if instance is None:
        return "note", "leads to an older agentjobs, which does not say whether it is this one"
    return "problem", (
        f"leads to another agentjobs, with another database: correct {_SETTING}, or the"
        " database_url of one of them"
    )


def _explain_status(status: int, location: str, *, is_page: bool) -> str:
    answer = _describe_status(status)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        target = f" to {location[:200]}" if location else ""
        return (
            f"redirects{target} ({answer}), which workers and clients do not follow: set"
            f" {_SETTING} to the final address, and let the proxy forward all paths"
        )
    if status in _GATEWAY_ERRORS:
        return (
            f"is a proxy that does not reach the service ({answer}): check that `agentjobs serve`"
            " runs, and the address to which the proxy forwards"
        )
    if status in _SIGN_IN:
        return (
            f"requires a sign-in of its own ({answer}): let the proxy pass all requests, because"
            " agentjobs checks keys and sessions itself"
        )
    what = "a web page" if is_page else "another service"
    return f"leads to {what} ({answer}) instead of agentjobs: correct {_SETTING}"


def _explain_failure(url: str, error: Exception) -> str:
    """Why there was no response."""
    import aiohttp

    match error:
        case TimeoutError():
            reason = f"did not answer within {_SECONDS:.0f} seconds: check firewalls and the proxy"
        case aiohttp.ClientConnectorDNSError():
            reason = (
                f"has a host name that cannot be resolved ({_reason(error.os_error)}): correct"
                f" {_SETTING} or the DNS"
            )
        case aiohttp.ClientConnectorCertificateError():
            reason = _explain_certificate(error.certificate_error)
        case aiohttp.ClientConnectorSSLError():
            reason = _explain_tls(url, error.os_error)
        case aiohttp.ClientConnectorError():
            reason = (
                f"cannot be reached from this machine ({_reason(error.os_error)}): check that"
                f" `agentjobs serve` or its proxy listens there, and {_SETTING}"
            )
        case aiohttp.InvalidURL() | ValueError():
            # The URL, or the certificates of the operator.
            reason = f"was not tried: {error}"
        case _:
            is_plain = url.startswith("http:")
            hint = "; if it uses TLS, the URL must start with https://" if is_plain else ""
            name = type(error).__name__
            reason = f"does not answer with HTTP ({name}): correct {_SETTING}{hint}"
    return reason


def _reason(error: OSError) -> str:
    """The system's message, because Python's names its own functions."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _explain_certificate(error: Exception) -> str:
    reason = getattr(error, "verify_message", "") or str(error)
    if "expired" in reason or "not yet valid" in reason:
        return (
            f"has a certificate that is not valid now ({reason}): check the clock of this machine,"
            " then renew the certificate"
        )
    if "mismatch" in reason or "not valid for" in reason:
        return (
            f"has a certificate for another name ({reason}): correct {_SETTING}, or the certificate"
        )
    return (
        f"has a certificate that is not trusted ({reason}): name the CA certificates of your own"
        " authority in AGENTJOBS_CA_FILE, and let the proxy send the intermediate ones"
    )


def _explain_tls(url: str, error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        plain = url.replace("https://", "http://", 1)
        return f"does not use TLS: set {_SETTING} to {plain}, or let a proxy terminate TLS there"
    return f"refuses the TLS connection ({reason}): check the TLS settings of the proxy"


def _describe_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _parse(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
