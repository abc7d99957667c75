"""Every call of the service as data.

The synchronous and the asynchronous client share it, so that they cannot diverge.
"""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote

from agentjobs_client.call import (
    Call,
    Listing,
    Page,
    encode_body,
    list_reader,
    page_reader,
    read_bytes,
    read_text,
    reader,
)
from agentjobs_client.errors import ClientError
from agentjobs_client.models.base import Model
from agentjobs_client.models.jobs import (
    Artifact,
    Diff,
    Event,
    EventPage,
    Job,
    JobReceipt,
    Prompt,
    Step,
)
from agentjobs_client.models.organization import Caller, UsageReport
from agentjobs_client.models.repos import Agent, Dependency, Pull, Repo, Vulnerability

MAX_WAIT_SECONDS = 60
_JSON = {"Accept": "application/json"}

M = TypeVar("M", bound=Model)
Time = datetime | date | str


class JobOptions(TypedDict, total=False):
    """Optional fields of a new job. Without an `idempotency_key` one is generated."""

    ticket_id: str | None
    config_override: Mapping[str, Any] | None
    labels: Mapping[str, str] | None
    idempotency_key: str | None


class FollowUpOptions(TypedDict, total=False):
    """What a follow-up does not take from the job that it continues."""

    agent: str | None
    timeout_seconds: int | None
    max_cost_usd: float | None
    priority: str | None
    labels: Mapping[str, str] | None
    idempotency_key: str | None


class RetryOptions(TypedDict, total=False):
    """Without `labels`, the new job has those of the finished one."""

    labels: Mapping[str, str] | None
    idempotency_key: str | None


class JobFilters(TypedDict, total=False):
    """All given filters must hold; `created_after` is inclusive, `created_before` exclusive."""

    status: str | Iterable[str] | None
    repo: str | None
    agent: str | None
    ticket_id: str | None
    follows: str | None
    labels: Mapping[str, str] | None
    created_after: Time | None
    created_before: Time | None


class StepFilters(TypedDict, total=False):
    """`after` is the `sequence` of the last known step."""

    kind: str | None
    after: int | None


class DependencyFilters(TypedDict, total=False):
    ecosystem: str | None
    direct: bool | None
    vulnerable: bool | None
    fixture: bool | None
    imported: str | None
    search: str | None


class PullFilters(TypedDict, total=False):
    repo: str | None
    state: str | None
    job_id: str | None


class MergeOptions(TypedDict, total=False):
    """`method` is merge, squash or rebase. With `head_commit`, only this head is merged."""

    method: str | None
    head_commit: str | None


class VulnerabilityFilters(TypedDict, total=False):
    """`dismissed` is true for what is dismissed or snoozed."""

    repo: str | None
    severity: str | None
    dismissed: bool | None
    fixture: bool | None
    search: str | None


class DismissOptions(TypedDict, total=False):
    """With `until`, a time such as 2026-01-31T09:30:00Z or a date, it is only snoozed."""

    note: str | None
    until: str | None


def list_agents() -> Call[list[Agent]]:
    return Call("GET", "/agents", list_reader(Agent, "agents"))


def get_agent(agent_id: str) -> Call[Agent]:
    return Call("GET", _path("agents", agent_id), reader(Agent))


def list_repos() -> Call[list[Repo]]:
    return Call("GET", "/repos", list_reader(Repo, "repos"))


def get_repo(repo: str) -> Call[Repo]:
    # Some proxies refuse an encoded slash.
    return Call("GET", _path("repos", *repo.split("/")), reader(Repo))


def list_dependencies(repo_id: str, filters: DependencyFilters) -> Listing[Dependency]:
    params = _texts(_given(filters, DependencyFilters))
    return _listing(_path("repos", repo_id, "dependencies"), "dependencies", Dependency, params)


def get_caller() -> Call[Caller]:
    return Call("GET", "/me", reader(Caller))


def get_usage(since: Time | None, until: Time | None, group_by: str | None) -> Call[UsageReport]:
    params = {"from": since, "to": until, "group_by": group_by}
    return Call("GET", "/usage", reader(UsageReport), _texts(params))


def create_job(repo: str, agent: str, options: JobOptions) -> Call[JobReceipt]:
    return _new_job("/jobs", {"repo": repo, "agent": agent}, options, JobOptions)


def follow_up(job_id: str, prompt: str, options: FollowUpOptions) -> Call[JobReceipt]:
    path = _path("jobs", job_id, "follow-ups")
    return _new_job(path, {"prompt": prompt}, options, FollowUpOptions)


def retry_job(job_id: str, options: RetryOptions) -> Call[JobReceipt]:
    return _new_job(_path("jobs", job_id, "retry"), {}, options, RetryOptions)


def get_job(
    job_id: str, wait_seconds: float | None = None, wait_for: str | None = None
) -> Call[Job]:
    path = _path("jobs", job_id)
    if wait_seconds is None:
        return Call("GET", path, reader(Job))
    seconds = max(0, min(int(wait_seconds), MAX_WAIT_SECONDS))
    # A service that does not know `wait_for` ignores it.
    params = _texts({"wait_seconds": seconds, "wait_for": wait_for})
    return Call("GET", path, reader(Job), params, wait_seconds=seconds)


def list_jobs(filters: JobFilters) -> Listing[Job]:
    given = _given(filters, JobFilters)
    labels = given.pop("labels", {})
    params = given | {f"label.{key}": value for key, value in labels.items()}
    return _listing("/jobs", "jobs", Job, _texts(params), limit=100)


