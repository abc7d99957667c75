"""Why a job failed and what to do next, or why it waits, in words. Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from agentjobs.jobs.model import JobError


class ErrorText(NamedTuple):
    title: str
    advice: str


_AGAIN = "Running the job again may help."

_ERRORS: Mapping[str, ErrorText] = {
    "no_changes": ErrorText(
        "No changes",
        "The task may already be done. If not, describe it in more detail in a new job.",
    ),
    "agent_failed": ErrorText("Agent failed", f"The log says more. {_AGAIN}"),
    "timeout": ErrorText(
        "Timed out",
        "Divide the task into smaller ones, or raise the time limit.",
    ),
    "budget_exceeded": ErrorText(
        "Budget exceeded", "Raise the cost limit of the job, or the budget of the organization."
    ),
    "cancelled": ErrorText("Cancelled", ""),
    "worker_lost": ErrorText("Worker lost", _AGAIN),
    "push_rejected": ErrorText(
        "Push rejected", "Check the rules for branches on the platform, then run the job again."
    ),
    "forge_error": ErrorText(
        "Platform error", "Check the connection to the platform, then run the job again."
    ),
    "repo_unavailable": ErrorText(
        "Repository unavailable",
        "Check that the repository and the branch exist on the platform, then run the job again.",
    ),
    "sandbox_error": ErrorText("Sandbox failed", f"{_AGAIN} If not, ask the operator."),
    "ticket_not_found": ErrorText(
        "Ticket not found", "Create a new job with the identifier of an existing ticket."
    ),
    "protected_path": ErrorText(
        "Protected file changed",
        "Create a job that leaves the file alone, or ask an admin to lift its protection.",
    ),
    "unsafe_change": ErrorText("Unsafe change", "Create a job that leaves the file alone."),
    "verification_failed": ErrorText(
        "Checks failed", f"Changes shows what the agent did. {_AGAIN}"
    ),
    "still_vulnerable": ErrorText(
        "Still vulnerable", "The upgrade needs a person: the log says what prevents it."
    ),
    "invalid_configuration": ErrorText(
        "Invalid configuration", "Correct the configuration, then run the job again."
    ),
    "environment_failed": ErrorText(
        "Environment failed", "Correct the environment of the repository, then run the job again."
    ),
}

_QUEUE_REASONS: Mapping[str, str] = {
    "paused": "The operator has paused jobs.",
    "plan_limit": "The plan's concurrent job limit is reached.",
    "repo_limit": "The repository's concurrent job limit is reached.",
    "agent_limit": "The agent's concurrent job limit is reached.",
    "platform_unreachable": "The platform of this repository does not respond.",
    "platform_refused": "The platform does not accept the finished work; see the warnings.",
    "tracker_unreachable": "The tracker of its ticket does not respond.",
    "environment_building": "The environment of this repository is being built.",
    "no_worker": (
        "No running worker is ready for this agent and has the tags that the repository requires."
    ),
    "disk_full": "The disks of the workers that can run this agent are nearly full.",
}
_BUILD = re.compile(r"environment log (env_[0-9a-z]{26})")


def error_text(code: str, *, is_retryable: bool = False) -> ErrorText:
    """Also for the code of a later version."""
    words = code.replace("_", " ").capitalize()
    return _ERRORS.get(code) or ErrorText(words, _AGAIN if is_retryable else "")


def error_title(code: str) -> str:
    return error_text(code).title


def find_failed_build(error: JobError | None) -> str:
    """The build of an environment that the error names; empty if it names none."""
    if error is None or error.code != "environment_failed":
        return ""
    named = _BUILD.findall(error.message)
    return named[-1] if named else ""


def queue_reason_text(reason: str | None) -> str:
    """Empty for a job that only waits for those ahead of it."""
    return _QUEUE_REASONS.get(reason, reason.replace("_", " ").capitalize()) if reason else ""
