"""Words of the Python ecosystem: names as the index normalizes them, requirements as PEP 508."""

import re
from typing import Any

from agentjobs.inventory.manifests.text import Warnings
from agentjobs.inventory.model import Requirement, Scope

ECOSYSTEM = "PyPI"

_SEPARATORS = re.compile(r"[-_.]+")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_REQUIREMENT = re.compile(
    r"\s*+([A-Za-z0-9][A-Za-z0-9._-]{0,253}+)\s*+(?:\[[^\]]*+\])?+\s*+(@[^;]*+|[^;@]*+)(?:\s;.*|;.*)?"
)
_CLAUSE = re.compile(r"(?:===|[~=!<>]=|[<>])\s*+[A-Za-z0-9.*+!_-]++")
_EXACT = re.compile(r"===?\s*+v?([0-9][A-Za-z0-9.+!_-]*+)")
_VERSION = re.compile(r"v?(?:[0-9]+!)?[0-9][0-9A-Za-z.+_-]{0,127}", re.ASCII)


def normalized(name: str) -> str:
    """The name by which the package index knows a package (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_version(version: str) -> bool:
    return _VERSION.fullmatch(version) is not None


def parse_requirement(text: str, scope: Scope = "runtime") -> Requirement | None:
    """None if it is no requirement by name. What stands in an address fixes no version."""
    found = _REQUIREMENT.fullmatch(text.strip())
    if found is None:
        return None
    specifier = found[2].strip()
    if specifier.startswith("("):
        specifier = specifier[1:].removesuffix(")").strip()
    if not specifier.startswith("@") and not is_specifier(specifier):
        return None
    return Requirement(normalized(found[1]), specifier, exact_version(specifier), scope)


def is_specifier(text: str) -> bool:
    clauses = text.removesuffix(",").split(",")
    return not text or all(_CLAUSE.fullmatch(clause.strip()) for clause in clauses)


def exact_version(specifier: str) -> str | None:
    """The one version that `==` or `===` admits; a star admits many."""
    found = _EXACT.fullmatch(specifier)
    return found[1] if found else None


def parse_requirements(
    texts: Any, scope: Scope, where: str, warnings: Warnings
) -> list[Requirement]:
    """A list of requirements as strings; whatever is none becomes a warning."""
    if not isinstance(texts, list):
        if texts is not None:
            warnings.add(f"{where} is not a list")
        return []
    found = []
    for text in texts:
        requirement = parse_requirement(text, scope) if isinstance(text, str) else None
        if requirement is None:
            warnings.add(f"{where} has something that is no requirement: {str(text)[:100]!r}")
        else:
            found.append(requirement)
    return found
