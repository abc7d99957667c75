"""A package's name in the form that tools of all ecosystems understand (package URL)."""

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


def purl_of(ecosystem: str, name: str, version: str | None) -> str:
    """Without a version when none is fixed; empty for a name that the form cannot hold."""
    separator = ":" if ecosystem == "Maven" else "/"
    namespace, _, own = name.rpartition(separator)
    kind = _TYPES.get(ecosystem, "generic")
    try:
        return PackageURL(kind, namespace or None, own, version or None).to_string()
    except ValueError:
        return ""
