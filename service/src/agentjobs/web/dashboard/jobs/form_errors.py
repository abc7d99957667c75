"""Maps API errors about a new job to the fields and labels of the form."""

from collections.abc import Mapping

from agentjobs_runtime.problems import Fault, Problem

LABELS: Mapping[str, str] = {
    "repo": "Repository",
    "agent": "Agent",
    "prompt": "What should the agent do?",
    "ticket_id": "Ticket",
    "title": "Pull request title",
    "base_branch": "Base branch",
    "reviewers": "Reviewers",
    "priority": "Priority",
    "timeout_seconds": "Time limit in seconds",
    "max_cost_usd": "Cost limit in US dollars",
    "labels": "Labels",
    "draft": "Open the pull request as a draft",
    "more": "Agent settings",
}

_OVERRIDE = "config_override"
_LABEL_PREFIX = "labels."
_NOT_CREATED = "The job was not created:"
# Messages for errors whose API message addresses programs, with their form field.
_MESSAGES: Mapping[str, tuple[str, str]] = {
    "repo_not_connected": (
        "repo",
        "This repository is not connected to your organization; choose another one.",
    ),
    "repo_indexing": (
        "repo",
        "This repository is still indexing; try again when Repositories shows it as ready.",
    ),
    "unknown_agent": ("agent", "This agent no longer exists; choose another one."),
}


class LabeledFault(Fault):
    """`field` is the label shown, `name` the form field."""

    name: str


def for_page(problem: Problem, labels: Mapping[str, str] = LABELS) -> Problem:
    """The same error, with labels in place of the API's field names."""
    if problem.code in _MESSAGES:
        message = _MESSAGES[problem.code][1]
        return Problem(problem.code, message, retry_after_seconds=problem.retry_after_seconds)
    if not isinstance(problem.details, list):
        return problem
    details: list[LabeledFault] = [
        {
            "field": _label(detail["field"], labels),
            "message": detail["message"],
            "name": _form_field(detail["field"]),
        }
        for detail in problem.details
    ]
    return Problem(problem.code, _NOT_CREATED, details=details)


def by_field(problem: Problem | None) -> dict[str, str]:
    """The error of each form field; empty if there is none. Takes the result of `for_page`."""
    errors = dict.fromkeys(LABELS, "")
    if problem is None:
        return errors
    if problem.code in _MESSAGES:
        field, message = _MESSAGES[problem.code]
        errors[field] = message
    elif isinstance(problem.details, list):
        for detail in problem.details:
            errors[detail["name"]] = f"{detail['field']} {detail['message']}"
    return errors


def _form_field(field: str) -> str:
    """The form field; other keys belong to `more`."""
    if field.startswith(_LABEL_PREFIX):
        return "labels"
    name = _without_index(field.removeprefix(f"{_OVERRIDE}."))
    return name if name in LABELS else "more"


def _label(field: str, labels: Mapping[str, str]) -> str:
    if field == _OVERRIDE:
        return "All settings combined"
    if field.startswith(_LABEL_PREFIX):
        return f"{labels['labels']}, {field.removeprefix(_LABEL_PREFIX)},"
    name = _without_index(field.removeprefix(f"{_OVERRIDE}."))
    return labels.get(name) or f"{LABELS['more']}, {name},"


def _without_index(field: str) -> str:
    """A list is a single form field."""
    return field.partition("[")[0]
