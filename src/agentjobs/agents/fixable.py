"""Which files the agent `cve-fixer` can edit: told by their names, as it does itself."""

import re
from posixpath import basename

CVE_FIXER = "cve-fixer"

_FILES = {
    "PyPI": re.compile(r"requirements.*\.txt|uv\.lock|poetry\.lock|pyproject\.toml"),
    "npm": re.compile(r"package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml"),
    "Go": re.compile(r"go\.mod"),
    "Maven": re.compile(r"pom\.xml"),
}
_REQUIREMENTS_DIRECTORY = re.compile(r"(?:.*/)?requirements/[^/]+\.txt")


def can_fix(ecosystem: str, manifest: str) -> bool:
    if ecosystem == "PyPI" and _REQUIREMENTS_DIRECTORY.fullmatch(manifest):
        return True
    names = _FILES.get(ecosystem)
    return names is not None and names.fullmatch(basename(manifest)) is not None
