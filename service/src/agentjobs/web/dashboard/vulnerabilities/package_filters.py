"""Filters that the lists of dependencies and of vulnerabilities share."""

from collections.abc import Mapping
from typing import Literal

from agentjobs_dependencies.model import Imported

Files = Literal["", "fixtures", "all"]
# By query parameter: whether to list fixtures; None for both. Fixtures are listed apart.
FILES: Mapping[Files, bool | None] = {"": False, "fixtures": True, "all": None}
FILES_OPTIONS = [("", "without fixtures"), ("fixtures", "fixtures"), ("all", "all")]

IMPORTED_LABELS: Mapping[Imported, str] = {
    "yes": "imported",
    "no": "not imported",
    "unknown": "unknown",
}
IMPORTED_OPTIONS = [("", "any"), *IMPORTED_LABELS.items()]
