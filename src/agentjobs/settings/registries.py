"""Where packages are published unless the operator says otherwise."""

from collections.abc import Mapping
from typing import Literal

# As OSV names them.
Ecosystem = Literal["PyPI", "npm", "Go", "crates.io", "Maven", "RubyGems", "Packagist"]

# With their names in settings.
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


# The domain, the host in it, and where in there an index begins.
_PUBLIC = {
    "pypi": ("pypi.org", "", "/simple"),
    "npm": ("npmjs.org", "registry.", ""),
    "go": ("golang.org", "proxy.", ""),
    "crates": ("crates.io", "index.", ""),
    "maven": ("maven.org", "repo1.", "/maven2"),
    "rubygems": ("rubygems.org", "", ""),
    "packagist": ("packagist.org", "repo.", ""),
}
