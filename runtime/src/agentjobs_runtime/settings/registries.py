"""The supported ecosystems and their public registries."""

from collections.abc import Mapping
from typing import Literal

# OSV's names.
Ecosystem = Literal["PyPI", "npm", "Go", "crates.io", "Maven", "RubyGems", "Packagist"]

# The name of each ecosystem in settings.
ECOSYSTEMS: Mapping[str, str] = {
    "PyPI": "pypi",
    "npm": "npm",
    "Go": "go",
    "crates.io": "crates",
    "Maven": "maven",
    "RubyGems": "rubygems",
    "Packagist": "packagist",
}


def public_registry(name: str) -> str:
    domain, host, path = _PUBLIC[name]
    return f"https://{host}{domain}{path}"


# Domain, host prefix and the path of the index.
_PUBLIC = {
    "pypi": ("pypi.org", "", "/simple"),
    "npm": ("npmjs.org", "registry.", ""),
    "go": ("golang.org", "proxy.", ""),
    "crates": ("crates.io", "index.", ""),
    "maven": ("maven.org", "repo1.", "/maven2"),
    "rubygems": ("rubygems.org", "", ""),
    "packagist": ("packagist.org", "repo.", ""),
}
