"""Parses requirements (PEP 508) of the Python ecosystem."""

import re
from typing import Any

from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.model import Requirement, Scope
from agentjobs_dependencies.versions.pypi import normalize_name

ECOSYSTEM = "PyPI"

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_REQUIREMENT = re.compile(
    r"\s*+([A-Za-z0-9][A-Za-z0-9._-]{0,253}+)\s*+(?>(?:\[[^\]]*+\])?)\s*+(@[^;]*+|[^;@]*+)(?:\s;.*|;.*)?"
)
_CLAUSE = re.compile(r"(?:===|[~=!<>]=|[<>])\s*+[A-Za-z0-9.*+!_-]++")
_EXACT = re.compile(r"===?\s*+v?([0-9][A-Za-z0-9.+!_-]*+)")
_VERSION = re.compile(r"v?(?:[0-9]+!)?[0-9][0-9A-Za-z.+_-]{0,127}", re.ASCII)


def is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_version(version: str) -> bool:
    return _VERSION.fullmatch(version) is not None


def parse_requirement(text: str, scope: Scope = "runtime") -> Requirement | None:
    """None if the text is not a requirement with a name. A URL does not pin a version."""
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        return None
    specifier = match[2].strip()
    if specifier.startswith("("):
        specifier = specifier[1:].removesuffix(")").strip()
    if not specifier.startswith("@") and not is_specifier(specifier):
        return None
    return Requirement(normalize_name(match[1]), specifier, exact_version(specifier), scope)


def is_specifier(text: str) -> bool:
    clauses = text.removesuffix(",").split(",")
    return not text or all(_CLAUSE.fullmatch(clause.strip()) for clause in clauses)


def exact_version(specifier: str) -> str | None:
    """The version that `==` or `===` requires; None with a star."""
    match = _EXACT.fullmatch(specifier)
    return match[1] if match else None


def parse_requirements(
    texts: Any, scope: Scope, where: str, warnings: Warnings
) -> list[Requirement]:
    """Parse a list of strings; invalid entries become warnings."""
    if not isinstance(texts, list):
        if texts is not None:
            warnings.add(f"{where} is not a list")
        return []
    requirements = []
    for text in texts:
        requirement = parse_requirement(text, scope) if isinstance(text, str) else None
        if requirement is None:
            warnings.add(f"{where} has an invalid requirement: {str(text)[:100]!r}")
        else:
            requirements.append(requirement)
    return requirements
