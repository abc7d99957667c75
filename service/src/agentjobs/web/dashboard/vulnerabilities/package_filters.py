"""Filters that the lists of dependencies and of vulnerabilities share."""

from collections.abc import Mapping

from agentjobs_dependencies.model import Imported

# By query parameter: whether to list fixtures; None for both. Fixtures are listed apart.
FILES: Mapping[str, bool | None] = {"": False, "fixtures": True, "all": None}
FILES_OPTIONS = [("", "without fixtures"), ("fixtures", "fixtures"), ("all", "all")]

IMPORTED_LABELS: Mapping[Imported, str] = {
    "yes": "imported",
    "no": "not imported",
    "unknown": "unknown",
}
IMPORTED_OPTIONS = [("", "any"), *IMPORTED_LABELS.items()]


def read_imported(text: str) -> Imported | None:
    """The filter of a query parameter; None for any."""
    return next((value for value in IMPORTED_LABELS if value == text), None)
