"""A package's name in the form that tools of all ecosystems understand (package URL)."""

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
# Of these, a name and a version of nothing but such characters stand in the form as they are.
_SIMPLE = frozenset({"PyPI", "npm", "crates.io", "RubyGems"})
_is_simple = re.compile(r"[a-z0-9.-]+@[A-Za-z0-9.-]+").fullmatch


def purl_of(ecosystem: str, name: str, version: str | None) -> str:
    """Without a version when none is fixed; empty for a name that the form cannot hold."""
    if version and ecosystem in _SIMPLE and _is_simple(text := f"{name}@{version}"):
        # Nearly all are: taking them apart would be a third of what dependencies cost.
        return f"pkg:{_TYPES[ecosystem]}/{text}"
    separator = ":" if ecosystem == "Maven" else "/"
    namespace, _, own = name.rpartition(separator)
    kind = _TYPES.get(ecosystem, "generic")
    try:
        return PackageURL(kind, namespace or None, own, version or None).to_string()
    except (ValueError, TypeError):
        # It says the one of no name at all, and the other of a name of nothing but blanks.
        return ""
