"""Options of the severity threshold for automatic jobs."""

from agentjobs.repos.thresholds import INHERIT, Thresholds

OFF = "none"
_LEVELS = {
    OFF: "Off",
    "low": "Low or higher",
    "medium": "Medium or higher",
    "high": "High or higher",
    "critical": "Critical only",
}

Options = list[tuple[str, str]]


def organization_options() -> Options:
    return list(_LEVELS.items())


def repo_options(thresholds: Thresholds) -> Options:
    inherited = _level_text(thresholds.organization).lower()
    return [(INHERIT, f"Organization default: {inherited}"), *_LEVELS.items()]


def _level_text(level: str | None) -> str:
    return _LEVELS.get(level or OFF, level or OFF)
