"""From which severity on a vulnerability starts a job: the choices of a form, and who chose."""

from agentjobs.repos.thresholds import INHERIT, Thresholds

OFF = "none"
_LEVELS = {
    OFF: "Nothing",
    "low": "Low ones and worse",
    "medium": "Medium ones and worse",
    "high": "High ones and worse",
    "critical": "Critical ones only",
}

Options = list[tuple[str, str]]


def organization_options() -> Options:
    return list(_LEVELS.items())


def repo_options(thresholds: Thresholds) -> Options:
    inherited = words_of(thresholds.organization).lower()
    return [(INHERIT, f"As the organization says: {inherited}"), *_LEVELS.items()]


def words_of(level: str | None) -> str:
    return _LEVELS.get(level or OFF, level or OFF)
