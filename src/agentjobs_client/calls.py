"""What both clients say to the service: each call as data, and when to repeat a failed one.

Opens no connection, so that the sync and the async client cannot drift apart.
"""

import os
import random
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec

from agentjobs_client.errors import ApiError, ClientError, ServiceUnreachable

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_RETRIES = 4
LONGEST_WAIT_SECONDS = 60
_LONGEST_PAUSE_SECONDS = 30.0
# Refusals that pass by themselves. 409 is only the second copy of a call that still runs.
_PASSING_CODES = frozenset({"rate_limited", "unavailable", "idempotency_in_progress"})
_PASSING_STATUSES = frozenset({502, 503, 504})


class Call(NamedTuple):
    method: str
    path: str
    params: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    extra_seconds: float = 0.0


def address(base_url: str) -> str:
    """The base address with its version segment, whether or not it was given."""
    stem = base_url.strip().rstrip("/")
    try:
        url = httpx.URL(stem)
        usable = url.scheme in {"http", "https"} and bool(url.host)
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise ClientError(f"{base_url!r} is no address of a service; it looks like http://…/v1")
    return stem if stem.endswith("/v1") else f"{stem}/v1"


def from_environment(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Base address and key from AGENTJOBS_URL and AGENTJOBS_API_KEY."""
    environ = os.environ if environ is None else environ
    base_url, api_key = environ.get("AGENTJOBS_URL"), environ.get("AGENTJOBS_API_KEY")
    if not base_url:
        raise ClientError("set AGENTJOBS_URL to the address of the service, such as http://…/v1")
    if not api_key:
        raise ClientError("set AGENTJOBS_API_KEY to a key made with `agentjobs keys create`")
    return base_url, api_key


def base_headers(api_key: str) -> dict[str, str]:
    if not api_key.isascii() or not api_key.isprintable():
        raise ClientError("the API key holds characters that no key has; was it copied whole?")
    return {"Authorization": f"Bearer {api_key}", "User-Agent": "agentjobs-client"}


def create_job(
    repo: str,
    agent: str,
    ticket_id: str | None,
    config_override: Mapping[str, Any] | None,
    idempotency_key: str | None,
) -> Call:
    body: dict[str, Any] = {"repo": repo, "agent": agent}
    if ticket_id is not None:
        body["ticket_id"] = ticket_id
    if config_override is not None:
        body["config_override"] = dict(config_override)
    headers = {
        "Content-Type": "application/json",
        # Without it, repeating a call whose answer was lost would make a second job.
        "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
    }
    return Call("POST", "/jobs", headers=headers, content=msgspec.json.encode(body))


def job_path(job_id: str, *more: str) -> str:
    return "/".join(("/jobs", quote(job_id, safe=""), *more))


def get_job(job_id: str, wait_seconds: float | None) -> Call:
    if wait_seconds is None:
        return Call("GET", job_path(job_id))
    seconds = max(0, min(int(wait_seconds), LONGEST_WAIT_SECONDS))
    params = {"wait_seconds": str(seconds)}
    return Call("GET", job_path(job_id), params=params, extra_seconds=seconds)


def list_jobs(filters: Mapping[str, str | None], cursor: str | None) -> Call:
    given = {**filters, "limit": "100", "cursor": cursor}
    params = {name: value for name, value in given.items() if value is not None}
    return Call("GET", "/jobs", params=params)


def follow_logs(job_id: str, last_event_id: str) -> Call:
    headers = {"Accept": "text/event-stream"}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
    return Call("GET", job_path(job_id, "logs"), headers=headers)


def unreachable(base_url: object, error: Exception) -> ServiceUnreachable:
    reason = str(error) or type(error).__name__
    return ServiceUnreachable(f"{base_url} does not answer: {reason}")


def pause_before_repeat(error: ClientError, failures: int) -> float | None:
    """Seconds to wait before the same call may succeed; None when it never will."""
    backoff: float = min(0.2 * 2**failures, 5.0) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
    if isinstance(error, ServiceUnreachable):
        return backoff
    if isinstance(error, ApiError) and (
        error.code in _PASSING_CODES or error.status in _PASSING_STATUSES
    ):
        asked = error.retry_after_seconds
        return min(backoff if asked is None else max(asked, backoff), _LONGEST_PAUSE_SECONDS)
    return None
