"""The modules that well-known distributions of PyPI install. Their names often differ: `pyyaml`
installs `yaml`."""

from functools import cache
from pathlib import Path


@cache
def known_modules() -> dict[str, tuple[str, ...]]:
    """Modules by normalized name. A dot at the end marks a namespace of several distributions."""
    text = Path(__file__).with_name("import_names.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: tuple(modules) for name, *modules in rows}
