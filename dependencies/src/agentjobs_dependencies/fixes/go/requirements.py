"""What a go.mod requires, and the spelling and order of Go versions."""

from agentjobs_dependencies.formats.golang import GoModule, read_module
from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.versions.order import version_key


def add_v(version: str) -> str:
    suffix = "+incompatible" if version.endswith("+incompatible") else ""
    return f"v{strip_version(version)}{suffix}"


def strip_version(version: str) -> str:
    """Writes a version as advisories do: with neither prefix nor suffix."""
    return version.removeprefix("v").removesuffix("+incompatible")


def read_go_mod(text: str) -> GoModule:
    """Lines that are not valid are left out; the go command reports them."""
    return read_module(text, Warnings())


def read_requirements(text: str) -> dict[str, str]:
    """Versions by module, with their prefix."""
    return {path: version for path, (version, _) in read_go_mod(text).required.items()}


def is_newer_go(text: str, other: str) -> bool:
    """Whether the go.mod names a newer Go than the other one, if both name one."""
    new, old = read_go_version(text), read_go_version(other)
    return bool(new and old) and not is_at_least(old, new)


def read_go_version(text: str) -> str:
    return read_go_mod(text).notes.get("go", "")


def is_at_least(version: str, required: str) -> bool:
    """False for an invalid version."""
    key, needed = version_key("Go", version), version_key("Go", required)
    return key is not None and needed is not None and bool(key >= needed)
