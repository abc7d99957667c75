"""Why a job cannot be asked for, in words for people, and by the field of the form it is about.

Knows the API's names of fields and the labels of the form; decides nothing.
"""

from collections.abc import Mapping

from agentjobs.problems import Fault, Problem

LABELS: Mapping[str, str] = {
    "repo": "Repository",
    "agent": "Agent",
    "prompt": "What should the agent do?",
    "ticket_id": "Ticket",
    "title": "Pull request title",
    "base_branch": "Base branch",
    "reviewers": "Reviewers",
    "timeout_seconds": "Time limit in seconds",
    "max_cost_usd": "Cost limit in US dollars",
    "draft": "Open the pull request as a draft",
    "more": "Agent settings",
}

_OVERRIDE = "config_override"
_REFUSED = "The job was not created:"
# What the API says to programs, who have no lists before them.
_WORDS: Mapping[str, tuple[str, str]] = {
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
    """`field` is a label of the form, `name` the field that has it."""

    name: str


def fault_in(field: str, message: str) -> Problem:
    """Of what was typed into one field; `message` goes on from its label."""
    return Problem("validation_failed", _REFUSED, details=[{"field": field, "message": message}])


def for_people(problem: Problem, labels: Mapping[str, str] = LABELS) -> Problem:
    """The same refusal, with the labels of `labels` where the API names its fields."""
    if problem.code in _WORDS:
        words = _WORDS[problem.code][1]
        return Problem(problem.code, words, retry_after_seconds=problem.retry_after_seconds)
    if not isinstance(problem.details, list):
        return problem
    details: list[LabeledFault] = [
        {
            "field": _label(each["field"], labels),
            "message": each["message"],
            "name": _name(each["field"]),
        }
        for each in problem.details
    ]
    return Problem(problem.code, _REFUSED, details=details)


def by_field(problem: Problem | None) -> dict[str, str]:
    """Of what `for_people` gave: what is wrong with each field of the form, empty for nothing."""
    faults = dict.fromkeys(LABELS, "")
    if problem is None:
        return faults
    if problem.code in _WORDS:
        field, words = _WORDS[problem.code]
        faults[field] = words
    elif isinstance(problem.details, list):
        for each in problem.details:
            faults[each["name"]] = f"{each['field']} {each['message']}"
    return faults


def _name(field: str) -> str:
    """The field of the form; those that it has not are written into `more`."""
    name = _without_index(field.removeprefix(f"{_OVERRIDE}."))
    return name if name in LABELS else "more"


def _label(field: str, labels: Mapping[str, str]) -> str:
    if field == _OVERRIDE:
        return "All settings combined"
    name = _without_index(field.removeprefix(f"{_OVERRIDE}."))
    return labels.get(name) or f"{LABELS['more']}, {name},"


def _without_index(field: str) -> str:
    """A list is one field of the form."""
    return field.partition("[")[0]
