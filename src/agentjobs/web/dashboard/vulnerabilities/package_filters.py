"""Filters that the lists of dependencies and of vulnerabilities share."""

from collections.abc import Mapping

# By query parameter: whether to list fixtures; None for both. Fixtures are listed apart.
FILES: Mapping[str, bool | None] = {"": False, "fixtures": True, "all": None}
FILES_OPTIONS = [("", "without fixtures"), ("fixtures", "fixtures"), ("all", "all")]
