"""Limits the requirements of an untrusted manifest to what a database and a page can handle."""

from collections.abc import Iterable

from agentjobs_dependencies.formats.locks import MAX_PACKAGES, MAX_TEXT, is_text
from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.model import Requirement


def limit_requirements(
    requirements: Iterable[Requirement], warnings: Warnings
) -> tuple[Requirement, ...]:
    """Removes duplicates and invalid names, and truncates long specifiers."""
    limited: dict[Requirement, None] = {}
    for requirement in requirements:
        if len(limited) == MAX_PACKAGES:
            warnings.add(f"more than {MAX_PACKAGES} requirements; the rest is left out")
            break
        if not is_text(requirement.name):
            warnings.add(
                f"a requirement with an invalid name is left out: {requirement.name[:100]!r}"
            )
            continue
        specifier = "".join(c for c in requirement.specifier[:MAX_TEXT] if c.isprintable())
        version = (
            requirement.version if requirement.version and is_text(requirement.version) else None
        )
        replaced = requirement._replace(specifier=specifier, version=version)
        limited[replaced] = None
    return tuple(limited)
