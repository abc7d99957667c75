"""The calls of both clients as data, and how their responses are parsed.

Does no I/O: the sync and the async client share it, so that they cannot diverge.
"""

import os
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from agentjobs_client.errors import (
    ApiError,
    ClientError,
    ServiceUnreachable,
    UnexpectedAnswer,
    error_from,
)
from agentjobs_client.models import Job

DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_WAIT_SECONDS = 60

T = TypeVar("T")


class Call(NamedTuple):
    method: str
    path: str
    params: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    extra_seconds: float = 0.0


def normalize_base_url(base_url: str) -> str:
    """The base URL with its version segment, which callers may omit."""
    stem = base_url.strip().rstrip("/")
    try:
        url = httpx.URL(stem)
        is_valid = url.scheme in {"http", "https"} and bool(url.host)
    except httpx.InvalidURL:
        is_valid = False
    if not is_valid:
        raise ClientError(f"{base_url!r} is not a valid base URL; use the form http://…/v1")
    return stem if stem.endswith("/v1") else f"{stem}/v1"


def needs_certificates(base_url: str) -> bool:
    """Loading them takes most of the time that it takes to create a client."""
    return httpx.URL(base_url).scheme != "http"


def from_environment(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Base URL and key from AGENTJOBS_URL and AGENTJOBS_API_KEY."""
    environ = os.environ if environ is None else environ
    base_url, api_key = environ.get("AGENTJOBS_URL"), environ.get("AGENTJOBS_API_KEY")
    if not base_url:
        raise ClientError("set AGENTJOBS_URL to the address of the service, such as http://…/v1")
    if not api_key:
        raise ClientError("set AGENTJOBS_API_KEY to a key from `agentjobs keys create`")
    return base_url, api_key


def base_headers(api_key: str) -> dict[str, str]:
    if not api_key.isascii() or not api_key.isprintable():
        raise ClientError("the API key contains invalid characters; check that it was copied whole")
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
    return _new_job("/jobs", body, idempotency_key)


def follow_up(
    job_id: str,
    prompt: str,
    agent: str | None,
    timeout_seconds: int | None,
    max_cost_usd: float | None,
    priority: str | None,
    idempotency_key: str | None,
) -> Call:
    given = {
        "prompt": prompt,
        "agent": agent,
        "timeout_seconds": timeout_seconds,
        "max_cost_usd": max_cost_usd,
        "priority": priority,
    }
    body = {name: value for name, value in given.items() if value is not None}
    return _new_job(job_path(job_id, "follow-ups"), body, idempotency_key)


def _new_job(path: str, body: Mapping[str, Any], idempotency_key: str | None) -> Call:
    headers = {
        "Content-Type": "application/json",
        # Without it, retrying a call whose response was lost would create a second job.
        "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
    }
    return Call("POST", path, headers=headers, content=msgspec.json.encode(body))


def job_path(job_id: str, *more: str) -> str:
    return "/".join(("/jobs", quote(job_id, safe=""), *more))


def get_job(job_id: str, wait_seconds: float | None) -> Call:
    if wait_seconds is None:
        return Call("GET", job_path(job_id))
    seconds = max(0, min(int(wait_seconds), MAX_WAIT_SECONDS))
    params = {"wait_seconds": str(seconds)}
    return Call("GET", job_path(job_id), params=params, extra_seconds=seconds)


def list_jobs(filters: Mapping[str, str | None], cursor: str | None) -> Call:
    return _page("/jobs", filters, "100", cursor)


def dependency_filters(
    ecosystem: str | None, direct: bool | None, vulnerable: bool, search: str | None
) -> dict[str, str | None]:
    return {
        "ecosystem": ecosystem,
        "direct": None if direct is None else str(direct).lower(),
        "vulnerable": "true" if vulnerable else None,
        "search": search,
    }


def list_dependencies(repo_id: str, filters: Mapping[str, str | None], cursor: str | None) -> Call:
    path = f"/repos/{quote(repo_id, safe='')}/dependencies"
    return _page(path, filters, "1000", cursor)


def _page(path: str, filters: Mapping[str, str | None], limit: str, cursor: str | None) -> Call:
    given = {**filters, "limit": limit, "cursor": cursor}
    params = {name: value for name, value in given.items() if value is not None}
    return Call("GET", path, params=params)


def get_logs(job_id: str, timestamps: bool) -> Call:
    params = {"timestamps": "true"} if timestamps else {}
    headers = {"Accept": "text/plain"}
    return Call("GET", job_path(job_id, "logs"), params=params, headers=headers)


def follow_logs(job_id: str, timestamps: bool, last_event_id: str) -> Call:
    headers = {"Accept": "text/event-stream"}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
    return get_logs(job_id, timestamps)._replace(headers=headers)


def unreachable(base_url: object, error: Exception) -> ServiceUnreachable:
    reason = str(error) or type(error).__name__
    return ServiceUnreachable(f"{base_url} cannot be reached: {reason}")


def request(
    http: httpx.Client | httpx.AsyncClient, call: Call, timeout_seconds: float
) -> httpx.Request:
    return http.build_request(
        call.method,
        call.path,
        params=dict(call.params),
        headers=dict(call.headers),
        content=call.content,
        timeout=timeout_seconds + call.extra_seconds,
    )


def check_success(response: httpx.Response) -> httpx.Response:
    """The response, whose body must have been read. Raises for an error response."""
    if not response.is_success:
        raise error_from(response)
    return response


def check_event_stream(response: httpx.Response) -> None:
    """Any other content would be read as a log without end."""
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        raise UnexpectedAnswer(
            f"{response.url} did not return an event stream", status=response.status_code
        )


def read(response: httpx.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswer(
            f"{response.request.method} {response.url} returned an unexpected body: {error}",
            status=response.status_code,
        ) from None


def may_be_cancelled_already(error: ApiError, failures: int) -> bool:
    """Whether an earlier attempt may have cancelled the job and only its response was lost."""
    return failures > 0 and error.code == "job_finished"


def cancelled_or_raise(job: Job, refusal: ApiError) -> Job:
    if job.status != "cancelled":
        raise refusal
    return job
