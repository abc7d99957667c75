"""Package URLs (purl): package identifiers that tools of all ecosystems understand."""

import re

from packageurl import PackageURL

_TYPES = {
    "PyPI": "pypi",
    "npm": "npm",
    "Go": "golang",
    "crates.io": "cargo",
    "Maven": "maven",
    "RubyGems": "gem",
    "Packagist": "composer",
}
# In these ecosystems, names and versions of only these characters need no escaping.
_SIMPLE = frozenset({"PyPI", "npm", "crates.io", "RubyGems"})
_is_simple = re.compile(r"[a-z0-9.-]+@[A-Za-z0-9.-]+").fullmatch


def format_purl(ecosystem: str, name: str, version: str | None) -> str:
    """Without a version if none is pinned; empty for a name that a purl cannot express."""
    if version and ecosystem in _SIMPLE and _is_simple(text := f"{name}@{version}"):
        # Nearly all are simple; the general way would take a third of the time for dependencies.
        return f"pkg:{_TYPES[ecosystem]}/{text}"
    separator = ":" if ecosystem == "Maven" else "/"
    namespace, _, base_name = name.rpartition(separator)
    kind = _TYPES.get(ecosystem, "generic")
    try:
        return PackageURL(kind, namespace or None, base_name, version or None).to_string()
    except (ValueError, TypeError):
        # ValueError for an empty name, TypeError for a name of only blanks.
        return ""