def cancel_job(job_id: str) -> Call[Job]:
    return Call("POST", _path("jobs", job_id, "cancel"), reader(Job))


def list_job_events(job_id: str) -> Call[list[Event]]:
    return Call("GET", _path("jobs", job_id, "events"), list_reader(Event, "events"))


def list_events(cursor: str | None, wait_seconds: int) -> Call[EventPage]:
    params = {"cursor": cursor, "limit": 1000, "wait_seconds": wait_seconds or None}
    return Call(
        "GET", "/events", reader(EventPage), _texts(params), wait_seconds=float(wait_seconds)
    )


def get_prompt(job_id: str) -> Call[Prompt]:
    return Call("GET", _path("jobs", job_id, "prompt"), reader(Prompt))


def get_logs(job_id: str, timestamps: bool, tail_bytes: int | None = None) -> Call[str]:
    headers = {"Accept": "text/plain"}
    params = _texts({"timestamps": timestamps or None, "tail_bytes": tail_bytes})
    return Call("GET", _path("jobs", job_id, "logs"), read_text, params, headers)


def follow_logs(job_id: str, timestamps: bool, last_event_id: str) -> Call[str]:
    headers = {"Accept": "text/event-stream"}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
    params = _texts({"timestamps": timestamps or None})
    return Call("GET", _path("jobs", job_id, "logs"), read_text, params, headers)


def list_steps(job_id: str, filters: StepFilters) -> Listing[Step]:
    params = _texts(_given(filters, StepFilters))
    return _listing(_path("jobs", job_id, "steps"), "steps", Step, params, limit=200)


def get_diff_text(job_id: str) -> Call[str]:
    return Call("GET", _path("jobs", job_id, "diff"), read_text, headers={"Accept": "text/x-diff"})


def get_diff(job_id: str) -> Call[Diff]:
    return Call("GET", _path("jobs", job_id, "diff"), reader(Diff), headers=_JSON)


def list_artifacts(job_id: str) -> Call[list[Artifact]]:
    return Call("GET", _path("jobs", job_id, "artifacts"), list_reader(Artifact, "artifacts"))


def get_artifact(job_id: str, name: str) -> Call[bytes]:
    return Call("GET", _path("jobs", job_id, "artifacts", name), read_bytes)


def list_pulls(filters: PullFilters) -> Listing[Pull]:
    params = _texts(_given(filters, PullFilters))
    return _listing("/pulls", "pulls", Pull, params, limit=100)


def get_pull(pull_id: str) -> Call[Pull]:
    return Call("GET", _path("pulls", pull_id), reader(Pull))


def merge_pull(pull_id: str, options: MergeOptions) -> Call[Pull]:
    return Call(
        "POST",
        _path("pulls", pull_id, "merge"),
        reader(Pull),
        headers={"Content-Type": "application/json"},
        content=encode_body(_given(options, MergeOptions)),
    )


def close_pull(pull_id: str) -> Call[Pull]:
    return Call("POST", _path("pulls", pull_id, "close"), reader(Pull))


def list_vulnerabilities(filters: VulnerabilityFilters) -> Listing[Vulnerability]:
    params = _texts(_given(filters, VulnerabilityFilters))
    return _listing("/vulnerabilities", "vulnerabilities", Vulnerability, params, limit=100)


def dismiss_vulnerability(
    vulnerability_id: str, reason: str, options: DismissOptions
) -> Call[Vulnerability]:
    return Call(
        "POST",
        _path("vulnerabilities", vulnerability_id, "dismiss"),
        reader(Vulnerability),
        headers={"Content-Type": "application/json"},
        content=encode_body({"reason": reason, **_given(options, DismissOptions)}),
    )


def reopen_vulnerability(vulnerability_id: str) -> Call[Vulnerability]:
    return Call("POST", _path("vulnerabilities", vulnerability_id, "reopen"), reader(Vulnerability))


def _new_job(
    path: str, body: Mapping[str, Any], options: Mapping[str, Any], known: type
) -> Call[JobReceipt]:
    given = _given(options, known)
    # Without it, retrying a call whose response was lost would create a second job.
    key = given.pop("idempotency_key", None) or str(uuid.uuid4())
    if not (key.isascii() and key.isprintable()):
        raise ClientError("the idempotency key must consist of printable ASCII characters")
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    content = encode_body({**body, **given})
    return Call("POST", path, reader(JobReceipt), headers=headers, content=content)


def _listing(
    path: str, name: str, kind: type[M], params: Mapping[str, str], limit: int = 1000
) -> Listing[M]:
    def page(cursor: str | None) -> Call[Page[M]]:
        more = _texts({"limit": limit, "cursor": cursor})
        return Call("GET", path, page_reader(kind, name), {**params, **more})

    return page


def _path(*segments: str) -> str:
    return "/" + "/".join(_segment(segment) for segment in segments)


def _segment(text: str) -> str:
    if not text:
        raise ClientError("an identifier in the call is empty")
    quoted = quote(text, safe="", errors="replace")
    # Otherwise these would be removed from the URL, together with what precedes them.
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def _given(options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """The options that are not None. Type checkers find unknown names earlier."""
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    return {name: value for name, value in options.items() if value is not None}


def _texts(params: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(name, value) for name, value in params.items() if value is not None}


def _text(name: str, value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case datetime():
            if value.tzinfo is None:
                raise ClientError(f"{name} has no time zone; use datetime.now(UTC) or the like")
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Iterable():
            return ",".join(value)
    return str(value)
