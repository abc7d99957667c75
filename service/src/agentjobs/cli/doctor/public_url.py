"""Checks of `agentjobs doctor` whether the public URL leads to this service."""

import asyncio
from collections.abc import Collection
from http import HTTPStatus

import aiohttp
import msgspec

from agentjobs.cli.doctor.finding import Finding
from agentjobs.fleet.processes import running_instances
from agentjobs.organizations.effective_settings import load_public_url
from agentjobs.store.database import Database
from agentjobs_runtime.outbound.guard.failures import describe_failure
from agentjobs_runtime.outbound.guard.sessions import load_tls_context
from agentjobs_runtime.settings import Settings

SUBJECT = "address"
_SECONDS = 10.0
_MAX_BYTES = 64 * 1024
# A proxy may compress otherwise.
_HEADERS = {"Accept-Encoding": "identity"}
_SETTING = "AGENTJOBS_PUBLIC_URL"


class _Health(msgspec.Struct):
    status: str = ""
    instance: str = ""


async def check_public_url(settings: Settings, db: Database | None) -> list[Finding]:
    """Without a database, only a URL that was configured is tried."""
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
    settings: Settings, url: str, instances: Collection[str] | None
) -> Finding:
    """`instances` are those of the processes on this database; None if that is unknown."""
    try:
        # Like git of workers: the operator chose the address, so that it may be a private one.
        connector = aiohttp.TCPConnector(ssl=load_tls_context(settings.ca_file))
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.get(f"{url}/healthz", headers=_HEADERS, allow_redirects=False) as response,
        ):
            problem = await _find_problem(response, instances)
    except aiohttp.ClientConnectorCertificateError as error:
        reason = getattr(error.certificate_error, "verify_message", "") or str(error)
        problem = (
            f"has a certificate that is not trusted ({reason}): renew it, correct {_SETTING}, or"
            " name the CA certificates of your own authority in AGENTJOBS_CA_FILE"
        )
    except (TimeoutError, OSError, ValueError, aiohttp.ClientError) as error:
        problem = (
            f"does not answer ({describe_failure(error)}): check {_SETTING}, DNS, firewalls, the"
            " proxy, and that `agentjobs serve` runs"
        )
    what = "an agentjobs" if instances is None else "this service"
    return Finding(
        SUBJECT, "problem" if problem else "ok", f"{url} {problem or f'leads to {what}'}"
    )


async def _find_problem(response: aiohttp.ClientResponse, instances: Collection[str] | None) -> str:
    """What answers instead of this service; empty if it does."""

    status = f"{response.status} {response.reason}"
    location = response.headers.get("Location", "")[:200]
    if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
        return (
            f"redirects to {location} ({status}), which workers and clients do not follow: set"
            f" {_SETTING} to the final address, and let the proxy forward all paths"
        )
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            break
    try:
        health = msgspec.json.decode(body, type=_Health)
    except (ValueError, RecursionError):
        health = _Health()
    if response.status != HTTPStatus.OK or health.status != "ok":
        return (
            f"is not answered by agentjobs ({status}): correct {_SETTING}, or let the proxy pass"
            " all requests to `agentjobs serve`, without a sign-in of its own"
        )
    if instances is not None and health.instance not in instances:
        return (
            f"leads to another agentjobs, with another database: correct {_SETTING}, or the"
            " database_url of one of them"
        )
    return ""
