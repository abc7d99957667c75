"""A job's statuses, their transitions, and which error codes are worth a retry."""

from collections.abc import Mapping
from typing import Literal

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]

QUEUED: JobStatus = "queued"
RUNNING: JobStatus = "running"
COMPLETED: JobStatus = "completed"
FAILED: JobStatus = "failed"
CANCELLED: JobStatus = "cancelled"

STATUSES: tuple[JobStatus, ...] = (QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED)

TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    QUEUED: frozenset({RUNNING, CANCELLED, FAILED}),
    # Requeued when the worker is lost or drained.
    RUNNING: frozenset({COMPLETED, FAILED, CANCELLED, QUEUED}),
    COMPLETED: frozenset(),
    FAILED: frozenset(),
    CANCELLED: frozenset(),
}

FINAL: frozenset[JobStatus] = frozenset(
    status for status, following in TRANSITIONS.items() if not following
)

RETRYABLE: Mapping[str, bool] = {
    "no_changes": False,
    "agent_failed": True,
    "timeout": True,
    "budget_exceeded": False,
    "cancelled": True,
    "worker_lost": True,
    "push_rejected": True,
    "forge_error": True,
    "repo_unavailable": True,
    "sandbox_error": True,
    "ticket_not_found": False,
    "protected_path": False,
    "unsafe_change": False,
    "verification_failed": True,
    "still_vulnerable": False,
    "invalid_configuration": False,
    "environment_failed": True,
}


def list_sources(target: JobStatus) -> tuple[JobStatus, ...]:
    """The statuses from which `target` may be entered."""
    return tuple(status for status, following in TRANSITIONS.items() if target in following)
